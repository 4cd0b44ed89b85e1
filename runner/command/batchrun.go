package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/output/live"
	"llmbatch/output/report"
	"llmbatch/pacing"
	"llmbatch/runner"
	"llmbatch/runner/batch"
	"llmbatch/runner/provider"
)

// batchRun is a run through a Batch API: what has ended is collected, a few items are
// sent live to see that they pass, the rest goes into batches, and what these leave
// is run live where that is asked for.
type batchRun struct {
	*execution
	engine *batch.Engine
	stop   *stopper
	spend  *pacing.Spend
	salt   string
	sent   int // items sent live as a probe
	total  runner.Report
	live   bool // the runner is at work
}

// noOpenBatches refuses a run without --batch where items are in open batches, and
// one that starts over: they would be bought twice.
func (s *session) noOpenBatches() error {
	if s.out == "-" {
		return nil
	}
	_, views, err := batch.Read(batch.JournalName(s.out))
	if err != nil {
		return journalError(err)
	}
	if len(views) == 0 || s.o.batch && !s.o.fresh {
		return nil
	}
	n := 0
	for _, v := range views {
		n += v.N
	}
	return usagef("%s of %s open at the provider (%s)", plural(len(views), "batch", "batches"), s.out+" "+isAre(len(views)), plural(n, "request", "requests")).
		hint("run with --batch, and without --fresh, to collect what comes of them").
		hint("to stop them: llmbatch batch %s --cancel", shellWords([]string{s.out}))
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func journalError(err error) error {
	f := usagef("%w", err)
	if j, ok := errors.AsType[*batch.JournalError](err); ok {
		f.hint("%s", j.Hint)
	}
	return f
}

// executeBatch is execute with --batch.
func (s *session) executeBatch(ctx context.Context, stop *stopper) (x *execution, rep runner.Report, err error) {
	x = &execution{session: s, started: s.e.now(), stats: report.NewStats()}
	if x.end, err = runEnd(s.o, s.e.start, s.e.now()); err != nil {
		return nil, rep, err
	}
	if s.in.Pipe() {
		return nil, rep, usagef("--batch needs a file: %s can't be read again when the results come", s.in.Name())
	}
	b := &batchRun{execution: x, stop: stop, total: runner.Report{Rows: map[output.Status]int{}, Skipped: map[output.Status]int{}}}
	if s.o.maxCost > 0 {
		b.spend = pacing.NewSpend(s.o.maxCost)
	}
	for _, status := range []output.Status{output.OK, output.Failed} {
		if s.isDone(output.Row{Status: status}) {
			b.total.Skipped[status] = s.found.old[status]
		}
	}
	if s.found.todo == 0 && !exists(batch.JournalName(s.out)) {
		return x, b.total, nil
	}
	x.display = live.Start(live.Options{Mode: mode(s.o), Out: s.e.stderr, Snapshot: b.snapshot, JSON: s.o.logFormat == "json"})
	defer x.display.Stop()
	if b.salt, err = s.file.Salt(); err != nil {
		return nil, rep, failf(exitWrite, "%w", err)
	}
	if x.metrics, err = startMetrics(s.o, x.status); err != nil {
		return nil, rep, err
	}
	if err := b.open(); err != nil {
		return nil, rep, err
	}
	err = b.run(ctx)
	if closing := b.engine.Close(); err == nil {
		err = closing
	}
	x.display.Stop()
	return x, b.total, err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// open makes the engine. The errors are the user's: nothing has been sent.
func (b *batchRun) open() error {
	target, err := b.target()
	if err != nil {
		return err
	}
	o := b.o
	c := batch.Config{
		Journal: batch.JournalName(b.out), Salt: b.salt, Target: target, Vendor: vendorOf(target),
		Items:  b.items,
		Encode: func(it *input.Item) (*provider.Call, error) { return target.Provider.Encode(it, target.Defaults) },
		Done:   b.done, Old: b.oldRow, Write: b.orPrint(b.file.Write), Sync: b.file.Sync, OnRow: b.onRow,
		Then: o.then, MaxErrors: o.maxErrors, Limit: o.limit, Size: o.batchSize, Queue: int64(o.batchQueue), Open: o.batchOpen,
		Poll: o.batchPoll, Delete: o.batchDelete, NoFailFast: o.noFailFast, Spend: b.spend, Drain: o.drain,
		Transport: runner.NewTransport(4, 0), Agent: "llmbatch/" + version(), Scrub: b.router.scrubber(), Log: b.logger(),
	}
	c.Expect = runnerConfig(o, b.router, c.Log).Expect
	if o.hasPrices() {
		c.Price = func(model string) (runner.Price, bool) {
			p, ok := o.price(model)
			f := o.batchPrice
			return runner.Price{Input: p.Input * f, Output: p.Output * f, CacheRead: p.CacheRead * f, CacheWrite: p.CacheWrite * f}, ok
		}
	}
	c.End = b.end
	switch {
	case o.waitGiven() && o.batchWait == 0:
		c.NoWait = true
	case o.waitGiven():
		c.End, c.HandOver = earlier(c.End, b.e.now().Add(o.batchWait)), o.then != "batch"
	case o.batchUntil != "":
		until, err := parseUntil(o.batchUntil, b.e.now())
		if err != nil {
			return err
		}
		c.End, c.HandOver = earlier(c.End, until), o.then != "batch"
	}
	if b.engine, err = batch.Open(c); err != nil {
		return journalError(err)
	}
	return b.lostJournal()
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

func vendorOf(t *runner.Target) string {
	if t.Defaults.Name == openaiName || t.Defaults.Name == mockName {
		return ""
	}
	return t.Defaults.Name
}

// target is where all lines go: a run's batches are at one provider.
func (b *batchRun) target() (target *runner.Target, err error) {
	for it, err := range b.items() {
		if err != nil {
			return nil, err
		}
		if it.Bad != nil {
			continue
		}
		t, err := b.router.route(it)
		if err != nil {
			return nil, err
		}
		if target != nil && t != target {
			return nil, usagef("--batch is for one provider, and the lines are for two: line %d is for %s", it.Line, t.Defaults.Name).
				hint("add --provider, or split the file")
		}
		if target = t; len(b.found.lanes) <= 1 {
			break
		}
	}
	if target == nil {
		return nil, usagef("%s has no line that can be sent", b.in.Name())
	}
	return target, nil
}

// lostJournal refuses a results file that says it has items in batches, and whose
// journal is not there.
func (b *batchRun) lostJournal() error {
	if len(b.engine.Views()) > 0 || exists(batch.JournalName(b.out)) || b.found.old[output.Waiting] == 0 {
		return nil
	}
	for it, err := range b.items() {
		if err != nil {
			return err
		}
		row, ok := b.old(it.Key)
		if !ok || row.Status != output.Waiting {
			continue
		}
		r, err := b.file.Row(row.Offset)
		if err != nil {
			return err
		}
		if r.Error != nil && r.Error.Class == batch.InBatch {
			return usagef("%s has items in batches, and their journal %s is gone", b.out, filepath.Base(batch.JournalName(b.out))).
				hint("put it back; or cancel the batches at the provider, and start over with --fresh")
		}
	}
	return nil
}

// done says that an earlier run's row is enough.
func (b *batchRun) done(key string) bool {
	row, ok := b.old(key)
	return ok && b.isDone(row) && b.o.onChanged != "rerun"
}

func (b *batchRun) oldRow(key string) (*output.Result, error) {
	row, ok := b.old(key)
	if !ok {
		return nil, nil
	}
	return b.file.Row(row.Offset)
}

// run goes through the steps; b.total has what came of them.
func (b *batchRun) run(ctx context.Context) error {
	rep := b.engine.Collect(ctx)
	if rep.Reason != runner.Aborted && rep.Reason != runner.WriteFailed && ctx.Err() == nil {
		todo, err := b.checkLines()
		if err != nil {
			return err
		}
		if todo {
			if err := b.engine.Supported(ctx); err != nil {
				return usagef("%w", err).hint("nothing was put into a batch")
			}
			if stopped := b.probe(ctx); stopped {
				b.finishWith(b.engine.Report())
				return nil
			}
		}
		rep = b.engine.Run(ctx)
	}
	b.finishWith(rep)
	if b.o.then == "live" && b.total.Reason <= runner.BudgetEnded && b.total.Reason != runner.Aborted && b.total.Reason != runner.CostCap && ctx.Err() == nil {
		open := b.total
		b.runLive(ctx, b.engine.Wants, b.o.limit)
		if b.total.Reason == runner.Finished {
			b.total.Reason, b.total.Message = open.Reason, open.Message
		}
	}
	return nil
}

// checkLines finds the items that can't be in a batch, and says whether any item
// needs work.
func (b *batchRun) checkLines() (todo bool, err error) {
	var bad []string
	n := 0
	for it, err := range b.items() {
		if err != nil {
			return false, err
		}
		if it.Bad != nil || !b.engine.Wants(it.Key) {
			continue
		}
		todo = true
		t, err := b.router.route(it)
		if err != nil {
			return false, err
		}
		call, err := t.Provider.Encode(it, t.Defaults)
		if err != nil {
			return false, err
		}
		if err := b.engine.Check(call); err != nil && b.o.then != "live" {
			if n++; len(bad) < mostNamed {
				bad = append(bad, fmt.Sprintf("%s:%d: %v", b.in.Name(), it.Line, err))
			}
		}
	}
	if n > len(bad) {
		bad = append(bad, fmt.Sprintf("… and %d more", n-len(bad)))
	}
	if n > 0 {
		return false, usagef("%s; nothing was put into a batch:\n%s", plural(n, "line can't be in a batch", "lines can't be in a batch"), strings.Join(bad, "\n")).
			hint("mend them, or send them live: --then live")
	}
	return todo, nil
}
