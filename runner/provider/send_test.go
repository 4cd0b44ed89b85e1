package provider

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

func TestHash(t *testing.T) {
	c := Call{Provider: "anthropic", Method: "POST", Path: "/v1/messages", Body: json.RawMessage(`{"model":"m"}`)}
	// Pinned: rows on disk hold it. printf '\x09anthropic\x04POST\x0c/v1/messages{"model":"m"}' | sha256sum
	if got, want := Hash(&c), "sha256:93f599c2d8f443c3d3e8e029b5500e3c28679b507443d6dce77a0fdec670cb53"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got, want := fmt.Sprintf("%016x", HashSum(&c)), Hash(&c)[7:23]; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	seen := map[string]Call{}
	for _, c := range []Call{
		c,
		{Provider: "anthropicP", Method: "OST", Path: "/v1/messages", Body: c.Body},
		{Provider: "anthropic", Method: "POST", Path: "/v1/message", Body: json.RawMessage(`s{"model":"m"}`)},
		{Provider: "mock", Method: "POST", Path: "/v1/messages", Body: c.Body},
		{Provider: "anthropic", Method: "POST", Path: "/v1/messages", Body: json.RawMessage(`{"model": "m"}`)},
		{},
	} {
		h := Hash(&c)
		if other, ok := seen[h]; ok {
			t.Errorf("%+v and %+v have the same hash", c, other)
		}
		seen[h] = c
	}
	// What does not go into the request is no part of it.
	d := c
	d.Model, d.MaxTokens, d.Plain, d.API = "x", 5, true, OpenAIOther
	if Hash(&d) != Hash(&c) {
		t.Error("got another hash for the same request")
	}
}

// Long bodies are not copied, and hash as short ones do.
func TestHashOfLongBodies(t *testing.T) {
	for _, n := range []int{longestJoined - 1, longestJoined, longestJoined + 1} {
		c := Call{Provider: "p", Body: json.RawMessage(strings.Repeat("x", n))}
		if got, want := Hash(&c), Hash(&Call{Provider: "p", Body: append(json.RawMessage{}, c.Body...)}); got != want {
			t.Errorf("%d: got %s, want %s", n, got, want)
		}
		d := Call{Provider: "p", Body: c.Body[:n-1]}
		if Hash(&d) == Hash(&c) {
			t.Errorf("%d: got the same hash for a shorter body", n)
		}
	}
}

func BenchmarkHashSum(b *testing.B) {
	c := Call{Provider: "openai", Method: "POST", Path: "/chat/completions",
		Body: json.RawMessage(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("a", 200) + `"}]}`)}
	b.ReportAllocs()
	for b.Loop() {
		HashSum(&c)
	}
}

func TestWithStream(t *testing.T) {
	for _, c := range []struct {
		call Call
		want string
	}{
		{Call{Body: json.RawMessage(`{"a":1}`)}, `{"a":1,"stream":true}`},
		{Call{Body: json.RawMessage(`{}`)}, `{"stream":true}`},
		{Call{Body: json.RawMessage("{ \n}")}, "{ \n\"stream\":true}"},
		{Call{Body: json.RawMessage("{\"a\":{}}\n ")}, `{"a":{},"stream":true}`},
		{Call{Body: json.RawMessage(`{"a":1 }`)}, `{"a":1 ,"stream":true}`},
		{Call{Body: json.RawMessage(`{"stream":false}`)}, `{"stream":false}`},
		{Call{Body: json.RawMessage(`{"stream" : true,"a":1}`)}, `{"stream" : true,"a":1}`},
		{Call{Body: json.RawMessage(`{"a":{"stream":true},"b":"\"stream\":true"}`)}, `{"a":{"stream":true},"b":"\"stream\":true","stream":true}`},
		{Call{Plain: true, API: OpenAIChat, Body: json.RawMessage(`{"a":1}`)}, `{"a":1,"stream":true,"stream_options":{"include_usage":true}}`},
		{Call{Plain: true, API: OpenAIChat, Body: json.RawMessage(`{"stream_options":{}}`)}, `{"stream_options":{},"stream":true}`},
		{Call{Plain: true, API: AnthropicMessages, Body: json.RawMessage(`{"a":1}`)}, `{"a":1,"stream":true}`},
		{Call{Plain: true, API: OpenAIResponses, Body: json.RawMessage(`{"a":1}`)}, `{"a":1,"stream":true}`},
		{Call{API: OpenAIChat, Body: json.RawMessage(`{"n":9007199254740993}`)}, `{"n":9007199254740993,"stream":true}`},
		{Call{Body: json.RawMessage(`[]`)}, `[]`},
		{Call{Body: nil}, ``},
	} {
		before := string(c.call.Body)
		if got := string(WithStream(&c.call)); got != c.want {
			t.Errorf("%s: got %s, want %s", before, got, c.want)
		}
		if string(c.call.Body) != before {
			t.Errorf("got the call's body changed to %s, want %s", c.call.Body, before)
		}
	}
}

func TestJoinURL(t *testing.T) {
	for _, c := range []struct{ base, path, want string }{
		{"https://api.anthropic.com", "/v1/messages", "https://api.anthropic.com/v1/messages"},
		{"https://api.anthropic.com/", "/v1/messages", "https://api.anthropic.com/v1/messages"},
		{"https://api.anthropic.com/v1", "/v1/messages", "https://api.anthropic.com/v1/messages"},
		{"https://api.openai.com/v1", "/chat/completions", "https://api.openai.com/v1/chat/completions"},
		{"https://api.openai.com/v1/", "/v1/embeddings", "https://api.openai.com/v1/embeddings"},
		{"https://h/v1", "/v1beta/x", "https://h/v1/v1beta/x"},
		{"https://h/xv1", "/v1/x", "https://h/xv1/v1/x"},
		{"http://127.0.0.1:1/rate2/v1", "/v1/chat/completions", "http://127.0.0.1:1/rate2/v1/chat/completions"},
		{"https://h/openai/deployments/d?api-version=2024-10-21", "/chat/completions", "https://h/openai/deployments/d/chat/completions?api-version=2024-10-21"},
		{"https://h/v1?a=1", "/v1/x?b=2", "https://h/v1/x?a=1&b=2"},
		{"https://h/v1", "/v1/x?b=2", "https://h/v1/x?b=2"},
		{"https://h/a%2Fb", "/x", "https://h/a%2Fb/x"},
		{"https://[::1]:8080", "/x", "https://[::1]:8080/x"},
	} {
		base, err := ParseBase(c.base)
		if err != nil {
			t.Fatal(err)
		}
		if got := JoinURL(base, c.path); got != c.want {
			t.Errorf("%s + %s: got %s, want %s", c.base, c.path, got, c.want)
		}
		if u, err := url.Parse(JoinURL(base, c.path)); err != nil || u.Host != base.Host {
			t.Errorf("%s + %s: got another host", c.base, c.path)
		}
	}
}

func TestParseBaseRefuses(t *testing.T) {
	for raw, want := range map[string]string{
		"":                            "is empty",
		"  ":                          "is empty",
		"api.openai.com/v1":           "no scheme",
		"localhost:8000":              "no scheme",
		"ftp://h":                     `"ftp"`,
		"https://":                    "no host",
		"https://:80":                 "no host",
		"https://user:s3cret@:1/v1":   "no host",
		"https://user:pa/s3cret@h/v1": "can't be read",
		"https://h/v1#s3cret":         "fragment",
		"https://h/v1#":               "fragment",
		"https://h:s3cret/v1":         "can't be read",
		"https://h/%zz?k=s3cret":      "can't be read",
		"https://h\x00/v1?key=s3cret": "can't be read",
	} {
		u, err := ParseBase(raw)
		if err == nil {
			t.Errorf("%q: got %v, want an error", raw, u)
			continue
		}
		if !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: got %q, want %q", raw, err, want)
		}
	}
	if u, err := ParseBase(" HTTPS://u:p@Host/v1/ "); err != nil || u.Scheme != "https" || u.Path != "/v1" || strings.Contains(JoinURL(u, "/x"), "p@") {
		t.Errorf("got %v %v, want the URL", u, err)
	}
}
