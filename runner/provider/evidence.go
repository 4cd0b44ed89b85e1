package provider

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// has says whether one of the answer's codes is word. One out of JSON inside a
// message counts only if the request does not hold it: servers quote the user.
func (s *signal) has(word string) bool {
	prefix, open := strings.CutSuffix(word, "*")
	match := func(w string) bool { return w == word || open && strings.HasPrefix(w, prefix) }
	for _, w := range s.words {
		if match(w) {
			return true
		}
	}
	for _, w := range s.inner {
		if match(w) && !s.quotes(w) {
			return true
		}
	}
	return false
}

// says looks for a phrase in the messages.
func (s *signal) says(phrase string) bool {
	return strings.Contains(s.text(), phrase) && !s.quotes(phrase)
}

// text is all messages in lower case.
func (s *signal) text() string {
	if s.lowered == "" && len(s.texts) > 0 {
		s.lowered = strings.ToLower(strings.Join(s.texts, "\n"))
	}
	return s.lowered
}

// quotes says whether a phrase stands in the item's own request, so that a
// message with it may be an echo.
func (s *signal) quotes(phrase string) bool {
	if len(s.request) == 0 {
		return false
	}
	if s.own == nil {
		own := string(bytes.ToLower(s.request))
		if strings.Contains(own, `\u00`) {
			own = unescape(own)
		}
		s.own = &own
	}
	return strings.Contains(*s.own, phrase)
}

// unescape resolves the JSON escapes of ASCII letters: some encoders write them.
func unescape(v string) string {
	var b strings.Builder
	b.Grow(len(v))
	for {
		i := strings.Index(v, `\u00`)
		if i < 0 || i+6 > len(v) {
			b.WriteString(v)
			return strings.ToLower(b.String())
		}
		b.WriteString(v[:i])
		if n, err := strconv.ParseUint(v[i+4:i+6], 16, 8); err == nil && n < 0x80 {
			b.WriteByte(byte(n))
		} else {
			b.WriteString(v[i : i+6])
		}
		v = v[i+6:]
	}
}

// namesModel says whether a message names the model that the request asks for.
func (s *signal) namesModel() bool {
	var body struct {
		Model string `json:"model"`
	}
	if json.Unmarshal(s.request, &body) != nil || len(body.Model) < 2 {
		return false
	}
	message, model := s.text(), strings.ToLower(body.Model)
	for {
		i := strings.Index(message, model)
		if i < 0 {
			return false
		}
		end := i + len(model)
		if (i == 0 || !wordByte(message[i-1])) && (end == len(message) || !wordByte(message[end])) {
			return true
		}
		message = message[end:]
	}
}

// hinted says whether the headers or the body ask for a wait.
func (s *signal) hinted() bool {
	return first(s.header, "Retry-After") != "" || first(s.header, "Retry-After-Ms") != "" || s.hint() > 0
}

// named is the status that the error's codes name: a number from 400 to 599 first,
// then a word. Numbers below are no errors; to take one at its word could end the
// run (a redirect) over a server's mistake.
func (s *signal) named(fallback int) int {
	for _, n := range s.numbers {
		if n >= 400 && n <= 599 {
			return n
		}
	}
	for _, w := range s.words {
		if n := statusOf(w); n != 0 {
			return n
		}
	}
	for _, w := range s.inner {
		if n := statusOf(w); n != 0 && !s.quotes(w) {
			return n
		}
	}
	return fallback
}

func (s *signal) requestID() string {
	if id := RequestID(s.header); id != "" {
		return id
	}
	return clean(s.id)
}

// message is what the row keeps.
func (s *signal) message() string {
	if len(s.texts) > 0 {
		return clip(strings.Join(s.texts, "; "), longestMessage)
	}
	what := strings.TrimSpace(strconv.Itoa(s.status) + " " + http.StatusText(s.status))
	if s.status == 529 { // not registered, so StatusText does not know it
		what = "529 Overloaded"
	}
	if s.code != "" || s.typ != "" {
		return clip(strings.TrimSpace(clean(s.typ)+" "+clean(s.code)), longestMessage)
	}
	return what + ", without a message"
}
