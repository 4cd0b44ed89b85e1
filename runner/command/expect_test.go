package command

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
)

// chatServer answers chat completions with what says tells for a request's body.
func chatServer(t *testing.T, says func(r *http.Request, body string) (status int, text string)) *httptest.Server {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var b strings.Builder
		_ = json.NewDecoder(r.Body).Decode(&json.RawMessage{})
		fmt.Fprint(&b, r.Header.Get("Authorization"))
		status, text := says(r, b.String())
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if status != 200 {
			fmt.Fprintf(w, `{"error":{"type":"invalid_request_error","code":"invalid_api_key","message":%q}}`, text)
			return
		}
		fmt.Fprintf(w, `{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":1,"total_tokens":6}}`, text)
	}))
	t.Cleanup(s.Close)
	return s
}

// Answers that are not what --expect asks for are tried again, and said at the end.
func TestExpect(t *testing.T) {
	t.Parallel()
	var n atomic.Int64
	s := chatServer(t, func(*http.Request, string) (int, string) {
		if n.Add(1) == 1 {
			return 200, "Sure! positive"
		}
		return 200, `{"label":"positive"}`
	})
	in := file(t, "p.jsonl", `{"id":"a","prompt":"x","model":"m"}`+"\n")
	schema := file(t, "s.json", `{"type":"object","required":["label"]}`)
	code, _, errs := world{}.call("run", in, "--base-url", s.URL+"/v1", "--provider", "openai", "--expect", "@"+schema, "--reask", "1", "-q")
	want(t, code, errs, exitOK)
	_, out, _ := world{}.call("show", strings.TrimSuffix(in, ".jsonl")+".results.jsonl", "a")
	want(t, 0, out, 0, `{"label":"positive"}`, "unexpected: the answer is not JSON")
	strict := file(t, "strict.json", `{"properties":{"label":{"enum":["negative"]}}}`)
	code, _, errs = world{}.call("run", in, "--base-url", s.URL+"/v1", "--provider", "openai", "--expect", "@"+strict, "--max-errors", "2", "--fresh")
	want(t, code, errs, exitRows, "unexpected", "/label: value must be 'negative'")
	for _, args := range [][]string{{"--expect", "yaml"}, {"--expect", "@/no/such"}, {"--reask", "1"}, {"--burst", "4"}} {
		code, _, errs := world{}.call(append([]string{"run", in, "--provider", "mock"}, args...)...)
		want(t, code, errs, exitUsage)
	}
}

// The key is what the command prints; it is made anew after a refusal, and stands
// nowhere.
func TestAPIKeyCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	count := filepath.Join(dir, "count")
	command := "echo x >> " + count + "; echo sk-made-by-command-$(wc -l < " + count + " | tr -d ' ')"
	var n atomic.Int64
	s := chatServer(t, func(_ *http.Request, key string) (int, string) {
		if i := n.Add(1); i > 3 && strings.HasSuffix(key, "-1") {
			return 401, "Incorrect API key provided: " + key
		}
		return 200, "your key is " + key
	})
	in := prompts(t, 6)
	code, out, errs := world{}.call("run", in, "--base-url", s.URL+"/v1", "--provider", "openai", "--model", "m", "--api-key-command", command,
		"--fixed", "--concurrency", "1", "--max-attempts", "1", "-vv", "-o", filepath.Join(dir, "out.jsonl"))
	want(t, code, errs, exitOK)
	if made, err := os.ReadFile(count); err != nil || len(made) != 4 {
		t.Errorf("the command ran %d times, want twice", len(made)/2)
	}
	rows, err := os.ReadFile(filepath.Join(dir, "out.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	if all := string(rows) + out + errs; strings.Contains(all, "sk-made-by-command") {
		t.Errorf("the key stands in\n%s", all)
	}
	code, _, errs = world{}.call("run", in, "--base-url", s.URL+"/v1", "--provider", "openai", "--model", "m", "--fresh",
		"--api-key-command", "printf sk-%s secret-000000; echo no login >&2; exit 3", "-o", filepath.Join(dir, "out.jsonl"))
	want(t, code, errs, exitAborted, "failed with exit code 3: no login")
	if strings.Contains(errs, "sk-secret-0") {
		t.Errorf("what the command printed is told: %s", errs)
	}
}
