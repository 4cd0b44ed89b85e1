package provider

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"
)

// What the row and the user get to see of an error.
func TestErrorFields(t *testing.T) {
	for _, c := range []struct {
		name string
		row
		typ, code, message, id, regain string
	}{
		{name: "anthropic", row: row{status: 429, headers: "request-id: req_h", body: `{"type":"error","error":{"type":"rate_limit_error","message":" a\n\tb ","details":{"error_code":"enforced_spend_limit_reached"}},"request_id":"req_b"}`},
			typ: "rate_limit_error", code: "enforced_spend_limit_reached", message: "a b", id: "req_h"},
		{name: "id of the body", row: row{status: 500, body: `{"type":"error","error":{"type":"api_error","message":"m"},"request_id":"req_b"}`},
			typ: "api_error", message: "m", id: "req_b"},
		{name: "regain", row: row{status: 400, headers: "x-request-id: r1", body: `{"error":{"type":"invalid_request_error","message":"You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC."}}`},
			typ: "invalid_request_error", message: "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.", id: "r1", regain: "2026-12-01 at 00:00 UTC"},
		{name: "resets_at", row: row{status: 403, body: `{"error":{"code":403,"message":"Budget limit exceeded","metadata":{"resets_at":"2026-12-01T00:00:00Z"}}}`},
			code: "403", message: "Budget limit exceeded", regain: "2026-12-01T00:00:00Z"},
		{name: "litellm", row: row{status: 429, headers: "x-litellm-call-id: c1", body: `{"error":{"message":"m","type":"None","param":"None","code":"429"}}`},
			code: "429", message: "m", id: "c1"},
		{name: "apim", row: row{status: 401, headers: "apim-request-id: a1", body: `{"error":{"code":"401","message":"m"}}`}, code: "401", message: "m", id: "a1"},
		{name: "cf-ray", row: row{status: 502, headers: "cf-ray: 8-FRA", body: "<HTML><Title> a &amp; b\n| 502 </TITLE></HTML>"}, message: "a & b | 502", id: "8-FRA"},
		{name: "html without a title", row: row{status: 502, body: "<html><style>p{}</style><script>if(a<b){}</script><!-- c --><p>Bad</p><p>gateway</p></html>"}, message: "Bad gateway"},
		{name: "gemini", row: row{status: 503, body: `[{"error":{"code":503,"message":"m","status":"UNAVAILABLE"}}]`}, typ: "UNAVAILABLE", code: "503", message: "m"},
		{name: "problem+json", row: row{status: 503, body: `{"type":"about:blank","title":"Busy","status":503,"detail":"all of it","instance":"urn:7"}`},
			typ: "about:blank", message: "Busy; all of it", id: "urn:7"},
		{name: "fastapi", row: row{status: 422, body: `{"detail":[{"loc":["body"],"msg":"field required","type":"missing"},{"msg":"too short","type":"short"}]}`},
			typ: "missing", message: "field required; too short"},
		{name: "mistral", row: row{status: 429, body: `{"object":"error","message":"m","type":"capacity","param":null,"code":3505}`}, typ: "capacity", code: "3505", message: "m"},
		{name: "wrapped", row: row{status: 500, body: `{"error":{"message":"{\"error\":{\"message\":\"inner\",\"type\":\"server_error\"}}","code":500}}`}, typ: "server_error", code: "500", message: "inner"},
		{name: "no words", row: row{status: 529}, message: "529 Overloaded, without a message"},
		{name: "only a code", row: row{status: 500, body: `{"error":{"type":"api_error","code":"x1"}}`}, typ: "api_error", code: "x1", message: "api_error x1"},
		{name: "terminal codes", row: row{status: 500, body: `{"error":"a\u001b[31mb\u0007\u202ec\u200d"}`}, message: "a [31mb c"},
		{name: "bytes that are no text", row: row{status: 500, body: "a\xff\xfeb"}, message: "a\ufffd\ufffdb"},
		{name: "redirect", row: row{status: 302, headers: "location: https://sso.example/login?token=s3cret"},
			message: "the server redirects to https://sso.example (not followed: the key would go there too)"},
		{name: "redirect with a password", row: row{status: 302, headers: "location: https://u:p@sso.example/"},
			message: "the server redirects to https://sso.example (not followed: the key would go there too)"},
		{name: "redirect within", row: row{status: 307, headers: "location: /v1/"}, message: "the server redirects to another path"},
		{name: "byte order mark", row: row{status: 500, body: "\ufeff{\"error\":\"x\"}"}, message: "x"},
	} {
		e := Classify(c.answer(), []byte(userRequest))
		got := [...]string{e.Type, e.Code, e.Message, e.RequestID, e.Regain}
		if want := [...]string{c.typ, c.code, c.message, c.id, c.regain}; got != want {
			t.Errorf("%s: got %q, want %q", c.name, got, want)
		}
	}
}

func TestMessageIsBounded(t *testing.T) {
	for _, body := range []string{
		`{"error":"` + strings.Repeat("ä", 5000) + `"}`,
		strings.Repeat("ä", 5000),
		"<p>" + strings.Repeat("é ", 5000),
		strings.Repeat("[", 100000),
		`{"error":` + strings.Repeat(`{"error":`, 5000),
		strings.Repeat(`{"detail":[`, 3000),
		`{"detail":[` + strings.Repeat(`{"msg":"m","type":"t"},`, 5000) + `{}]}`,
	} {
		e := Classify(Answer{Status: 500, Body: []byte(body)}, nil)
		if len(e.Message) > longestMessage || !utf8.ValidString(e.Message) || e.Message == "" {
			t.Errorf("got a message of %d bytes for %.20q", len(e.Message), body)
		}
	}
}

func TestDeadEndpointAtTheEdge(t *testing.T) {
	for status, want := range map[int]bool{525: true, 526: true, 524: false, 503: false} {
		if got := Classify(Answer{Status: status}, nil).DeadEndpoint; got != want {
			t.Errorf("%d: got %v, want %v", status, got, want)
		}
	}
}

func TestClassifyObject(t *testing.T) {
	for _, c := range []struct {
		raw    string
		status int
		want   want
	}{
		{`{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`, 529, wantBusy},
		{`{"type":"overloaded_error","message":"Overloaded"}`, 529, wantBusy},
		{`{"type":"rate_limit_error","message":"m"}`, 429, wantThrottl},
		{`{"type":"api_error","message":"m"}`, 500, wantFailing},
		{`{"type":"timeout_error","message":"m"}`, 504, wantFailing},
		{`{"type":"invalid_request_error","message":"m"}`, 400, wantItem},
		{`{"type":"authentication_error","message":"m"}`, 401, wantKey},
		{`{"code":429,"message":"m"}`, 429, wantThrottl},
		{`{"code":"502","message":"m"}`, 502, wantFailing},
		{`{"code":"server_error","message":"m"}`, 500, wantFailing},
		{`{"code":"rate_limit_exceeded","message":"m","type":"server_error"}`, 429, wantThrottl},
		{`{"code":"insufficient_quota","message":"m"}`, 429, wantSpent},
		{`{"code":"bio_policy","message":"m"}`, 500, wantItem},
		{`{"code":"vector_store_timeout","message":"m"}`, 504, wantFailing},
		{`{"type":"error","code":"ERR","message":"m","sequence_number":7}`, 500, wantFailing},
		{`{"message":"EngineDeadError","type":"InternalServerError","code":500}`, 500, wantFailing},
		{`{"code":200,"message":"m"}`, 500, wantFailing},
		{`{"code":3505,"message":"m"}`, 500, wantFailing},
		{`"boom"`, 500, wantFailing},
		{`boom`, 500, wantFailing},
		{`null`, 500, wantFailing},
		{``, 500, wantFailing},
		{`{}`, 500, wantFailing},
	} {
		e := ClassifyObject(json.RawMessage(c.raw), 500, []byte(userRequest))
		got := want{class: e.Class, scope: e.Scope, noRetry: e.NoRetry, noShrink: e.NoShrink, patient: e.Patient, hint: e.Hint}
		if got != c.want || e.Status != c.status {
			t.Errorf("%s: got %+v and %d, want %+v and %d", c.raw, got, e.Status, c.want, c.status)
		}
	}
}

// Phrases are compared with the request byte by byte, so they must not hold what
// JSON escapes, and with text in lower case.
func TestPhrasesAreFitForComparison(t *testing.T) {
	for _, rules := range [][]rule{exceptions, money, never, reach, passing} {
		for _, r := range rules {
			for _, sign := range slices.Concat(r.words, r.phrases, r.unless, r.also) {
				if sign != strings.ToLower(sign) || strings.ContainsAny(sign, "\"\\/<>&\n") {
					t.Errorf("got the sign %q, want lower case without what JSON escapes", sign)
				}
			}
			if r.scope >= WholeLane && r.advice == "" || r.class == "" {
				t.Errorf("got the verdict %+v without class or advice", r.verdict)
			}
		}
	}
}

func TestHints(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"please try again in 1.574s.":           1574 * time.Millisecond,
		"please try again in 6m0s.":             6 * time.Minute,
		"please try again in 20ms.":             20 * time.Millisecond,
		"please try again in 9m38.016s. need":   9*time.Minute + 38016*time.Millisecond,
		"try again in 1h2m3s":                   time.Hour + 2*time.Minute + 3*time.Second,
		"retry after 37 seconds":                37 * time.Second,
		"please retry in 38.2s":                 38200 * time.Millisecond,
		"try again in 5 minutes":                5 * time.Minute,
		"try again in 1 hour and 30 minutes":    90 * time.Minute,
		"try again in 2 days":                   48 * time.Hour,
		"try again in 0s":                       0,
		"try again in -5s":                      0,
		"try again in a moment":                 0,
		"try again in 5":                        0,
		"try again in 999999999999d":            1<<63 - 1,
		"deployed within the last 5 minutes":    0,
		"limit 5s. try again later":             0,
		"retry in 1s, or retry after 2 seconds": 2 * time.Second,
	} {
		s := &signal{}
		s.addText(text)
		if got := s.hint(); got != want {
			t.Errorf("%s: got %v, want %v", text, got, want)
		}
	}
	for body, want := range map[string]time.Duration{
		`{"retry_after":12}`:                      12 * time.Second,
		`{"retry_after":"1.5"}`:                   1500 * time.Millisecond,
		`{"retry_after":-1}`:                      0,
		`{"retry_after":1e9}`:                     0,
		`{"retry_after":"nan"}`:                   0,
		`{"retry_after":99999999999999999999999}`: 1<<63 - 1,
		`{"retryDelay":"38.200s"}`:                38200 * time.Millisecond,
		`{"retryDelay":"38.2"}`:                   0,
		`{"retryDelay":{"seconds":"7"}}`:          7 * time.Second,
		`{"retryDelay":"-3s"}`:                    0,
	} {
		e := Classify(Answer{Status: 429, Body: []byte(`{"error":{"message":"m","details":[` + body + `]}}`)}, nil)
		if e.Hint != want {
			t.Errorf("%s: got %v, want %v", body, e.Hint, want)
		}
	}
	e := Classify(Answer{Status: 429, Body: []byte(`{"error":"try again in 9s"}`)}, []byte(`{"prompt":"Try again in 9s"}`))
	if e.Hint != 0 {
		t.Errorf("an echo: got %v, want 0s", e.Hint)
	}
}

func FuzzClassify(f *testing.F) {
	for _, r := range rows {
		f.Add(r.status, r.body, userRequest, "", "")
	}
	f.Add(500, `{"error":"x"}`, "", "true", "https://a/b")
	f.Fuzz(func(t *testing.T, status int, body, request, again, location string) {
		h := http.Header{"X-Should-Retry": {again}, "Location": {location}}
		for _, e := range []*Error{
			Classify(Answer{Status: status, Header: h, Body: []byte(body), At: time.Unix(1800000000, 0)}, []byte(request)),
			ClassifyObject(json.RawMessage(body), 500, []byte(request)),
		} {
			if e.Class == "" || e.Class == ClassOK || e.Scope > WholeRun || e.Hint < 0 || e.Message == "" || len(e.Message) > longestMessage {
				t.Fatalf("got %+v", e)
			}
			for _, text := range []string{e.Message, e.RequestID, e.Regain, e.Type, e.Code} {
				if !utf8.ValidString(text) || strings.ContainsFunc(text, unicode.IsControl) {
					t.Fatalf("got the text %q", text)
				}
			}
			if e.Scope != Passing && (e.NoRetry || e.Hint != 0) || e.Scope >= WholeLane && e.Advice == "" {
				t.Fatalf("got %+v", e)
			}
			if e.NoRetry && e.Status != 429 && e.Status < 500 {
				t.Fatalf("got no retry for %d", e.Status)
			}
		}
	})
}

func BenchmarkClassify(b *testing.B) {
	a := Answer{Status: 429, Header: http.Header{"Retry-After": {"2"}},
		Body: []byte(`{"type":"error","error":{"type":"rate_limit_error","message":"This request would exceed your organization's rate limit of 30,000 input tokens per minute"}}`)}
	request := []byte(userRequest)
	b.ReportAllocs()
	for b.Loop() {
		Classify(a, request)
	}
}

// No error is as long as that, so such an answer is only checked for its end.
func TestLongAnswerWithoutUse(t *testing.T) {
	body := `{"error":{"code":"insufficient_quota"},"x":"` + strings.Repeat("y", mostParsed) + `"}`
	for answer, want := range map[string]Class{body: InvalidResponse, body[:len(body)-1]: Truncated} {
		if e := Classify(Answer{Status: 200, Body: []byte(answer)}, nil); e.Class != want || e.Scope != Passing || len(e.Message) > longestMessage {
			t.Errorf("got %s %d %.40q, want %s", e.Class, e.Scope, e.Message, want)
		}
	}
}
