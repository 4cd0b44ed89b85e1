// Package providertest is the contract that every provider keeps, as a suite of
// tests over the tables of an adapter.
//
// A body that the user wrote keeps its unknown members, their order and its
// numbers' digits. A key stands in one header and nowhere else. Only an answer
// with its evidence is kept, and nothing that a server sends makes an adapter
// panic. A streamed answer reads as the whole one would have, wherever the
// network splits it, and is none wherever it is cut.
package providertest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"llmbatch/input"
	"llmbatch/runner/provider"
)

// Suite is the tables of one adapter.
type Suite struct {
	Requests []Request
	Answers  []Answer
	Streams  []Stream
	Rests    []Rest
	// KeyHeader and TokenHeader carry a key and an auth token by default.
	KeyHeader, TokenHeader string
}

// Request is an item and the call that it becomes.
type Request struct {
	Name     string
	Item     input.Item
	Defaults provider.Defaults
	// Want has the call's API, Path, Model, MaxTokens, Stream and Plain, and what was
	// filled if that is to be checked.
	Want provider.Call
	// Body is the call's body, byte for byte.
	Body string
	// Err is what the error names, where the item can't become a call.
	Err string
}

// Answer is a 2xx answer and what it means.
type Answer struct {
	Name string
	Call provider.Call
	Body string
	// Reply is what it reads as; its Response is taken to be Body where that is "".
	Reply provider.Reply
	// Class is the error's, "" for an answer to keep; Scope is the error's scope.
	Class provider.Class
	Scope provider.Scope
}

// Run runs the suite. fresh returns the provider; its zero value has no state.
func Run(t *testing.T, fresh func() provider.Provider, s Suite) {
	t.Run("encode", func(t *testing.T) {
		for _, r := range s.Requests {
			t.Run(r.Name, func(t *testing.T) { encode(t, fresh(), r) })
		}
	})
	t.Run("sign", func(t *testing.T) { sign(t, fresh(), s) })
	t.Run("decode", func(t *testing.T) {
		for _, a := range s.Answers {
			t.Run(a.Name, func(t *testing.T) { decode(t, fresh(), a) })
		}
	})
	t.Run("garbage", func(t *testing.T) {
		for _, a := range s.Answers {
			garbage(t, fresh(), a)
		}
	})
	t.Run("stream", func(t *testing.T) {
		for _, st := range s.Streams {
			t.Run(st.Name, func(t *testing.T) { stream(t, fresh(), st) })
		}
	})
	t.Run("rest", func(t *testing.T) {
		for _, r := range s.Rests {
			t.Run(r.Name, func(t *testing.T) { rest(t, fresh(), r) })
		}
	})
}

func encode(t *testing.T, p provider.Provider, r Request) {
	item := r.Item
	item.Body, item.Params = bytes.Clone(item.Body), bytes.Clone(item.Params)
	c, err := p.Encode(&item, r.Defaults)
	if r.Err != "" {
		checkLineError(t, c, err, r.Err)
		return
	}
	if err != nil {
		t.Fatalf("got error %v, want a call", err)
	}
	if string(c.Body) != r.Body {
		t.Errorf("got body\n%s, want\n%s", c.Body, r.Body)
	}
	if !jsontext.Value(c.Body).IsValid(jsontext.AllowDuplicateNames(true)) {
		t.Errorf("got a body that is not valid JSON: %s", c.Body)
	}
	got := *c
	got.Body = nil
	want := r.Want
	if want.Filled == 0 { // most rows say by the body what was filled
		got.Filled = 0
	}
	want.Method, want.Provider = http.MethodPost, r.Defaults.Name
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if !reflect.DeepEqual(item, r.Item) {
		t.Errorf("the item was changed: got %+v, want %+v", item, r.Item)
	}
	again, err := p.Encode(&item, r.Defaults)
	if err != nil || !bytes.Equal(again.Body, c.Body) {
		t.Errorf("got %s the second time (%v), want the same body", again.Body, err)
	}
}

func checkLineError(t *testing.T, c *provider.Call, err error, want string) {
	t.Helper()
	e, ok := err.(*input.LineError)
	if !ok || c != nil {
		t.Fatalf("got call %v, error %v, want a *input.LineError and no call", c, err)
	}
	if e.Msg == "" || e.Hint == "" {
		t.Errorf("got message %q and hint %q, want both", e.Msg, e.Hint)
	}
	if !strings.Contains(e.Msg+" "+e.Hint, want) {
		t.Errorf("got %q, hint %q, want them to name %s", e.Msg, e.Hint, want)
	}
}

func sign(t *testing.T, p provider.Provider, s Suite) {
	const key = "sk-test-key"
	tests := []struct {
		name        string
		credentials provider.Credentials
		header      string // the only one with the key, "" for none
		value       string
	}{
		{"no key", provider.Credentials{Bearer: true, Header: "api-key"}, "", ""},
		{"key", provider.Credentials{Key: key}, s.KeyHeader, ""},
		{"token", provider.Credentials{Key: key, Bearer: true}, s.TokenHeader, "Bearer " + key},
		{"api-key", provider.Credentials{Key: key, Header: "api-key"}, "Api-Key", key},
		{"x-goog-api-key", provider.Credentials{Key: key, Header: "x-goog-api-key", Bearer: true}, "X-Goog-Api-Key", key},
		{"authorization", provider.Credentials{Key: key, Header: "authorization"}, "Authorization", "Bearer " + key},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := http.Header{}
			p.Sign(h, tt.credentials)
			seen := 0
			for name, values := range h {
				if strings.Contains(strings.Join(values, " "), key) {
					seen++
					if name != tt.header || len(values) != 1 || tt.value != "" && values[0] != tt.value {
						t.Errorf("got %s: %q, want the key in %s only", name, values, tt.header)
					}
				}
				if len(values) != 1 || values[0] == "" {
					t.Errorf("got %s: %q, want one value", name, values)
				}
			}
			if seen != min(1, len(tt.header)) {
				t.Errorf("got the key in %d headers of %v, want it in %q", seen, h, tt.header)
			}
			if _, ok := h["Authorization"]; ok && tt.header != "Authorization" {
				t.Errorf("got an Authorization header, want only %q", tt.header)
			}
		})
	}
}

func decode(t *testing.T, p provider.Provider, a Answer) {
	h := http.Header{"Request-Id": {"req_1"}}
	got, err := p.Decode(&a.Call, provider.Answer{Status: 200, Header: h, Body: []byte(a.Body)})
	if a.Class != "" {
		checkError(t, err, a)
		return
	}
	if err != nil {
		t.Fatalf("got %+v, want an answer", err)
	}
	want := a.Reply
	want.RequestID = "req_1"
	if want.Response == nil {
		want.Response = json.RawMessage(a.Body)
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, response %s\nwant %+v, response %s", got, got.Response, want, want.Response)
	}
	// The same answer, printed in many lines after a keep-alive's blank ones.
	v := jsontext.Value(bytes.Clone(got.Response))
	if err := v.Indent(); err != nil {
		t.Fatal(err)
	}
	for _, before := range []string{"", "\n\n\r\n \n", "\xef\xbb\xbf"} {
		again, err := p.Decode(&a.Call, provider.Answer{Status: 201, Header: h, Body: []byte(before + string(v) + "\n")})
		if err != nil || !reflect.DeepEqual(again, got) {
			t.Errorf("after %q, got %+v, %+v, want %+v", before, again, err, got)
		}
	}
}

func checkError(t *testing.T, err *provider.Error, a Answer) {
	t.Helper()
	if err == nil {
		t.Fatalf("got an answer, want %s", a.Class)
	}
	if err.Class != a.Class || err.Scope != a.Scope {
		t.Errorf("got class %s, scope %d (%+v), want %s, %d", err.Class, err.Scope, err, a.Class, a.Scope)
	}
	if err.Message == "" {
		t.Errorf("got no message: %+v", err)
	}
	if err.RequestID != "req_1" {
		t.Errorf("got request id %q, want req_1", err.RequestID)
	}
}

// garbage gives the calls of the answers what is no answer.
func garbage(t *testing.T, p provider.Provider, a Answer) {
	tests := []struct {
		name, body string
		want       provider.Class
	}{
		{"empty", "", provider.InvalidResponse},
		{"blank lines", "\n\n \r\n", provider.Truncated},
		{"text", "upstream connect error", provider.InvalidResponse},
		{"html", "<!DOCTYPE html><html><body>Welcome</body></html>", provider.InvalidResponse}, // C60
		{"a string", `"OK"`, provider.InvalidResponse},
		{"null", "null", provider.InvalidResponse},
		{"cut", `{"id":"x","usage":{"input_tok`, provider.Truncated},
		{"cut in a name", `{"id":"x","usa`, provider.Truncated},
		{"two values", `{"id":"x"}{"id":"y"}`, provider.InvalidResponse},
		{"broken", `{"id":x}`, provider.InvalidResponse},
		{"too deep", strings.Repeat(`{"a":`, 100_000), provider.InvalidResponse},
	}
	for _, tt := range tests {
		r, err := p.Decode(&a.Call, provider.Answer{Status: 200, Body: []byte(tt.body)})
		if err == nil || err.Class != tt.want || err.Scope != provider.Passing {
			t.Errorf("%s, %s: got %+v, %+v, want a passing %s", a.Name, tt.name, r, err, tt.want)
		}
	}
	if a.Class != "" {
		return
	}
	// 5.6: a body that ends with its connection may be cut without an error.
	whole := strings.TrimSpace(a.Body)
	for i := range len(whole) - 1 {
		_, err := p.Decode(&a.Call, provider.Answer{Status: 200, Body: []byte(whole[:i])})
		if err == nil {
			t.Fatalf("%s cut at %d: got an answer, want an error", a.Name, i)
		}
	}
}

// CheckAnswer holds what is true of any 2xx body: what is kept is valid, compact
// JSON in UTF-8; what is not has a class. For fuzzing.
func CheckAnswer(t *testing.T, p provider.Provider, c provider.Call, data []byte) {
	t.Helper()
	kept := bytes.Clone(data)
	r, err := p.Decode(&c, provider.Answer{Status: 200, Body: data})
	if !bytes.Equal(kept, data) {
		t.Fatalf("the body was changed: got %q, want %q", data, kept)
	}
	if err != nil {
		if err.Class == "" || err.Class == provider.ClassOK {
			t.Fatalf("got an error without a class: %+v", err)
		}
		return
	}
	checkCompact(t, r.Response)
	if r.Usage.InputTokens < 0 || r.Usage.OutputTokens < 0 {
		t.Fatalf("got usage %+v, want no negative counts", r.Usage)
	}
}

// checkCompact says that a row can carry the response as it is.
func checkCompact(t *testing.T, response json.RawMessage) {
	t.Helper()
	v := jsontext.Value(bytes.Clone(response))
	if err := v.Compact(jsontext.AllowInvalidUTF8(false)); err != nil {
		t.Fatalf("got an invalid response %q: %v", response, err)
	}
	v = bytes.Clone(response)
	if err := v.Compact(); err != nil || !bytes.Equal(v, response) {
		t.Fatalf("got response %q (%v), want it compact: %q", response, err, v)
	}
}
