package mockapi

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestMalformed is what the APIs refuse before they do anything else.
func TestMalformed(t *testing.T) {
	cases := []struct {
		name, method, path, body string
		status                   int
		in                       string
	}{
		{"get", "GET", "/v1/messages", "", 405, "use POST"},
		{"put", "PUT", "/v1/chat/completions", messagesBody, 405, "use POST"},
		{"empty", "POST", "/v1/messages", "", 400, "not valid JSON"},
		{"cut", "POST", "/v1/chat/completions", messagesBody[:40], 400, "not valid JSON"},
		{"tail", "POST", "/v1/messages", messagesBody + "x", 400, "not valid JSON"},
		{"two", "POST", "/v1/messages", messagesBody + messagesBody, 400, "not valid JSON"},
		{"array", "POST", "/v1/messages", "[]", 400, "not valid JSON"},
		{"string", "POST", "/v1/responses", `"x"`, 400, "not valid JSON"},
		{"utf8", "POST", "/v1/messages", "{\"model\":\"m\",\"messages\":\"\xff\"}", 400, "not valid JSON"},
		{"no model", "POST", "/v1/messages", `{"messages":[]}`, 400, "model"},
		{"null model", "POST", "/v1/chat/completions", `{"model":null,"messages":[]}`, 400, "model"},
		{"no messages", "POST", "/v1/messages", `{"model":"m"}`, 400, "messages"},
		{"no input", "POST", "/v1/responses", messagesBody, 400, "input"},
		{"no input", "POST", "/v1/embeddings", messagesBody, 400, "input"},
		{"no prompt", "POST", "/v1/completions", messagesBody, 400, "prompt"},
		{"parameter", "POST", "/v1/messages?nosuch=1", messagesBody, 400, "known are latency"},
		{"value", "POST", "/v1/responses?rpm=-1", responsesBody, 400, "rpm"},
		{"query", "POST", "/v1/responses?%zz", responsesBody, 400, "malformed"},
		{"wrong path", "POST", "/v1/message", messagesBody, 404, "/v1/message"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			s := New(Config{})
			a := send(s, httptest.NewRequest(c.method, c.path, strings.NewReader(c.body)))
			_, _, message := errorType(t, a.Body.String())
			if a.Code != c.status || !strings.Contains(message, c.in) {
				t.Errorf("got %d %q, want %d and %q", a.Code, message, c.status, c.in)
			}
			if got := s.Stats(); got.Count != 1 || got.Other != 1 {
				t.Errorf("got %+v, want the request counted as another error", got.Counts)
			}
		})
	}
}

// TestTooLong is at the border of the limit, with the length told and with it unknown.
func TestTooLong(t *testing.T) {
	if got := New(Config{}).maxBody; got != 64<<20 {
		t.Errorf("got a limit of %d bytes, want 64 MiB", got)
	}
	for _, c := range []struct {
		limit  int
		length int64
		want   int
	}{
		{len(messagesBody), int64(len(messagesBody)), 200},
		{len(messagesBody), -1, 200},
		{len(messagesBody) - 1, int64(len(messagesBody)), 413},
		{len(messagesBody) - 1, -1, 413},
		{10, -1, 413},
	} {
		s := New(Config{Params: Params{Latency: None}})
		s.maxBody = int64(c.limit)
		body := strings.NewReader(messagesBody)
		r := httptest.NewRequest("POST", "/ok/v1/messages", body)
		r.ContentLength = c.length
		if got := send(s, r).Code; got != c.want || body.Len() > 0 {
			t.Errorf("limit %d, length %d: got %d with %d bytes unread, want %d and none", c.limit, c.length, got, body.Len(), c.want)
		}
	}
}

func TestAuth(t *testing.T) {
	for _, c := range []struct {
		name, value string
		want        int
	}{
		{"X-Api-Key", "k", 200}, {"Authorization", "Bearer k", 200}, {"Api-Key", "k", 200}, {"X-Goog-Api-Key", "k", 200},
		{"X-Api-Key", "", 401}, {"X-Api-Key", "kk", 401}, {"Authorization", "Basic k", 401},
	} {
		r := httptest.NewRequest("POST", "/ok/v1/messages?auth=k&latency=0", strings.NewReader(messagesBody))
		r.Header.Set(c.name, c.value)
		if got := send(New(Config{}), r).Code; got != c.want {
			t.Errorf("%s: %q: got %d, want %d", c.name, c.value, got, c.want)
		}
	}
}

func TestEchoSizeStopAndTokens(t *testing.T) {
	for _, c := range []struct {
		path, body, want string
	}{
		{"/v1/messages?latency=0&echo=yes", `{"model":"m","messages":[{"role":"user","content":"a"},{"role":"user","content":[{"type":"text","text":"b\n\u00e9"}]}]}`, `"text":"b\né"`},
		{"/v1/chat/completions?latency=0&echo=yes", `{"model":"m","messages":[{"role":"user","content":"hi \"you\""}]}`, `"content":"hi \"you\""`},
		{"/v1/responses?latency=0&echo=yes", `{"model":"m","input":[{"role":"user","content":[{"type":"input_text","text":"x"}]}]}`, `"text":"x"`},
		{"/v1/messages?latency=0&size=6", messagesBody, `"text":"OK All"`},
		{"/v1/messages?latency=0&stop=max_tokens", messagesBody, `"stop_reason":"max_tokens"`},
		{"/v1/chat/completions?latency=0&stop=length", messagesBody, `"finish_reason":"length"`},
		{"/v1/responses?latency=0&stop=max_output_tokens", responsesBody, `"status":"incomplete","error":null,"incomplete_details":{"reason":"max_output_tokens"}`},
		{"/v1/messages?latency=0&in=100&out=20", messagesBody, `"input_tokens":100,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":20`},
		{"/v1/embeddings?latency=0", `{"model":"m","input":["a","b"]}`, `"index":1`},
		{"/v1/embeddings?latency=0", `{"model":"m","input":[1,2,3]}`, `"data":[{"object":"embedding","index":0,"embedding":[0.25,-0.5,0.75]}]`},
		{"/v1/completions?latency=0", `{"model":"m","prompt":"a"}`, `"text":"OK"`},
		{"/v1/moderations?latency=0", `{"input":"a"}`, `"flagged":false`},
		{"/v1/embeddings?latency=0", `{"model":"m","input":"a","stream":true}`, `"object":"list"`},
	} {
		a := post(New(Config{}), c.path, c.body)
		if got := a.Body.String(); a.Code != 200 || !json.Valid([]byte(got)) || !strings.Contains(got, c.want) {
			t.Errorf("%s: got %d %s, want %s", c.path, a.Code, got, c.want)
		}
	}
}
