package batch

import (
	"cmp"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"time"

	"llmbatch/retry"
	"llmbatch/runner"
	"llmbatch/runner/provider"
)

const (
	// longestAnswer bounds an answer that is not results, longestError one that is an error.
	longestAnswer = 64 << 20
	longestError  = 1 << 20
	// callTime is a call's time without a large body either way, bodyTime with one.
	callTime = 2 * time.Minute
	bodyTime = 30 * time.Minute
)

// client makes the calls of a Batch API: each once, with the key to the one host,
// and no redirect followed.
type client struct {
	target    *runner.Target
	transport http.RoundTripper
	agent     string
	scrub     *provider.Scrubber
}

// reply is what a call brought.
type reply struct {
	body []byte
	// err is nil for a 2xx answer.
	err *provider.Error
	// unsent: no part of the request reached the network.
	unsent bool
	// hint is the wait that the server asks for, with a 200 too.
	hint time.Duration
}

// payload is a request's body.
type payload struct {
	kind string
	from io.Reader
	size int64
	key  string // idempotency
}

// call makes a call and reads its answer.
func (c *client) call(ctx context.Context, r provider.BatchRequest, p *payload) reply {
	return c.send(ctx, r, p, func(resp *http.Response, body io.Reader) ([]byte, error) {
		data, err := io.ReadAll(io.LimitReader(body, longestAnswer+1))
		if err == nil && len(data) > longestAnswer {
			err = provider.ErrBodyTooLarge
		}
		return data, err
	})
}

// save writes an answer into a file of its own, which is gone when it is closed.
// What is cut short is an error.
func (c *client) save(ctx context.Context, r provider.BatchRequest, dir string) (*os.File, reply) {
	f, err := spool(dir)
	if err != nil {
		return nil, reply{err: &provider.Error{Class: provider.ConnectionError, Local: true, Message: err.Error()}}
	}
	got := c.send(ctx, r, nil, func(resp *http.Response, body io.Reader) ([]byte, error) {
		n, err := io.Copy(f, body)
		if err == nil && resp.ContentLength >= 0 && !resp.Uncompressed && resp.Header.Get("Content-Encoding") == "" && n != resp.ContentLength {
			err = io.ErrUnexpectedEOF
		}
		return nil, err
	})
	if got.err != nil {
		f.Close()
		return nil, got
	}
	return f, got
}

// spool makes a file without a name beside the results: nothing is left of it
// however the process ends.
func spool(dir string) (*os.File, error) {
	f, err := os.CreateTemp(dir, ".llmbatch-batch-*")
	if err != nil {
		return nil, err
	}
	return f, os.Remove(f.Name())
}

func (c *client) send(ctx context.Context, r provider.BatchRequest, p *payload, read func(*http.Response, io.Reader) ([]byte, error)) reply {
	limit := callTime
	if p != nil && p.size > 1<<20 || r.Accept != "" || strings.HasSuffix(r.Path, "/content") {
		limit = bodyTime
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { sent.Store(true) },
	})
	req, err := c.request(ctx, r, p)
	if err != nil {
		return reply{err: provider.FromTransport(err), unsent: true}
	}
	resp, err := c.transport.RoundTrip(req)
	if err != nil {
		return reply{err: c.failed(ctx, err), unsent: !sent.Load() && ctx.Err() == nil && dialed(err)}
	}
	defer resp.Body.Close()
	now := time.Now()
	var out reply
	out.hint, _ = retry.After(resp.Header["Retry-After-Ms"], resp.Header["Retry-After"], resp.Header.Get("Date"), now)
	body := io.Reader(resp.Body)
	if resp.Header.Get("Content-Encoding") == "gzip" {
		if body, err = gzip.NewReader(resp.Body); err != nil {
			out.err = c.failed(ctx, err)
			return out
		}
	}
	if resp.StatusCode/100 != 2 {
		data, _ := io.ReadAll(io.LimitReader(body, longestError))
		out.err = provider.Classify(provider.Answer{Status: resp.StatusCode, Header: resp.Header, Body: data, At: now}, nil)
		out.err.Message = c.scrub.String(out.err.Message)
		out.hint = cmp.Or(out.hint, out.err.Hint)
		return out
	}
	if out.body, err = read(resp, body); err != nil {
		out.err = c.failed(ctx, err)
		out.err.Status = 0
	}
	return out
}

// dialed says that an error came from making the connection, in a way that leaves
// no doubt: a transport of tests may not tell of its connections.
func dialed(err error) bool {
	e := provider.FromTransport(err)
	return e.DeadEndpoint
}

func (c *client) failed(ctx context.Context, err error) *provider.Error {
	if errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		return &provider.Error{Class: provider.Timeout, Message: "no answer in time"}
	}
	e := provider.FromTransport(err)
	e.Message = c.scrub.String(e.Message)
	return e
}

// request has no GetBody: the transport can't send a body twice.
func (c *client) request(ctx context.Context, r provider.BatchRequest, p *payload) (*http.Request, error) {
	var body io.Reader
	if p != nil {
		body = io.NopCloser(p.from)
	}
	req, err := http.NewRequestWithContext(ctx, r.Method, provider.JoinURL(c.target.Base, r.Path), body)
	if err != nil {
		return nil, err
	}
	req.URL.User = nil
	req.Header.Set("User-Agent", c.agent)
	req.Header.Set("Accept", cmp.Or(r.Accept, "*/*"))
	if p != nil {
		req.ContentLength = p.size
		req.Header.Set("Content-Type", p.kind)
		if p.key != "" {
			req.Header.Set("Idempotency-Key", p.key)
		}
	}
	c.target.Provider.Sign(req.Header, c.target.Credentials)
	for name, values := range c.target.Header {
		req.Header[name] = values
	}
	return req, nil
}

// fatal says that no call will be answered otherwise: the key, the account or the
// address is at fault.
func fatal(e *provider.Error) bool {
	return e.Scope == provider.WholeRun && e.Status != http.StatusNotFound && e.Status != http.StatusMethodNotAllowed
}

// describe says in a few words what an error was.
func describe(e *provider.Error) string {
	what := string(e.Class)
	if e.Status > 0 {
		what = fmt.Sprintf("HTTP %d", e.Status)
	}
	if k := cmp.Or(e.Code, e.Type); k != "" {
		what += " " + k
	}
	if e.Message != "" {
		what += ": " + e.Message
	}
	return what
}

func dirOf(path string) string { return filepath.Dir(path) }
