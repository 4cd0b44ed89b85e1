package runner

import (
	"errors"
	"time"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/pacing"
	"llmbatch/runner/provider"
)

// log adds an attempt to the item's log.
func (l *life) log(p *pacing.Permit, x *exchange) {
	a := output.Attempt{
		Attempt: l.earlier + len(l.attempts) + 1, StartedAt: x.started, Duration: x.took,
		Status: x.status, Outcome: string(provider.ClassOK), RequestID: x.request,
		RetryAfter: x.raw, Concurrency: p.Limit, Usage: usageOf(x.usage), Unsent: x.unsent, Worker: l.r.c.Worker,
	}
	if l.r.c.LimitOf != nil {
		a.Concurrency = l.r.c.LimitOf(l.item)
	}
	if x.err != nil {
		a.Outcome = string(x.err.Class)
		a.Error = l.r.c.Scrub.String(x.err.Message)
	}
	if x.usage.Known {
		l.usage = addUsage(l.usage, x.usage)
	}
	l.attempts = append(l.attempts, a)
	if !x.unsent {
		l.r.requests.Add(1)
	}
	if x.err != nil && x.err.Class == provider.RateLimited {
		l.r.throttled.Add(1)
	}
	l.r.debugAttempt(l.task, a)
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
func (l *life) row(s output.Status, e *provider.Error, reason string, next time.Time) *output.Result {
	res := l.r.base(l.task)
	res.Status, res.GiveUpReason = s, reason
	res.FinishedAt = time.Now()
	if s == output.Failed || s == output.OK || s == output.Aborted {
		res.GiveUpReason = ""
	}
	res.FirstAttemptAt = l.first
	if l.old != nil && !l.old.FirstAttemptAt.IsZero() {
		res.FirstAttemptAt = l.old.FirstAttemptAt
	}
	res.Attempts = l.attempts
	res.NextAttemptAt = next
	if (s == output.Aborted || s == output.GaveUp) && next.IsZero() && l.until.After(res.FinishedAt) {
		res.NextAttemptAt = l.until // the run or the lane ended in the middle of the wait
	}
	if e != nil {
		res.Error = l.r.errorOf(e)
	}
	res.Usage = usageOf(l.usage)
	if l.old != nil {
		res.Usage = res.Usage.Add(l.old.Usage)
	}
	if l.r.c.Price != nil && l.usage.Known {
		if p, ok := l.r.c.Price(l.call.Model); ok {
			res.Cost, res.HasCost = p.Of(l.usage), true
			if l.old != nil {
				res.Cost += l.old.Cost
			}
		}
	}
	return res
}

// base is what every row of a task has.
func (r *Runner) base(t *task) *output.Result {
	res := &output.Result{
		ID: t.item.ID, Key: t.item.Key, RequestHash: t.hash, Index: t.item.Index,
		Provider: t.call.Provider, Model: t.call.Model, Metadata: t.item.Metadata,
		IdempotencyKey: t.key,
	}
	if t.old != nil {
		res.History = t.old.History
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
			r.skip(row.Status)
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
