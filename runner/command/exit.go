package command

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"llmbatch/output/live"
	"llmbatch/output/report"
)

// The exit codes. Where several apply, the first of 5, 130/143/129, 3, 4, 1 wins.
const (
	exitOK          = 0   // every item's row is ok
	exitRows        = 1   // the run finished; some rows are failed or gave_up, from earlier runs too
	exitUsage       = 2   // usage or input error, or the output is locked: nothing was sent
	exitAborted     = 3   // spend cap, credit, authentication, redirect, closed lane, a guard, --max-cost
	exitBudget      = 4   // the run's time ended first; run again to continue
	exitWrite       = 5   // results could not be written: sending stopped at once
	exitInternal    = 70  // a fault of llmbatch: sending stopped, rows kept
	exitHangup      = 129 // SIGHUP
	exitInterrupted = 130 // SIGINT
	exitTerminated  = 143 // SIGTERM
)

// failure is an error with its exit code and the next steps for the user.
type failure struct {
	code  int
	msg   string
	hints []string
	// silent is set where everything has been said already.
	silent bool
	err    error
}

func (f *failure) Error() string { return f.msg }
func (f *failure) Unwrap() error { return f.err }

// hint adds a next step.
func (f *failure) hint(format string, args ...any) *failure {
	f.hints = append(f.hints, fmt.Sprintf(format, args...))
	return f
}

func usagef(format string, args ...any) *failure { return failf(exitUsage, format, args...) }

func failf(code int, format string, args ...any) *failure {
	err := fmt.Errorf(format, args...)
	return &failure{code: code, msg: err.Error(), err: errors.Unwrap(err)}
}

// tell prints an error and its hints, and returns the exit code.
func tell(w io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	f, ok := errors.AsType[*failure](err)
	if !ok {
		f = &failure{code: exitUsage, msg: err.Error()}
	}
	if !f.silent {
		fmt.Fprintf(w, "llmbatch: %s\n", printable(f.msg))
		for _, h := range f.hints {
			fmt.Fprintf(w, "hint: %s\n", printable(h))
		}
	}
	return f.code
}

// printable keeps control characters, which file names and servers can
// contain, from reaching a terminal. Line ends and tabs stay.
func printable(s string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' {
			return r
		}
		if r < ' ' || r >= 0x7f && r < 0xa0 {
			return '\uFFFD'
		}
		return r
	}, s)
}

// say writes a sentence for people to w or, with --log-format json, as a record:
// whoever parses standard error finds one object a line.
func (s *session) say(w io.Writer, text string) {
	if s.o.logFormat == "json" {
		slog.New(live.Handler(w, "json", nil)).Info(text)
		return
	}
	fmt.Fprintf(w, "llmbatch: %s\n", printable(text))
}

// showEnd shows how the run went: the table, or a record of the same figures
// without the long lists; then, as a record, how it ended. f may be nil. That
// nobody can read it is no reason to fail: the results are where they should be.
func (x *execution) showEnd(sum report.Summary, f *failure) {
	if x.o.logFormat != "json" {
		if !x.o.quiet {
			_ = forPeople(sum).WriteText(x.e.stderr, report.TextOptions{})
		}
		return
	}
	log := slog.New(live.Handler(x.e.stderr, "json", nil))
	if !x.o.quiet {
		sum.Throughput, sum.Slowest = nil, nil
		log.Info("summary", "summary", sum)
	}
	if f != nil {
		log.Error(f.msg, "exit_code", f.code, "hints", f.hints)
		f.silent = true
	}
}

// longestMessage bounds a sentence that quotes a server: its whole words are in
// the rows.
const longestMessage = 300

func shortened(s string) string {
	if len(s) <= longestMessage {
		return s
	}
	return strings.ToValidUTF8(s[:longestMessage], "") + "…"
}
