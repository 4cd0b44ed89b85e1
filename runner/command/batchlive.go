package command

import (
	"context"
	"iter"
	"maps"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/runner"
)

// probe sends a few items of each model and endpoint live. It reports whether the
// run has to stop: better now than after a night.
func (b *batchRun) probe(ctx context.Context) (stopped bool) {
	if b.o.batchProbe == 0 {
		return false
	}
	count, keys := map[string]int{}, map[string]bool{}
	for it, err := range b.items() {
		if err != nil || b.o.limit > 0 && len(keys) >= b.o.limit {
			break
		}
		if it.Bad != nil || !b.engine.Wants(it.Key) {
			continue
		}
		t, err := b.router.route(it)
		if err != nil {
			break
		}
		call, err := t.Provider.Encode(it, t.Defaults)
		if err != nil {
			break
		}
		if kind := call.Path + " " + call.Model; count[kind] < b.o.batchProbe {
			count[kind]++
			keys[it.Key] = true
		}
	}
	b.sent = len(keys)
	before := maps.Clone(b.total.Rows)
	b.runLive(ctx, func(key string) bool { return keys[key] }, 0)
	failed, ok := b.total.Rows[output.Failed]-before[output.Failed], b.total.Rows[output.OK]-before[output.OK]
	if b.total.Reason == runner.Finished && failed > 0 && ok == 0 && !b.o.noFailFast {
		b.total.Reason = runner.Aborted
		b.total.Message = plural(failed, "item was", "items were") + " sent live to see whether they pass, and failed; nothing was put into a batch"
		b.total.Hint = "mend what the rows say, then run the same command again; or go on all the same with --no-fail-fast"
	}
	return b.total.Reason != runner.Finished
}

// runLive runs items of the input through the live API.
func (b *batchRun) runLive(ctx context.Context, wants func(key string) bool, limit int) {
	carried, at := b.engine.Carried(), map[string]int64{}
	for i, r := range carried {
		at[r.Key] = -1 - int64(i)
	}
	c := b.config()
	c.Salt, c.Spend, c.Limit, c.Skipped = b.salt, b.spend, limit, nil
	c.Items = b.only(wants)
	lookup, read := c.Old, c.OldRow
	c.Old = func(key string) (output.Row, bool) {
		if i, ok := at[key]; ok {
			r := carried[-1-i]
			return output.Row{Status: r.Status, Hash: output.HashOf(r.RequestHash), Offset: i}, true
		}
		return lookup(key)
	}
	c.OldRow = func(offset int64) (*output.Result, error) {
		if offset < 0 {
			return carried[-1-offset], nil
		}
		return read(offset)
	}
	var rows []*output.Result
	c.OnRow = func(r *output.Result) {
		b.onRow(r)
		small := *r
		small.Response, small.Text = nil, ""
		b.mu.Lock()
		rows = append(rows, &small)
		b.mu.Unlock()
	}
	b.mu.Lock()
	b.execution.runner, b.live = runner.New(c), true
	b.mu.Unlock()
	b.stop.attach(b.execution)
	rep := b.execution.runner.Run(ctx)
	b.stop.detach()
	for _, r := range rows {
		b.engine.Note(r)
	}
	b.mu.Lock()
	b.live = false
	b.mu.Unlock()
	for status, n := range rep.Rows {
		b.total.Rows[status] += n
	}
	b.total.Requests += rep.Requests
	b.total.Throttled += rep.Throttled
	b.total.Peak = max(b.total.Peak, rep.Peak)
	b.total.Reason, b.total.Message, b.total.Hint, b.total.Err = rep.Reason, rep.Message, rep.Hint, rep.Err
}

func (b *batchRun) only(wants func(key string) bool) iter.Seq2[*input.Item, error] {
	return func(yield func(*input.Item, error) bool) {
		for it, err := range b.items() {
			if err == nil && !wants(it.Key) {
				continue
			}
			if !yield(it, err) {
				return
			}
		}
	}
}

// detach takes a run from the signals: the next one cancels what is being done.
func (s *stopper) detach() {
	s.mu.Lock()
	s.run = nil
	stopped := s.first != nil
	s.mu.Unlock()
	if stopped {
		s.cancel(errSignal)
	}
}
