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
		{"slow=7s", []want{{status: 200, took: 7 * time.Second}}},
		{"ok?steps=529,429/3,ok", []want{over, rate("Retry-After", "3"), good, good}},
		{"unkind?p429=0&p529=0&drop=0&cut=0", []want{good}},
	}
	for _, c := range cases {
		name, query, _ := strings.Cut(c.scenario, "?")
		for _, path := range []string{"/v1/messages", "/v1/chat/completions", "/v1/responses"} {
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
		{"/messages", "bad400", "", 404},
		{"/chat/completions", "bad400", "", 404},
		{"/nosuch/v1/messages", "bad400", "", 404},
		{"/slow=soon/v1/messages", "", "", 404},
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

// TestWithoutV1: as at a real server /v1 belongs to the path, and the answer says what the base URL should be.
func TestWithoutV1(t *testing.T) {
	for path, want := range map[string]string{
		"/chat/completions":        "add /v1: --base-url http://mock:1/v1",
		"/responses":               "add /v1: --base-url http://mock:1/v1",
		"/rate2/embeddings":        "add /v1: --base-url http://mock:1/rate2/v1",
		"/batches":                 "add /v1: --base-url http://mock:1/v1",
		"/batch-ok/files":          "add /v1: --base-url http://mock:1/batch-ok/v1",
		"/ok/messages":             "the path is /v1/messages",
		"/ok/v1/v1/messages":       "Not found: POST /ok/v1/v1/messages",
		"/ok/chat/completions/all": "Invalid URL (POST /ok/chat/completions/all)",
	} {
		a := post(New(Config{}), "http://mock:1"+path, messagesBody)
		if _, _, message := errorType(t, a.Body.String()); a.Code != 404 || !strings.HasSuffix(message, want) {
			t.Errorf("%s: got %d %q, want 404 and %q", path, a.Code, message, want)
		}
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
		if _, err := ParseScenario(s.Name); s.Text == "" || err != nil {
			t.Errorf("scenario %s: text %q, %v", s.Name, s.Text, err)
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
