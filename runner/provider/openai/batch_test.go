package openai

import (
	"encoding/json"
	"testing"

	"llmbatch/runner/provider"
)

// Batches as vendors write them: REC is recorded from OpenAI, AZ stands in Azure's
// documentation.
func TestBatchObjects(t *testing.T) {
	for name, tt := range map[string]struct {
		body   string
		phase  provider.BatchPhase
		status string
		files  int
		token  int64
		line   int
	}{
		"REC: new": {`{"id":"batch_1","status":"validating","input_file_id":"file-1","created_at":1787150000,"expires_at":1787236400,"output_file_id":null,"model":null,"usage":{}}`, provider.BatchOpen, "validating", 0, 0, 0},
		"AZ: capitals, times as text, an empty error file": {`{"id":"batch_1","status":"Completed","created_at":"2026-08-19T14:44:51Z","output_file_id":"file-2","error_file_id":"","request_counts":null}`, provider.BatchEnded, "completed", 1, 0, 0},
		"expired with results":                             {`{"id":"batch_1","status":"expired","output_file_id":"file-2","error_file_id":"file-3"}`, provider.BatchEnded, "expired", 2, 0, 0},
		"openai-python 2084: too many tokens": {`{"id":"batch_1","status":"failed","errors":{"object":"list","data":[{"code":"token_limit_exceeded","message":"Enqueued token limit reached for gpt-4o-mini in organization org-x. Limit: 2,000,000 enqueued tokens. Please try again.","line":null}]}}`,
			provider.BatchRefused, "failed", 0, 2_000_000, 0},
		"AZ: too many tokens": {`{"id":"batch_1","status":"Failed","errors":{"data":[{"code":"token_limit_exceeded","message":"configured limit of 30K for the deployment"}]}}`, provider.BatchRefused, "failed", 0, 30_000, 0},
		"a bad line":          {`{"id":"batch_1","status":"failed","errors":{"data":[{"code":"invalid_json_line","message":"This line is not parseable","line":17}]}}`, provider.BatchRefused, "failed", 0, 0, 17},
		"failed with files":   {`{"id":"batch_1","status":"failed","output_file_id":"file-2"}`, provider.BatchEnded, "failed", 1, 0, 0},
		"an unknown word":     {`{"id":"batch_1","status":"QUEUED_SOMEWHERE"}`, provider.BatchOpen, "queued_somewhere", 0, 0, 0},
	} {
		b := New().Batches("")
		s, err := b.Batch([]byte(tt.body))
		if err != nil || s.Phase != tt.phase || s.Status != tt.status || s.Queue != tt.token || s.TokenLimit != (tt.token > 0) || s.Line != tt.line || len(b.Results(s)) != tt.files {
			t.Errorf("%s: %+v, %v", name, s, err)
		}
	}
}

func TestBatchLines(t *testing.T) {
	for name, tt := range map[string]struct {
		line   string
		status int
		class  provider.Class
	}{
		"REC": {`{"id":"batch_req_1","custom_id":"a","response":{"status_code":200,"request_id":"792c","body":{"object":"response"}},"error":null}`, 200, ""},
		"openai-openapi 302: a refusal has no error of its own": {`{"custom_id":"a","response":{"status_code":400,"body":{"error":{"message":"no"}}},"error":null}`, 400, ""},
		"expired":  {`{"custom_id":"a","response":null,"error":{"code":"batch_expired","message":"This request could not be executed"}}`, 0, provider.Timeout},
		"canceled": {`{"custom_id":"a","response":null,"error":{"code":"batch_cancelled"}}`, 0, provider.Canceled},
		"money":    {`{"custom_id":"a","response":null,"error":{"code":"insufficient_quota","message":"You exceeded your current quota"}}`, 0, provider.SpendCap},
	} {
		l, err := New().Batches("").Line([]byte(tt.line))
		var class provider.Class
		if l.Err != nil {
			class = l.Err.Class
		}
		if err != nil || l.ID != "a" || l.Answer.Status != tt.status || class != tt.class {
			t.Errorf("%s: %+v, %v", name, l, err)
		}
	}
	for _, bad := range []string{"", "{", `{"custom_id":7}`, `{"response":{}}`} {
		if _, err := New().Batches("").Line([]byte(bad)); err == nil {
			t.Errorf("%q is taken for a line", bad)
		}
	}
}

// OpenRouter reads the members of a creation in their order; Azure's endpoint has no version.
func TestDialects(t *testing.T) {
	m := provider.BatchMeta{Tag: "s-1", Name: "n", File: "file-1", Endpoint: "/chat/completions", Model: "m"}
	head, between, tail, _ := New().Batches("openrouter").Frame(m)
	c := &provider.Call{Path: m.Endpoint, Body: json.RawMessage("{\"model\":\n\"m\"}")}
	item := New().Batches("openrouter").Item(c, "id")
	got := string(head) + string(item) + string(between) + string(item) + string(tail)
	want := `{"endpoint":"/v1/chat/completions","model":"m","completion_window":"24h","requests":[{"custom_id":"id","body":{"model": "m"}},{"custom_id":"id","body":{"model": "m"}}]}`
	if got != want {
		t.Errorf("%s, want %s", got, want)
	}
	if r := New().Batches("azure").Create(m); !json.Valid(r.Body) || string(r.Body[:60]) != `{"input_file_id":"file-1","endpoint":"/chat/completions","co` {
		t.Errorf("%s", r.Body)
	}
	if r := New().Batches("together").Upload(); r.Path != "/files/upload" {
		t.Errorf("%+v", r)
	}
	if line := New().Batches("").Item(c, "id"); string(line) != `{"custom_id":"id","method":"POST","url":"/v1/chat/completions","body":{"model": "m"}}` {
		t.Errorf("%s", line)
	}
}
