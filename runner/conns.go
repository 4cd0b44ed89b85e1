package runner

import (
	"context"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode"

	"llmbatch/runner/provider"
)

// conns are the connections to one server of plain HTTP/1.1, which carries one
// request at a time on each. A connection is opened only when none is at rest, by
// the attempt that needs it: there are never more than attempts at one time.
// http.Transport would open another while one is on its way back, and spends on
// its pool as much as on the request. All methods may be called concurrently.
type conns struct {
	transport *http.Transport // opens them
	addr      string

	mu   sync.Mutex
	rest []*conn // the one used last stands last
}

type conn struct {
	*http.ClientConn
	raw    *countingConn
	before int64 // written to raw before the request that it carries
	used   bool
	since  time.Time // at rest
}

// connsOf returns the connections to a target; nil where http.Transport has to
// make them: it knows HTTP/2 and proxies, and other ways to dial.
func (r *Runner) connsOf(t *Target) *conns {
	tr, ok := r.transport.(*http.Transport)
	if !ok || tr.DialContext == nil || t.Base.Scheme != "http" || strings.ContainsFunc(t.Base.Host, func(c rune) bool { return c > unicode.MaxASCII }) {
		return nil
	}
	if tr.Proxy != nil {
		if via, err := tr.Proxy(&http.Request{URL: t.Base}); via != nil || err != nil {
			return nil
		}
	}
	addr := t.Base.Host
	if t.Base.Port() == "" {
		addr = net.JoinHostPort(t.Base.Hostname(), "80")
	}
	if c := r.direct[addr]; c != nil {
		return c
	}
	own := tr.Clone()
	own.Proxy = nil         // it would be asked about a URL without the port
	own.MaxConnsPerHost = 0 // it counts closed ones that it has not counted as opened
	dial := own.DialContext
	own.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		counts, ok := c.(*countingConn)
		if !ok {
			counts = &countingConn{Conn: c}
		}
		if to, ok := ctx.Value(dialed{}).(*conn); ok {
			to.raw = counts
		}
		return counts, nil
	}
	c := &conns{transport: own, addr: addr}
	r.direct[addr] = c
	return c
}

// dialed is the key of the conn whose raw the dialer sets.
type dialed struct{}

// take returns a connection on which one request may be made.
func (p *conns) take(ctx context.Context, now time.Time) (*conn, error) {
	for {
		p.mu.Lock()
		n := len(p.rest) - 1
		if n < 0 {
			p.mu.Unlock()
			break
		}
		c := p.rest[n]
		p.rest[n] = nil
		p.rest = p.rest[:n]
		p.mu.Unlock()
		if d := p.transport.IdleConnTimeout; d > 0 && now.Sub(c.since) > d {
			_ = c.Close() // what stands between may have forgotten it
			continue
		}
		if c.Err() == nil {
			c.before = c.raw.written.Load()
			return c, nil
		}
	}
	c := &conn{}
	cc, err := p.transport.NewClientConn(context.WithValue(ctx, dialed{}, c), "http", p.addr)
	if err != nil {
		return nil, err
	}
	c.ClientConn = cc
	return c, nil
}

// put takes a connection back whose answer was read and closed, and reports
// whether it can be used again: all of the request was written then.
func (p *conns) put(c *conn) bool {
	if c.Available() == 0 {
		_ = c.Close()
		return false
	}
	c.used, c.since = true, time.Now()
	p.mu.Lock()
	p.rest = append(p.rest, c)
	old := p.rest[0]
	if d := p.transport.IdleConnTimeout; d > 0 && c.since.Sub(old.since) > d { // nobody will need it soon
		p.rest = slices.Delete(p.rest, 0, 1)
		defer old.Close()
	}
	p.mu.Unlock()
	return true
}

// close closes those at rest.
func (p *conns) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.rest {
		_ = c.Close()
	}
	p.rest = nil
}

// unsent says that nothing of a request that failed reached the network.
func (c *conn) unsent() bool { return c.raw.written.Load() == c.before }

// sendDirect makes one attempt over the lane's own connections.
func (r *Runner) sendDirect(ctx context.Context, s *sender, t *task, k *kit, x *exchange) {
	p := t.lane.conns
	c, err := p.take(ctx, x.started)
	if err != nil {
		x.err, x.unsent = r.transportError(ctx, err), true
		return
	}
	if !s.hold(c) {
		p.put(c)
		x.err, x.unsent = r.transportError(ctx, context.Cause(ctx)), true
		return
	}
	resp, err := c.RoundTrip(k.req)
	if err != nil {
		s.free()
		_ = c.Close()
		if inner := errors.Unwrap(err); inner != nil && strings.HasPrefix(err.Error(), "net/http: Transport failed to read") {
			err = inner // as Transport.RoundTrip does
		}
		x.err, x.unsent = r.transportError(ctx, err), c.unsent()
		x.stale = x.unsent && c.used && x.err.Class == provider.ConnectionError
		return
	}
	x.read(ctx, r, s, t, resp)
	s.free()
	if p.put(c) {
		s.kit = k
	}
}
