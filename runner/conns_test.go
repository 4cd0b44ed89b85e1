package runner

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"llmbatch/output"
)

// A request that its deadline or a second signal cuts takes its connection along,
// and no other.
func TestCutRequestsCloseTheirConnections(t *testing.T) {
	for name, c := range map[string]struct {
		timeout time.Duration
		status  output.Status
		outcome string
	}{
		"deadline": {150 * time.Millisecond, output.GaveUp, "timeout"},
		"stop":     {time.Minute, output.Aborted, "canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			var r *Runner
			gone := make(chan struct{})
			s := newServe(t, h1, nil)
			s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				if s.requests.Add(1) != 2 {
					answerOK(w)
					return
				}
				if name == "stop" {
					r.Stop(errors.New("asked"))
					r.Stop(errors.New("asked again"))
				}
				_, _ = io.Copy(io.Discard, req.Body) // the server looks for the end only then
				<-req.Context().Done()
				close(gone)
			})
			l := newLive(t, 4, s.URL)
			l.c.AttemptTimeout, l.c.Drain = c.timeout, time.Minute
			l.c.Transport = l.transport
			r = New(l.c)
			r.Run(t.Context())
			<-gone
			rows := l.sink.last()
			is(t, rows["q0"], output.OK, "ok")
			is(t, rows["q1"], c.status, c.outcome)
			conns := int64(1)
			if name == "deadline" {
				is(t, rows["q2"], output.OK, "ok")
				is(t, rows["q3"], output.OK, "ok")
				conns = 2
			}
			if n := s.conns.Load(); n != conns {
				t.Errorf("%d connections, want %d", n, conns)
			}
		})
	}
}

// newConns are a runner's connections to a server that answers at once.
func newConns(t *testing.T) (*Runner, *conns) {
	s := newServe(t, h1, func(w http.ResponseWriter, _ *http.Request) { answerOK(w) })
	l := newLive(t, 1, s.URL)
	l.c.Transport = l.transport
	r := New(l.c)
	p := r.laneOf(l.target, "m").conns
	t.Cleanup(p.close)
	return r, p
}

// An attempt that is cut before it begins has not touched its connection: whoever
// gets it next keeps it.
func TestCutBeforeItBegins(t *testing.T) {
	r, p := newConns(t)
	c, err := p.take(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	cut, other := leash{run: r.hard}, leash{run: r.hard}
	defer other.drop()
	ctx := cut.until(time.Time{}, time.Now())
	cut.alarm.forget() // the goroutine that close runs on is late
	cut.cut(errCut)
	if ctx.Err() == nil || cut.hold(c) {
		t.Error("a request may begin, although its context has ended")
	}
	other.until(time.Time{}, time.Now())
	if !other.hold(c) {
		t.Error("the next request may not begin")
	}
	if cut.alarm.close(); c.Err() != nil {
		t.Errorf("the connection was closed under another's request: %v", c.Err())
	}
}

// A server that leaves HTTP unasked is cut off like any other.
func TestSwitchingProtocols(t *testing.T) {
	gone := make(chan struct{})
	base := rawServer(t, func(_ int, c net.Conn, in *bufio.Reader) {
		readRequest(in)
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		_, _ = in.ReadByte()
		close(gone)
	})
	l := newLive(t, 1, base)
	l.c.AttemptTimeout = 150 * time.Millisecond
	if r := l.one(); r.Status == output.OK {
		t.Errorf("got %+v, want no answer", r)
	}
	<-gone
}

// A connection at rest that the server has closed, or that is old, is not used
// again, and nobody's attempt is spent on finding that out.
func TestRestingConnections(t *testing.T) {
	for name, set := range map[string]struct {
		idle  time.Duration
		close bool
		want  int64
	}{"kept": {time.Minute, false, 1}, "old": {1, false, 5}, "closed by the server": {time.Minute, true, 5}} {
		s := newServe(t, h1, func(w http.ResponseWriter, _ *http.Request) {
			if set.close {
				w.Header().Set("Connection", "close")
			}
			answerOK(w)
		})
		l := newLive(t, 5, s.URL)
		l.transport.IdleConnTimeout = set.idle
		l.transport.MaxConnsPerHost = 2 // of the transport's own
		rows := l.run()
		if sent, unsent := sentOf(rows); sent != 5 || unsent != 0 || l.rep.Rows[output.OK] != 5 {
			t.Errorf("%s: %d sent, %d unsent, %v; want 5, 0, 5 ok", name, sent, unsent, l.rep.Rows)
		}
		if n := s.conns.Load(); n != set.want {
			t.Errorf("%s: %d connections, want %d", name, n, set.want)
		}
	}
}

// Connections that a burst has left over are closed when they have rested long.
func TestOldConnectionsAreClosed(t *testing.T) {
	_, p := newConns(t)
	var burst []*conn
	for range 3 {
		c, err := p.take(t.Context(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		burst = append(burst, c)
	}
	for _, c := range burst {
		p.put(c)
	}
	burst[0].since = time.Now().Add(-time.Hour)
	last, err := p.take(t.Context(), time.Now())
	if err != nil || last != burst[2] {
		t.Fatalf("got %v, %v, want the one that was used last", last, err)
	}
	p.put(last)
	if burst[0].Err() == nil || burst[1].Err() != nil || len(p.rest) != 2 {
		t.Errorf("%d at rest, the old one is open: %v", len(p.rest), burst[0].Err() == nil)
	}
}

// Where the sink keeps nothing of a row, the bytes of an answer are used again: each
// row still holds its own, and no key.
func TestAnswersAreNotMixed(t *testing.T) {
	s := newServe(t, h1, nil)
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, id, _ := strings.Cut(string(body), "item ")
		id, _, _ = strings.Cut(id, ".")
		n, _ := strconv.Atoi(id[1:])
		if n%7 == 0 {
			id += " " + wireKey
		}
		if n%5 == 0 {
			w.WriteHeader(400)
			fmt.Fprintf(w, `{"type":"error","error":{"type":"invalid_request_error","message":"no %s"}}`, id)
			return
		}
		fmt.Fprintf(w, `{"type":"message","content":[{"type":"text","text":"\"%s\"\n%s"}],"stop_reason":"end_turn"}`, id, strings.Repeat("x", n*37%900))
	})
	l := newLive(t, 300, s.URL)
	l.c.Pacing, l.c.Fleeting, l.c.NoFailFast = fixed(16), true, true
	var mu sync.Mutex
	var file []byte
	l.c.Write = func(r *output.Result) error {
		mu.Lock()
		defer mu.Unlock()
		file = output.AppendRow(file, r)
		return nil
	}
	l.c.Transport = l.transport
	New(l.c).Run(t.Context())
	if bytes.Contains(file, []byte(wireKey)) {
		t.Error("a row holds the key")
	}
	lines := bytes.Split(bytes.TrimSpace(file), []byte("\n"))
	if len(lines) != 300 {
		t.Errorf("%d rows, want 300", len(lines))
	}
	for _, line := range lines {
		r, err := output.ParseRow(line)
		if err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		var id string
		_ = json.Unmarshal(r.ID, &id)
		said, want := r.Text, `"`+id
		if r.Status == output.Failed {
			said, want = r.Error.Message, "no "+id
		}
		var answer struct{ Content []struct{ Text string } }
		if r.Status == output.OK && (json.Unmarshal(r.Response, &answer) != nil || len(answer.Content) != 1 || answer.Content[0].Text != r.Text) {
			t.Errorf("%s: the text is %q, the response %s", id, r.Text, r.Response)
		}
		if rest, ok := strings.CutPrefix(said, want); !ok || rest != "" && '0' <= rest[0] && rest[0] <= '9' {
			t.Errorf("%s says %.40q, want %q", id, said, want)
		}
	}
}

// A proxy may be named for plain HTTP too, and an exception from it by port.
func TestPlainHTTPThroughProxy(t *testing.T) {
	target := newServe(t, h1, func(w http.ResponseWriter, _ *http.Request) { answerOK(w) })
	var through atomic.Int64
	proxy := newServe(t, h1, func(w http.ResponseWriter, r *http.Request) {
		if through.Add(1); r.URL.Host == "" || r.Header.Get("Proxy-Authorization") == "" {
			t.Errorf("the proxy was asked for %s with %v", r.URL, r.Header)
		}
		answerOK(w)
	})
	via, err := url.Parse(proxy.URL)
	if err != nil {
		t.Fatal(err)
	}
	via.User = url.UserPassword("user", "proxy-secret")
	for name, c := range map[string]struct {
		except  string
		through int64
	}{"through": {"", 3}, "by port": {target.Listener.Addr().String(), 0}} {
		through.Store(0)
		l := newLive(t, 3, target.URL)
		l.transport.Proxy = func(r *http.Request) (*url.URL, error) {
			if r.URL.Host == c.except {
				return nil, nil
			}
			return via, nil
		}
		l.run()
		if l.rep.Rows[output.OK] != 3 || through.Load() != c.through {
			t.Errorf("%s: %v, %d through the proxy; want 3 ok, %d", name, l.rep.Rows, through.Load(), c.through)
		}
	}
}
