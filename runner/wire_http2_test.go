package runner

import (
	"bufio"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"llmbatch/output"
)

// Frame types, flags and codes of HTTP/2 (RFC 9113 §6, §7).
const (
	frameData, frameHeaders, frameReset, frameSettings, frameGoAway = 0x0, 0x1, 0x3, 0x4, 0x7

	flagEndStream, flagAck, flagEndHeaders = 0x1, 0x1, 0x4

	noError, protocolError, refusedStream = 0, 1, 7
)

func frame(c io.Writer, kind, flags byte, stream uint32, payload []byte) {
	head := []byte{byte(len(payload) >> 16), byte(len(payload) >> 8), byte(len(payload)), kind, flags, 0, 0, 0, 0}
	binary.BigEndian.PutUint32(head[5:], stream)
	_, _ = c.Write(append(head, payload...))
}

func code(n ...uint32) (b []byte) {
	for _, v := range n {
		b = binary.BigEndian.AppendUint32(b, v)
	}
	return b
}

// h2Server speaks just enough HTTP/2 to answer, or not, each request as play says:
// n counts requests over all connections.
func h2Server(t *testing.T, l *live, play func(n int64, stream uint32, c net.Conn)) (base string, requests *atomic.Int64) {
	t.Helper()
	certified := newServe(t, h2, nil)
	l.trust(certified.Server)
	requests = &atomic.Int64{}
	setup := &tls.Config{Certificates: certified.TLS.Certificates, NextProtos: []string{"h2"}}
	base = rawServer(t, func(_ int, raw net.Conn, _ *bufio.Reader) {
		c := tls.Server(raw, setup)
		defer c.Close()
		if _, err := io.ReadFull(c, make([]byte, len("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"))); err != nil {
			return
		}
		frame(c, frameSettings, 0, 0, nil)
		for {
			head := make([]byte, 9)
			if _, err := io.ReadFull(c, head); err != nil {
				return
			}
			size := int(head[0])<<16 | int(head[1])<<8 | int(head[2])
			if _, err := io.ReadFull(c, make([]byte, size)); err != nil {
				return
			}
			kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
			switch {
			case kind == frameSettings && flags&flagAck == 0:
				frame(c, frameSettings, flagAck, 0, nil)
			case kind == frameData && flags&flagEndStream != 0: // the request is whole
				play(requests.Add(1), stream, c)
			}
		}
	})
	return strings.Replace(base, "http:", "https:", 1), requests
}

func h2OK(c io.Writer, stream uint32) {
	frame(c, frameHeaders, flagEndHeaders, stream, []byte{0x88}) // :status 200
	frame(c, frameData, flagEndStream, stream, []byte(okBody))
}

// HTTP/2 hides no request from the log: net/http would send these up to seven
// times by itself.
func TestHTTP2NeverReplays(t *testing.T) {
	for _, c := range []struct {
		name   string
		refuse func(stream uint32, c net.Conn)
		first  string
		errors int // allowed for the item to be answered
	}{
		{"refused stream", func(stream uint32, c net.Conn) {
			frame(c, frameReset, 0, stream, code(refusedStream))
		}, "connection_error", 2},
		{"protocol error", func(stream uint32, c net.Conn) {
			frame(c, frameReset, 0, stream, code(protocolError))
		}, "connection_error", 2},
		// A connection that is closed in good order took nothing: that is no error.
		{"goaway", func(_ uint32, c net.Conn) {
			frame(c, frameGoAway, 0, 0, code(0, noError))
		}, "connection_error", 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			l := newLive(t, 2, "http://unknown")
			base, requests := h2Server(t, l, func(n int64, stream uint32, conn net.Conn) {
				if n == 1 {
					c.refuse(stream, conn)
					return
				}
				h2OK(conn, stream)
			})
			l.target.Base.Scheme, l.target.Base.Host, _ = strings.Cut(base, "://")
			l.c.Retry.MaxErrors = c.errors
			rows := l.run()
			is(t, rows["q0"], output.OK, c.first, "ok")
			is(t, rows["q1"], output.OK, "ok")
			if sent, _ := sentOf(rows); requests.Load() != 3 || sent != 3 {
				t.Errorf("the server saw %d requests, the rows log %d; want 3", requests.Load(), sent)
			}
		})
	}
}

// A dead HTTP/2 connection stalls all that is on it, so it is looked for.
func TestHTTP2Pings(t *testing.T) {
	c := NewTransport(8, 0).HTTP2
	if c == nil || c.SendPingTimeout <= 0 || c.PingTimeout <= 0 || c.SendPingTimeout+c.PingTimeout > time.Minute {
		t.Errorf("got %+v, want pings within a minute", c)
	}
	l := newLive(t, 1, "http://unknown")
	base, requests := h2Server(t, l, func(int64, uint32, net.Conn) {}) // and no answer to pings
	l.target.Base.Scheme, l.target.Base.Host, _ = strings.Cut(base, "://")
	l.transport.HTTP2.SendPingTimeout, l.transport.HTTP2.PingTimeout = 200*time.Millisecond, 200*time.Millisecond
	is(t, l.one(), output.GaveUp, "connection_error")
	if n := requests.Load(); n != 1 {
		t.Errorf("%d requests, want 1", n)
	}
}

// Requests that are cut off leave an HTTP/2 connection as it is.
func TestHTTP2KeepsConnection(t *testing.T) {
	s := newServe(t, h2, nil)
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.ProtoMajor != 2 {
			t.Errorf("got %s, want HTTP/2", r.Proto)
		}
		<-r.Context().Done()
	})
	l := newLive(t, 4, s.URL)
	l.trust(s.Server)
	l.c.AttemptTimeout = 150 * time.Millisecond
	rows := l.run()
	is(t, rows["q0"], output.GaveUp, "timeout")
	is(t, rows["q3"], output.GaveUp, "timeout")
	if n := s.conns.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}

// The proxy of the environment is used; what it refuses is told as its own, and it
// never sees the key.
func TestProxy(t *testing.T) {
	if got, want := reflect.ValueOf(NewTransport(1, 0).Proxy).Pointer(), reflect.ValueOf(http.ProxyFromEnvironment).Pointer(); got != want {
		t.Error("the proxy variables are not read")
	}
	target := newServe(t, tls1, func(w http.ResponseWriter, _ *http.Request) { answerOK(w) })
	for _, c := range []struct {
		status  int // of the proxy's answer
		row     output.Status
		outcome string
		says    string
	}{
		{200, output.OK, "ok", ""},
		{407, output.Aborted, "-auth", "Proxy Authentication Required"},
		{502, output.GaveUp, "-connection_error", "Bad Gateway"},
	} {
		proxy := newServe(t, h1, nil)
		proxy.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodConnect || r.Header.Get("X-Api-Key") != "" || r.Header.Get("Proxy-Authorization") == "" {
				t.Errorf("the proxy was asked for %s with %v", r.Method, r.Header)
			}
			if w.WriteHeader(c.status); c.status == 200 {
				tunnel(t, w, r.Host)
			}
		})
		l := newLive(t, 1, target.URL)
		l.trust(target.Server)
		u, err := url.Parse(strings.Replace(proxy.URL, "//", "//user:proxy-secret@", 1))
		if err != nil {
			t.Fatal(err)
		}
		l.transport.Proxy = http.ProxyURL(u)
		r := l.one()
		is(t, r, c.row, c.outcome)
		if e := r.Error; e != nil && !strings.Contains(e.Message, c.says) {
			t.Errorf("%d: got %+v, want %q", c.status, e, c.says)
		}
		if strings.Contains(l.logged.String(), "proxy-secret") {
			t.Errorf("%d: the proxy's password is shown: %s", c.status, l.logged.String())
		}
	}
	if n := target.requests.Load(); n != 1 {
		t.Errorf("%d requests came through, want 1", n)
	}
}

// tunnel joins the client to host.
func tunnel(t *testing.T, w http.ResponseWriter, host string) {
	_ = http.NewResponseController(w).Flush()
	client, early, err := http.NewResponseController(w).Hijack()
	if err != nil {
		t.Error(err)
		return
	}
	defer client.Close()
	server, err := net.Dial("tcp", host)
	if err != nil {
		t.Error(err)
		return
	}
	defer server.Close()
	go func() { _, _ = io.Copy(server, early) }() // the server may have read the client's first bytes already
	_, _ = io.Copy(client, server)
}
