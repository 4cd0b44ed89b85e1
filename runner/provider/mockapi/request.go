package mockapi

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
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
	gemini
	countTokens
)

// anthropic reports whether the API's errors have Anthropic's shape.
func (a api) anthropic() bool { return a == messages || a == countTokens || a == unknownAnthropic }

// apiOf maps a path without its scenario to the API.
func apiOf(path string, h http.Header) api {
	switch path {
	case "/v1/messages":
		return messages
	case "/v1/chat/completions":
		return chat
	case "/v1/responses":
		return responses
	case "/v1/embeddings":
		return embeddings
	case "/v1/completions":
		return completions
	case "/v1/moderations":
		return moderations
	}
	if path == "/v1/messages/count_tokens" {
		return countTokens
	}
	if _, _, ok := geminiPath(path); ok {
		return gemini
	}
	if h.Get("Anthropic-Version") != "" || strings.Contains(path, "messages") {
		return unknownAnthropic
	}
	return unknownOpenAI
}

// needs names the members without which the API refuses a body.
func (a api) needs() []string {
	switch a {
	case messages, chat, countTokens:
		return []string{"model", "messages"}
	case responses, embeddings:
		return []string{"model", "input"}
	case completions:
		return []string{"model", "prompt"}
	case gemini:
		return []string{"contents"}
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
	hash          uint64
	attempt       int
	missingMember string
}

// check reads the request and reports whether it is one that the API takes; otherwise it returns the refusal.
func (s *Server) check(c *call) (fault, bool) {
	body, tooLong, err := readBody(c.r, s.maxBody)
	if err != nil {
		return invalid(400, "the request's body could not be read"), false
	}
	if c.unknown != nil {
		return faultScenario(c.unknown), false
	}
	c.p, err = c.p.with(c.r.URL.RawQuery)
	switch {
	case err != nil:
		return invalid(400, err.Error()), false
	case c.api == unknownAnthropic || c.api == unknownOpenAI:
		return c.notFound(), false
	case c.r.Method != http.MethodPost:
		c.w.Header().Set("Allow", http.MethodPost)
		return invalid(405, "method "+c.r.Method+" is not allowed here, use POST"), false
	case tooLong:
		return fault413, false
	case !authorized(c.p.Auth, c.r.Header):
		return fault401, false
	}
	c.req, err = s.parse(body, c.api, c.p.Echo)
	switch c.api {
	case gemini:
		_, path := s.route(c.r)
		c.req.model, c.req.stream, _ = geminiPath(path)
	case countTokens:
		c.req.hash = 0 // it buys nothing
	}
	c.entry.Body, c.entry.Bytes = hex(c.req.hash), len(body)
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
func readBody(r *http.Request, limit int64) (body []byte, tooLong bool, err error) {
	var b bytes.Buffer
	if n := r.ContentLength; n > limit {
		limit = 0
	} else if n > 0 {
		b.Grow(int(n) + bytes.MinRead)
	}
	n, err := b.ReadFrom(io.LimitReader(r.Body, limit+1))
	if err != nil || n <= limit {
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

// parse walks the body once. The hash is that of the bytes as they came; whole keeps all of the prompt, not its beginning.
func (s *Server) parse(body []byte, a api, whole bool) (request, error) {
	sum := sha256.Sum256(body)
	q := request{hash: binary.BigEndian.Uint64(sum[:8]), inputs: 1}
	w, _ := s.walkers.Get().(*walker)
	if w == nil {
		w = &walker{}
	}
	defer s.walkers.Put(w)
	w.begin(body)
	defer w.begin(nil)
	missing := a.needs()
	err := w.object(func(name string) error {
		if w.PeekKind() == 'n' {
			return w.SkipValue()
		}
		if i := slices.Index(missing, name); i >= 0 {
			missing = slices.Concat(missing[:i], missing[i+1:])
		}
		return q.member(name, w, whole)
	})
	if err != nil {
		return q, err
	}
	if _, err := w.ReadToken(); err != io.EOF {
		return q, errors.New("something follows the object")
	}
	if len(missing) > 0 {
		q.missingMember = missing[0]
	}
	return q, nil
}

// member takes over what the server wants of one member.
func (q *request) member(name string, w *walker, whole bool) (err error) {
	switch name {
	case "model":
		var raw []byte
		raw, _, err = w.text(1)
		q.model = unquote(raw)
	case "stream":
		q.stream = w.PeekKind() == 't'
		return w.SkipValue()
	case "stream_options":
		if w.PeekKind() != '{' {
			return w.SkipValue()
		}
		return w.object(func(name string) error {
			q.includeUsage = q.includeUsage || name == "include_usage" && w.PeekKind() == 't'
			return w.SkipValue()
		})
	case "generationConfig":
		if w.PeekKind() != '{' {
			return w.SkipValue()
		}
		return w.object(func(name string) error {
			if name == "maxOutputTokens" {
				return q.member("max_output_tokens", w, whole)
			}
			return w.SkipValue()
		})
	case "max_tokens", "max_completion_tokens", "max_output_tokens":
		var v jsontext.Value
		v, err = w.ReadValue()
		n, _ := strconv.Atoi(string(v)) // what is no whole number reserves nothing
		q.maxTokens = max(n, 0)
	case "messages", "input", "prompt", "contents":
		var raw []byte
		raw, q.inputs, err = w.text(5)
		if q.prompt = unquote(raw); !whole {
			q.prompt = prefix(q.prompt, 80)
		}
	default:
		return w.SkipValue()
	}
	return err
}
