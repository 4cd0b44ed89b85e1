package batch

import (
	"context"
	"fmt"
	"time"

	"llmbatch/runner"
)

// grace is how long a batch that was cancelled at the end of the time may take to end.
const grace = 15 * time.Minute

// Collect looks at each open batch once, and makes rows of those that have ended.
func (e *Engine) Collect(ctx context.Context) Report {
	now := time.Now()
	for _, p := range e.parts {
		p.due = now
	}
	for range 3 { // a look, then its results, then what follows from them
		e.drive(ctx)
	}
	return e.report()
}

// Run sends what needs work and waits for it, until all have a row or the time is
// over.
func (e *Engine) Run(ctx context.Context) Report {
	e.run(ctx)
	for _, r := range e.guard.end() {
		e.write(r)
	}
	return e.report()
}

func (e *Engine) run(ctx context.Context) {
	var c *cutter
	defer func() {
		if c != nil {
			c.close()
		}
	}()
	for {
		if ctx.Err() != nil {
			e.halt(Report{Reason: runner.Interrupted, Err: context.Cause(ctx), Message: "interrupted"})
		}
		if e.halted != nil {
			return
		}
		acted := e.drive(ctx)
		over := e.over()
		if !over && e.halted == nil {
			if c == nil && e.fresh {
				c, e.fresh = e.newCutter(), false
			}
			if c != nil && e.mayCut() {
				acted = e.fill(ctx, &c) || acted
			}
		}
		if acted || e.halted != nil {
			continue
		}
		if len(e.parts) == 0 && (c == nil || over) || over && !e.cancelling() {
			return
		}
		if e.c.NoWait && !e.urgent() {
			return
		}
		e.sleep(ctx)
	}
}

// over says that the time is over. The first time it asks for the cancelling of
// what is open, where its items are to be run live.
func (e *Engine) over() bool {
	now := time.Now()
	if e.c.End.IsZero() || now.Before(e.c.End) {
		return false
	}
	if !e.ending.IsZero() {
		return true
	}
	e.ending = now
	for _, p := range e.parts {
		if p.phase < creating {
			e.free(p, "the time is over")
			continue
		}
		if e.c.HandOver && !p.cancel {
			e.record(record{Type: "cancel", Part: p.number, State: "deadline"})
			p.cancel, p.due = true, now
		}
	}
	return true
}

// cancelling says that the end of cancelled batches is still waited for.
func (e *Engine) cancelling() bool {
	return e.c.HandOver && len(e.parts) > 0 && time.Since(e.ending) < grace
}

// urgent says that something is wrong that a short wait may mend.
func (e *Engine) urgent() bool {
	for _, p := range e.parts {
		if p.phase < creating && p.spool != nil && p.tries < 6 {
			return true
		}
	}
	return false
}

func (e *Engine) mayCut() bool {
	return len(e.parts) < e.c.Open && !time.Now().Before(e.pause)
}

// fill cuts one part and sends it. At the end of the pass c is nil.
func (e *Engine) fill(ctx context.Context, c **cutter) bool {
	if err := e.start(); err != nil {
		e.haltErr(runner.WriteFailed, fmt.Errorf("the journal: %w", err))
		return false
	}
	k, err := (*c).take()
	switch {
	case err != nil:
		e.haltErr(runner.InputFailed, err)
	case k != nil:
		e.plan(k)
		return true
	case (*c).blocked == "":
		(*c).close()
		*c = nil
		return e.fresh
	case (*c).blocked == "money" && len(e.parts) == 0:
		e.halt(Report{Reason: runner.CostCap, Message: "the next request might cost more than --max-cost leaves",
			Hint: "raise --max-cost and run the same command again to continue"})
	}
	return false
}

// plan makes a part of a cut: from the journal's line on it can be told from others.
func (e *Engine) plan(k *cut) {
	p := &part{
		number: k.number, model: k.model, endpoint: k.endpoint, n: len(k.members), tokens: k.tokens, reserve: k.reserve,
		spool: k.spool, line: e.j.size,
	}
	_, _, tail, _ := e.api.Frame(e.meta(p.number, p.endpoint, p.model, ""))
	_, err := k.w.Write(tail)
	if err == nil {
		err = k.w.Flush()
	}
	if err != nil {
		k.spool.Close()
		e.haltErr(runner.WriteFailed, fmt.Errorf("writing a batch's input: %w", err))
		return
	}
	p.bytes = k.size + int64(len(tail))
	if !e.record(record{Type: "part", Part: p.number, Model: p.model, Endpoint: p.endpoint, N: p.n, Bytes: p.bytes,
		Tokens: p.tokens, Reserve: p.reserve, Items: k.members}) {
		k.spool.Close()
		return
	}
	for i := range k.members {
		e.marks[e.hash(k.members[i].key())] = inBatch
	}
	e.parts = append(e.parts, p)
	e.anchor(&k.members[0], p.model)
}

// record writes a line of the journal; false where it could not be.
func (e *Engine) record(r record) bool {
	if err := e.j.put(r); err != nil {
		e.haltErr(runner.WriteFailed, fmt.Errorf("the journal: %w", err))
		return false
	}
	return true
}

// drive does for each part what it needs now. It reports whether there was anything.
func (e *Engine) drive(ctx context.Context) bool {
	acted := false
	for _, p := range append([]*part(nil), e.parts...) {
		a := p.next(time.Now(), e.api.Upload() != nil)
		if a == rest || ctx.Err() != nil || e.halted != nil {
			continue
		}
		acted = true
		e.do(ctx, p, a)
		e.show()
	}
	return acted
}

func (e *Engine) do(ctx context.Context, p *part, a action) {
	switch a {
	case upload:
		e.upload(ctx, p)
	case findFile:
		e.findFile(ctx, p)
	case create:
		e.create(ctx, p)
	case find:
		e.find(ctx, p)
	case look:
		e.look(ctx, p)
	case stopIt:
		e.cancel(ctx, p)
	case prove:
		e.prove(ctx, p)
	case fetch:
		e.fetch(ctx, p)
	case free:
		if p.phase == refused {
			e.refused(p)
		} else {
			e.free(p, "")
		}
	}
}

// sleep waits until a part is due, the time is over or the run is stopped.
func (e *Engine) sleep(ctx context.Context) {
	now := time.Now()
	until := now.Add(time.Hour)
	sooner := func(t time.Time) {
		if t.After(now) && t.Before(until) {
			until = t
		}
	}
	for _, p := range e.parts {
		if !p.due.After(now) {
			return
		}
		sooner(p.due)
	}
	sooner(e.pause)
	sooner(e.c.End)
	if !e.ending.IsZero() {
		sooner(e.ending.Add(grace))
	}
	t := time.NewTimer(until.Sub(now))
	defer t.Stop()
	select {
	case <-t.C:
	case <-ctx.Done():
	}
}

// free gives a part's items back: none of them was bought.
func (e *Engine) free(p *part, why string) {
	members, err := e.j.members(p)
	if err != nil {
		e.haltErr(runner.WriteFailed, fmt.Errorf("the journal: %w", err))
		return
	}
	if !e.record(record{Type: "end", Part: p.number, State: why}) {
		return
	}
	for i := range members {
		h := e.hash(members[i].key())
		if e.marks[h] == inBatch {
			delete(e.marks, h)
		}
	}
	e.fresh = true
	e.refund(p.reserve)
	e.drop(p)
}

// drop forgets a part that is over.
func (e *Engine) drop(p *part) {
	p.phase = over
	if p.spool != nil {
		p.spool.Close()
		p.spool = nil
	}
	for i, q := range e.parts {
		if q == p {
			e.parts = append(e.parts[:i:i], e.parts[i+1:]...)
			return
		}
	}
}
