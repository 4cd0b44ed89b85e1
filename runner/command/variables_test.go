package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Commands without a settings file take their flags from variables too, the command
// line first; the name of a run's results is not taken for an export's.
func TestVariablesOfOtherCommands(t *testing.T) {
	dir := t.TempDir()
	results := filepath.Join(dir, "r.jsonl")
	row := `{"id":"a","status":"ok","request_hash":"sha256:00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff","index":0,"provider":"openai","model":"m","text":"hello","attempts":[{"attempt":1,"duration_ms":3,"status":200,"outcome":"ok"}]}` + "\n"
	if err := os.WriteFile(results, []byte(row), 0o600); err != nil {
		t.Fatal(err)
	}
	file := func(name string) string { return filepath.Join(dir, name) }
	for _, c := range []struct {
		args  []string
		env   map[string]string
		code  int
		says  string // in either stream
		wrote string // a file
	}{
		{args: []string{"report", results}, env: map[string]string{"LLMBATCH_JSON": "true"}, says: `"items"`},
		{args: []string{"report", results}, env: map[string]string{"LLMBATCH_HTML": file("page.html")}, wrote: "page.html"},
		{args: []string{"report", results}, env: map[string]string{"LLMBATCH_JSON": "perhaps"}, code: exitUsage, says: "LLMBATCH_JSON: want true or false"},
		{args: []string{"export", results}, env: map[string]string{"LLMBATCH_FORMAT": "text"}, says: "hello"},
		{args: []string{"export", "--format", "csv", results}, env: map[string]string{"LLMBATCH_FORMAT": "text"}, says: "id,"},
		{args: []string{"export", "--format", "text", results}, env: map[string]string{"LLMBATCH_OUT": results}, says: "hello"},
		{args: []string{"export", "--format", "text", results}, env: map[string]string{"LLMBATCH_EXPORT_OUT": file("e.txt")}, wrote: "e.txt"},
		{args: []string{"merge", results}, env: map[string]string{"LLMBATCH_OUT": results}, code: exitUsage, says: "no -o FILE"},
		{args: []string{"merge", results}, env: map[string]string{"LLMBATCH_MERGE_OUT": file("m.jsonl")}, wrote: "m.jsonl"},
		{args: []string{"mock"}, env: map[string]string{"LLMBATCH_SCENARIO": "none-such"}, code: exitUsage, says: "none-such"},
		{args: []string{"fleet", "serve"}, env: map[string]string{"LLMBATCH_LISTEN": "0.0.0.0:4222", "LLMBATCH_STORE": dir}, code: exitUsage, says: "0.0.0.0"},
		{args: []string{"fleet", "worker"}, env: map[string]string{"LLMBATCH_CONCURRENCY": "0", "LLMBATCH_RUN": "r"}, code: exitUsage, says: "--concurrency is at least 1"},
	} {
		code, out, errs := world{env: c.env}.call(c.args...)
		if code != c.code || !strings.Contains(out+errs, c.says) {
			t.Errorf("%v with %v: got %d %s%s, want %d and %q", c.args, c.env, code, out, errs, c.code, c.says)
		}
		if c.wrote != "" {
			if info, err := os.Stat(file(c.wrote)); err != nil || info.Size() == 0 {
				t.Errorf("%v with %v: %v, want a file", c.args, c.env, err)
			}
		}
	}
	if b, err := os.ReadFile(results); err != nil || string(b) != row {
		t.Errorf("the results were changed: %s, %v", b, err)
	}
}
