package runner

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/pacing"
	"llmbatch/runner/provider"
)

// log adds an attempt to the item's log.
func (i *item) log(p *pacing.Permit, x *exchange) {
	a := output.Attempt{
		Attempt: i.earlier + len(i.attempts) + 1, StartedAt: x.started, Duration: x.took,
		Status: x.status, Outcome: string(provider.ClassOK), RequestID: x.request,
		RetryAfter: x.raw, Concurrency: p.Limit, Usage: usageOf(x.usage), Unsent: x.unsent, Worker: i.r.c.Worker,
	}
	if i.r.c.LimitOf != nil {
		a.Concurrency = i.r.c.LimitOf(i.line)
	}
	if x.err != nil {
		a.Outcome = string(x.err.Class)
		a.Error = i.r.c.Scrub.String(x.err.Message)
	}
	if x.usage.Known {
		i.usage = addUsage(i.usage, x.usage)
	}
	i.attempts = append(i.attempts, a)
	if !x.unsent {
		i.r.requests.Add(1)
	}
	if x.err != nil && x.err.Class == provider.RateLimited {
		i.r.throttled.Add(1)
	}
	i.r.debugAttempt(i, a)
}

func addUsage(a, b provider.Usage) provider.Usage {
	return provider.Usage{
		InputTokens: a.InputTokens + b.InputTokens, OutputTokens: a.OutputTokens + b.OutputTokens,
		CacheReadTokens: a.CacheReadTokens + b.CacheReadTokens, CacheWriteTokens: a.CacheWriteTokens + b.CacheWriteTokens,
		ReasoningTokens: a.ReasoningTokens + b.ReasoningTokens, Known: true,
	}
}

func usageOf(u provider.Usage) output.Usage {
	return output.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
		CacheReadTokens: u.CacheReadTokens, CacheWriteTokens: u.CacheWriteTokens, ReasoningTokens: u.ReasoningTokens,
	}
}

// row builds the item's row as it stands.
func (i *item) row(s output.Status, e *provider.Error, reason string, next time.Time) *output.Result {
	res := i.r.base(i)
	res.Status, res.GiveUpReason = s, reason
	res.FinishedAt = time.Now()
	if s == output.Failed || s == output.OK || s == output.Aborted {
		res.GiveUpReason = ""
	}
	res.FirstAttemptAt = i.first
	if i.old != nil && !i.old.FirstAttemptAt.IsZero() {
		res.FirstAttemptAt = i.old.FirstAttemptAt
	}
	if s == output.GaveUp || s == output.Aborted || s == output.Waiting {
		res.PartialText = i.text
	}
	res.Attempts = i.attempts
	res.NextAttemptAt = next
	if (s == output.Aborted || s == output.GaveUp) && next.IsZero() && i.until.After(res.FinishedAt) {
		res.NextAttemptAt = i.until // the run or the lane ended in the middle of the wait
	}
	if e != nil {
		res.Error = i.r.errorOf(e)
	}
	res.Usage = usageOf(i.usage)
	if i.old != nil {
		res.Usage = res.Usage.Add(i.old.Usage)
	}
	if i.r.c.Price != nil && i.usage.Known {
		if p, ok := i.r.c.Price(i.call.Model); ok {
			res.Cost, res.HasCost = p.Of(i.usage), true
		}
	}
	if i.old != nil && i.old.HasCost { // what earlier runs paid stays paid
		res.Cost, res.HasCost = res.Cost+i.old.Cost, true
	}
	return res
}

// base is what every row of an item has.
func (r *Runner) base(i *item) *output.Result {
	res := &output.Result{
		ID: i.line.ID, Key: i.line.Key, RequestHash: i.hash, Index: i.line.Index,
		Provider: i.call.Provider, Model: i.call.Model, Metadata: i.line.Metadata, Input: i.line.Input,
		IdempotencyKey: i.key,
	}
	if i.old != nil {
		res.History = i.old.History
	}
	return res
}

func (r *Runner) errorOf(e *provider.Error) *output.Error {
	return &output.Error{
		Class: string(e.Class), Status: e.Status, Type: e.Type, Code: e.Code,
		Message: r.c.Scrub.String(e.Message),
	}
}

// badLine is the row of a line that can't be sent; nil if an earlier run wrote it:
// a second one would say the same.
func (r *Runner) badLine(it *input.Item, err error) *output.Result {
	if r.c.Old != nil {
		if row, had := r.c.Old(it.Key); had && row.Status == output.Failed {
			r.ledger.skip(row.Status)
			return nil
		}
	}
	return r.badRow(it, err)
}

// badRow is the row of a line that can't be sent.
func (r *Runner) badRow(it *input.Item, err error) *output.Result {
	msg := err.Error()
	var le *input.LineError
	if errors.As(err, &le) {
		msg = le.Msg
		if le.Hint != "" {
			msg += " (" + le.Hint + ")"
		}
	}
	return &output.Result{
		ID: it.ID, Key: it.Key, Status: output.Failed, Index: it.Index, Metadata: it.Metadata,
		FinishedAt: time.Now(),
		Error:      &output.Error{Class: "invalid_input", Message: r.c.Scrub.String(msg)},
	}
}

// Of is what usage costs.
func (p Price) Of(u provider.Usage) float64 {
	return (float64(u.InputTokens)*p.Input + float64(u.OutputTokens)*p.Output +
		float64(u.CacheReadTokens)*p.CacheRead + float64(u.CacheWriteTokens)*p.CacheWrite) / 1e6
}

// emit takes an item's final row.
func (r *Runner) emit(res *output.Result) {
	if res.Status == output.OK || res.Response != nil {
		res.Response, res.Text = r.c.Scrub.Bytes(res.Response), r.c.Scrub.String(res.Text)
	}
	r.settleRows(r.guard.finished(res, r.c.FinalOnly))
}

// settleRows does what the uniform-failure guard decided.
func (r *Runner) settleRows(due rowsDue) {
	for _, res := range due.undo {
		r.ledger.count(res, -1)
	}
	for _, res := range due.write {
		r.write(res)
	}
	for _, res := range due.tell {
		if r.c.OnRow != nil {
			r.c.OnRow(res)
		}
	}
	if due.trip != "" {
		r.ending.halt(stop{
			reason: Aborted, message: due.trip,
			hint: "mend what the message says and run the same command again, or go on all the same with --no-fail-fast",
		})
	}
}

// write hands a row to the sink and counts it.
func (r *Runner) write(res *output.Result) {
	if err := r.c.Write(res); err != nil {
		r.ending.halt(stop{reason: WriteFailed, err: err, message: err.Error()})
	}
	if res.Status != output.Waiting {
		r.ledger.count(res, +1)
	}
}

func (r *Runner) debugAttempt(i *item, a output.Attempt) {
	if !r.c.Log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	r.c.Log.Debug("attempt", "id", i.line.Key, "attempt", a.Attempt, "status", a.Status, "outcome", a.Outcome,
		"ms", a.Duration.Milliseconds(), "limit", a.Concurrency, "retry_after", a.RetryAfter, "error", a.Error)
}
