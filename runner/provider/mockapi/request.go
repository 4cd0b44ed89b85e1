package mockapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// api is one of the endpoints that the server speaks.
type api uint8

const (
	unknownOpenAI api = iota
	unknownAnthropic
	messages
	chat
	responses
	embeddings
	completions
	moderations
)

// anthropic reports whether the API's errors have Anthropic's shape.
func (a api) anthropic() bool { return a == messages || a == unknownAnthropic }

// apiOf maps a path without its scenario to the API; /v1 may be missing, as base URLs differ in that.
func apiOf(path string, h http.Header) api {
	switch strings.TrimPrefix(path, "/v1") {
	case "/messages":
		return messages
	case "/chat/completions":
		return chat
	case "/responses":
		return responses
	case "/embeddings":
		return embeddings
	case "/completions":
		return completions
	case "/moderations":
		return moderations
	}
	if h.Get("Anthropic-Version") != "" || strings.Contains(path, "messages") {
		return unknownAnthropic
	}
	return unknownOpenAI
}

// needs names the members without which the API refuses a body.
func (a api) needs() []string {
	switch a {
	case messages, chat:
		return []string{"model", "messages"}
	case responses, embeddings:
		return []string{"model", "input"}
	case completions:
		return []string{"model", "prompt"}
	}
	return []string{"input"}
}

// request is what the server understood of a body.
type request struct {
	model         string
	stream        bool
	includeUsage  bool
	maxTokens     int
	prompt        string
	inputs        int
	size          int
	hash          uint64
	attempt       int
	missingMember string
}

// check reads the request and reports whether it is one that the API takes; otherwise it returns the refusal.
func (s *Server) check(c *call) (fault, bool) {
	body, tooLong, err := readBody(c.r)
	if err != nil {
		return invalid(400, "the request's body could not be read"), false
	}
	c.p, err = c.script.params.under(s.config.Params).with(c.r.URL.RawQuery)
	switch {
	case err != nil:
		return invalid(400, err.Error()), false
	case c.api == unknownAnthropic || c.api == unknownOpenAI:
		return faultNotFound(c.r), false
	case c.r.Method != http.MethodPost:
		c.w.Header().Set("Allow", http.MethodPost)
		return invalid(405, "method "+c.r.Method+" is not allowed here, use POST"), false
	case tooLong:
		return fault413, false
	case !authorized(c.p.Auth, c.r.Header):
		return fault401, false
	}
	c.req, err = parse(body, c.api, c.p.Echo)
	c.entry.Body, c.entry.Bytes = fmt.Sprintf("%016x", c.req.hash), len(body)
	c.entry.Model, c.entry.Prompt = c.req.model, prefix(c.req.prompt, 80)
	switch {
	case err != nil:
		return invalid(400, "the request's body is not valid JSON: "+err.Error()), false
	case c.req.missingMember != "":
		return invalid(400, c.req.missingMember+": Field required"), false
	}
	return fault{}, true
}

// readBody reads the body to its end, also where it keeps none of it because it is too long: a client that is still
// sending might never see the answer.
func readBody(r *http.Request) (body []byte, tooLong bool, err error) {
	var b bytes.Buffer
	if n := r.ContentLength; n > 0 {
		b.Grow(int(min(n, maxBody)) + bytes.MinRead)
	}
	n, err := b.ReadFrom(io.LimitReader(r.Body, maxBody+1))
	if err != nil || n <= maxBody {
		return b.Bytes(), false, err
	}
	_, err = io.Copy(io.Discard, r.Body)
	return nil, true, err
}

// authorized reports whether one of the usual headers carries the key. An empty key lets everybody in.
func authorized(key string, h http.Header) bool {
	bearer, _ := strings.CutPrefix(h.Get("Authorization"), "Bearer ")
	return key == "" || slices.Contains([]string{bearer, h.Get("X-Api-Key"), h.Get("Api-Key"), h.Get("X-Goog-Api-Key")}, key)
}

// parse walks the body's top level. The hash is that of the bytes as they came.
func parse(body []byte, a api, whole bool) (request, error) {
	sum := sha256.Sum256(body)
	q := request{hash: binary.BigEndian.Uint64(sum[:8]), size: len(body), inputs: 1}
	d := jsontext.NewDecoder(bytes.NewBuffer(body), jsontext.AllowDuplicateNames(true))
	if t, err := d.ReadToken(); err != nil {
		return q, err
	} else if t.Kind() != '{' {
		return q, errors.New("it must be an object")
	}
	missing := a.needs()
	for d.PeekKind() != '}' {
		t, err := d.ReadToken()
		if err != nil {
			return q, err
		}
		name := t.String()
		v, err := d.ReadValue()
		if err != nil {
			return q, err
		}
		if v.Kind() != 'n' {
			missing = slices.DeleteFunc(missing, func(m string) bool { return m == name })
		}
		q.member(name, v, whole)
	}
	if _, err := d.ReadToken(); err != nil {
		return q, err
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return q, errors.New("something follows the object")
	}
	if len(missing) > 0 {
		q.missingMember = missing[0]
	}
	return q, nil
}

// member takes over what the server wants of one member. v is valid only until the decoder moves on.
func (q *request) member(name string, v jsontext.Value, whole bool) {
	switch name {
	case "model":
		q.model = text(v, 1)
	case "stream":
		q.stream = v.Kind() == 't'
	case "stream_options":
		_ = object(v, func(name string, v jsontext.Value) { q.includeUsage = name == "include_usage" && v.Kind() == 't' })
	case "max_tokens", "max_completion_tokens", "max_output_tokens":
		q.maxTokens = number(v)
	case "messages", "input", "prompt":
		q.prompt = text(v, 5)
		if !whole {
			q.prompt = prefix(q.prompt, 80)
		}
		q.inputs = count(v)
	}
}
