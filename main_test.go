package main

import (
	"bytes"
	"flag"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"llmbatch/runner/command"
)

var update = flag.Bool("update", false, "rewrite the examples' expected output")

// TestMain lets the test binary be the program itself, for shell scripts.
func TestMain(m *testing.M) {
	if os.Getenv("LLMBATCH_TEST_AS_MAIN") == "1" {
		os.Exit(command.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// shell runs a script with bash in dir, with the program on its path as llmbatch
// and a go command that knows only what the README asks of it.
func shell(t *testing.T, dir, script string) string {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := t.TempDir()
	tool := func(name, body string) {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\n"+body), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	self := fmt.Sprintf("LLMBATCH_TEST_AS_MAIN=1 exec '%s' \"$@\"\n", exe)
	tool("llmbatch", self)
	tool("go", `case "$1 $2" in
"run .") shift 2; `+strings.TrimSpace(self)+` ;;
"test ./...") exit 0 ;;
"install .") exit 0 ;;
"build "*) exit 0 ;;
esac
echo "go $*: not a command of the README" >&2; exit 1
`)
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+bin, "TERM=dumb",
		"ANTHROPIC_API_KEY=", "ANTHROPIC_AUTH_TOKEN=", "OPENAI_API_KEY=", "ANTHROPIC_BASE_URL=", "OPENAI_BASE_URL=")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Errorf("%v in\n%s\nstandard error:\n%s", err, script, said.String())
	}
	return out.String()
}

// Each command block of the README runs, in the order in which it stands, in a
// copy of the examples.
func TestReadme(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllSubmatch(readme, -1)
	if len(blocks) < 4 {
		t.Fatalf("%d command blocks in the README", len(blocks))
	}
	dir := t.TempDir()
	if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS("examples")); err != nil {
		t.Fatal(err)
	}
	for _, b := range blocks {
		shell(t, dir, string(b[1]))
	}
	if lines := bytes.Count(readme, []byte("\n")); lines > 220 {
		t.Errorf("the README has %d lines, want at most 220", lines)
	}
}

// Each example's run.sh prints what its expect.txt says.
func TestExamples(t *testing.T) {
	t.Parallel()
	scripts, err := filepath.Glob("examples/*/run.sh")
	if err != nil || len(scripts) < 4 {
		t.Fatalf("examples %v, %v", scripts, err)
	}
	for _, s := range scripts {
		t.Run(filepath.Base(filepath.Dir(s)), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.CopyFS(dir, os.DirFS(filepath.Dir(s))); err != nil {
				t.Fatal(err)
			}
			script, err := os.ReadFile(s)
			if err != nil {
				t.Fatal(err)
			}
			got := shell(t, dir, string(script))
			golden := filepath.Join(filepath.Dir(s), "expect.txt")
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil || got != string(want) {
				t.Errorf("got\n%s\nwant\n%s (%v)", got, want, err)
			}
		})
	}
}

// allowed is the import map: what each package may import of ours. Imports run
// down only, and a few packages from outside have one importer.
var allowed = map[string][]string{
	"input/jsonl": nil, "retry": nil, "pacing": nil, "runner/provider/mockapi": nil,
	"input":                        {"input/jsonl"},
	"output":                       {"input/jsonl"},
	"runner/provider":              {"input", "input/jsonl"},
	"runner/provider/sse":          {"runner/provider"},
	"runner/provider/body":         {"input", "input/jsonl", "runner/provider"},
	"runner/provider/anthropic":    {"input", "input/jsonl", "runner/provider", "runner/provider/body"},
	"runner/provider/openai":       {"input", "input/jsonl", "runner/provider", "runner/provider/body"},
	"runner/provider/sigv4":        {},
	"runner/provider/gemini":       {"input", "input/jsonl", "runner/provider", "runner/provider/body"},
	"runner/provider/providertest": {"input", "runner/provider", "runner/provider/body", "runner/provider/sse"},
	"output/plain":                 {},
	"runner/expect":                {},
	"output/live":                  {"output", "output/plain"},
	"output/report":                {"output", "output/plain"},
	"runner":                       {"input", "input/jsonl", "output", "pacing", "retry", "runner/provider", "runner/provider/sse"},
	"runner/batch":                 {"input", "input/jsonl", "output", "pacing", "retry", "runner", "runner/provider"},
	"runner/fleet": {"input", "input/jsonl", "output", "output/live", "output/plain", "output/report", "pacing", "retry", "runner", "runner/provider",
		"runner/provider/anthropic", "runner/provider/openai", "runner/provider/mockapi"},
	"runner/command": {"*"},
	"":               {"runner/command"},
}

var onlyImporter = map[string]string{
	"golang.org/x/sync/semaphore":       "pacing",
	"golang.org/x/sync/errgroup":        "runner",
	"github.com/schollz/progressbar/v3": "output/live",
	"github.com/urfave/cli/v2":          "runner/command",
	"github.com/go-analyze/charts":      "output/report",
	"github.com/nats-io/nats-server/v2": "runner/fleet",
}

func TestImportMap(t *testing.T) {
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() && strings.HasPrefix(d.Name(), ".") && path != "." {
			return cmpSkip(err)
		}
		if d.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		pkg := strings.TrimPrefix(filepath.ToSlash(filepath.Dir(path)), ".")
		may, known := allowed[pkg]
		if !known {
			t.Errorf("package %s is not in the import map", pkg)
		}
		for _, i := range f.Imports {
			name, _ := strconv.Unquote(i.Path.Value)
			if ours, is := strings.CutPrefix(name, "llmbatch/"); is && !slices.Contains(may, "*") && !slices.Contains(may, ours) {
				t.Errorf("%s imports %s: imports run down only", path, name)
			}
			for outside, only := range onlyImporter {
				if strings.HasPrefix(name, outside) && pkg != only {
					t.Errorf("%s imports %s: only %s does", path, name, only)
				}
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func cmpSkip(err error) error {
	if err != nil {
		return err
	}
	return filepath.SkipDir
}
