package runner

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"llmbatch/pacing"
	"llmbatch/retry"
	"llmbatch/runner/provider"
)

// Bounds of what is read of an answer, decompressed.
const (
	mostError = 1 << 20
	mostDrain = 256 << 10
	// longestField is the most of a header's value that is kept.
	longestField = 200
)

// wire makes requests and reads answers.
type wire struct {
	transport         http.RoundTripper
	scrub             *provider.Scrubber
	idempotencyHeader string // canonical; "" sends none
	maxAnswer         int64
	left              atomic.Int64  // of the memory for answers larger than most, all together
	first, idle       time.Duration // of streams: to the first token, and silence after it; 0: no bound
	keepCut           bool          // what arrived of a cut stream is kept to be continued
	connected         func() func() // called when a request has its connection; what it returns, at the request's end
}

func newWire(c *Config) *wire {
	w := &wire{
		transport: c.Transport, scrub: c.Scrub, idempotencyHeader: http.CanonicalHeaderKey(c.IdempotencyHeader),
		maxAnswer: c.MaxAnswer, first: c.FirstTokenTimeout, idle: c.IdleTimeout, keepCut: c.OnCut == "continue",
	}
	w.left.Store(c.MaxAnswer)
	if w.transport == nil {
		w.transport = NewTransport(c.Pacing.Max, c.ConnectTimeout)
	}
	return w
}

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

	header http.Header
	quiet  *alarm // rings when a stream is silent for too long; nil: it is not watched yet
}

// send makes one attempt and reads all of its answer. It never returns an
// exchange that is neither an answer nor an error. cut ends ctx, which is done at
// the attempt's deadline.
func (w *wire) send(ctx context.Context, cut context.CancelCauseFunc, i *item, body []byte) *exchange {
	x := &exchange{started: time.Now()}
	if w.first > 0 && (i.call.Stream || i.r.c.Stream) {
		x.quiet = newAlarm(w.first, cut, errFirstToken)
		defer x.quiet.stop()
	}
	way := &passage{connected: w.connected}
	defer way.end()
	req, err := w.request(httptrace.WithClientTrace(ctx, way.trace()), i, body)
	if err != nil {
		x.err, x.unsent = provider.FromTransport(err), true
		return x
	}
	resp, err := w.transport.RoundTrip(req)
	if err == nil {
		w.read(ctx, cut, x, i, resp)
	} else {
		x.err = transportError(ctx, err)
		x.unsent = way.unsent(x.err.Class)
		x.stale = x.err.Class == provider.ConnectionError && (x.unsent && way.got && way.reused || goingAway(err))
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
	x.clean(w.scrub)
	return x
}

// request is an item's next request. Its GetBody stays nil, so that neither a
// redirect nor the idempotency header makes the transport send it twice.
func (w *wire) request(ctx context.Context, i *item, body []byte) (*http.Request, error) {
	u, err := i.lane.url(provider.PathOf(i.call, i.r.c.Stream))
	if err != nil {
		return nil, err
	}
	h := i.lane.header
	if i.header != nil {
		h = i.header
	}
	if w.idempotencyHeader != "" {
		key := i.key
		if i.part > 0 { // the rest of an answer is another request
			key += "-" + strconv.Itoa(i.part)
		}
		h = maps.Clone(h)
		h[w.idempotencyHeader] = []string{key}
	}
	req := &http.Request{
		Method: i.call.Method, URL: u, Host: u.Host, Header: h, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		// Of another type, the transport would send the headers in a packet of their own.
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
	if sign := i.lane.target.Sign; sign != nil {
		req.Header = maps.Clone(h)
		if err := sign(req, body); err != nil {
			return nil, err
		}
	}
	return req.WithContext(ctx), nil
}

// clean takes control characters and secrets out of what goes into logs and rows:
// control characters first, because a secret may be split by one. An answer's text
// and body are left to its row.
func (x *exchange) clean(s *provider.Scrubber) {
	for _, v := range []*string{&x.request, &x.raw, &x.reply.StopReason, &x.reply.Model} {
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
func (w *wire) read(ctx context.Context, cut context.CancelCauseFunc, x *exchange, i *item, resp *http.Response) {
	whole, coded := false, false
	defer func() {
		if whole && coded { // a drained body lets the connection be used again
			_, _ = io.CopyN(io.Discard, resp.Body, mostDrain)
		}
		_ = resp.Body.Close()
	}()
	now, h := time.Now(), resp.Header
	x.status, x.header = resp.StatusCode, h
	x.headers(h, now)
	if x.status == http.StatusSwitchingProtocols { // what follows is not HTTP and may never end
		x.err = &provider.Error{Class: provider.InvalidResponse, Status: x.status, Message: "the server switched to another protocol, which was not asked for"}
		return
	}
	body, err := decoded(resp)
	coded = body != resp.Body
	within := &bounded{r: body, left: &w.left}
	defer within.release()
	body = within
	s, streams := i.lane.target.Provider.(provider.Streamer)
	streams = streams && resp.StatusCode/100 == 2
	if err == nil && streams && eventStream(h) {
		whole = w.stream(ctx, cut, x, i, s, body)
		return
	}
	var data []byte
	switch {
	case err != nil:
	case resp.StatusCode/100 == 2 && resp.ContentLength > w.maxAnswer:
		err = provider.ErrBodyTooLarge // not worth the reading
	default:
		data, err = readAll(body, resp.ContentLength, w.most(resp.StatusCode))
	}
	whole = err == nil
	if err != nil && !x.known(ctx, err) {
		x.err = transportError(ctx, err)
		x.err.Status = resp.StatusCode
		return
	}
	if streams && looksLikeEvents(data) { // some proxies lose the type
		w.stream(ctx, cut, x, i, s, bytes.NewReader(data))
		return
	}
	x.decode(i, data, now)
}

func (x *exchange) decode(i *item, body []byte, at time.Time) {
	x.reply, x.err = i.lane.target.Provider.Decode(i.call, provider.Answer{Status: x.status, Header: x.header, Body: body, At: at})
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
func (w *wire) most(status int) int64 {
	if status/100 != 2 {
		return min(mostError, w.maxAnswer)
	}
	return w.maxAnswer
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
func transportError(ctx context.Context, err error) *provider.Error {
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
