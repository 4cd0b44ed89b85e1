package runner

import (
	"cmp"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"llmbatch/runner/provider"
)

// NewTransport returns a transport for up to conns requests at a time: as many
// idle connections as there can be requests, dead HTTP/2 connections found by
// pings, no compression asked for (decoding costs more than it saves), and
// connections that know whether anything was written to them. Dialling and the TLS
// handshake may take connect each; 0 means 30 s.
func NewTransport(conns int, connect time.Duration) *http.Transport {
	connect = cmp.Or(connect, 30*time.Second)
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns = 0
	t.MaxIdleConnsPerHost = max(conns, 2)
	t.DisableCompression = true
	t.TLSHandshakeTimeout = connect
	t.MaxResponseHeaderBytes = 1 << 20
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}
	dial := (&net.Dialer{Timeout: connect, KeepAlive: 15 * time.Second}).DialContext
	t.DialContext = func(ctx context.Context, network, addr string) (net.Conn, error) {
		c, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return &countingConn{Conn: c}, nil
	}
	return t
}

// countingConn counts the bytes written, so that a request that failed on a
// dying connection can be told from one that the server may have read.
type countingConn struct {
	net.Conn
	written atomic.Int64
}

func (c *countingConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// passage watches one request's way to the network. But for wrote, which HTTP/2
// sets from a goroutine of its own, its fields are set while RoundTrip is called.
type passage struct {
	asked, got bool
	reused     bool
	wrote      atomic.Bool
	conn       *countingConn // nil for HTTP/2, whose connections are shared
	before     int64         // written to conn before this request
	connected  func() (end func())
	ends       []func()
}

func (w *passage) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { w.asked = true },
		GotConn: func(i httptrace.GotConnInfo) {
			w.got, w.reused, w.conn = true, i.Reused, nil
			w.ends = append(w.ends, w.connected())
			c := i.Conn
			for t, ok := c.(*tls.Conn); ok; t, ok = c.(*tls.Conn) {
				if t.ConnectionState().NegotiatedProtocol == "h2" {
					return
				}
				c = t.NetConn()
			}
			if cc, ok := c.(*countingConn); ok {
				w.conn, w.before = cc, cc.written.Load()
			}
		},
		WroteHeaders: func() { w.wrote.Store(true) },
	}
}

// end is called when the answer was read.
func (w *passage) end() {
	for _, f := range w.ends {
		f()
	}
}

// unsent says that nothing of a request that failed reached the network.
func (w *passage) unsent(c provider.Class) bool {
	switch {
	case !w.asked: // refused before there was a connection
		return c == provider.Rejected
	case !w.got:
		return true
	case w.conn != nil:
		return w.conn.written.Load() == w.before
	default: // if it was cut off just now, it may be on its way
		return c == provider.ConnectionError && !w.wrote.Load()
	}
}

// goingAway says that the server was closing an HTTP/2 connection in good order
// and did not take the request (RFC 9113 §6.8).
func goingAway(err error) bool { return strings.Contains(err.Error(), "graceful shutdown GOAWAY") }

// asleep is how late a timer has to be for the process to have been stopped or the
// machine asleep meanwhile; wakeful is what it then leaves for reading what has
// arrived in the sockets.
const (
	asleep  = time.Second
	wakeful = time.Second
)

// alarm cancels a context at a time that may move.
type alarm struct {
	cut context.CancelCauseFunc

	mu    sync.Mutex
	cause error
	due   time.Time
	timer *time.Timer
}

func newAlarm(d time.Duration, cut context.CancelCauseFunc, cause error) *alarm {
	a := &alarm{cut: cut, cause: cause, due: time.Now().Add(d)}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.timer = time.AfterFunc(d, a.ring)
	return a
}

func (a *alarm) ring() {
	a.mu.Lock()
	defer a.mu.Unlock()
	switch late := time.Since(a.due); {
	case late < 0: // it was moved just now
	case late > asleep:
		a.due = time.Now().Add(wakeful)
		a.timer.Reset(wakeful)
	default:
		a.cut(a.cause)
	}
}

// move sets the time anew.
func (a *alarm) move(d time.Duration, cause error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.due, a.cause = time.Now().Add(d), cause
	a.timer.Reset(d)
}

func (a *alarm) stop() { a.timer.Stop() }

// withDeadline returns a context that ends with parent's, with cut, or at a time with
// provider.ErrAttemptTimeout; zero means never. What had arrived when the process
// was stopped until after that time still counts. stop must be called.
func withDeadline(parent context.Context, at time.Time) (ctx context.Context, cut context.CancelCauseFunc, stop func()) {
	ctx, cut = context.WithCancelCause(parent)
	if at.IsZero() {
		return ctx, cut, func() { cut(nil) }
	}
	a := newAlarm(time.Until(at), cut, provider.ErrAttemptTimeout)
	return ctx, cut, func() { a.stop(); cut(nil) }
}
