package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A signal is what could be read out of an answer that is no reply.
type signal struct {
	status  int
	header  http.Header
	at      time.Time
	request []byte

	typ, code string   // as the row shows them
	words     []string // codes and types, lower case
	inner     []string // those found in JSON inside a message: they may be the user's
	numbers   []int    // codes that are numbers
	texts     []string // messages, cleaned
	plain     bool     // the body is not JSON
	cut       bool     // a 2xx whose JSON ends early, or that is empty
	id        string   // a request id in the body
	regain    string   // when the cap ends, as a member of its own
	wait      time.Duration

	lowered string  // texts in lower case, "" until it is asked for
	own     *string // the request in lower case, nil until it is asked for
}

const (
	deepest     = 6       // levels of objects and of JSON inside messages
	mostMembers = 64      // of an array or of the lists here
	mostParsed  = 4 << 20 // bytes of an error body that are read as JSON
)

// readError reads a body that is an error whatever its shape is.
func (s *signal) readError(body []byte) {
	body = payload(body)
	v, err := decode(body[:min(len(body), mostParsed)])
	if err != nil {
		s.plain = true
		s.addText(plainText(body))
		return
	}
	if text, ok := v.(string); ok {
		s.addMessage(text, 0)
		return
	}
	s.collect(v, 0, false)
}

// readReply looks for an error in a 2xx. Only what is an error's is read: the
// rest is model output, which says nothing about the run.
func (s *signal) readReply(body []byte) bool {
	if len(bytes.TrimSpace(body)) == 0 {
		s.cut = true
		return false
	}
	v, err := decodeWhole(payload(body))
	if err != nil {
		s.cut = errors.Is(err, io.ErrUnexpectedEOF)
		s.plain = !s.cut
		return false
	}
	if list, ok := v.([]any); ok && len(list) > 0 {
		v = list[0] // Gemini's compatible endpoint
	}
	top, _ := v.(map[string]any)
	if top == nil {
		return false
	}
	if top["object"] == "error" || top["type"] == "error" {
		s.collect(top, 0, false)
		return true
	}
	found := []any{top["error"]}
	if r, ok := top["response"].(map[string]any); ok {
		found = append(found, r["error"])
	}
	choices, _ := top["choices"].([]any)
	for _, c := range choices[:min(len(choices), mostMembers)] {
		if c, ok := c.(map[string]any); ok {
			found = append(found, c["error"])
		}
	}
	for _, f := range found {
		if isError(f) {
			s.id, _ = top["request_id"].(string)
			s.collect(map[string]any{"error": f}, 0, false)
			return true
		}
	}
	if top["status"] == "failed" { // a Responses body that does not say why
		s.addMessage("the response's status is failed", 0)
		return true
	}
	return false
}

// isError: some servers send "error": null with every answer.
func isError(v any) bool {
	switch v := v.(type) {
	case string:
		return v != ""
	case map[string]any:
		return len(v) > 0
	case []any:
		return len(v) > 0
	}
	return false
}

// payload takes off a byte order mark and, where a stream was answered, all but
// the data of its first event.
func payload(body []byte) []byte {
	body = bytes.TrimPrefix(body, []byte("\ufeff"))
	if b := bytes.TrimSpace(head(body)); !bytes.HasPrefix(b, []byte("data:")) && !bytes.HasPrefix(b, []byte("event:")) {
		return body
	}
	for line := range bytes.Lines(body) {
		if data, ok := bytes.CutPrefix(bytes.TrimSpace(line), []byte("data:")); ok {
			return data
		}
	}
	return body
}

// decode reads the first JSON value of b, which has to be an object, an array or
// a string: anything else is text that happens to begin like JSON.
func decode(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	switch v.(type) {
	case map[string]any, []any, string:
		return v, nil
	}
	return nil, errors.New("a bare value")
}

// decodeWhole reads b as one JSON value.
func decodeWhole(b []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if len(b) > mostParsed { // no error is that long: no tree of it
		if json.Valid(b) {
			return nil, nil
		}
		return nil, io.ErrUnexpectedEOF
	}
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("more than one value")
	}
	return v, nil
}

// collect takes an error apart by the names of its members, since every vendor
// nests them differently. inner says that v was found in a message.
func (s *signal) collect(v any, depth int, inner bool) {
	if depth > deepest {
		return
	}
	switch v := v.(type) {
	case []any:
		for _, e := range v[:min(len(v), mostMembers)] {
			if text, ok := e.(string); ok {
				s.addMessage(text, depth)
			} else {
				s.collect(e, depth+1, inner)
			}
		}
	case map[string]any:
		s.collectCodes(v, inner)
		s.collectWaits(v, inner)
		for _, name := range messageNames {
			if text, ok := v[name].(string); ok {
				s.addMessage(text, depth)
			}
		}
		for _, name := range containerNames {
			switch v[name].(type) {
			case map[string]any, []any:
				s.collect(v[name], depth+1, inner)
			}
		}
	}
}

// Where errors keep what, over all vendors. An element named input, param or ctx
// quotes the user and is not among them.
var (
	messageNames   = []string{"message", "msg", "title", "detail", "error", "error_description", "raw"}
	containerNames = []string{"error", "errors", "details", "detail", "message", "metadata", "availability", "innererror",
		"inner_error", "violations", "response"}
	codeNames = []string{"error_code", "code", "error_type", "type", "status", "status_code", "reason", "limit_source"}
	typeNames = []string{"type", "error_type", "status"}
)

// collectCodes takes the members that say what kind of error it is. What the row
// shows as type and code is the outermost one, but for an error_code: that is the
// more exact word of Anthropic's details.
func (s *signal) collectCodes(v map[string]any, inner bool) {
	for _, name := range codeNames {
		word := text(v[name])
		if word == "" || word == "None" || name == "type" && word == "error" {
			continue
		}
		number, err := strconv.Atoi(word)
		switch {
		case name == "error_code" && !inner, name == "code" && s.code == "":
			s.code = word
		case slices.Contains(typeNames, name) && s.typ == "" && err != nil:
			s.typ = word
		}
		s.addWord(strings.ToLower(word), inner)
		if err == nil && !inner && len(s.numbers) < mostMembers {
			s.numbers = append(s.numbers, number)
		}
	}
	for _, name := range [...]string{"request_id", "instance"} {
		if id := text(v[name]); s.id == "" {
			s.id = id
		}
	}
	if strings.Contains(strings.ToLower(text(v["quotaId"])), "perday") {
		s.addWord("quota_per_day", inner)
	}
	if at := text(v["resets_at"]); s.regain == "" {
		s.regain = clip(clean(at), 60)
	}
}

func (s *signal) addWord(word string, inner bool) {
	list := &s.words
	if inner {
		list = &s.inner
	}
	if len(*list) < mostMembers && len(word) <= 200 {
		*list = append(*list, word)
	}
}

// addMessage takes a message and what is wrapped up in it as JSON: gateways put
// the body that they got into a string of their own.
func (s *signal) addMessage(m string, depth int) {
	m = m[:min(len(m), longestText)]
	wrapped, at := unwrap(m)
	if wrapped == nil || depth >= deepest {
		s.addText(m)
		return
	}
	before := len(s.texts)
	if strings.TrimSpace(m[:at]) != "" {
		s.addText(m)
	}
	s.collect(wrapped, depth+1, true)
	if len(s.texts) == before { // nothing that says it better
		s.addText(m)
	}
}

// unwrap finds an object in a text, and where it begins; nil if there is none.
func unwrap(m string) (v any, at int) {
	for range 4 { // a brace may come before it
		i := strings.IndexByte(m[at:], '{')
		if i < 0 {
			return nil, 0
		}
		at += i
		if v, err := decode([]byte(m[at:])); err == nil {
			return v, at
		}
		at++
	}
	return nil, 0
}

func (s *signal) addText(m string) {
	m = clean(m)
	if m == "" || len(s.texts) >= mostMembers {
		return
	}
	for _, t := range s.texts {
		if t == m {
			return
		}
	}
	s.texts = append(s.texts, m)
	s.lowered = ""
	low := strings.ToLower(m)
	if tooLargeForLimit(low) && !s.quotes("request too large") {
		s.addWord("request_too_large_for_limit", false)
	}
	if strings.Contains(low, "limit: 0") && quotaOfZero().MatchString(low) && !s.quotes("limit: 0") {
		s.addWord("quota_of_zero", false)
	}
}

// text is a string or a number as text, "" for anything else.
func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case json.Number:
		return v.String()
	}
	return ""
}
