package provider

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// Classify says what an answer that is not a usable reply means. Its body may be
// anything: an error object of any known shape, HTML, text or nothing. request is
// the item's own body: a known phrase counts only where an error's message is
// expected, and not if it stands in the request too.
//
// A 2xx that carries an error is taken for the status that the error names, and
// for 500 if it names none; one without an error is an invalid_response, or
// truncated where it ends early. Wording, codes and their order come from the
// tables in rules.go.
func Classify(a Answer, request []byte) *Error {
	s := &signal{status: a.Status, header: a.Header, at: a.At, request: request}
	s.readHeader()
	if a.Status >= 200 && a.Status < 300 {
		if !s.readReply(a.Body) {
			return s.unusable(a.Body)
		}
		s.status = s.named(http.StatusInternalServerError)
	} else {
		s.readError(a.Body)
	}
	return s.error()
}

// ClassifyObject says what an error without a status of its own means: an event
// in a stream, a member of a choice, the error of a failed response. raw is the
// error object, or an object that has it as its member error, or a string;
// fallbackStatus is what it is taken for if it names no status, such as 500.
func ClassifyObject(raw json.RawMessage, fallbackStatus int, request []byte) *Error {
	s := &signal{request: request}
	s.readError(raw)
	s.status = s.named(fallbackStatus)
	return s.error()
}

// error is the one judge: the order in which the tables are asked.
func (s *signal) error() *Error {
	v := s.judge()
	e := &Error{
		Class: v.class, Scope: v.scope, Patient: v.patient, NoShrink: v.noShrink, DeadEndpoint: v.dead, Advice: v.advice,
		Status: s.status, Type: clip(clean(s.typ), 200), Code: clip(clean(s.code), 200),
		Message: s.message(), RequestID: clip(s.requestID(), 200),
	}
	e.Content = v.scope == ItemOnly || s.quoting
	e.Concurrent = v.scope == Passing && v.class == RateLimited && s.meets(&concurrent)
	switch {
	case v.class == SpendCap:
		e.Regain = s.regained()
	case v.scope == Passing:
		e.Hint = s.hint()
		e.NoRetry = s.shouldRetry() == "false"
	}
	return e
}

func (s *signal) judge() verdict {
	v, found := s.first(exceptions)
	if !found {
		if v, ok := s.first(money); ok {
			return v
		}
		if v, ok := s.first(never); ok {
			return v
		}
		v = s.rest()
	}
	if found && v.scope == ItemOnly {
		return v
	}
	switch s.shouldRetry() {
	case "true":
		v.scope = Passing
	case "false":
		if v.scope == Passing && s.status != 429 && s.status < 500 {
			v.scope = ItemOnly
		}
	}
	return v
}

// rest judges what is neither about money nor hopeless for its item.
func (s *signal) rest() verdict {
	if s.status >= 300 && s.status < 400 {
		s.texts = []string{redirect(s.header.Get("Location"))}
		return badPath
	}
	for _, rules := range [...][]rule{reach, passing} {
		if v, ok := s.first(rules); ok {
			return v
		}
	}
	if s.status >= 400 && s.status < 500 {
		return hopeless
	}
	return failing
}

// first finds the first rule that the answer meets.
func (s *signal) first(rules []rule) (verdict, bool) {
	for i := range rules {
		if s.meets(&rules[i]) {
			return rules[i].verdict, true
		}
	}
	return verdict{}, false
}

// meets says whether the answer shows a sign of the rule.
func (s *signal) meets(r *rule) bool {
	if len(r.statuses) > 0 && !slices.Contains(r.statuses, s.status) {
		return false
	}
	for _, u := range r.unless {
		if s.has(u) || strings.Contains(s.text(), u) {
			return false
		}
	}
	if len(r.also) > 0 && !slices.ContainsFunc(r.also, s.has) {
		return false
	}
	if r.plain && !s.plain || r.unhinted && s.hinted() || r.named && !s.namesModel() {
		return false
	}
	if r.words == nil && r.phrases == nil && r.whole == nil {
		return true
	}
	for _, w := range r.words {
		if s.has(w) {
			return true
		}
	}
	for _, p := range r.phrases {
		if s.says(p) {
			return true
		}
	}
	for _, w := range r.whole {
		if s.text() == w && !s.plain {
			return true
		}
	}
	return false
}

// shouldRetry is "true" or "false" where the server says so, "" otherwise. Every
// official SDK obeys it before the status.
func (s *signal) shouldRetry() string {
	switch v := strings.ToLower(strings.TrimSpace(s.header.Get("X-Should-Retry"))); v {
	case "true", "false":
		return v
	}
	return ""
}

// unusable is a 2xx without an error and without an answer.
func (s *signal) unusable(body []byte) *Error {
	e := &Error{Class: InvalidResponse, Status: s.status, RequestID: clip(s.requestID(), 200)}
	switch {
	case s.cut:
		e.Class = Truncated
		e.Message = "the answer's body ends before its JSON does"
	case s.plain:
		e.Message = clip("not JSON: "+plainText(body), longestMessage)
	default:
		e.Message = "no usable answer in: " + clip(clean(string(head(body))), 200)
	}
	return e
}

// redirect tells where a redirect leads, by host only: paths and queries may hold
// secrets.
func redirect(location string) string {
	u, err := url.Parse(location)
	if err != nil || u.Host == "" {
		return "the server redirects to another path"
	}
	return "the server redirects to " + u.Scheme + "://" + u.Host + " (not followed: the key would go there too)"
}
