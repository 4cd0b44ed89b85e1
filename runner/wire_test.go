package runner

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"llmbatch/output"
	"llmbatch/pacing"
)

// The server reads the second request of each connection and closes: net/http
// would send it again by itself, with an idempotency header also a POST.
func TestTransportNeverReplays(t *testing.T) {
	for _, header := range []string{"", "Idempotency-Key", "X-Idempotency-Key"} {
		var seen atomic.Int64
		base := rawServer(t, func(_ int, c net.Conn, in *bufio.Reader) {
			for i := 0; readRequest(in); i++ {
				seen.Add(1)
				if i == 1 {
					return
				}
				writeOK(c)
			}
		})
		l := newLive(t, 4, base)
		l.c.IdempotencyHeader = header
		rows := l.run()
		sent, unsent := sentOf(rows)
		if int(seen.Load()) != sent || unsent != 0 || sent != 4 {
			t.Errorf("%q: the server saw %d requests, the rows log %d and %d that were not sent; want 4, 4, 0", header, seen.Load(), sent, unsent)
		}
		is(t, rows["q0"], output.OK, "ok")
		is(t, rows["q1"], output.GaveUp, "connection_error")
		is(t, rows["q2"], output.OK, "ok")
	}
}

// A kept connection that had died before anything was written: the item goes
// again at once, and no error is counted (here one would be the end).
func TestStaleConnection(t *testing.T) {
	for _, header := range []string{"", "Idempotency-Key"} {
		var seen atomic.Int64
		base := rawServer(t, func(n int, c net.Conn, in *bufio.Reader) {
			for readRequest(in) {
				seen.Add(1)
				writeOK(c)
				if n == 1 {
					_ = c.(*net.TCPConn).SetLinger(0)
					return
				}
			}
		})
		l := newLive(t, 3, base)
		l.c.IdempotencyHeader = header
		dial := l.transport.DialContext
		var dials int
		l.transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
			c, err := dial(ctx, network, addr)
			if dials++; err == nil && dials == 1 {
				cc := c.(*countingConn)
				cc.Conn = newStubborn(cc.Conn)
			}
			return c, err
		}
		rows := l.run()
		is(t, rows["q0"], output.OK, "ok")
		is(t, rows["q1"], output.OK, "-connection_error", "ok")
		is(t, rows["q2"], output.OK, "ok")
		if sent, _ := sentOf(rows); int(seen.Load()) != sent || l.rep.Requests != int64(sent) {
			t.Errorf("%q: the server saw %d requests, the rows log %d, the report %d", header, seen.Load(), sent, l.rep.Requests)
		}
		if a := rows["q1"].Attempts[0]; a.WaitReason != "immediate" || a.Status != 0 {
			t.Errorf("got %+v, want an immediate second try", a)
		}
	}
}

// stubborn keeps from the transport that its connection was reset until it writes
// a second time: the moment between the two can't be met otherwise.
type stubborn struct {
	net.Conn
	writes        int
	broken, tried chan struct{}
}

func newStubborn(c net.Conn) *stubborn {
	return &stubborn{Conn: c, broken: make(chan struct{}), tried: make(chan struct{})}
}

func (d *stubborn) Read(p []byte) (int, error) {
	n, err := d.Conn.Read(p)
	if err != nil {
		close(d.broken)
		<-d.tried
	}
	return n, err
}

func (d *stubborn) Write(p []byte) (int, error) {
	if d.writes++; d.writes == 1 {
		return d.Conn.Write(p)
	}
	<-d.broken
	defer close(d.tried)
	return d.Conn.Write(p)
}

// C49: no redirect is followed, whatever its kind and wherever it leads, and the
// message names the other host and nothing else.
func TestRedirects(t *testing.T) {
	other := newServe(t, h1, func(w http.ResponseWriter, _ *http.Request) { answerOK(w) })
	for _, start := range []func(*httptest.Server){h1, tls1} {
		for _, status := range []int{301, 302, 303, 307, 308} {
			s := newServe(t, start, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", other.URL+"/path-secret?k=query-secret")
				w.WriteHeader(status)
			})
			l := newLive(t, 3, s.URL)
			if s.TLS != nil {
				l.trust(s.Server)
			}
			rows := l.run()
			is(t, rows["q0"], output.Aborted, "rejected")
			if l.rep.Reason != Aborted || !strings.Contains(l.rep.Message, "redirects to "+other.URL+" ") ||
				strings.Contains(l.rep.Message+fmt.Sprintf("%+v", rows["q0"].Error), "-secret") {
				t.Errorf("%d: got %d %q, want an abort that names the host", status, l.rep.Reason, l.rep.Message)
			}
			if n := s.requests.Load(); n != 1 {
				t.Errorf("%d: %d requests, want 1", status, n)
			}
		}
	}
	if n := other.conns.Load(); n != 0 {
		t.Errorf("the other host got %d connections, want none", n)
	}
}

// C38: connections are used again: 200 at a time, and hardly more dials than that.
func TestPool(t *testing.T) {
	const wide = 200
	var all sync.WaitGroup
	all.Add(wide)
	var nth atomic.Int64
	s := newServe(t, h1, func(w http.ResponseWriter, _ *http.Request) {
		if nth.Add(1) <= wide {
			all.Done()
			all.Wait() // so many are in flight at one time
		}
		answerOK(w)
	})
	l := newLive(t, 800, s.URL)
	l.transport = NewTransport(wide, 0)
	l.c.Pacing = fixed(wide)
	rows := l.run()
	if sent, _ := sentOf(rows); sent != 800 || s.requests.Load() != 800 || l.rep.Peak != wide {
		t.Errorf("%d attempts, %d requests, peak %d; want 800, 800, %d", sent, s.requests.Load(), l.rep.Peak, wide)
	}
	if n := s.conns.Load(); n > wide+wide/20 {
		t.Errorf("%d connections for a peak of %d", n, wide)
	}
}

// Refusals are read to their end: a storm of them needs no more connections than
// there are requests at a time.
func TestRefusalsKeepConnections(t *testing.T) {
	for name, page := range map[string]string{
		"json": `{"type":"error","error":{"type":"rate_limit_error","message":"slow down"}}`,
		"page": "<html><title>Too many</title>" + strings.Repeat("<p>wait</p>", 20_000),
	} {
		var nth atomic.Int64
		s := newServe(t, h1, func(w http.ResponseWriter, _ *http.Request) {
			if nth.Add(1) > 40 {
				answerOK(w)
				return
			}
			w.Header().Set("Retry-After-Ms", "1")
			w.WriteHeader(429)
			_, _ = io.WriteString(w, page)
		})
		l := newLive(t, 60, s.URL)
		l.c.Pacing = fixed(16)
		l.transport = nil
		rows := l.run()
		sent, _ := sentOf(rows)
		if l.rep.Rows[output.OK] != 60 || sent != 100 || s.requests.Load() != 100 {
			t.Errorf("%s: %v, %d attempts, %d requests; want 60 ok of 100", name, l.rep.Rows, sent, s.requests.Load())
		}
		// On a busy machine net/http gives up one that it can't use again at once.
		if n := s.conns.Load(); n > 20 {
			t.Errorf("%s: %d connections, want 16", name, n)
		}
	}
}

// What goes wrong before an answer, with real servers. Nobody's request is logged
// as sent that no server could have seen.
func TestNoAnswer(t *testing.T) {
	gone := httptest.NewServer(nil)
	gone.Close()
	ok := func(w http.ResponseWriter, _ *http.Request) { answerOK(w) }
	plain, secure := newServe(t, h1, ok), newServe(t, tls1, ok)
	long := func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Long", strings.Repeat("x", 1100<<10))
		answerOK(w)
	}
	long1, long2 := newServe(t, h1, long), newServe(t, h2, long)
	noise := rawServer(t, func(_ int, c net.Conn, in *bufio.Reader) {
		if readRequest(in) {
			_, _ = io.WriteString(c, "SSH-2.0-OpenSSH_9.9\r\n\r\n")
		}
	})
	closed := rawServer(t, func(_ int, _ net.Conn, in *bufio.Reader) { readRequest(in) })
	for _, c := range []struct {
		name, base string
		trust      *serve
		header     string
		status     output.Status
		outcome    string
		says       string
	}{
		{name: "refused", base: gone.URL, status: output.GaveUp, outcome: "-connection_error", says: "refused"},
		{name: "HTTPS to an HTTP server", base: strings.Replace(plain.URL, "http:", "https:", 1), status: output.GaveUp, outcome: "-connection_error", says: "HTTP response to HTTPS client"},
		{name: "HTTP to an HTTPS server", base: strings.Replace(secure.URL, "https:", "http:", 1), status: output.Aborted, outcome: "rejected", says: "HTTP request to an HTTPS server"},
		{name: "unknown authority", base: secure.URL, status: output.GaveUp, outcome: "-connection_error", says: "unknown authority"},
		{name: "no HTTP", base: noise, status: output.GaveUp, outcome: "connection_error", says: "malformed HTTP response"},
		{name: "closed", base: closed, status: output.GaveUp, outcome: "connection_error", says: "EOF"},
		{name: "long headers", base: long1.URL, status: output.GaveUp, outcome: "invalid_response", says: "headers exceeded"},
		{name: "long headers, HTTP/2", base: long2.URL, trust: long2, status: output.GaveUp, outcome: "connection_error", says: "COMPRESSION_ERROR"},
		// C50: a value that no header can carry is refused before anything is sent.
		{name: "line break in a header", base: plain.URL, header: "secret-a\r\nX-Evil: b", status: output.Aborted, outcome: "-rejected", says: "invalid header field value"},
		{name: "control character in a header", base: plain.URL, header: "secret-a\x01", status: output.Aborted, outcome: "-rejected", says: "invalid header field value"},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLive(t, 1, c.base)
			if c.trust != nil {
				l.trust(c.trust.Server)
			}
			if c.header != "" {
				l.target.Header = http.Header{"X-Team": {c.header}}
			}
			r := l.one()
			is(t, r, c.status, c.outcome)
			if !strings.Contains(r.Error.Message, c.says) || strings.Contains(fmt.Sprint(r.Error, l.rep), "secret-a") {
				t.Errorf("got %q, want %q", r.Error.Message, c.says)
			}
			if c.status == output.Aborted && l.rep.Hint == "" {
				t.Error("no hint")
			}
		})
	}
	if n := plain.requests.Load() + secure.requests.Load(); n != 0 {
		t.Errorf("%d requests were answered, want none", n)
	}
}

// A dialer without file descriptors: the limit goes down, the user is told why, and
// no item is at fault.
func TestTooManyOpenFiles(t *testing.T) {
	s := newServe(t, h1, func(w http.ResponseWriter, _ *http.Request) { answerOK(w) })
	l := newLive(t, 40, s.URL)
	var lowered atomic.Int64
	l.c.Pacing = pacing.Config{Max: 16, Start: 8, Log: func(c pacing.Change) {
		if c.To < c.From {
			lowered.Add(1)
		}
	}}
	dial, dials := l.transport.DialContext, atomic.Int64{}
	l.transport.DisableKeepAlives = true // each request needs one
	l.transport.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		if n := dials.Add(1); n > 20 && n <= 24 {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("socket", syscall.EMFILE)}
		}
		return dial(ctx, network, addr)
	}
	rows := l.run()
	sent, unsent := sentOf(rows)
	if l.rep.Rows[output.OK] != 40 || int64(sent) != s.requests.Load() || unsent != 4 {
		t.Errorf("%v, %d sent, %d unsent, %d requests; want 40 ok and 4 unsent", l.rep.Rows, sent, unsent, s.requests.Load())
	}
	if lowered.Load() == 0 {
		t.Error("the limit was not lowered")
	}
	if n := strings.Count(l.logged.String(), "lower --concurrency"); n != 1 {
		t.Errorf("the user was told %d times, want once:\n%s", n, l.logged.String())
	}
}
