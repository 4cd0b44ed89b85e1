package command

import (
	"bytes"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// world is what a command under test sees. Its zero value is an empty
// environment without signals.
type world struct {
	env     map[string]string
	stdin   string
	signals signals
	now     time.Time
}

// call runs a command in process. No file of a test is outside of its own folder.
func (w world) call(args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	now := time.Now
	if !w.now.IsZero() {
		now = func() time.Time { return w.now }
	}
	sig := w.signals
	sig.release = func() {}
	code = run(append([]string{"llmbatch"}, args...), &env{
		stdin: strings.NewReader(w.stdin), stdout: &out, stderr: &errs,
		getenv: func(name string) string { return w.env[name] },
		environ: func() (all []string) {
			for name, value := range w.env {
				all = append(all, name+"="+value)
			}
			return all
		},
		signals: func() signals { return sig },
		now:     now, start: now(),
	})
	return code, out.String(), errs.String()
}

// want fails the test unless a call ended with code and said what is asked for.
func want(t *testing.T, code int, said string, wantCode int, wants ...string) {
	t.Helper()
	if code != wantCode {
		t.Errorf("exit code: got %d, want %d\n%s", code, wantCode, said)
	}
	for _, w := range wants {
		if !strings.Contains(said, w) {
			t.Errorf("got %q\nwant something with %q", said, w)
		}
	}
}

// file makes a file in the test's folder.
func file(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s\n(run with -update if that is right)", name, got, want)
	}
}

func TestHelp(t *testing.T) {
	for name, args := range map[string][]string{
		"help.txt":         {"--help"},
		"help-run.txt":     {"run", "--help"},
		"help-run-all.txt": {"run", "--help-all"},
		"help-report.txt":  {"report", "-h"},
	} {
		code, out, errs := world{}.call(args...)
		want(t, code, errs, 0)
		if errs != "" {
			t.Errorf("%v: got %q on standard error, want nothing", args, errs)
		}
		golden(t, name, out)
		for line := range strings.Lines(out) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 {
				t.Errorf("%v: line of %d columns: %q", args, n, line)
			}
		}
	}
}

// Every flag that users are promised, by name.
func TestPromisedFlags(t *testing.T) {
	promised := strings.Fields(`batch batch-delete batch-open batch-poll batch-price batch-probe batch-queue batch-size batch-until batch-wait then api-key-command api-key-ttl expect reask burst out provider endpoint base-url model max-tokens temperature system api-key-file header
		concurrency fixed rpm tpm budget until item-budget attempt-timeout max-attempts max-errors max-wait stream retry-failed
		fresh limit max-cost price-input price-output template template-file id-field summary progress quiet verbose config
		print-config help-all
		start-concurrency aimd-increase aimd-decrease idle-timeout on-long-wait drain on-cut continue-style on-changed shard
		ordered skip-invalid only-ids no-fail-fast auth-header idempotency-header seed mock-scenario metrics-addr
		metrics-textfile log-format price-cache-read price-cache-write
		prices params system-file rerun very-verbose keep delimiter files-root
		reuse dedupe connect-timeout first-token-timeout max-answer`)
	got := flagNames(runFlags(&options{}))
	slices.Sort(got)
	slices.Sort(promised)
	if !slices.Equal(got, promised) {
		t.Errorf("got flags %v, want %v", got, promised)
	}
	cmd := runCommand(&env{})
	for alias, name := range map[string]string{"o": "out", "t": "template", "q": "quiet", "v": "verbose", "vv": "very-verbose"} {
		if f := lookup(cmd, alias); f == nil || f.Names()[0] != name {
			t.Errorf("-%s: got %v, want --%s", alias, f, name)
		}
	}
}

func TestVersion(t *testing.T) {
	code, out, _ := world{}.call("--version")
	want(t, code, out, 0, "llmbatch version ")
	_, same, _ := world{}.call("version")
	if same != out {
		t.Errorf("version: got %q, want %q", same, out)
	}
}

// "help COMMAND" is the command's --help, and no line of it is wider than a terminal.
func TestHelpOfEachCommand(t *testing.T) {
	t.Parallel()
	for _, c := range newApp(&env{}).Commands {
		_, want, _ := world{}.call(c.Name, "--help")
		code, got, _ := world{}.call("help", c.Name)
		if code != 0 || got != want || want == "" {
			t.Errorf("help %s: got exit %d and %q, want %q", c.Name, code, got, want)
		}
		for line := range strings.Lines(got) {
			if n := len([]rune(strings.TrimRight(line, "\n"))); n > 80 && c.Subcommands == nil {
				t.Errorf("help %s: line of %d columns: %q", c.Name, n, line)
			}
		}
	}
	if _, got, _ := (world{}).call("help"); !strings.Contains(got, "Commands:") {
		t.Errorf("help: got %q, want the commands", got)
	}
}

func TestPanicIsInternal(t *testing.T) {
	var out, errs bytes.Buffer
	code := run([]string{"llmbatch", "run", "x"}, &env{
		stdout: &out, stderr: &errs, getenv: func(string) string { panic("a fault") }, now: time.Now,
	})
	want(t, code, errs.String(), exitInternal, "internal error: a fault", "hint: ")
}

func TestMan(t *testing.T) {
	t.Parallel()
	code, out, errs := world{}.call("man")
	want(t, code, out+errs, 0, ".TH llmbatch 1", `--max-errors`, `--aimd-increase`, "SH EXIT STATUS", "fleet")
}

func TestCompletion(t *testing.T) {
	for shell, has := range map[string]string{"bash": "complete -F", "zsh": "#compdef llmbatch", "fish": "complete -c llmbatch -f"} {
		code, out, _ := world{}.call("completion", shell)
		want(t, code, out, 0, has)
		if strings.Contains(out, "`") {
			t.Errorf("%s: got a backquote, want none", shell)
		}
	}
	code, _, errs := world{}.call("completion", "tcsh")
	want(t, code, errs, exitUsage, `no completion for "tcsh"`, "bash, zsh and fish")

	for _, c := range []struct{ typed, has, hasNot string }{
		{"", "run\trun every prompt", "\n--"},
		{"ru", "run\t", "\n--"},
		{"run --max", "--max-errors\tmost attempts", "\nrun\t"},
		{"run --provider ", "mock\n", "--"},
		{"run x --progress ", "none\n", ":files"},
		{"run ", ":files\n", "--"},
		{"report ", ":files\n", "--"},
		{"run --config ", ":files\n", "--"},
		{"run --limit ", "", ":"},
		{"mock ", "", ":"},
		{"mock --scenario ", "drop\t", ":files"},
		{"completion ", "fish\n", ":files"},
	} {
		args := append(strings.Split(c.typed, " "), completionFlag)
		code, out, errs := world{}.call(args...)
		want(t, code, out+errs, 0, c.has)
		if strings.Contains(out, c.hasNot) {
			t.Errorf("%q: got %q, want no %q", c.typed, out, c.hasNot)
		}
	}
}

// No code is used twice, and the list for people has all of them.
func TestExitCodes(t *testing.T) {
	codes := map[int]string{exitOK: "0 ", exitRows: "1 ", exitUsage: "2 ", exitAborted: "3 ", exitBudget: "4 ",
		exitWrite: "5 ", exitInternal: "70 ", exitInterrupted: "130 ", exitTerminated: "143", exitHangup: "129"}
	if len(codes) != 10 {
		t.Errorf("got %d codes, want 10", len(codes))
	}
	for code := range maps.Keys(codes) {
		if !strings.Contains(exitCodes, codes[code]) {
			t.Errorf("%d: not in the list for people", code)
		}
	}
}
