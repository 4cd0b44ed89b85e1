package provider

import (
	"bytes"
	"encoding/json"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// has says whether one of the answer's codes is word, however it is written:
// rate_limit_exceeded, RateLimitExceeded, RATE-LIMIT-EXCEEDED. One out of JSON inside a
// message counts only if the request does not hold it: servers quote the user.
func (s *signal) has(word string) bool {
	prefix, open := strings.CutSuffix(word, "*")
	same := squash(word)
	match := func(w string) bool { return open && strings.HasPrefix(w, prefix) || !open && squash(w) == same }
	if slices.ContainsFunc(s.words, match) {
		return true
	}
	return slices.ContainsFunc(s.inner, func(w string) bool { return match(w) && !s.quotes(w) })
}

// squash drops what differs between ways to write a name.
func squash(name string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '_', '-', '.', ' ':
			return -1
		}
		return unicode.ToLower(r)
	}, name)
}

// says looks for a phrase in the messages.
func (s *signal) says(phrase string) bool {
	return strings.Contains(s.text(), phrase) && !s.quotes(phrase)
}

// text is all messages in lower case, in their own words.
func (s *signal) text() string { return s.said.String() }

// quotes says whether a phrase stands in the item's own request, so that a
// message with it may be an echo.
func (s *signal) quotes(phrase string) bool {
	if len(s.request) == 0 {
		return false
	}
	if s.own == nil {
		own := string(bytes.ToLower(s.request))
		if strings.Contains(own, `\u`) {
			own = unescape(own)
		}
		s.own = &own
	}
	return strings.Contains(*s.own, phrase)
}

// unescape resolves the JSON escapes of characters: some encoders write all but ASCII
// in that way. Text is in lower case, and so is the result.
func unescape(v string) string {
	var b strings.Builder
	b.Grow(len(v))
	for {
		i := strings.Index(v, `\u`)
		if i < 0 || i+6 > len(v) {
			b.WriteString(v)
			return strings.ToLower(b.String())
		}
		b.WriteString(v[:i])
		if n, err := strconv.ParseUint(v[i+2:i+6], 16, 16); err == nil && !utf16.IsSurrogate(rune(n)) {
			b.WriteRune(rune(n))
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
