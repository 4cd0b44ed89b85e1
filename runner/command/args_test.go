package command

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func TestArrange(t *testing.T) {
	for _, c := range []struct{ typed, want string }{
		{"run x", "run -- x"},
		{"run x --fixed", "run --fixed -- x"},
		{"run x -o y --limit 3", "run -o y --limit 3 -- x"},
		{"run --limit=3 x", "run --limit=3 -- x"},
		{"run -limit 3 x", "run -limit 3 -- x"},
		{"run x -- -y --z", "run -- x -y --z"},
		{"run - -o -", "run -o - -- -"},
		{"run x -o --weird", "run -o --weird -- x"},
		{"run --header A:1,2 x", "run --header A:1,2 -- x"},
		{"run x --help", "run --help -- x"},
		{"report", "report --"},
		{"--version", "--version"},
		{"", ""},
	} {
		args := append([]string{"llmbatch"}, strings.Fields(c.typed)...)
		got, err := arrange(newApp(&env{}), args)
		if want := append([]string{"llmbatch"}, strings.Fields(c.want)...); err != nil || !slices.Equal(got.args, want) {
			t.Errorf("%q: got %q, %v, want %q", c.typed, got.args, err, want)
		}
	}
}

func TestArgumentErrors(t *testing.T) {
	for _, c := range []struct {
		typed string
		says  []string
	}{
		{"run --concurency 5 x", []string{"unknown flag --concurency", "did you mean --concurrency?"}},
		{"run x --max_errors=3", []string{"unknown flag --max_errors", "did you mean --max-errors?"}},
		{"run x -Z", []string{"unknown flag -Z", "llmbatch run --help"}},
		{"run x --key sk-1", []string{"unknown flag --key"}},
		{"run x --limit", []string{"flag --limit needs a value"}},
		{"run x y", []string{"one PROMPTS, got 2", `"y"`}},
		{"run", []string{"no PROMPTS given"}},
		{"run x --limit abc", []string{`--limit: want a whole number, not "abc"`}},
		{"run x --rpm many", []string{`--rpm: want a number, not "many"`}},
		{"run x --budget 30", []string{`--budget: "30" is not a duration`, "90s, 30m or 6h"}},
		{"run x --fixed=perhaps", []string{`--fixed: want true or false, not "perhaps"`}},
		{"run x -q=2", []string{"--quiet: want true or false"}},
		{"run x -o a --out b", []string{"--out is given twice, once as -o"}},
		{"--limit 3 run x", []string{"unknown flag --limit before the command", "llmbatch run --limit"}},
		{"--wat", []string{"unknown flag --wat", "llmbatch --help"}},
		{"rum x", []string{`unknown command "rum"`, "did you mean run?"}},
		{"prompts.jsonl", []string{"unknown command", "llmbatch run prompts.jsonl"}},
		{"run x --provider mok", []string{`"mok" is not one of`, "did you mean mock?"}},
		{"run x --concurrency 0", []string{"--concurrency: 0 is out of range"}},
		{"run x --rpm NaN", []string{"--rpm: NaN is out of range"}},
		{"run x --rpm +Inf", []string{"--rpm: +Inf is out of range"}},
		{"run x --item-budget -5s", []string{"--item-budget: -5 is out of range: it can't be negative"}},
		{"run x --on-long-wait cap", []string{"needs --max-wait"}},
		{"run x --max-cost 5", []string{"--max-cost needs prices", "--price-input"}},
		{"run x --mock-scenario ok", []string{"is for --provider mock"}},
		{"run x -q -v", []string{"exclude each other"}},
		{"run x -t a --template-file b", []string{"exclude each other"}},
		{"run x --id-field a", []string{"--template"}},
		{"run x -o - --ordered", []string{"needs a file"}},
		{"run x -o - --fresh", []string{"needs a results file"}},
		{"run x --start-concurrency 9 --concurrency 8", []string{"is above --concurrency"}},
		{"report", []string{"no RESULTS given"}},
		{"export x", []string{"no --format given", "openai-batch"}},
		{"export x --format cvs", []string{"did you mean csv?"}},
		{"export x --format text --columns id", []string{"--columns is for --format csv"}},
		{"merge x", []string{"no -o FILE given"}},
		{"merge -o x", []string{"no RESULTS given"}},
		{"mock x", []string{"takes no argument"}},
		{"mock --scenario okk", []string{"no scenario", "did you mean ok?"}},
		{"mock --rpm many", []string{"mock: ", "rpm"}},
		{"plan - --provider mock", []string{"has no name to call the results after"}},
	} {
		code, out, errs := world{}.call(strings.Fields(c.typed)...)
		want(t, code, errs, exitUsage, c.says...)
		if !strings.HasPrefix(errs, "llmbatch: ") || strings.HasSuffix(errs, "\n\n") || !strings.HasSuffix(errs, "\n") {
			t.Errorf("%q: got %q, want lines that begin with llmbatch:", c.typed, errs)
		}
		if out != "" {
			t.Errorf("%q: got %q on standard output, want nothing", c.typed, out)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"max-errors", "max-attempts", "model", "out", "header"}
	for word, want := range map[string]string{
		"max-error": "max-errors", "max_errors": "max-errors", "modle": "model", "ouu": "out", "Headers": "header",
		"attempts": "max-attempts", "xyzzy": "", "q": "",
	} {
		if got := nearest(word, known); got != want {
			t.Errorf("%s: got %q, want %q", word, got, want)
		}
	}
}

func TestPrintable(t *testing.T) {
	if got, want := printable("a\x1b[2Jb\u009bc\n\td\x7f"), "a\uFFFD[2Jb\uFFFDc\n\td\uFFFD"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// A file's name beside --help is not the name of a help topic.
func TestHelpBesideAFile(t *testing.T) {
	for _, line := range []string{"run p.jsonl --help", "run -h p.jsonl", "plan p.jsonl -h", "report r.jsonl --help", "fleet run p.jsonl --help", "run p.jsonl --help-all"} {
		var out, said bytes.Buffer
		code := Main(append([]string{"llmbatch"}, strings.Fields(line)...), strings.NewReader(""), &out, &said)
		name, _, _ := strings.Cut(line, " ")
		if code != exitOK || !strings.HasPrefix(out.String(), "llmbatch "+name) || said.Len() > 0 {
			t.Errorf("%s: exit %d, %.60q and %q on standard error; want the help", line, code, out.String(), said.String())
		}
	}
}
