package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// results makes a results file of n items.
func results(t *testing.T, n int) string {
	t.Helper()
	in := prompts(t, n)
	code, _, errs := world{}.call("run", "--provider", "mock", in, "-q", "--ordered")
	want(t, code, errs, exitOK)
	return strings.TrimSuffix(in, ".jsonl") + ".mock.jsonl"
}

func TestPlan(t *testing.T) {
	in := file(t, "p.jsonl", `{"id":"a","prompt":"x","model":"claude-x","max_tokens":100}
{"custom_id":"b","method":"POST","url":"/v1/chat/completions","body":{"model":"gpt-x","messages":[{"role":"user","content":"hello"}]}}
{"id":"c","messages":[{"role":"user","content":"hello"}],"model":"claude-x","max_tokens":50}
`)
	at := time.Date(2026, 1, 31, 22, 0, 0, 0, time.UTC)
	code, out, errs := world{now: at}.call("plan", in, "--price-input", "3", "--price-output", "15", "--rpm", "2", "--until", "06:00")
	want(t, code, errs, exitOK)
	golden(t, "plan.txt", strings.ReplaceAll(out, filepath.Dir(in)+"/", ""))
	names, err := filepath.Glob(filepath.Dir(in) + "/*")
	if err != nil || len(names) != 1 {
		t.Errorf("got files %v, want the input alone", names)
	}

	code, out, errs = world{}.call("plan", "--json", in, "--limit", "2")
	want(t, code, errs, exitOK)
	var p plan
	if err := json.Unmarshal([]byte(out), &p); err != nil {
		t.Fatal(err)
	}
	if p.Items != 3 || p.ToDo != 2 || len(p.Models) != 2 || p.OutputTokens != 100 || p.NoMaxTokens != 1 || p.Exists || p.HasCost {
		t.Errorf("got %+v, want 2 of 3 items", p)
	}
}

func TestPlanOfWhatIsDone(t *testing.T) {
	out := results(t, 3)
	in := strings.Replace(out, ".mock.", ".", 1)
	before, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	code, said, errs := world{}.call("plan", "--provider", "mock", in)
	want(t, code, errs, exitOK)
	want(t, code, said, exitOK, "has rows: 3 ok", "a run would send no request", "formats       3 prompt")
	if after, err := os.ReadFile(out); err != nil || !bytes.Equal(before, after) {
		t.Errorf("%v: plan changed the results", err)
	}
	code, _, errs = world{}.call("plan", "--provider", "mock", "-o", "x", "-")
	want(t, code, errs, exitUsage, "plan needs a file")
}

func TestReport(t *testing.T) {
	path := results(t, 3)
	code, out, errs := world{}.call("report", path)
	want(t, code, errs, exitOK)
	want(t, code, out, exitOK, "3 items, 3 ok", "slowest")
	code, out, _ = world{}.call("report", "--json", path)
	want(t, code, out, exitOK, `"rows": 3`)
	page := filepath.Join(t.TempDir(), "r.html")
	code, out, errs = world{}.call("report", path, "--html", page)
	want(t, code, errs, exitOK)
	data, err := os.ReadFile(page)
	if err != nil || !bytes.Contains(data, []byte("</html>")) || out != "" {
		t.Errorf("got %v, %q and a page of %d bytes, want a page", err, out, len(data))
	}
	code, out, _ = world{}.call("report", path, "--html", "-")
	want(t, code, out, exitOK, "</html>")
	code, _, errs = world{}.call("report", path, "--html", path)
	want(t, code, errs, exitUsage, "is the results file")
	code, _, errs = world{}.call("report", "/does/not/exist")
	want(t, code, errs, exitUsage, "no such file")
	code, _, errs = world{}.call("report", file(t, "x.jsonl", "{}\n{}\n"))
	want(t, code, errs, exitUsage, "x.jsonl:1")
}

func TestExport(t *testing.T) {
	path := results(t, 2)
	for format, wants := range map[string]string{
		"csv": "id,", "text": "OK\nOK\n", "openai-batch": `"custom_id":"q0"`, "anthropic-batch": `"custom_id":"q0"`,
	} {
		code, out, errs := world{}.call("export", path, "--format", format, "--ordered")
		want(t, code, errs, exitOK)
		want(t, code, out, exitOK, wants)
	}
	code, out, errs := world{}.call("export", path, "--format", "csv", "--columns", "id,text", "--ordered")
	want(t, code, errs, exitOK)
	if out != "id,text\nq0,OK\nq1,OK\n" && out != "id,text\r\nq0,OK\r\nq1,OK\r\n" {
		t.Errorf("got %q, want two columns", out)
	}
	to := filepath.Join(t.TempDir(), "out.txt")
	code, out, errs = world{}.call("export", path, "--format", "text", "-o", to)
	want(t, code, errs, exitOK)
	if data, err := os.ReadFile(to); err != nil || string(data) != "OK\nOK\n" || out != "" {
		t.Errorf("got %q, %q, %v, want the text in the file", data, out, err)
	}
	code, _, errs = world{}.call("export", path, "--format", "text", "-o", path)
	want(t, code, errs, exitUsage, "both the results and the export")
	broken := file(t, "broken.jsonl", "{\n{}\n")
	to = filepath.Join(t.TempDir(), "none.txt")
	code, _, errs = world{}.call("export", broken, "--format", "text", "-o", to)
	want(t, code, errs, exitUsage, "broken.jsonl:2")
	if names, err := filepath.Glob(filepath.Dir(to) + "/*"); err != nil || len(names) != 0 {
		t.Errorf("got %v, want no file of a failed export", names)
	}
}

// The form follows the ending of -o, broken rows are named and passed over, and rows of
// lines that are gone can be left out.
func TestExportForPeople(t *testing.T) {
	row := `{"id":"%s","status":"ok","request_hash":"","index":%d,"text":"two\nlines","input":{"review":"good"}}` + "\n"
	path := file(t, "r.jsonl", fmt.Sprintf(row, "a", 0)+"{\n"+fmt.Sprintf(row, "b", 1))
	prompts := file(t, "p.jsonl", `{"id":"b","prompt":"x"}`+"\n")
	for ending, wants := range map[string]string{
		"csv": "id,review,text,status,error\nb,good,\"two\nlines\",ok,\n", "txt": "\ntwo\\nlines\n", "jsonl": fmt.Sprintf(row, "b", 1),
	} {
		to := filepath.Join(t.TempDir(), "out."+ending)
		code, _, errs := world{}.call("export", path, "--only-input", prompts, "-o", to)
		want(t, code, errs, exitOK, "passed over: ", "r.jsonl:2: broken row")
		if data, err := os.ReadFile(to); err != nil || string(data) != wants || strings.Count(errs, "passed over") != 1 {
			t.Errorf("%s: got %q, %v, want %q; said %q", ending, data, err, wants, errs)
		}
	}
	code, out, errs := world{}.call("export", filepath.Join(t.TempDir(), "none.jsonl"), "--format", "csv")
	want(t, code, errs, exitUsage, "no such file")
	if out != "" {
		t.Errorf("got %q for a missing file, want no header", out)
	}
	code, _, errs = world{}.call("export", path, "--format", "csv", "--columns", "id,nosuch")
	want(t, code, errs, exitUsage, `--columns: unknown column "nosuch"`, "review")
	for _, args := range [][]string{{"report", path}, {"report", path, "--html", "-"}, {"report", path, path}} {
		code, _, errs = world{}.call(args...)
		want(t, code, errs, exitOK, "r.jsonl:2: broken row")
	}
}

func TestSchema(t *testing.T) {
	code, out, errs := world{}.call("schema")
	want(t, code, errs, exitOK)
	var schema map[string]any
	if err := json.Unmarshal([]byte(out), &schema); err != nil || schema["properties"] == nil {
		t.Errorf("got %q, %v, want a schema", out, err)
	}
}

// signalWriter ends the mock once it has said where it is.
type signalWriter struct {
	said strings.Builder
	then func(said string)
}

func (w *signalWriter) Write(p []byte) (int, error) {
	w.said.Write(p)
	w.then(w.said.String())
	return len(p), nil
}

func TestMock(t *testing.T) {
	stop := make(chan os.Signal, 1)
	status := 0
	said := &signalWriter{then: func(said string) {
		base := regexp.MustCompile(`http://127\.0\.0\.1:\d+`).FindString(said)
		go func() {
			defer func() { stop <- syscall.SIGINT }()
			resp, err := http.Post(base+"/v1/messages", "application/json", strings.NewReader(`{"model":"m","max_tokens":1,"messages":[]}`))
			if err == nil {
				status = resp.StatusCode
				resp.Body.Close()
			}
		}()
	}}
	var out bytes.Buffer
	code := run([]string{"llmbatch", "mock", "--addr", "127.0.0.1:0", "--scenario", "400"}, &env{
		stdout: &out, stderr: said, getenv: func(string) string { return "" },
		signals: func() signals { return signals{stop: stop, release: func() {}} }, now: time.Now,
	})
	want(t, code, said.said.String(), exitOK, "/v1 for openai")
	if status != 400 || out.Len() != 0 {
		t.Errorf("got status %d and %q on standard output, want 400 and nothing", status, out.String())
	}
	code, help, _ := world{}.call("mock", "--help")
	want(t, code, help, exitOK, "spend-cap", "--spend-cap-after", "sse_cut")
}
