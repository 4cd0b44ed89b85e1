package runner

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"llmbatch/pacing"
	"llmbatch/retry"
	"llmbatch/runner/provider"
)

// Bounds of what is read of an answer, decompressed.
const (
	mostAnswer = 64 << 20
	mostStream = 256 << 20 // of events, which are many times what they carry
	mostError  = 1 << 20
	mostDrain  = 256 << 10
	// longestField is the most of a header's value that is kept.
	longestField = 200
)

// exchange is what one attempt gave.
type exchange struct {
	started time.Time
	took    time.Duration
	reply   provider.Reply
	err     *provider.Error // nil: reply is an answer
	status  int             // 0: no response
	request string          // the response's request id
	unsent  bool
	// stale: a kept connection was going away, and the request was not taken.
	stale  bool
	hint   time.Duration
	raw    string // the Retry-After value as it came
	quotas []pacing.Quota
	rates  bool // the response had rate-limit headers
	usage  provider.Usage

	// partial is the text of a cut stream that may be continued.
	partial string

	header   http.Header
	closeNow func() // ends the reading of the body
}

// send makes one attempt and reads all of its answer. It never returns an
// exchange that is neither an answer nor an error. What it returns is s's, until
// the next attempt.
func (r *Runner) send(ctx context.Context, s *sender, t *task, body []byte, now time.Time) *exchange {
	x := &s.exchange
	*x = exchange{started: now}
	k, err := s.pack(ctx, t, body, &r.c)
	if err != nil {
		x.err, x.unsent = provider.FromTransport(err), true
		return x
	}
	if t.lane.conns != nil {
		r.sendDirect(ctx, s, t, k, x)
	} else if resp, err := r.transport.RoundTrip(k.req); err == nil {
		x.read(ctx, r, s, t, resp)
		s.unpack(k)
	} else {
		w := &k.wire
		x.err = r.transportError(ctx, err)
		x.unsent = w.unsent(x.err.Class)
		x.stale = x.err.Class == provider.ConnectionError && (x.unsent && w.got && w.reused || goingAway(err))
	}
	x.took = time.Since(x.started)
	if x.err != nil {
		x.usage = x.err.Usage
		if x.hint == 0 {
			x.hint = x.err.Hint
		}
		if x.header != nil {
			x.request = provider.RequestID(x.header)
		}
		if x.request == "" {
			x.request = x.err.RequestID
		}
	} else {
		x.usage, x.request = x.reply.Usage, x.reply.RequestID
	}
	x.scrub(r.c.Scrub)
	return x
}

// scrub takes secrets out of what goes into logs and rows, and control characters
// out of what may be shown. An answer's text and body are left to its row.
func (x *exchange) scrub(s *provider.Scrubber) {
	for _, v := range []*string{&x.request, &x.raw, &x.reply.StopReason, &x.reply.Model} {
		// What nobody sees is taken out first: it may split a secret.
		*v = provider.Clean(s.String(provider.Clean(*v, 16*longestField)), longestField)
	}
	x.partial = s.String(x.partial)
	if e := x.err; e != nil {
		for _, v := range []*string{&e.Message, &e.Type, &e.Code, &e.RequestID, &e.Regain} {
			*v = s.String(*v)
		}
	}
}

// read reads the answer that follows the response's headers.
func (x *exchange) read(ctx context.Context, r *Runner, sd *sender, t *task, resp *http.Response) {
	whole, coded := false, false
	defer func() {
		if whole && coded { // a drained body lets the connection be used again
			_, _ = io.CopyN(io.Discard, resp.Body, mostDrain)
		}
		_ = resp.Body.Close()
	}()
	now := time.Now()
	h := resp.Header
	x.status, x.header = resp.StatusCode, h
	x.headers(h, now)
	body, err := decoded(resp)
	coded = body != resp.Body
	s, streams := t.lane.target.Provider.(provider.Streamer)
	streams = streams && resp.StatusCode/100 == 2
	if err == nil && streams && eventStream(h) {
		x.closeNow = func() { _ = resp.Body.Close() }
		whole = x.stream(ctx, r, t, s, body)
		return
	}
	var data []byte
	switch {
	case err != nil:
	case resp.StatusCode/100 == 2 && resp.ContentLength > mostAnswer:
		err = provider.ErrBodyTooLarge // not worth the reading
	default:
		data, err = readAll(sd.body, body, resp.ContentLength, most(resp.StatusCode))
		if r.c.Fleeting && cap(data) <= keptBody {
			sd.body = data
		}
	}
	whole = err == nil
	if err != nil && !x.known(ctx, err) {
		x.err = r.transportError(ctx, err)
		x.err.Status = resp.StatusCode
		return
	}
	if streams && looksLikeEvents(data) { // some proxies lose the type
		x.closeNow = func() {}
		x.stream(ctx, r, t, s, bytes.NewReader(data))
		return
	}
	x.reply, x.err = t.lane.target.Provider.Decode(t.call, provider.Answer{Status: resp.StatusCode, Header: h, Body: data, At: now})
}

// known says that an answer whose body could not be read to its end is known by
// its status, whatever else it said. A 4xx may mean anything, and a 2xx is no
// answer without its body.
func (x *exchange) known(ctx context.Context, err error) bool {
	switch {
	case x.status/100 == 2 || errors.Is(context.Cause(ctx), errCut):
		return false
	case errors.Is(err, provider.ErrBodyTooLarge): // what an error says stands at its beginning
		return true
	default:
		return x.status == http.StatusTooManyRequests || x.status >= 500
	}
}

// most is how much of an answer is read.
func most(status int) int64 {
	if status/100 != 2 {
		return mostError
	}
	return mostAnswer
}

// headers takes what the headers say about waiting and quotas.
func (x *exchange) headers(h http.Header, now time.Time) {
	ms, secs := h["Retry-After-Ms"], h["Retry-After"]
	if len(ms)+len(secs) > 0 {
		x.raw = strings.Join(secs, ", ")
		if len(secs) == 0 {
			x.raw = strings.Join(ms, ", ") + "ms"
		}
		x.hint, _ = retry.After(ms, secs, h.Get("Date"), now)
	}
	x.rates = provider.HasRateHeaders(h)
	if !x.rates {
		return
	}
	for _, q := range provider.Quotas(h, now) {
		x.quotas = append(x.quotas, pacing.Quota{Resource: resourceOf(q.Resource), Limit: q.Limit, Remaining: q.Remaining, Reset: q.Reset})
	}
}

func resourceOf(name string) pacing.Resource {
	switch name {
	case "input_tokens":
		return pacing.InputTokens
	case "output_tokens":
		return pacing.OutputTokens
	case "tokens":
		return pacing.TotalTokens
	default:
		return pacing.Requests
	}
}

func eventStream(h http.Header) bool {
	return strings.HasPrefix(strings.ToLower(strings.TrimSpace(h.Get("Content-Type"))), "text/event-stream")
}

// looksLikeEvents says that a body of another type is a stream of events.
func looksLikeEvents(data []byte) bool {
	data = bytes.TrimLeft(bytes.TrimPrefix(data, []byte("\ufeff")), " \r\n")
	field, _, found := bytes.Cut(data[:min(len(data), 8)], []byte(":"))
	switch string(field) {
	case "data", "event", "id", "retry", "":
		return found
	}
	return false
}

// transportError tells the run's own cancelling and deadlines from what the
// network did.
func (r *Runner) transportError(ctx context.Context, err error) *provider.Error {
	cause := context.Cause(ctx)
	if cause == nil {
		e := provider.FromTransport(err)
		if _, ok := errors.AsType[codingError](err); ok {
			e.Class = provider.InvalidResponse
		}
		return e
	}
	if errors.Is(cause, errCut) {
		return &provider.Error{Class: provider.Canceled, Message: "cancelled: the run was stopped"}
	}
	return provider.FromTransport(cause)
}

// url joins the lane's base URL and a path, once for each path.
func (l *lane) url(path string) (*url.URL, error) {
	if u, ok := l.urls.Load(path); ok {
		return u.(*url.URL), nil
	}
	u, err := url.Parse(provider.JoinURL(l.target.Base, path))
	if err != nil {
		return nil, err
	}
	l.urls.Store(path, u)
	return u, nil
}
