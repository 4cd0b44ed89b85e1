package runner

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
	"time"
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

// wire watches one request's way to the network.
type wire struct {
	asked, got, wrote bool // written by the transport before it returns an error
	reused            bool
	conn              *countingConn
	before            int64
}

func (w *wire) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) { w.asked = true },
		GotConn: func(i httptrace.GotConnInfo) {
			w.got, w.reused = true, i.Reused
			c := i.Conn
			if t, ok := c.(*tls.Conn); ok {
				if t.ConnectionState().NegotiatedProtocol == "h2" {
					return // the connection is shared: its count says nothing about this request
				}
				c = t.NetConn()
			}
			if cc, ok := c.(*countingConn); ok {
				w.conn, w.before = cc, cc.written.Load()
			}
		},
		WroteHeaders: func() { w.wrote = true },
	}
}
