package runner

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
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
	is(t, l.one(), output.GaveUp, "invalid_response") // at once, not after the attempt's time
	<-gone
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
