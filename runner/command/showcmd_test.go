package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmbatch/output"
)

// One item is found by its id, with what was asked in the file that the results
// are named after.
func TestShow(t *testing.T) {
	t.Parallel()
	in := file(t, "p.jsonl", `{"id":"q1","prompt":"Capital of France?","system":"Be brief."}
{"id":9007199254740993,"messages":[{"role":"user","content":[{"type":"text","text":"look at \u001b[31mthis"},{"type":"image_url","image_url":{"url":"data:"}}]}]}
`)
	code, _, errs := world{}.call("run", "--provider", "mock", in, "-q")
	want(t, code, errs, exitOK)
	results := strings.TrimSuffix(in, ".jsonl") + ".mock.jsonl"
	code, out, errs := world{}.call("show", results, "q1")
	want(t, code, errs, exitOK)
	want(t, code, out, exitOK, "q1: ok, ", "5 tokens in, 1 out", "asked\n  system: Be brief.\n  \n  Capital of France?\n", "answer\n  OK\n", "attempts\n   1  ", "200  ok")
	code, out, errs = world{}.call("show", results, "9007199254740993")
	want(t, code, errs, exitOK)
	want(t, code, out, exitOK, `user: look at \x1b[31mthis`, "[image_url]")
	code, out, errs = world{}.call("show", "--json", results, "q1")
	want(t, code, errs, exitOK)
	var row map[string]any
	if err := json.Unmarshal([]byte(out), &row); err != nil || row["id"] != "q1" || row["text"] != "OK" {
		t.Errorf("got %v (%v), want the row", row, err)
	}
	code, _, errs = world{}.call("show", results, "q7")
	want(t, code, errs, exitUsage, `no row with the id "q7"`, "it has 2 rows, such as ")
	code, _, errs = world{}.call("show", results)
	want(t, code, errs, exitUsage, "show takes RESULTS and an ID")
	code, _, errs = world{}.call("show", results, "q1", "--input", "/does/not/exist")
	want(t, code, errs, exitUsage, "no such file")
}

// Prompts and results may be apart; without the prompts the rest is shown.
func TestShowWithoutPrompts(t *testing.T) {
	t.Parallel()
	moved := filepath.Join(t.TempDir(), "elsewhere.jsonl")
	results := results(t, 1)
	if err := os.Rename(results, moved); err != nil {
		t.Fatal(err)
	}
	code, out, errs := world{}.call("show", moved, "q0")
	want(t, code, errs, exitOK)
	if strings.Contains(out, "asked") || !strings.Contains(out, "answer\n  OK") {
		t.Errorf("got %q, want the answer alone", out)
	}
	code, out, errs = world{}.call("show", moved, "q0", "--input", strings.Replace(results, ".mock.jsonl", ".jsonl", 1))
	want(t, code, errs, exitOK)
	want(t, code, out, exitOK, "asked")
}

func TestPromptsOf(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"a.jsonl", "b.csv", "c.jsonl.gz"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for results, want := range map[string]string{
		"a.results.jsonl": "a.jsonl", "a.mock.jsonl": "a.jsonl", "a.3-of-16.results.jsonl": "a.jsonl",
		"b.csv.results.jsonl": "b.csv", "c.results.jsonl": "c.jsonl.gz", "d.results.jsonl": "", "a.jsonl": "",
	} {
		if want != "" {
			want = filepath.Join(dir, want)
		}
		if got := promptsOf(filepath.Join(dir, results)); got != want {
			t.Errorf("%s: got %q, want %q", results, got, want)
		}
	}
}

// Two files stand side by side.
func TestReportOfTwoFiles(t *testing.T) {
	t.Parallel()
	a := results(t, 3)
	b := filepath.Join(t.TempDir(), "b.jsonl")
	var rows []byte
	for r, err := range output.LastRows(a, true) {
		if err != nil {
			t.Fatal(err)
		}
		if r.Index == 1 {
			r.Text = "another answer"
		}
		rows = output.AppendRow(rows, r)
	}
	if err := os.WriteFile(b, rows, 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := world{}.call("report", a, b)
	want(t, code, errs, exitOK)
	want(t, code, out, exitOK, "items                          3                  3", "2 the same, 1 changed", "changed       q1")
	code, out, _ = world{}.call("report", "--json", a, b)
	want(t, code, out, exitOK, `"changed_answers": 1`)
	code, _, errs = world{}.call("report", a, b, "--html", "x.html")
	want(t, code, errs, exitUsage, "--html is about one file")
}

// The page says what was asked, and the command where the page is.
func TestReportPageSaysWhatWasAsked(t *testing.T) {
	t.Parallel()
	path := results(t, 1)
	page := filepath.Join(t.TempDir(), "r.html")
	code, out, errs := world{}.call("report", path, "--html", page)
	want(t, code, errs, exitOK, "the page is "+page)
	if out != "" {
		t.Errorf("got %q on standard output, want nothing", out)
	}
	q, err := openQuestions("", path)
	if err != nil {
		t.Fatal(err)
	}
	defer q.close()
	if err := q.find(nil); err != nil {
		t.Fatal(err)
	}
	if got := q.of("q0"); got == "" {
		t.Error("got no question for q0")
	}
}
