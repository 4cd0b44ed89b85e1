package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmbatch/output/report"
	"llmbatch/runner"
)

// printed is what --print-config says about a flag.
func printed(t *testing.T, out, flag string) string {
	t.Helper()
	for line := range strings.Lines(out) {
		if rest, ok := strings.CutPrefix(strings.TrimPrefix(line, "# "), flag+": "); ok {
			return strings.TrimRight(rest, "\n")
		}
	}
	t.Errorf("no line for %s in\n%s", flag, out)
	return ""
}

// Order: flag, environment, file, default.
func TestPrecedence(t *testing.T) {
	config := file(t, "c.yaml", "max-errors: 3\nmodel: 4\nmax-cost: 5\nprice-input: 1\nheader: ['A: 1', 'B: 2,3']\nfixed: true\nbudget: 6h\n")
	for _, c := range []struct {
		args []string
		env  map[string]string
		flag string
		want string
	}{
		{nil, nil, "max-errors", "5  # default"},
		{[]string{"--config", config}, nil, "max-errors", "3  # " + config + ":1"},
		{[]string{"--config", config}, map[string]string{"LLMBATCH_MAX_ERRORS": "4"}, "max-errors", "4  # LLMBATCH_MAX_ERRORS"},
		{[]string{"--config", config, "--max-errors", "7"}, map[string]string{"LLMBATCH_MAX_ERRORS": "4"}, "max-errors", "7  # flag"},
		{nil, map[string]string{"LLMBATCH_CONFIG": config}, "model", `"4"  # ` + config + ":2"},
		{nil, map[string]string{"LLMBATCH_CONFIG": config}, "max-cost", "5  # " + config + ":3"},
		{nil, map[string]string{"LLMBATCH_CONFIG": config}, "header", `["A: 1", "B: 2,3"]  # ` + config + ":5"},
		{nil, map[string]string{"LLMBATCH_CONFIG": config}, "fixed", "true  # " + config + ":6"},
		{nil, map[string]string{"LLMBATCH_CONFIG": config}, "budget", "6h  # " + config + ":7"},
		{nil, map[string]string{"LLMBATCH_HEADER": "A: 1\nB: 2,3\n"}, "header", `["A: 1", "B: 2,3"]  # LLMBATCH_HEADER`},
		{[]string{"--header", "C: 4"}, map[string]string{"LLMBATCH_HEADER": "A: 1"}, "header", `["C: 4"]  # flag`},
		{nil, map[string]string{"LLMBATCH_FIXED": "1"}, "fixed", "true  # LLMBATCH_FIXED"},
		{nil, map[string]string{"LLMBATCH_MODEL": ""}, "model", `""  # default`},
		{[]string{"-o", "x"}, map[string]string{"LLMBATCH_OUT": "y"}, "out", "x  # flag"},
	} {
		code, out, errs := world{env: c.env}.call(append([]string{"run", "x", "--print-config"}, c.args...)...)
		want(t, code, errs, 0)
		if got := printed(t, out, c.flag); got != c.want {
			t.Errorf("%v %v: got %s: %s, want %s", c.args, c.env, c.flag, got, c.want)
		}
	}
}

func TestSettingsErrors(t *testing.T) {
	for _, c := range []struct{ content, says, hint string }{
		{"max_errors: 3\n", `c.yaml:1: unknown key "max_errors"`, "did you mean max-errors?"},
		{"\n\nconcurency: 3\n", `c.yaml:3: unknown key "concurency"`, "did you mean concurrency?"},
		{"config: x\n", `unknown key "config"`, ""},
		{"print-config: true\n", `unknown key "print-config"`, ""},
		{"limit: 1\nlimit: 2\n", "c.yaml:2: limit is already set in line 1", ""},
		{"limit: many\n", `c.yaml:1: limit: want a whole number, not "many"`, ""},
		{"limit: [1]\n", "c.yaml:1: limit: want a single value", ""},
		{"limit:\n", "c.yaml:1: limit: no value", ""},
		{"budget: 30\n", `c.yaml:1: budget: "30" is not a duration`, "90s, 30m or 6h"},
		{"provider: mok\n", `c.yaml:1 (--provider): "mok" is not one of`, "did you mean mock?"},
		{"- a\n", "want a mapping", "max-errors: 3"},
		{"a: [\n", "c.yaml: ", ""},
		{"model: a\n---\nmodel: b\n", "more than one document", ""},
		{"prices: [3]\n", "c.yaml:1: prices: want a mapping of models", "input: 3"},
		{"prices:\n  m: {inptu: 3}\n", `c.yaml:2: unknown key "inptu"`, "did you mean input?"},
		{"prices:\n  m: {input: -3}\n", `"-3" is not a price`, ""},
		{"prices:\n  m: {input: 3}\n  m: {input: 3}\n", "m comes twice", ""},
		{"prices:\n  m: 3\n", "c.yaml:2: prices: want input and output", ""},
	} {
		code, _, errs := world{}.call("run", "x", "--config", file(t, "c.yaml", c.content))
		want(t, code, errs, exitUsage, c.says, c.hint)
	}
	code, _, errs := world{}.call("run", "x", "--config", "/does/not/exist")
	want(t, code, errs, exitUsage, "settings: ", "no such file")
	code, _, errs = world{env: map[string]string{"LLMBATCH_LIMIT": "x"}}.call("run", "x")
	want(t, code, errs, exitUsage, `LLMBATCH_LIMIT: want a whole number, not "x"`)
}

func TestEmptySettings(t *testing.T) {
	for _, content := range []string{"", "# nothing\n", "---\n", "null\n", "{}\n"} {
		code, _, errs := world{}.call("run", "x", "--print-config", "--config", file(t, "c.yaml", content))
		want(t, code, errs, 0)
	}
}

// What --print-config prints is a file that --config takes, with the same effect.
func TestPrintConfigIsConfig(t *testing.T) {
	args := []string{"run", "x", "--print-config", "--model", "a: b", "--header", "A: 1,2", "--until", "06:00", "--max-cost", "2.5",
		"--price-input", "0.000001", "--system", "two\nlines # not a comment", "--concurrency", "7"}
	code, out, errs := world{}.call(args...)
	want(t, code, errs, 0)
	code, again, errs := world{}.call("run", "x", "--print-config", "--config", file(t, "c.yaml", out))
	want(t, code, errs, 0)
	values := func(s string) string {
		var b strings.Builder
		for line := range strings.Lines(s) {
			b.WriteString(line[:strings.LastIndex(line, "  # ")] + "\n")
		}
		return b.String()
	}
	if values(out) != values(again) {
		t.Errorf("got\n%s\nwant\n%s", again, out)
	}
	golden(t, "print-config.txt", out)
}

func TestSecretsAreHidden(t *testing.T) {
	const secret = "sk-very-secret"
	code, out, errs := world{env: map[string]string{"ANTHROPIC_API_KEY": secret}}.call("run", "x", "--print-config",
		"--header", "Authorization: Bearer "+secret, "--header", "api-key:"+secret, "--header", "X-Team: search", "--header", "X-Key: env:TEAM_KEY",
		"--base-url", "https://me:"+secret+"@host/v1?api-version=3&key="+secret)
	want(t, code, errs, 0, "")
	if strings.Contains(out+errs, secret) {
		t.Errorf("got the secret in %s", out)
	}
	for _, shown := range []string{"X-Team: search", "env:TEAM_KEY", "api-version=3"} {
		if !strings.Contains(out, shown) {
			t.Errorf("got %s, want it with %s", out, shown)
		}
	}
}

func FuzzSettingsFile(f *testing.F) {
	for _, seed := range []string{"", "model: 4\n", "header: [a, b]\n", "prices:\n  m: {input: 1}\n", "a: &x 1\nmodel: *x\n", "- a", "\t", "limit: {a: b}"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, content string) {
		code, _, errs := world{}.call("run", "x", "--print-config", "--config", file(t, "c.yaml", content))
		if code != exitOK && code != exitUsage {
			t.Errorf("got exit code %d: %s", code, errs)
		}
	})
}

// Words of people are booleans, in the environment, in the file and on the command
// line; a variable that is nearly a setting's is refused with its name.
func TestYesNoAndMisspeltVariables(t *testing.T) {
	t.Parallel()
	for word, want := range map[string]string{"yes": "true", "on": "true", "1": "true", "No": "false", "off": "false", "0": "false"} {
		for place, args := range map[string][]string{
			"LLMBATCH_QUIET": nil, "--quiet": {"--quiet=" + word}, "file": {"--config", file(t, "c.yaml", "quiet: "+word+"\n")},
		} {
			w := world{}
			if args == nil {
				w.env = map[string]string{place: word}
			}
			_, out, errs := w.call(append([]string{"run", "x", "--print-config"}, args...)...)
			if got, _, _ := strings.Cut(printed(t, out, "quiet"), " "); got != want {
				t.Errorf("%s %s: got %s, want %s\n%s", place, word, got, want, errs)
			}
		}
	}
	for _, args := range [][]string{{"run", "x"}, {"report", "x"}, {"fleet", "status"}} {
		code, _, errs := world{env: map[string]string{"LLMBATCH_MAX_ERORS": "3"}}.call(args...)
		want(t, code, errs, exitUsage, "LLMBATCH_MAX_ERORS is the variable of no flag", "did you mean LLMBATCH_MAX_ERRORS?")
	}
	code, _, errs := world{env: map[string]string{"LLMBATCH_WRAPPER_OF_MINE": "3"}}.call("run", "x", "--print-config")
	want(t, code, errs, exitOK)
}

// What other programs call our flags is answered with our name.
func TestNamesOfOtherPrograms(t *testing.T) {
	t.Parallel()
	for typed, says := range map[string]string{
		"--output": "--out?", "--workers": "--concurrency?", "--retries": "--max-errors", "--dry-run": "llmbatch plan", "--top_p": "--params",
		"--key": "--api-key-file", "--prompt": "--template",
	} {
		code, _, errs := world{}.call("run", "x", typed, "y")
		want(t, code, errs, exitUsage, "unknown flag "+typed, "did you mean "+says)
	}
}

// There is one list of what is secret, for --print-config too.
func TestPassAndCodeAreHidden(t *testing.T) {
	t.Parallel()
	code, out, errs := world{}.call("run", "x", "--print-config", "--header", "X-Pass: s3cret", "--base-url", "https://h/v1?code=s3cret&api-version=3")
	want(t, code, out, exitOK, "api-version=3")
	if strings.Contains(out+errs, "s3cret") {
		t.Errorf("got the secret in %s%s", out, errs)
	}
	x := &execution{session: &session{
		e:   &env{args: []string{"run", "p", "--header", "X-Pass: s3cret", "--base-url=https://h/v1?code=s3cret", "--base-url", "https://u:s3cret@h"}},
		out: "r", router: &router{},
	}}
	if got := x.next(ending{rep: runner.Report{Reason: runner.Aborted}}, report.RunFacts{}); strings.Contains(got, "s3cret") {
		t.Errorf("got the secret in %s", got)
	}
}

// Prices come from LiteLLM's list as it is, or from a map of one's own.
func TestPricesFile(t *testing.T) {
	t.Parallel()
	in := file(t, "p.jsonl", `{"id":"a","prompt":"hello","model":"claude-x","max_tokens":1000000}`+"\n")
	for name, content := range map[string]string{
		"lite.json": `{"sample_spec":{"input_cost_per_token":0,"max_tokens":"words"},"claude-x":{"input_cost_per_token":3e-06,"output_cost_per_token":1.5e-05,"mode":"chat"},"other":{"mode":"chat"}}`,
		"own.yaml":  "claude-x: {input: 3, output: 15}\n",
		"own.json":  `{"prices": {"claude-x": {"input": 3, "output": 15}}}`,
	} {
		path := file(t, name, content)
		code, out, errs := world{}.call("plan", in, "--prices", path)
		want(t, code, errs, exitOK)
		want(t, code, out, exitOK, "about 15,")
		code, _, errs = world{}.call("plan", in, "--config", file(t, "c.yaml", "prices: "+path+"\nmax-cost: 1\n"))
		want(t, code, errs, exitOK)
	}
	code, _, errs := world{}.call("plan", in, "--prices", file(t, "x", "{}\n"), "--max-cost", "1")
	want(t, code, errs, exitUsage, "needs prices")
}

// The rows and the summary can't both go to standard output; ids to ask again for
// must be named, and starting over would drop the others.
func TestContradictions(t *testing.T) {
	t.Parallel()
	for says, args := range map[string][]string{
		"would both go to standard output":   {"-o", "-", "--summary", "-"},
		"needs --only-ids":                   {"--rerun"},
		"would drop the answers":             {"--only-ids", "x", "--fresh"},
		"--system and --system-file exclude": {"--system", "a", "--system-file", "b"},
		"want a JSON object":                 {"--params", "[1]", "--provider", "mock"},
	} {
		code, _, errs := world{}.call(append([]string{"run", file(t, "p.jsonl", `{"id":1,"prompt":"x"}`+"\n")}, args...)...)
		want(t, code, errs, exitUsage, says)
	}
}

// --params and --system-file reach the body, of batch lines too; --rerun asks again
// for what is named alone.
func TestParamsAndRerun(t *testing.T) {
	t.Parallel()
	base, requests := api(t, "ok")
	dir := t.TempDir()
	in := filepath.Join(dir, "p.jsonl")
	if err := os.WriteFile(in, []byte(`{"id":"a","prompt":"x"}`+"\n"+`{"id":"b","messages":[{"role":"user","content":"x"}]}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	args := []string{"run", in, "--provider", "anthropic", "--base-url", base, "--model", "m", "--max-tokens", "9",
		"--params", "@" + file(t, "params.json", `{"top_p":0.5}`), "--system-file", file(t, "system.txt", "be brief\n")}
	code, _, errs := world{}.call(args...)
	want(t, code, errs, exitOK, "filled from the flags: --model in 2 lines", "--params in 2", "--system in 2")
	if n := requests(); n != 2 {
		t.Errorf("got %d requests, want 2", n)
	}
	code, _, errs = world{}.call(append(args, "--rerun", "--only-ids", file(t, "ids", "b\n"))...)
	want(t, code, errs, exitOK)
	if n := requests(); n != 3 {
		t.Errorf("got %d requests after the rerun of one, want 3", n)
	}
	code, _, errs = world{}.call(args...)
	want(t, code, errs, exitOK)
	if n := requests(); n != 3 {
		t.Errorf("got %d requests after all were done, want 3", n)
	}
	code, _, errs = world{}.call(append(args, "--temperature", "1", "--on-changed", "rerun")...)
	want(t, code, errs, exitOK)
}
