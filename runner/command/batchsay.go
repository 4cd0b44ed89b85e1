package command

import (
	"fmt"
	"strings"
	"time"

	"llmbatch/output"
	"llmbatch/output/live"
	"llmbatch/runner"
	"llmbatch/runner/batch"
)

// finishWith adds what the batches did to the run's report.
func (b *batchRun) finishWith(rep batch.Report) {
	for status, n := range rep.Rows {
		b.total.Rows[status] += n
	}
	if b.total.Reason == runner.Finished {
		b.total.Reason, b.total.Message, b.total.Hint, b.total.Err = rep.Reason, rep.Message, rep.Hint, rep.Err
	}
	if rep.Open > 0 {
		b.inBatches = fmt.Sprintf("%s (%s) go on at the provider; run the same command again to collect, or stop them: llmbatch batch %s --cancel",
			plural(rep.Open, "batch", "batches"), plural(rep.Items, "request", "requests"), shellWords([]string{b.out}))
		if rep.Open == 1 {
			b.inBatches = strings.Replace(b.inBatches, " go on ", " goes on ", 1)
		}
	}
	if n := rep.Rows[output.Aborted]; n > 0 && rep.Open == 0 && b.total.Reason == runner.Finished {
		b.total.Reason = runner.BudgetEnded
		b.inBatches = plural(n, "item was", "items were") + " in batches that were cancelled; run the same command again to send them anew"
	}
	b.table(rep.Ended)
}

// table shows the batches that became rows.
func (b *batchRun) table(ended []batch.Ended) {
	if len(ended) == 0 || b.o.quiet {
		return
	}
	var t strings.Builder
	fmt.Fprintf(&t, "%-34s %8s %8s %8s %8s %10s", "batch", "n", "ok", "failed", "again", "time")
	if b.o.hasPrices() {
		fmt.Fprintf(&t, " %10s", "saved")
	}
	for _, e := range ended {
		fmt.Fprintf(&t, "\n%-34s %8d %8d %8d %8d %10s", printable(e.ID), e.N, e.OK, e.Failed, e.Again, shortDuration(e.Took.Round(time.Second)))
		if b.o.hasPrices() && b.o.batchPrice > 0 {
			fmt.Fprintf(&t, " %10.4g", e.Cost/b.o.batchPrice-e.Cost)
		}
	}
	fmt.Fprintln(b.display.Writer(), t.String())
}

// snapshot is the progress line's: while batches are waited for it says so.
func (b *batchRun) snapshot() live.Status {
	l := b.execution.snapshot()
	b.mu.Lock()
	isLive := b.live
	counts := b.stats.Summary()
	b.mu.Unlock()
	l.Total = b.found.items
	l.OK, l.Failed, l.GaveUp = counts.OK, counts.Failed, counts.GaveUp
	l.Done = l.OK + l.Failed + l.GaveUp
	for _, n := range b.total.Skipped {
		l.Done += n
	}
	if b.engine == nil || isLive {
		return l
	}
	l.Note = inBatchesNow(b.engine.Views(), b.e.now())
	return l
}

// inBatchesNow is "2 batches, 14200 requests, in progress for 12m, expire 06:10".
func inBatchesNow(views []batch.View, now time.Time) string {
	if len(views) == 0 {
		return ""
	}
	n, state := 0, views[0].State
	var since, expires time.Time
	for _, v := range views {
		n += v.N
		if v.State != state {
			state = "open"
		}
		since, expires = earlier(since, v.Since), earlier(expires, v.Expires)
		if v.Stuck != "" {
			state = v.Stuck
		}
	}
	text := fmt.Sprintf("%s, %s, %s", plural(len(views), "batch", "batches"), plural(n, "request", "requests"), strings.ReplaceAll(printable(state), "_", " "))
	if !since.IsZero() {
		text += " for " + shortDuration(now.Sub(since).Round(time.Second))
	}
	if !expires.IsZero() {
		text += ", expire " + expires.Local().Format("15:04")
	}
	return text
}
