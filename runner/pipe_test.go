package runner

import (
	"context"
	"io"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"
)

// pipes is a listener whose connections are pipes, for real HTTP in virtual time.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipes() *pipes { return &pipes{conns: make(chan net.Conn), done: make(chan struct{})} }

func (p *pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	select {
	case p.conns <- theirs:
		return ours, nil
	case <-p.done:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// pipeBench prepares a run of one item against a handler, over pipes, in a bubble.
func pipeBench(t *testing.T, h http.HandlerFunc) *bench {
	ln := newPipes()
	srv := &http.Server{Handler: h}
	tr := NewTransport(1, 0)
	tr.DialContext = ln.dial
	go func() { _ = srv.Serve(ln) }()
	t.Cleanup(func() {
		tr.CloseIdleConnections()
		_ = srv.Close()
	})
	b := newBench(t, 1, nil)
	b.c.Transport, b.c.Pacing = tr, fixed(1)
	return b
}

// trickle sends what it is given each interval, until the client leaves.
func trickle(w http.ResponseWriter, r *http.Request, each time.Duration, what string) {
	tick := time.NewTicker(each)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			_, _ = io.WriteString(w, what)
			w.(http.Flusher).Flush()
		case <-r.Context().Done():
			return
		}
	}
}
