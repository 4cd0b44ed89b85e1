package command

import (
	"errors"
	"path/filepath"
	"testing"

	"llmbatch/output"
	"llmbatch/output/report"
	"llmbatch/runner"
)

// 5 before 70 before signals before 3 before 4 before 1.
func TestExitCode(t *testing.T) {
	broken := errors.New("disk full")
	for _, c := range []struct {
		name string
		end  ending
		want int
	}{
		{"all ok", ending{}, exitOK},
		{"bad rows", ending{bad: 1}, exitRows},
		{"rows that had to wait", ending{pending: 1}, exitRows},
		{"budget", ending{rep: runner.Report{Reason: runner.BudgetEnded}, bad: 1}, exitBudget},
		{"abort", ending{rep: runner.Report{Reason: runner.Aborted}, bad: 1}, exitAborted},
		{"lane", ending{rep: runner.Report{Reason: runner.LaneClosed}}, exitAborted},
		{"cost", ending{rep: runner.Report{Reason: runner.CostCap}}, exitAborted},
		{"input", ending{rep: runner.Report{Reason: runner.InputFailed}}, exitUsage},
		{"ctrl-C", ending{rep: runner.Report{Reason: runner.Interrupted}, signal: 130}, 130},
		{"terminated", ending{rep: runner.Report{Reason: runner.Interrupted}, signal: 143}, 143},
		{"hung up", ending{rep: runner.Report{Reason: runner.Interrupted}, signal: 129}, 129},
		{"ctrl-C while an abort drains", ending{rep: runner.Report{Reason: runner.Aborted}, signal: 130}, 130},
		{"ctrl-C at the end of the budget", ending{rep: runner.Report{Reason: runner.BudgetEnded}, signal: 130}, 130},
		{"internal", ending{rep: runner.Report{Reason: runner.Internal}, signal: 130}, exitInternal},
		{"write", ending{rep: runner.Report{Reason: runner.WriteFailed}, signal: 130}, exitWrite},
		{"fsync at the end", ending{write: broken, signal: 143, bad: 1}, exitWrite},
		{"write and internal", ending{write: broken, rep: runner.Report{Reason: runner.Internal}}, exitWrite},
	} {
		if got := c.end.code(); got != c.want {
			t.Errorf("%s: got %d, want %d", c.name, got, c.want)
		}
	}
}

func TestNextCommand(t *testing.T) {
	x := &execution{session: &session{
		e: &env{args: []string{"run", "--fresh", "my prompts.jsonl", "--header", "api-key: s3cret", "--header=Authorization: Bearer s3cret",
			"-t", "it's {{.a}}", "--header", "X-A: env:K"}},
		out: "my results.jsonl", router: &router{},
	}}
	again := "llmbatch run 'my prompts.jsonl' --header 'api-key: [hidden]' '--header=Authorization: [hidden]' -t 'it'\\''s {{.a}}' --header 'X-A: env:K'"
	for _, c := range []struct {
		rep  runner.Report
		want string
	}{
		{runner.Report{}, "llmbatch report 'my results.jsonl'"},
		{runner.Report{Reason: runner.Aborted}, again},
		{runner.Report{Reason: runner.BudgetEnded}, again},
		{runner.Report{Reason: runner.InputFailed}, ""},
	} {
		end := ending{rep: c.rep}
		if got := x.next(end, report.RunFacts{}); got != c.want {
			t.Errorf("%v: got %s\nwant %s", c.rep.Reason, got, c.want)
		}
	}
	end := ending{rep: runner.Report{Rows: map[output.Status]int{output.GaveUp: 1}}, bad: 1}
	if got := x.next(end, report.RunFacts{}); got != again {
		t.Errorf("gave up: got %s, want %s", got, again)
	}
	end = ending{rep: runner.Report{Rows: map[output.Status]int{output.Failed: 1}}, bad: 1}
	if got, want := x.next(end, report.RunFacts{}), "llmbatch report 'my results.jsonl'"; got != want {
		t.Errorf("failed: got %s, want %s", got, want)
	}
}

func TestLockedOutput(t *testing.T) {
	in := prompts(t, 1)
	out := filepath.Join(filepath.Dir(in), "out.jsonl")
	held, err := output.Open(out, output.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close(output.CloseOptions{})
	code, _, errs := world{}.call("run", "--provider", "mock", in, "-o", out)
	want(t, code, errs, exitUsage, "another run is writing this file", "hint: ")
}
