package mockapi

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const (
	messagesBody  = `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"hello"}]}`
	responsesBody = `{"model":"m","input":"hello"}`
)

// reply is an answer as a client sees it.
type reply struct {
	*httptest.ResponseRecorder
	took time.Duration
	// aborted says that the handler closed the connection.
	aborted bool
}

// send calls the handler as net/http does, in the caller's goroutine.
func send(s *Server, r *http.Request) (a reply) {
	a.ResponseRecorder = httptest.NewRecorder()
	start := time.Now()
	defer func() {
		a.took = time.Since(start)
		switch v := recover(); v {
		case nil:
		case http.ErrAbortHandler:
			a.aborted = true
		default:
			panic(v)
		}
	}()
	s.ServeHTTP(a, r)
	return a
}

// post sends a body.
func post(s *Server, path, body string) reply {
	return send(s, httptest.NewRequest("POST", path, strings.NewReader(body)))
}

// errorType digs type and code out of an error in either shape.
func errorType(t *testing.T, body string) (typ, code, message string) {
	t.Helper()
	var e struct {
		Type  string
		Error struct {
			Type    string
			Code    *string
			Message string
			Details struct {
				ErrorCode string `json:"error_code"`
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatalf("error body %q: %v", body, err)
	}
	code = e.Error.Details.ErrorCode
	if e.Error.Code != nil {
		code = cmp.Or(code, *e.Error.Code)
	}
	return e.Error.Type, code, e.Error.Message
}

// want is what one request must get.
type want struct {
	status              int
	anthropic, openai   string // type/code
	header, headerValue string
	took                time.Duration
}

var good = want{status: 200, took: 50 * time.Millisecond}

// TestScenarios holds the table of scenarios, request by request, for each API.
func TestScenarios(t *testing.T) {
	rate := func(header, value string) want {
		return want{429, "rate_limit_error/", "requests/rate_limit_exceeded", header, value, 0}
	}
	over := want{529, "overloaded_error/", "overloaded_error/server_is_overloaded", "", "", 0}
	bad := want{400, "invalid_request_error/", "invalid_request_error/", "", "", 0}
	cases := []struct {
		scenario string
		wants    []want
	}{
		{"ok", []want{good, good}},
		{"rate2", []want{rate("Retry-After", "2"), rate("Retry-After", "2"), good, good}},
		{"rate429", []want{rate("Retry-After", "1"), rate("Retry-After", "1"), rate("Retry-After", "1")}},
		{"cap429", []want{{429, "rate_limit_error/", "rate_limit_error/", "", "", 0}, {429, "rate_limit_error/", "rate_limit_error/", "", "", 0}}},
		{"spend-cap", []want{{429, "rate_limit_error/enforced_spend_limit_reached", "insufficient_quota/insufficient_quota", "", "", 0}}},
		{"429-always", []want{rate("", ""), rate("", ""), rate("", "")}},
		{"429-retry-after-2", []want{rate("Retry-After", "2"), good}},
		{"429-retry-after-ms", []want{rate("Retry-After-Ms", "300"), good}},
		{"429-retry-after-120", []want{rate("Retry-After", "120"), good}},
		{"over529", []want{over, over, over}},
		{"over2", []want{over, over, good}},
		{"529-twice", []want{over, over, good}},
		{"400", []want{bad, bad}},
		{"bad400", []want{bad, bad}},
		{"auth401", []want{{401, "authentication_error/", "invalid_request_error/invalid_api_key", "", "", 0}}},
		{"big413", []want{{413, "request_too_large/", "invalid_request_error/request_too_large", "", "", 0}}},
		{"500-no-retry", []want{{500, "api_error/", "server_error/", "X-Should-Retry", "false", 0}, {500, "api_error/", "server_error/", "X-Should-Retry", "false", 0}}},
		{"400-force-retry", []want{{400, "invalid_request_error/", "invalid_request_error/", "X-Should-Retry", "true", 0}, good, good}},
		{"slow", []want{{status: 200, took: 5 * time.Second}}},
		{"drip", []want{{status: 200, took: 2400 * time.Millisecond}}},
		{"limit3", []want{{status: 200, took: 500 * time.Millisecond}}},
		{"unkind?p429=0&p529=0&drop=0&cut=0", []want{good}},
	}
	for _, c := range cases {
		name, query, _ := strings.Cut(c.scenario, "?")
		for _, path := range []string{"/v1/messages", "/v1/chat/completions", "/v1/responses", "/messages"} {
			t.Run(name+path, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					s := New(Config{})
					body := messagesBody
					if strings.Contains(path, "responses") {
						body = responsesBody
					}
					for i, w := range c.wants {
						a := post(s, "/"+name+path+"?"+query, body)
						checkReply(t, a, w, i+1, !strings.Contains(path, "messages"))
					}
				})
			})
		}
	}
}

// checkReply compares one answer with what it must be.
func checkReply(t *testing.T, a reply, w want, nth int, openai bool) {
	t.Helper()
	if a.Code != w.status || a.took != w.took {
		t.Errorf("request %d: got status %d after %v, want %d after %v", nth, a.Code, a.took, w.status, w.took)
	}
	h := a.Header()
	if h.Get("Request-Id") != "req_mock" || openai != (h.Get("X-Request-Id") == "req_mock") {
		t.Errorf("request %d: got request ids %q and %q, want req_mock, the second for OpenAI only", nth, h.Get("Request-Id"), h.Get("X-Request-Id"))
	}
	for _, name := range []string{"Retry-After", "Retry-After-Ms", "X-Should-Retry"} {
		want := ""
		if name == w.header {
			want = w.headerValue
		}
		if got := h.Get(name); got != want {
			t.Errorf("request %d: got %s %q, want %q", nth, name, got, want)
		}
	}
	if w.status == 200 {
		if got := answerText(t, a.Body.String()); got != "OK" {
			t.Errorf("request %d: got text %q, want OK", nth, got)
		}
		return
	}
	want := w.anthropic
	if openai {
		want = w.openai
	}
	if typ, code, _ := errorType(t, a.Body.String()); typ+"/"+code != want {
		t.Errorf("request %d: got error %s/%s, want %s", nth, typ, code, want)
	}
}

// answerText digs the text out of a whole answer in any of the APIs, and checks the rest of it.
func answerText(t *testing.T, body string) string {
	t.Helper()
	var m struct {
		Model      string
		StopReason string `json:"stop_reason"`
		Status     string
		Content    []struct{ Text string }
		Choices    []struct {
			Message      struct{ Content string }
			FinishReason string `json:"finish_reason"`
		}
		Output []struct{ Content []struct{ Text string } }
		Usage  struct {
			In           int `json:"input_tokens"`
			Out          int `json:"output_tokens"`
			PromptTokens int `json:"prompt_tokens"`
			Completion   int `json:"completion_tokens"`
		}
	}
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatalf("answer %q: %v", body, err)
	}
	if m.Model != "m" || m.Usage.In+m.Usage.PromptTokens != 5 || m.Usage.Out+m.Usage.Completion != 1 {
		t.Errorf("got model %q and usage %+v, want m, 5 in, 1 out", m.Model, m.Usage)
	}
	switch {
	case len(m.Content) == 1 && m.StopReason == "end_turn":
		return m.Content[0].Text
	case len(m.Choices) == 1 && m.Choices[0].FinishReason == "stop":
		return m.Choices[0].Message.Content
	case len(m.Output) == 1 && m.Status == "completed":
		return m.Output[0].Content[0].Text
	}
	t.Errorf("got no whole answer: %s", body)
	return ""
}

func TestCap429SaysSoInItsMessageOnly(t *testing.T) {
	for _, path := range []string{"/cap429/v1/messages", "/cap429/v1/chat/completions"} {
		_, code, message := errorType(t, post(New(Config{}), path, messagesBody).Body.String())
		if code != "" || message != "You have reached your API usage limits" {
			t.Errorf("%s: got code %q, message %q", path, code, message)
		}
	}
}

func TestScenarioIsNamedByPathHeaderOrConfig(t *testing.T) {
	for _, c := range []struct {
		path, header, config string
		want                 int
	}{
		{"/v1/messages", "", "", 200},
		{"/v1/messages", "", "over529", 529},
		{"/v1/messages", "bad400", "over529", 400},
		{"/auth401/v1/messages", "bad400", "over529", 401},
		{"/messages", "bad400", "", 400},
		{"/chat/completions", "bad400", "", 400},
		{"/nosuch/v1/messages", "bad400", "", 404},
		{"/v1/messages", "nosuch", "", 404},
		{"/v1/messages", "", "nosuch", 404},
		{"/ok/v1/v1/messages", "", "", 404},
		{"/ok/v1/nothing", "", "", 404},
		{"/ok", "", "", 404},
		{"/", "", "", 404},
		{"//v1/messages", "", "", 404},
	} {
		synctest.Test(t, func(t *testing.T) {
			r := httptest.NewRequest("POST", "http://mock"+c.path, strings.NewReader(messagesBody))
			r.Header.Set("X-Scenario", c.header)
			if got := send(New(Config{Scenario: c.config}), r).Code; got != c.want {
				t.Errorf("%s, header %q, config %q: got %d, want %d", c.path, c.header, c.config, got, c.want)
			}
		})
	}
}

func TestUnknownScenarioListsTheKnown(t *testing.T) {
	body := post(New(Config{}), "/nosuch/v1/chat/completions", messagesBody).Body.String()
	_, _, message := errorType(t, body)
	for _, s := range Scenarios() {
		if !strings.Contains(message, s.Name) {
			t.Errorf("got %q, want %s in it", message, s.Name)
		}
	}
}

func TestScenariosAreSortedAndTold(t *testing.T) {
	all := Scenarios()
	if !slices.IsSortedFunc(all, func(a, b Scenario) int { return cmp.Compare(a.Name, b.Name) }) {
		t.Errorf("got %v, want them sorted", all)
	}
	for _, s := range all {
		if s.Text == "" {
			t.Errorf("scenario %s has no text", s.Name)
		}
	}
}

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

// TestClientGone ends the client's context in the middle of each kind of wait.
func TestClientGone(t *testing.T) {
	for _, path := range []string{"/slow/v1/messages", "/drip/v1/messages", "/sse_ok/v1/messages?gap=1s", "/slow/v1/responses"} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(Config{})
				ctx, cancel := context.WithTimeout(t.Context(), 700*time.Millisecond)
				defer cancel()
				body := `{"model":"m","messages":[],"input":"x"}`
				a := send(s, httptest.NewRequestWithContext(ctx, "POST", path, strings.NewReader(body)))
				if a.took != 700*time.Millisecond {
					t.Errorf("the handler returned after %v, want 700ms", a.took)
				}
				if got := s.Stats(); got.Canceled != 1 || got.OK != 0 || got.InFlight != 0 || got.Other != 0 {
					t.Errorf("got %+v, want one canceled", got.Counts)
				}
			})
		})
	}
}
