package mockapi

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
)

const geminiBody = `{"contents":[{"role":"user","parts":[{"text":"hello"}]}],"generationConfig":{"maxOutputTokens":9}}`

// TestGemini is Gemini's own API in the ordinary scenarios.
func TestGemini(t *testing.T) {
	for _, c := range []struct {
		path, body string
		status     int
		in         []string
	}{
		{"/v1beta/models/m:generateContent", geminiBody, 200, []string{`"text":"OK"`, `"role":"model"`, `"finishReason":"STOP"`, `"promptTokenCount":5`,
			`"candidatesTokenCount":1`, `"thoughtsTokenCount":0`, `"totalTokenCount":6`, `"modelVersion":"m"`}},
		{"/ok/v1beta/models/m:generateContent?echo=yes&thoughts=7&stop=MAX_TOKENS", geminiBody, 200,
			[]string{`"text":"hello"`, `"thoughtsTokenCount":7`, `"totalTokenCount":13`, `"finishReason":"MAX_TOKENS"`}},
		{"/gemini-blocked/v1beta/models/m:generateContent", geminiBody, 200, []string{`{"promptFeedback":{"blockReason":"SAFETY"}`}},
		{"/gemini-blocked=OTHER/v1beta/models/m:generateContent", geminiBody, 200, []string{`"blockReason":"OTHER"`}},
		{"/rate2/v1beta/models/m:generateContent", geminiBody, 429, []string{`"code":429`, `"status":"RESOURCE_EXHAUSTED"`, `google.rpc.RetryInfo`, `"retryDelay":"2s"`}},
		{"/429-retry-after-ms/v1beta/models/m:generateContent", geminiBody, 429, []string{`"retryDelay":"300ms"`}},
		{"/429-always/v1beta/models/m:generateContent", geminiBody, 429, []string{`"status":"RESOURCE_EXHAUSTED"}}`}},
		{"/400/v1beta/models/m:generateContent", geminiBody, 400, []string{`"status":"INVALID_ARGUMENT"`}},
		{"/over529/v1beta/models/m:generateContent", geminiBody, 529, []string{`"status":"UNAVAILABLE"`}},
		{"/ok/v1beta/models/m:generateContent", messagesBody, 400, []string{"contents: Field required"}},
		{"/ok/v1beta/models/m:countTokens", geminiBody, 404, []string{"Invalid URL"}},
		{"/ok/v1beta/models/m:streamGenerateContent", geminiBody, 200, []string{`[{"candidates"`}},
	} {
		t.Run(c.path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := post(New(Config{}), c.path, c.body)
				got := a.Body.String()
				if a.Code != c.status || !json.Valid([]byte(got)) || a.Header().Get("Retry-After") != "" {
					t.Errorf("got %d %s, want %d", a.Code, got, c.status)
				}
				for _, part := range c.in {
					if !strings.Contains(got, part) {
						t.Errorf("got %s, want %s in it", got, part)
					}
				}
			})
		})
	}
}

// TestGeminiStream: whole answers as events, the last with finish reason and usage, and no [DONE].
func TestGeminiStream(t *testing.T) {
	for scenario, want := range map[string]int{"ok": 3, "sse_eof": 2} {
		synctest.Test(t, func(t *testing.T) {
			a := post(New(Config{}), "/"+scenario+"/v1beta/models/m:streamGenerateContent?alt=sse&echo=yes", geminiBody)
			text, events := "", strings.Split(strings.TrimSuffix(a.Body.String(), "\n\n"), "\n\n")
			var last geminiAnswer
			for _, e := range events {
				last = geminiAnswer{}
				if err := json.Unmarshal([]byte(strings.TrimPrefix(e, "data: ")), &last); err != nil || len(last.Candidates) != 1 {
					t.Fatalf("got %q, %v", e, err)
				}
				text += last.Candidates[0].Content.Parts[0].Text
			}
			ended := last.Candidates[0].FinishReason == "STOP" && last.UsageMetadata != nil
			if len(events) != want || text != "hello" || ended != (scenario == "ok") {
				t.Errorf("%s: got %q, ended: %t", scenario, a.Body, ended)
			}
		})
	}
}

// TestCountTokens: about a token for four bytes, bought by nobody.
func TestCountTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{})
		for range 2 {
			a := post(s, "/ok/v1/messages/count_tokens?spend-cap-after=1", messagesBody)
			if a.Code != 200 || a.Body.String() != `{"input_tokens":18}` {
				t.Errorf("got %d %s of %d bytes", a.Code, a.Body, len(messagesBody))
			}
		}
		if got := s.Stats(); got.OK != 2 || got.Again != 0 {
			t.Errorf("got %+v, want 2 ok, nothing bought twice", got.Counts)
		}
		if a := post(s, "/auth401/v1/messages/count_tokens", messagesBody); a.Code != 401 {
			t.Errorf("got %d, want 401", a.Code)
		}
	})
}
