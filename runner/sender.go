package runner

import (
	"bytes"
	"context"
	"io"
	"maps"
	"net/http"
	"net/http/httptrace"
	"strconv"
)

// sender is what one goroutine sends its requests with, one after another.
type sender struct {
	leash
	owes     bool // it has a free permit to use; see relay
	exchange exchange
	body     []byte // the last answer's, to be used again; see Config.Fleeting
	kit      *kit   // nil until it is needed, or where net/http may still hold it
}

// keptBody is the longest body whose place is kept.
const keptBody = 64 << 10

// kit is a request and what goes with it. It is used again for the next request
// of the same lane once the answer's body is closed and all of the request is
// written.
type kit struct {
	base context.Context
	lane *lane
	req  *http.Request
	path string // of req.URL
	body bytes.Reader
	key  [1]string // idempotency key
	wire wire
}

// blank is what all requests have in common. It is never changed.
var blank = http.Request{Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}

func newKit(ctx context.Context, l *lane, idempotencyHeader string) *kit {
	k := &kit{base: ctx, lane: l}
	if l.conns == nil {
		k.req = blank.WithContext(httptrace.WithClientTrace(ctx, k.wire.trace()))
	} else { // the leash ends it
		k.req = blank.WithContext(context.Background())
	}
	k.req.Header = l.header
	// Of another type, the transport would send the headers in a packet of their own.
	k.req.Body = io.NopCloser(&k.body)
	if idempotencyHeader != "" {
		k.req.Header = make(http.Header, len(l.header)+1)
		maps.Copy(k.req.Header, l.header)
		k.req.Header[http.CanonicalHeaderKey(idempotencyHeader)] = k.key[:]
	}
	return k
}

// pack prepares the request for a task. GetBody stays nil and the idempotency
// header can't cause a replay by the transport.
func (s *sender) pack(ctx context.Context, t *task, body []byte, c *Config) (*kit, error) {
	k := s.kit
	s.kit = nil
	if k == nil || k.lane != t.lane || k.base != ctx && t.lane.conns == nil {
		k = newKit(ctx, t.lane, c.IdempotencyHeader)
	}
	if k.req.URL == nil || k.path != t.call.Path {
		u, err := t.lane.url(t.call.Path)
		if err != nil {
			return nil, err
		}
		k.path, k.req.URL, k.req.Host = t.call.Path, u, u.Host
	}
	k.req.Method = t.call.Method
	k.key[0] = t.key
	if t.part > 0 { // the rest of an answer is another request
		k.key[0] += "-" + strconv.Itoa(t.part)
	}
	k.body.Reset(body)
	k.req.ContentLength = int64(len(body))
	return k, nil
}

// unpack takes the kit back after an answer whose body is closed.
func (s *sender) unpack(k *kit) {
	if k.wire.done() {
		k.wire.reset()
		s.kit = k
	}
}
