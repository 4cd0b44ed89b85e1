package runner

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/runner/provider"
	"llmbatch/runner/provider/anthropic"
)

const wireKey = "sk-test-wire-0123456789"

// live is a run over real sockets.
type live struct {
	*testing.T
	c         Config
	target    *Target
	transport *http.Transport
	sink      *sink
	logged    strings.Builder
	rep       Report
}

// newLive prepares a run of n items against a server on the loopback, one request
// at a time, one failure an item.
func newLive(t *testing.T, n int, base string) *live {
	t.Helper()
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	l := &live{T: t, sink: &sink{}, transport: NewTransport(4, 0)}
	t.Cleanup(l.transport.CloseIdleConnections)
	l.target = &Target{Provider: anthropic.New(), Base: u, Credentials: provider.Credentials{Key: wireKey},
		Defaults: provider.Defaults{Model: "m-test", MaxTokens: 100, Name: "anthropic"}}
	l.c = Config{
		Source: Source{Items: items(n, nil), Lanes: 1},
		Sink:   Sink{Write: l.sink.write},
		Limits: Limits{Pacing: fixed(1), ItemBudget: time.Minute, AttemptTimeout: 30 * time.Second},
		Hooks:  Hooks{Scrub: provider.NewScrubber(wireKey)},
		Salt:   "salt", FreshSalt: "fresh", IdempotencyHeader: "Idempotency-Key",
	}
	l.c.Route = func(*input.Item) (*Target, error) { return l.target, nil }
	l.c.Retry.MaxErrors = 1
	return l
}

// run runs it and returns the final row of each item.
func (l *live) run() map[string]*output.Result {
	l.Helper()
	if l.transport != nil { // otherwise the runner makes its own
		l.c.Transport = l.transport
	}
	l.c.Log = slog.New(slog.NewTextHandler(&l.logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	l.rep = New(l.c).Run(context.Background())
	rows := l.sink.last()
	fmt.Fprintf(&l.logged, "%+v", l.rep)
	for _, r := range rows {
		c := *r
		c.Response = nil // as text, not as numbers
		fmt.Fprintf(&l.logged, "%+v %s %+v\n", c, r.Response, r.Error)
	}
	if said := l.logged.String(); strings.Contains(said, wireKey) {
		l.Errorf("the key is shown: %s", said)
	}
	return rows
}

// one runs one item and returns its row.
func (l *live) one() *output.Result {
	l.Helper()
	r := l.run()["q0"]
	if r == nil {
		l.Fatalf("no row; %+v", l.rep)
	}
	return r
}

// sent counts the attempts that reached the wire.
func sentOf(rows map[string]*output.Result) (sent, unsent int) {
	for _, r := range rows {
		for _, a := range r.Attempts {
			if a.Unsent {
				unsent++
			} else {
				sent++
			}
		}
	}
	return sent, unsent
}

// is asserts a row's status, error and attempts: outcomes by name, "-" before
// those of which nothing was sent.
func is(t *testing.T, r *output.Result, status output.Status, outcomes ...string) {
	t.Helper()
	var got []string
	for _, a := range r.Attempts {
		got = append(got, map[bool]string{true: "-"}[a.Unsent]+a.Outcome)
	}
	if r.Status != status || fmt.Sprint(got) != fmt.Sprint(outcomes) {
		t.Errorf("%s: got %s after %v (%+v), want %s after %v", r.Key, r.Status, got, r.Error, status, outcomes)
	}
}

func answerOK(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, okBody)
}

// serve is an HTTP server that counts requests and connections.
type serve struct {
	*httptest.Server
	requests, conns atomic.Int64
}

func newServe(t *testing.T, start func(*httptest.Server), h http.HandlerFunc) *serve {
	s := &serve{}
	s.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		_, _ = io.Copy(io.Discard, r.Body)
		h(w, r)
	}))
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			s.conns.Add(1)
		}
	}
	s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	start(s.Server)
	t.Cleanup(s.Close)
	return s
}

func h1(s *httptest.Server)   { s.Start() }
func tls1(s *httptest.Server) { s.StartTLS() }
func h2(s *httptest.Server)   { s.EnableHTTP2 = true; s.StartTLS() }

// trust lets the run accept the server's certificate.
func (l *live) trust(s *httptest.Server) {
	pool := x509.NewCertPool()
	pool.AddCert(s.Certificate())
	l.transport.TLSClientConfig = &tls.Config{RootCAs: pool}
}

// rawServer plays one function on each connection.
func rawServer(t *testing.T, play func(n int, c net.Conn, in *bufio.Reader)) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var open sync.WaitGroup
	over, end := context.WithCancel(context.Background())
	t.Cleanup(func() { end(); _ = ln.Close(); open.Wait() })
	open.Go(func() {
		for n := 1; ; n++ {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			open.Go(func() {
				defer c.Close()
				defer context.AfterFunc(over, func() { _ = c.Close() })()
				play(n, c, bufio.NewReader(c))
			})
		}
	})
	return "http://" + ln.Addr().String()
}

// readRequest reads a whole request; false at the connection's end.
func readRequest(in *bufio.Reader) bool {
	req, err := http.ReadRequest(in)
	if err != nil {
		return false
	}
	_, err = io.Copy(io.Discard, req.Body)
	return err == nil
}

func writeOK(c io.Writer) {
	fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(okBody), okBody)
}
