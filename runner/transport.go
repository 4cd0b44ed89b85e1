package runner

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"llmbatch/runner/provider"
)

// NewTransport returns a transport for up to conns requests at a time: as many
// idle connections as there can be requests, dead HTTP/2 connections found by
// pings, no compression asked for (decoding costs more than it saves), and
// connections that know whether anything was written to them.
func NewTransport(conns int) *http.Transport {
	t := http.DefaultTransport.(*http.Transport).Clone()
	t.MaxIdleConns = 0
	t.MaxIdleConnsPerHost = max(conns, 2)
	t.DisableCompression = true
	t.MaxResponseHeaderBytes = 1 << 20
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second}
	dial := (&net.Dialer{Timeout: 30 * time.Second, KeepAlive: 15 * time.Second}).DialContext
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

// wire watches one request's way to the network. But for wrote, which HTTP/2
// sets from a goroutine of its own, its fields are set while RoundTrip is called.
type wire struct {
	asked, got bool
	reused     bool
	shared     bool // HTTP/2
	wrote      atomic.Bool
	wroteAll   atomic.Bool   // body and all, without an error
	conn       *countingConn // nil for HTTP/2, whose connections are shared
	before     int64         // written to conn before this request
}

func (w *wire) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { w.asked = true },
		GotConn: func(i httptrace.GotConnInfo) {
			w.got, w.reused, w.conn = true, i.Reused, nil
			c := i.Conn
			for t, ok := c.(*tls.Conn); ok; t, ok = c.(*tls.Conn) {
				if t.ConnectionState().NegotiatedProtocol == "h2" {
					w.shared = true
					return
				}
				c = t.NetConn()
			}
			if cc, ok := c.(*countingConn); ok {
				w.conn, w.before = cc, cc.written.Load()
			}
		},
		WroteHeaders: func() { w.wrote.Store(true) },
		WroteRequest: func(i httptrace.WroteRequestInfo) {
			if i.Err == nil {
				w.wroteAll.Store(true)
			}
		},
	}
}

func (w *wire) reset() {
	w.asked, w.got, w.reused, w.shared, w.conn, w.before = false, false, false, false, nil, 0
	w.wrote.Store(false)
	w.wroteAll.Store(false)
}

// done says that the transport needs nothing of a request whose answer has been
// read and closed: RoundTripper asks no more than that, but a server may answer
// before all of the request is there, and the rest is then still being written.
func (w *wire) done() bool { return w.got && !w.shared && w.wroteAll.Load() }

// unsent says that nothing of a request that failed reached the network.
func (w *wire) unsent(c provider.Class) bool {
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
