package provider

import (
	"compress/flate"
	"compress/gzip"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"syscall"
)

// The runner cancels or ends an attempt with one of these, so that FromTransport
// can tell a limit of ours from a broken connection.
var (
	// ErrAttemptTimeout: the attempt took longer than --attempt-timeout.
	ErrAttemptTimeout = errors.New("no whole answer within the attempt's time")
	// ErrIdleTimeout: a stream was silent for longer than --idle-timeout.
	ErrIdleTimeout = errors.New("the stream was silent for too long")
	// ErrBodyTooLarge: the answer, decompressed, is larger than what is read.
	ErrBodyTooLarge = errors.New("the answer is too large")
)

// FromTransport says what an attempt without a whole answer means: err is what
// the transport or the reading of the body returned, never nil. The message has
// no URL, whose query may hold a key.
//
// Class canceled is an attempt that was cut off from outside, by a context other
// than one of the sentinels above. A body that was cut is truncated where the
// error says so; a reset is a connection_error also in a body.
func FromTransport(err error) *Error {
	e := &Error{Class: ConnectionError, Message: clip(clean(withoutURL(err)), longestMessage)}
	for _, classify := range [...]func(*Error, error) bool{ours, fatalSetup, unreachable, badBody} {
		if classify(e, err) {
			return e
		}
	}
	var timeout net.Error
	if errors.As(err, &timeout) && timeout.Timeout() || errors.Is(err, os.ErrDeadlineExceeded) {
		e.Class = Timeout
	}
	if errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		e.Message = "the server closed the connection without an answer (EOF)"
	}
	return e
}

// ours are the ends that this program brought about, and the limits of this machine.
func ours(e *Error, err error) bool {
	switch {
	case errors.Is(err, ErrAttemptTimeout), errors.Is(err, ErrIdleTimeout), errors.Is(err, context.DeadlineExceeded) && !dialing(err):
		e.Class = Timeout
	case errors.Is(err, ErrBodyTooLarge):
		e.Class = InvalidResponse
	case errors.Is(err, context.Canceled):
		e.Class = Canceled
	case errors.Is(err, syscall.EMFILE), errors.Is(err, syscall.ENFILE), strings.Contains(err.Error(), "too many open files"):
		e.Local, e.NoShrink = true, true
		e.Advice = "too many open files: lower --concurrency or raise the limit (ulimit -n)"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		e.Local, e.NoShrink = true, true
		e.Advice = "no local port is free: lower --concurrency"
	default:
		return false
	}
	return true
}

// fatalSetup are the errors that no waiting cures. The transport has no types for
// them.
func fatalSetup(e *Error, err error) bool {
	text := err.Error()
	has := func(s string) bool { return strings.Contains(text, s) }
	switch {
	case has("Proxy Authentication Required"):
		e.Class, e.Scope = AuthError, WholeRun
		e.Advice = "put the proxy's user name and password into HTTPS_PROXY"
	case has("invalid header field"):
		e.Class, e.Scope = Rejected, WholeRun
		e.Advice = "check the key and --header for line breaks and other control characters"
	case has("unsupported protocol scheme"), has("no Host in request URL"):
		e.Class, e.Scope = Rejected, WholeRun
		e.Advice = "check --base-url"
	default:
		return false
	}
	return true
}

// unreachable: nobody was there to answer. Such an endpoint may come up again
// (a local server that restarts), so the tries go on, and the guard against dead
// endpoints counts.
func unreachable(e *Error, err error) bool {
	var (
		dns     *net.DNSError
		verify  *tls.CertificateVerificationError
		record  tls.RecordHeaderError
		alert   tls.AlertError
		unknown x509.UnknownAuthorityError
		name    x509.HostnameError
		invalid x509.CertificateInvalidError
	)
	switch {
	case errors.As(err, &record) && string(record.RecordHeader[:]) == "HTTP/":
		e.Message = http.ErrSchemeMismatch.Error()
		fallthrough
	case errors.Is(err, http.ErrSchemeMismatch):
		e.Advice = "write http:// in --base-url, if that is what this server speaks"
	case strings.Contains(err.Error(), `malformed HTTP response "\x15\x03`): // a TLS alert
		e.Advice = "write https:// in --base-url"
	case errors.As(err, &verify), errors.As(err, &unknown), errors.As(err, &name), errors.As(err, &invalid):
		e.Advice = "the server's certificate does not hold: check --base-url, and this machine's clock and certificates"
	case errors.As(err, &dns):
		e.Advice = "check the host in --base-url, and this machine's network"
	case errors.As(err, &record), errors.As(err, &alert), errors.Is(err, syscall.ECONNREFUSED),
		errors.Is(err, syscall.EHOSTUNREACH), errors.Is(err, syscall.ENETUNREACH),
		strings.Contains(err.Error(), "TLS handshake timeout"), dialing(err):
		e.Advice = "check that the server is up, and --base-url"
	default:
		return false
	}
	e.DeadEndpoint = true
	return true
}

// dialing says that the connection was never made.
func dialing(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect")
}

// badBody: an answer had begun.
func badBody(e *Error, err error) bool {
	var (
		corrupt  flate.CorruptInputError
		internal flate.InternalError
		before   *url.Error
	)
	switch {
	case strings.Contains(err.Error(), "response headers exceeded"), strings.Contains(err.Error(), "response header list larger"):
		e.Class = InvalidResponse
	case errors.Is(err, gzip.ErrHeader), errors.Is(err, gzip.ErrChecksum), errors.As(err, &corrupt), errors.As(err, &internal):
		e.Class = InvalidResponse
		e.Message = clip("the answer's compression is broken: "+e.Message, longestMessage)
	case errors.Is(err, io.ErrUnexpectedEOF) && !errors.As(err, &before) && !strings.Contains(err.Error(), "transport connection broken"):
		e.Class = Truncated
		e.Message = "the connection was cut inside the answer"
	default:
		return false
	}
	return true
}

// withoutURL is the error's text without the method and URL that net/http puts
// before it.
func withoutURL(err error) string {
	var u *url.Error
	if errors.As(err, &u) {
		return u.Err.Error()
	}
	return err.Error()
}
