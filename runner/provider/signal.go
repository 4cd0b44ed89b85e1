package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
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

	said    strings.Builder // what the messages say in their own words, in lower case
	quoting bool            // a message quotes what the model wrote
	own     *string         // the request in lower case, nil until it is asked for
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

// readHeader takes the error's name where AWS puts it:
// "ThrottlingException:http://internal…".
func (s *signal) readHeader() {
	if kind := first(s.header, "X-Amzn-Errortype"); kind != "" {
		s.typ = bare(kind)
		s.addWord(strings.ToLower(s.typ), false)
	}
}

// bare is an exception's name without its name space in front and its link behind.
func bare(name string) string {
	if !strings.Contains(name, "Exception") {
		return name
	}
	if i := strings.LastIndexByte(name, '#'); i >= 0 {
		name = name[i+1:]
	}
	name, _, _ = strings.Cut(name, ":")
	return strings.TrimSpace(name)
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
	if found := errorIn(top); found != nil {
		s.id, _ = top["request_id"].(string)
		s.collect(found, 0, false)
		return true
	}
	if top["status"] == "failed" { // a Responses body that does not say why
		s.addMessage("the response's status is failed", 0)
		return true
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
		m := squashed(v)
		s.collectCodes(m, inner)
		s.collectWaits(m, inner)
		for _, name := range messageNames {
			if text, ok := m[name].(string); ok {
				s.addMessage(text, depth)
			}
		}
		for _, name := range containerNames {
			switch m[name].(type) {
			case map[string]any, []any:
				s.collect(m[name], depth+1, inner)
			}
		}
	}
}

// squashed is an object by its members' squashed names: error_code, errorCode.
func squashed(v map[string]any) map[string]any {
	m := make(map[string]any, len(v))
	for _, name := range slices.Sorted(maps.Keys(v)) {
		if short := squash(name); m[short] == nil {
			m[short] = v[name]
		}
	}
	return m
}

// Where errors keep what, over all vendors, as squash writes it. An element named
// input, param or ctx quotes the user and is not among them.
var (
	messageNames = []string{"message", "msg", "title", "detail", "error", "errors", "errordescription", "raw",
		"statusmsg", "errormsg", "errmsg", "errormessage", "description", "faultstring"}
	containerNames = []string{"error", "errors", "details", "detail", "message", "metadata", "availability", "innererror",
		"violations", "response", "baseresp", "header", "fault", "status"}
	codeNames = []string{"errorcode", "code", "errortype", "type", "status", "statuscode", "reason", "limitsource", "errcode", "errno"}
	typeNames = []string{"type", "errortype", "status"}
)

// collectCodes takes the members that say what kind of error it is. What the row
// shows as type and code is the outermost one, but for an error_code: that is the
// more exact word of Anthropic's details.
func (s *signal) collectCodes(m map[string]any, inner bool) {
	for _, name := range codeNames {
		word := text(m[name])
		if word == "" || word == "None" || name == "type" && word == "error" {
			continue
		}
		number, err := strconv.Atoi(word)
		switch {
		case name == "errorcode" && !inner, s.code == "" && (name == "code" || name == "statuscode" || name == "errcode" || name == "errno"):
			s.code = word
		case slices.Contains(typeNames, name) && s.typ == "" && err != nil:
			s.typ = bare(word)
		}
		s.addWord(strings.ToLower(bare(word)), inner)
		if err == nil && !inner && len(s.numbers) < mostMembers {
			s.numbers = append(s.numbers, number)
		}
	}
	if vendor := vendorOf(m); vendor != "" && !inner { // 1008 says nothing without its vendor
		s.addWord(vendor+s.code, false)
	}
	for _, name := range [...]string{"requestid", "instance"} {
		if id := text(m[name]); s.id == "" {
			s.id = id
		}
	}
	if strings.Contains(strings.ToLower(text(m["quotaid"])), "perday") {
		s.addWord("quota_per_day", inner)
	}
	if at := text(m["resetsat"]); s.regain == "" {
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
	if about := aboutOutput(strings.ToLower(m)); about || !errorShaped(wrapped) { // the model's words, or the user's
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
	low, quoting := ownWords(strings.ToLower(m))
	s.quoting = s.quoting || quoting
	if s.said.Len() > 0 {
		s.said.WriteByte('\n')
	}
	s.said.WriteString(low)
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
