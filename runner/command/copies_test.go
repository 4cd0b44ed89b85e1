package command

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// copiedRow is what the tests look at of a row.
type copiedRow struct {
	ID         any
	Status     string
	Text       string
	Cost       *float64
	Metadata   any
	Attempts   []any
	CopiedFrom string `json:"copied_from"`
	ReusedFrom string `json:"reused_from"`
}

func copiedRows(t *testing.T, path string) map[string]copiedRow {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	rows := map[string]copiedRow{}
	for line := range strings.Lines(string(data)) {
		var r copiedRow
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("%v in %s", err, line)
		}
		rows[r.ID.(string)] = r
	}
	return rows
}

// Items with one request are sent once, also where one of them was answered before,
// and each has its own row.
func TestDedupe(t *testing.T) {
	t.Parallel()
	base, requests := api(t, "ok")
	line := func(id, prompt string) string {
		return `{"id":"` + id + `","prompt":"` + prompt + `","metadata":{"of":"` + id + `"}}` + "\n"
	}
	in := file(t, "p.jsonl", line("a", "x")+line("b", "y")+line("c", "x")+line("d", "x"))
	args := []string{"run", in, "--provider", "anthropic", "--base-url", base, "--model", "m", "--max-tokens", "9", "--dedupe", "--price-input", "1", "--price-output", "1"}
	code, _, errs := world{}.call(args...)
	want(t, code, errs, exitOK, "4 ok")
	out := filepath.Join(filepath.Dir(in), "p.results.jsonl")
	rows := copiedRows(t, out)
	if n := requests(); n != 2 || len(rows) != 4 {
		t.Errorf("got %d requests and %d rows, want 2 and 4", n, len(rows))
	}
	sent := 0
	for id, r := range rows {
		if r.Status != "ok" || r.Text == "" || r.Metadata == nil {
			t.Errorf("%s: got %+v, want an answer with its own metadata", id, r)
		}
		if r.CopiedFrom == "" {
			sent++
		} else if r.Cost != nil || len(r.Attempts) != 0 || rows[r.CopiedFrom].CopiedFrom != "" {
			t.Errorf("%s: got %+v, want no cost, no attempt, and the id of a sent item", id, r)
		}
	}
	if sent != 2 {
		t.Errorf("got %d rows that are no copies, want 2", sent)
	}
	if err := os.WriteFile(in, []byte(line("a", "x")+line("e", "x")+line("b", "y")+line("c", "x")+line("d", "x")), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs = world{}.call(args...)
	want(t, code, errs, exitOK)
	if rows := copiedRows(t, out); requests() != 2 || rows["e"].CopiedFrom == "" {
		t.Errorf("got %d requests and %+v, want no further request", requests(), rows["e"])
	}
}

// An answer that another file has is not bought again.
func TestReuse(t *testing.T) {
	t.Parallel()
	base, requests := api(t, "ok")
	flags := []string{"--provider", "anthropic", "--base-url", base, "--model", "m", "--max-tokens", "9"}
	first := file(t, "first.jsonl", `{"id":"a","prompt":"x"}`+"\n"+`{"id":"b","prompt":"y"}`+"\n")
	code, _, errs := world{}.call(append([]string{"run", first}, flags...)...)
	want(t, code, errs, exitOK)
	results := strings.TrimSuffix(first, ".jsonl") + ".results.jsonl"
	second := file(t, "second.jsonl", `{"id":"k","prompt":"y"}`+"\n"+`{"id":"n","prompt":"new"}`+"\n")
	code, _, errs = world{}.call(append([]string{"run", second, "--reuse", results}, flags...)...)
	want(t, code, errs, exitOK, "2 ok")
	rows := copiedRows(t, strings.TrimSuffix(second, ".jsonl")+".results.jsonl")
	if k := rows["k"]; requests() != 3 || k.ReusedFrom != results || len(k.Attempts) != 0 || rows["n"].ReusedFrom != "" {
		t.Errorf("got %d requests and %+v, want 3 and one reused answer", requests(), rows)
	}
	code, out, errs := world{}.call(append([]string{"run", second, "-o", "-", "--reuse", results}, flags...)...)
	want(t, code, errs, exitOK)
	want(t, code, out, exitOK, `"reused_from":"`+results+`"`)
	// Of two files with the answer, the last named is taken.
	again := strings.TrimSuffix(second, ".jsonl") + ".results.jsonl"
	code, out, errs = world{}.call(append([]string{"run", second, "-o", "-", "--reuse", results, "--reuse", again}, flags...)...)
	want(t, code, errs, exitOK)
	want(t, code, out, exitOK, `"reused_from":"`+again+`"`)
	// A misspelt name would buy every answer again.
	before := requests()
	code, _, errs = world{}.call(append([]string{"run", second, "-o", "-", "--reuse", results + "x"}, flags...)...)
	want(t, code, errs, exitUsage, "--reuse: ", "no such file")
	whole, err := os.ReadFile(results)
	if err != nil {
		t.Fatal(err)
	}
	code, _, errs = world{}.call(append([]string{"run", second, "-o", "-", "--reuse", file(t, "broken.jsonl", "{\n"+string(whole))}, flags...)...)
	want(t, code, errs, exitUsage, "--reuse: ", "broken.jsonl:1")
	if n := requests(); n != before {
		t.Errorf("%d requests were sent with files that can't be read", n-before)
	}
}

// A table's columns come back with the answer; its delimiter is found or said.
func TestKeptColumns(t *testing.T) {
	t.Parallel()
	in := file(t, "r.csv", "id;text;score\n1;good;5\n2;bad;1\n")
	for _, flags := range [][]string{nil, {"--delimiter", ";", "--keep", "score"}} {
		code, out, errs := world{}.call(append([]string{"run", in, "--provider", "mock", "-o", "-", "-t", "Classify {{.text}}", "--system", "Score {{.score}}"}, flags...)...)
		want(t, code, errs, exitOK)
		want(t, code, out, exitOK, `"score":"5"`)
		if has := strings.Contains(out, `"text":"good"`); has != (flags == nil) {
			t.Errorf("%v: got %s", flags, out)
		}
	}
	for says, flags := range map[string][]string{"--max-answer": {"--max-answer", "many"}, "--connect-timeout": {"--connect-timeout", "-1s"}} {
		code, _, errs := world{}.call(append([]string{"run", in, "-t", "x {{.text}}", "--provider", "mock"}, flags...)...)
		want(t, code, errs, exitUsage, says)
	}
}
