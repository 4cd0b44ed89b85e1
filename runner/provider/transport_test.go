package provider

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

type transportWant struct {
	class Class
	scope Scope
	dead  bool
	local bool
}

func judged(e *Error) transportWant {
	return transportWant{e.Class, e.Scope, e.DeadEndpoint, e.Local}
}

// sent is how net/http wraps what went wrong before an answer.
func sent(err error) error {
	return &url.Error{Op: "Post", URL: "https://h/v1?key=s3cret", Err: err}
}

func dial(err error) error { return &net.OpError{Op: "dial", Net: "tcp", Err: err} }

func TestFromTransport(t *testing.T) {
	for _, c := range []struct {
		name string
		err  error
		want transportWant
	}{
		{"62 attempt", sent(ErrAttemptTimeout), transportWant{class: Timeout}},
		{"62 attempt, while dialing", sent(dial(ErrAttemptTimeout)), transportWant{class: Timeout}},
		{"62 idle", fmt.Errorf("read: %w", ErrIdleTimeout), transportWant{class: Timeout}},
		{"deadline", sent(context.DeadlineExceeded), transportWant{class: Timeout}},
		{"waiting for headers", sent(errors.Join(os.ErrDeadlineExceeded)), transportWant{class: Timeout}},
		{"read timeout", &net.OpError{Op: "read", Err: os.ErrDeadlineExceeded}, transportWant{class: Timeout}},
		{"canceled", sent(context.Canceled), transportWant{class: Canceled}},
		{"63 refused", sent(dial(os.NewSyscallError("connect", syscall.ECONNREFUSED))), transportWant{class: ConnectionError, dead: true}},
		{"no route", sent(dial(os.NewSyscallError("connect", syscall.EHOSTUNREACH))), transportWant{class: ConnectionError, dead: true}},
		{"dial timeout", sent(dial(os.ErrDeadlineExceeded)), transportWant{class: ConnectionError, dead: true}},
		{"66 DNS", sent(dial(&net.DNSError{Err: "no such host", Name: "h", IsNotFound: true})), transportWant{class: ConnectionError, dead: true}},
		{"66 unknown authority", sent(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}), transportWant{class: ConnectionError, dead: true}},
		{"66 expired", sent(x509.CertificateInvalidError{Reason: x509.Expired, Cert: &x509.Certificate{}}), transportWant{class: ConnectionError, dead: true}},
		{"66 alert", sent(&net.OpError{Op: "remote error", Err: tls.AlertError(40)}), transportWant{class: ConnectionError, dead: true}},
		{"66 HTTP to an HTTPS client", sent(http.ErrSchemeMismatch), transportWant{class: ConnectionError, dead: true}},
		{"66 HTTPS to an HTTP client", sent(errors.New(`net/http: HTTP/1.x transport connection broken: malformed HTTP response "\x15\x03\x01\x00\x02\x02"`)), transportWant{class: ConnectionError, dead: true}},
		{"malformed", sent(errors.New(`net/http: HTTP/1.x transport connection broken: malformed HTTP response "SSH-2.0"`)), transportWant{class: ConnectionError}},
		{"66 proxy", sent(errors.New("Proxy Authentication Required")), transportWant{class: AuthError, scope: WholeRun}},
		{"long headers", sent(errors.New("net/http: server response headers exceeded 1048576 bytes; aborted")), transportWant{class: InvalidResponse}},
		{"proxy out of reach", sent(&net.OpError{Op: "proxyconnect", Net: "tcp", Err: dial(os.ErrDeadlineExceeded)}), transportWant{class: ConnectionError, dead: true}},
		{"proxy down", sent(errors.New("Bad Gateway")), transportWant{class: ConnectionError}},
		{"C50 header", sent(errors.New(`net/http: invalid header field value for "X-Api-Key"`)), transportWant{class: Rejected, scope: WholeRun}},
		{"64 reset", sent(&net.OpError{Op: "read", Err: os.NewSyscallError("read", syscall.ECONNRESET)}), transportWant{class: ConnectionError}},
		{"64 EOF", sent(io.EOF), transportWant{class: ConnectionError}},
		{"64 idle closed", sent(errors.New("http: server closed idle connection")), transportWant{class: ConnectionError}},
		{"64 no GetBody", sent(errors.New("http2: Transport: cannot retry err [http2: Transport received Server's graceful shutdown GOAWAY] after Request.Body was written; define Request.GetBody to avoid this error")), transportWant{class: ConnectionError}},
		{"65 cut", io.ErrUnexpectedEOF, transportWant{class: Truncated}},
		{"cut in the headers", sent(fmt.Errorf("net/http: HTTP/1.x transport connection broken: %w", io.ErrUnexpectedEOF)), transportWant{class: ConnectionError}},
		{"65 gzip header", gzip.ErrHeader, transportWant{class: InvalidResponse}},
		{"65 gzip sum", gzip.ErrChecksum, transportWant{class: InvalidResponse}},
		{"70 too large", ErrBodyTooLarge, transportWant{class: InvalidResponse, scope: Passing}},
		{"files", sent(dial(os.NewSyscallError("socket", syscall.EMFILE))), transportWant{class: ConnectionError, local: true}},
		{"files, in the resolver", sent(dial(&net.DNSError{Err: "dial udp: socket: too many open files"})), transportWant{class: ConnectionError, local: true}},
		{"ports", sent(dial(os.NewSyscallError("connect", syscall.EADDRNOTAVAIL))), transportWant{class: ConnectionError, local: true}},
	} {
		e := FromTransport(c.err)
		if got := judged(e); got != c.want {
			t.Errorf("%s: got %+v, want %+v (%s)", c.name, got, c.want, e.Message)
		}
		if e.Message == "" || strings.Contains(e.Message, "s3cret") || e.Hint != 0 || e.NoRetry {
			t.Errorf("%s: got %+v", c.name, e)
		}
		if (e.Scope == WholeRun || e.DeadEndpoint || e.Local) && e.Advice == "" {
			t.Errorf("%s: no advice", c.name)
		}
	}
}

// The same with errors that the real transport makes.
func TestFromTransportOnTheWire(t *testing.T) {
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, _ = z.Write(bytes.Repeat([]byte("hello "), 1000))
	_ = z.Close()
	answers := map[string]string{
		"length": "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n{\"a\":",
		"chunk":  "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n",
		"silent": "",
		"header": "HTTP/1.1 200 OK\r\nContent-Le",
		"noise":  "hello\r\n\r\n",
		"nozip":  "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 20\r\n\r\nthis is no gzip at a",
		"cutzip": "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nConnection: close\r\n\r\n" + zipped.String()[:zipped.Len()/2],
	}
	want := map[string]transportWant{
		"length": {class: Truncated},
		"chunk":  {class: Truncated},
		"silent": {class: ConnectionError},
		"header": {class: ConnectionError},
		"noise":  {class: ConnectionError},
		"nozip":  {class: InvalidResponse},
		"cutzip": {class: Truncated},
	}
	for name, answer := range answers {
		for _, client := range []bool{true, false} {
			if got := judged(FromTransport(post(t, "http://"+serveRaw(t, answer), client))); got != want[name] {
				t.Errorf("%s, with a client %v: got %+v, want %+v", name, client, got, want[name])
			}
		}
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	secure.Config.ErrorLog = quiet
	defer secure.Close()
	gone := httptest.NewServer(nil)
	gone.Close()
	for name, address := range map[string]string{
		"HTTPS to an HTTP server": strings.Replace(plain.URL, "http:", "https:", 1),
		"unknown authority":       secure.URL,
		"refused":                 gone.URL,
	} {
		e := FromTransport(post(t, address, false))
		if got, want := judged(e), (transportWant{class: ConnectionError, dead: true}); got != want {
			t.Errorf("%s: got %+v, want %+v (%s)", name, got, want, e.Message)
		}
	}
}

// post sends a request, through a client or by the transport alone, and returns
// what goes wrong, also inside the answer.
func post(t *testing.T, address string, client bool) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, address, strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	send := transport.RoundTrip
	if client {
		send = (&http.Client{Transport: transport}).Do
	}
	resp, err := send(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if _, err = io.Copy(io.Discard, resp.Body); err == nil {
		t.Fatalf("%s: got a whole answer, want an error", address)
	}
	return err
}

// serveRaw answers one request with the given bytes and closes the connection.
func serveRaw(t *testing.T, answer string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		req, err := http.ReadRequest(bufio.NewReader(conn))
		if err != nil {
			return
		}
		_, _ = io.Copy(io.Discard, req.Body)
		_, _ = io.WriteString(conn, answer)
	}()
	return l.Addr().String()
}
