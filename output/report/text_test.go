package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"llmbatch/output"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test -update rewrites it); got:\n%s", name, got)
	}
}

// simulated is the summary of a night with no local time in it.
func simulated(n int, length time.Duration) Summary {
	s := NewStats()
	for r := range night(n, length) {
		s.Add(r)
	}
	return s.Summary()
}

func TestWriteText(t *testing.T) {
	sum := simulated(2000, time.Hour)
	sum.Run = &RunFacts{
		ExitCode: 1, Reason: "finished: 82 items are not ok", Items: 2310, Skipped: 310, SkippedNotOK: 4, PeakInFlight: 48,
		WallMS: 3_724_000, Output: "prompts.results.jsonl", Notes: []string{"the output's last line was cut off by a crash; it was removed"},
		Next: "llmbatch run --retry-failed prompts.jsonl",
	}
	var b bytes.Buffer
	if err := sum.WriteText(&b, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	golden(t, "run.txt", b.Bytes())

	b.Reset()
	sum.Run, sum.FirstAttempt = nil, nil // its times of day are local
	sum.Throughput = nil
	if err := sum.WriteText(&b, TextOptions{Detail: true}); err != nil {
		t.Fatal(err)
	}
	golden(t, "report.txt", b.Bytes())
}

// C47, C60: whatever servers and users wrote, lines fit and nothing but text
// and line ends comes out.
func TestTextIsPlainAndNarrow(t *testing.T) {
	nasty := "\x1b]0;title\x07\x1b[2J \u202eevil\u2066 \xff\x00\r\n" + strings.Repeat("<div>page</div>", 600) + " " + strings.Repeat("ü", 300)
	id, _ := json.Marshal(nasty)
	s := NewStats()
	at := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	for i := range 40 {
		s.Add(&output.Result{
			ID: id, Status: output.Failed, Model: nasty, Provider: nasty, GiveUpReason: nasty, FinishedAt: at.Add(time.Duration(i) * time.Hour),
			Error:    &output.Error{Class: nasty, Status: 502 + i, Message: nasty},
			Attempts: []output.Attempt{{Outcome: nasty, StartedAt: at, Wait: 1e18, WaitReason: nasty}, {Outcome: nasty, StartedAt: at.Add(48 * time.Hour)}},
		})
		s.Add(&output.Result{ID: id, Status: output.OK, StopReason: nasty, HasCost: true, Cost: 1e12, Usage: output.Usage{
			InputTokens: 1e15, OutputTokens: 1e15, CacheReadTokens: 1e15, CacheWriteTokens: 1e15, ReasoningTokens: 1e15}})
	}
	sum := s.Summary()
	sum.Run = &RunFacts{Items: -1, Reason: nasty, Output: nasty, Notes: []string{nasty}, Skipped: 1e9, SkippedNotOK: 1e9, Untouched: 1e9, Invalid: 1e9}
	var b bytes.Buffer
	if err := sum.WriteText(&b, TextOptions{Detail: true}); err != nil {
		t.Fatal(err)
	}
	if !utf8.Valid(b.Bytes()) {
		t.Error("got invalid UTF-8")
	}
	for line := range strings.Lines(b.String()) {
		line = strings.TrimSuffix(line, "\n")
		if n := utf8.RuneCountInString(line); n > textWidth {
			t.Errorf("got %d columns, want at most %d: %q", n, textWidth, line)
		}
		for _, r := range line {
			if !unicode.IsPrint(r) {
				t.Errorf("got %U in %q, want only what can be printed", r, line)
			}
		}
	}
}

// The command to type is one line, however long it is.
func TestNextIsNotBroken(t *testing.T) {
	next := "llmbatch run --retry-failed " + strings.Repeat("a-long-folder/", 12) + "prompts.jsonl"
	sum := NewStats().Summary()
	sum.Run = &RunFacts{Next: next}
	var b bytes.Buffer
	if err := sum.WriteText(&b, TextOptions{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "\nnext: "+next+"\n") {
		t.Errorf("got %q, want the whole command on its line", b.String())
	}
}
