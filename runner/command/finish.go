package command

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"llmbatch/output"
	"llmbatch/output/report"
	"llmbatch/runner"
	"llmbatch/runner/provider"
)

// ending is all that decides how a run ends for the user.
type ending struct {
	rep     runner.Report
	signal  int   // exit code of the first signal, 0 if none came
	write   error // results could not be written
	bad     int   // rows that are failed or gave_up when the run ended, earlier ones too
	pending int   // rows left as they were that are neither that nor ok
}

// code is the exit code: 5 before 70 before signals before 3 before 4 before 1.
func (n ending) code() int {
	switch {
	case n.write != nil || n.rep.Reason == runner.WriteFailed:
		return exitWrite
	case n.rep.Reason == runner.Internal:
		return exitInternal
	case n.signal != 0:
		return n.signal
	}
	switch n.rep.Reason {
	case runner.Aborted, runner.LaneClosed, runner.CostCap:
		return exitAborted
	case runner.BudgetEnded:
		return exitBudget
	case runner.InputFailed:
		return exitUsage
	case runner.Interrupted:
		return exitInterrupted
	}
	if n.bad > 0 || n.pending > 0 {
		return exitRows
	}
	return exitOK
}

// finish closes the results, shows how the run went, and returns how it ended.
func (x *execution) finish(rep runner.Report, stop *stopper) error {
	end := ending{rep: rep}
	var notes []string
	var err error
	if x.file != nil {
		err = x.file.Close(output.CloseOptions{Ordered: x.o.ordered, Cancel: stop.now, LastResort: x.printRow})
		if mended := x.file.Mended(); mended != "" {
			notes = append(notes, mended)
		}
	} else {
		err = x.stream.Close()
	}
	if _, ok := errors.AsType[*output.WriteError](err); ok {
		end.write = err
	} else if err != nil {
		notes = append(notes, err.Error())
	}
	end.signal = stop.signalled()
	end.bad, end.pending = x.leftOver(rep)
	f := x.sentence(end)
	if err := x.metrics.finish(); err != nil {
		notes = append(notes, err.Error())
	}
	if x.runner == nil && f == nil && x.found.items > 0 {
		notes = append(notes, "nothing to do: every item has its answer")
	}
	sum := x.summary(end, f, notes)
	if err := writeSummary(x.o.summary, x.e.stdout, sum); err != nil && f == nil {
		f = failf(exitWrite, "--summary: %w", err)
	}
	x.showEnd(sum, f)
	if f == nil {
		return nil
	}
	return f
}

// forPeople leaves out the sentence that follows the table anyway.
func forPeople(sum report.Summary) report.Summary {
	facts := *sum.Run
	facts.Reason = ""
	sum.Run = &facts
	return sum
}

// leftOver counts the rows of the input's items that are not ok.
func (x *execution) leftOver(rep runner.Report) (bad, pending int) {
	bad = rep.Rows[output.Failed] + rep.Rows[output.GaveUp]
	pending = rep.Skipped[output.Waiting] + rep.Skipped[output.Aborted]
	if x.in.Pipe() {
		return bad + rep.Skipped[output.Failed] + rep.Skipped[output.GaveUp], pending
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	return bad + x.found.old[output.Failed] + x.found.old[output.GaveUp] - x.badBefore, pending
}

// sentence says how the run ended and what to do; nil if all went well.
func (x *execution) sentence(end ending) *failure {
	code := end.code()
	f := &failure{code: code}
	left := x.left(end.rep)
	switch code {
	case exitOK:
		return nil
	case exitRows:
		return x.rowsSentence(end)
	case exitWrite:
		f.msg = cmp.Or(errText(end.write), end.rep.Message)
		if end.rep.Reason == runner.WriteFailed {
			f.msg = "sending stopped: " + f.msg
		}
		if x.out == "-" {
			f.hint("%s", x.goOn())
		} else {
			w, ok := errors.AsType[*output.WriteError](end.write)
			if !ok || !w.Whole {
				f.hint("make room or mend the cause, then run the same command again: what is in the file is whole")
			}
			if ok && w.Rescue != "" {
				f.hint("%s", rescueHint(x.out, w))
			}
		}
	case exitInternal:
		f.msg = end.rep.Message
		f.hint("%s", cmp.Or(end.rep.Hint, "rows are kept; run the same command again to continue"))
	case exitAborted:
		f.msg = "stopped: " + shortened(strings.TrimRight(x.clean(end.rep.Message), ". ")) + left
		f.hint("%s", cmp.Or(x.clean(end.rep.Hint), x.goOn()))
	case exitBudget:
		f.msg = "the run's time ended first" + left
		if f.hint("%s", x.goOn()); x.inBatches != "" {
			f = failf(code, "%s", x.inBatches)
		}
	case exitUsage:
		f.msg = x.clean(end.rep.Message)
		if end.rep.Hint != "" {
			f.hint("%s", x.clean(end.rep.Hint))
		}
	default:
		f.msg = "interrupted" + left
		if f.hint("%s", x.goOn()); x.inBatches != "" {
			f.hint("%s", x.inBatches)
		}
	}
	return f
}

// goOn says how to do the rest.
func (x *execution) goOn() string {
	if x.out == "-" {
		return "a run that writes to standard output can't be continued: -o FILE can"
	}
	return "run the same command again to continue"
}

// rescueHint says how the rows in hand come back into the results.
func rescueHint(out string, w *output.WriteError) string {
	if w.Whole {
		return fmt.Sprintf("move it back, or go on from there: -o %s", shellWords([]string{w.Rescue}))
	}
	if w.TakenBack() {
		return "the next run takes the rows in hand back"
	}
	return fmt.Sprintf("append the rows in hand before that: cat %s >> %s", shellWords([]string{w.Rescue}), shellWords([]string{out}))
}

func (x *execution) clean(s string) string { return x.router.scrubber().String(s) }

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// left says in a clause how many items have no answer yet.
func (x *execution) left(rep runner.Report) string {
	ok := rep.Rows[output.OK] + rep.Skipped[output.OK]
	if x.in.Pipe() {
		return "; " + plural(ok, "item has its answer", "items have their answer")
	}
	return fmt.Sprintf("; %d of %s an answer", ok, plural(x.found.items, "item has", "items have"))
}

func (x *execution) rowsSentence(end ending) *failure {
	n := end.bad + end.pending
	where := "the results"
	if x.out != "-" {
		where = x.out
	}
	its := map[bool]string{true: "its row", false: "their rows"}[n == 1]
	f := failf(exitRows, "%s no answer: see %s in %s", plural(n, "item has", "items have"), its, where)
	if end.rep.Rows[output.GaveUp]+end.rep.Skipped[output.GaveUp]+end.pending > 0 {
		f.hint("run the same command again to try those that gave up")
	}
	if end.rep.Rows[output.Failed]+end.rep.Skipped[output.Failed] > 0 && x.out != "-" {
		f.hint("failed ones are left alone, unless you add --retry-failed")
	}
	return f
}

func plural(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// summary is the run in figures.
func (x *execution) summary(end ending, f *failure, notes []string) report.Summary {
	x.mu.Lock()
	sum := x.stats.Summary()
	x.mu.Unlock()
	rep := end.rep
	facts := report.RunFacts{
		ExitCode: end.code(), StartedAt: x.e.start.UTC(), WallMS: x.e.now().Sub(x.e.start).Milliseconds(),
		Items: x.found.items, Invalid: x.found.bad, Untouched: -1,
		PeakInFlight: rep.Peak, FinalLimit: x.status().Limit, Notes: notes,
	}
	if x.out != "-" {
		facts.Output = x.out
	}
	rows := 0
	for status, n := range rep.Skipped {
		facts.Skipped += n
		if status != output.OK {
			facts.SkippedNotOK += n
		}
	}
	for _, n := range rep.Rows {
		rows += n
	}
	switch {
	case !x.in.Pipe():
		facts.Untouched = max(0, x.found.items-rows-facts.Skipped)
	case rep.Reason == runner.Finished && x.o.limit == 0: // the end has been seen
		facts.Items, facts.Untouched = rows+facts.Skipped, 0
	default:
		facts.Items = -1
	}
	if f != nil {
		facts.Reason = f.msg
	}
	facts.Next = x.next(end, facts)
	sum.Run = &facts
	return sum
}

// next is the command to type next: the same one to go on, else the one that
// shows the results. A summary must not hold the value of a header.
func (x *execution) next(end ending, facts report.RunFacts) string {
	if x.out == "-" || end.rep.Reason == runner.InputFailed {
		return ""
	}
	again := end.code() != exitOK && (end.code() != exitRows || facts.Untouched > 0 ||
		end.rep.Rows[output.GaveUp]+end.rep.Skipped[output.GaveUp]+end.pending > 0)
	if end.code() == exitOK && facts.Untouched > 0 {
		again = true
	}
	if !again {
		return shellWords([]string{"llmbatch", "report", x.out})
	}
	words := []string{"llmbatch"}
	for _, w := range x.e.args {
		if w != "--fresh" && w != "-fresh" {
			words = append(words, hideArgument(w))
		}
	}
	return x.clean(shellWords(words))
}

// hideArgument hides what looks like a secret in an argument: a header's value, a
// member of a URL's query.
func hideArgument(w string) string {
	flag, value, inline := strings.Cut(w, "=")
	if inline = inline && strings.HasPrefix(w, "-"); !inline {
		flag, value = "", w
	}
	name, _, header := strings.Cut(value, ":")
	switch {
	case strings.Contains(value, "://"):
		value = provider.HideURL(value)
	case header && isToken(name):
		value = provider.HideHeader(value)
	}
	if inline {
		return flag + "=" + value
	}
	return value
}

// shellWords quotes words for a shell.
func shellWords(words []string) string {
	var quoted []string
	for _, w := range words {
		plain := w != "" && !strings.ContainsFunc(w, func(r rune) bool {
			return !strings.ContainsRune("-_./:=,@%+", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
		})
		if !plain {
			w = "'" + strings.ReplaceAll(w, "'", `'\''`) + "'"
		}
		quoted = append(quoted, w)
	}
	return strings.Join(quoted, " ")
}

// writeSummary writes sum as JSON, whole or not at all; "-" is standard output.
func writeSummary(path string, stdout io.Writer, sum report.Summary) error {
	if path == "" {
		return nil
	}
	data, err := json.MarshalIndent(sum, "", "  ")
	if err != nil {
		return err
	}
	data = append(data, '\n')
	if path == "-" {
		_, err = stdout.Write(data)
		return err
	}
	return writeWhole(path, data)
}

// writeWhole writes a file that only its owner may read so that a reader never
// sees a part of it.
func writeWhole(path string, data []byte) error { return writeWholeAs(path, data, 0o600) }

func writeWholeAs(path string, data []byte, mode fs.FileMode) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return os.WriteFile(path, data, mode) // a device or a pipe
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if mode != 0o600 { // as it was made; not every file system can change it
		err = errors.Join(err, f.Chmod(mode))
	}
	err = errors.Join(err, f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}
