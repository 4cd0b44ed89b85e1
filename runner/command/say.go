package command

import (
	"fmt"
	"io"
	"log/slog"
	"strings"

	"llmbatch/output/live"
	"llmbatch/output/report"
)

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
