package runner

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"time"

	"llmbatch/input/jsonl"
	"llmbatch/output"
	"llmbatch/pacing"
	"llmbatch/retry"
	"llmbatch/runner/provider"
)

// life is one item's attempts in this run.
type life struct {
	*task
	r        *Runner
	sender   *sender
	attempts []output.Attempt
	errs     int
	stale    int
	first    time.Time // the first attempt's start
	end      time.Time // the item's budget ends; zero: never
	usage    provider.Usage
	last     *provider.Error
	rnd      *rand.Rand // nil until it is needed
	until    time.Time  // the wait that it is in ends; zero: none that the server or a gate named
	text     string     // what cut streams brought, to be continued
	next     []byte     // the body that asks for the rest
	unpieced bool       // a request for the rest was refused: the answer is asked for whole
}

// run makes attempts until the item has its final row. It is called with the
// permit for the first one.
func (l *life) run(p *pacing.Permit) {
	l.resume()
	if !l.end.IsZero() && !time.Now().Before(l.end) {
		p.Done(pacing.Outcome{})
		l.r.settleNothing(l.task)
		l.giveUp(retry.Decision{GiveUp: "item_budget"})
		return
	}
	for p != nil {
		p = l.attempt(p)
	}
}

// attempt makes one attempt and returns the permit for the next; nil after the
// final row.
func (l *life) attempt(p *pacing.Permit) *pacing.Permit {
	body, err := l.body()
	if err != nil {
		p.Done(pacing.Outcome{})
		l.r.settle(l.task, provider.Usage{}, true)
		l.finish(output.Failed, &provider.Error{Class: provider.Rejected, Message: err.Error()}, "")
		return nil
	}
	if l.r.c.OnFlight != nil {
		l.r.c.OnFlight(l.item, Flight{At: time.Now()})
	}
	x := l.exchange(body)
	v := judge(x.err)
	l.log(p, x)
	if x.err != nil && (x.err.Class != provider.Canceled || l.last == nil) {
		l.last = x.err
	}
	l.r.settle(l.task, x.usage, x.unsent || x.usage.Known || x.refused())
	hint := l.r.hintOf(x, v)
	switch v.act { // before the permit is free: nothing more may be launched
	case shutLane:
		l.r.closeLane(l.lane, x.err, laneMessage(l.lane, x.err), false)
	case abortRun:
		l.r.abort(x.err)
	}
	o := l.outcome(x, v, hint)
	fb := p.Done(o)
	if o.Relay {
		l.sender.owes = true
		l.r.relay.owe()
	}
	if l.r.c.OnFlight != nil {
		l.r.c.OnFlight(l.item, Flight{At: time.Now(), Landed: true, Signal: v.signal, Hint: hint, Gate: fb.Gate})
	}
	if !fb.Gate.IsZero() {
		l.r.wake() // the dispatcher may read on for other lanes
	}
	l.r.observe(l.lane, x, v)
	if (v.counts || fb.Alone) && !fb.Outage && !x.stale {
		l.errs++
	}
	switch v.act {
	case keep:
		l.answer(x)
	case fail:
		if l.next != nil { // what was refused is the request for the rest: the whole one may pass
			l.text, l.next, l.part, l.unpieced = "", nil, 0, true
			return l.again(x, v, fb, hint)
		}
		l.finish(output.Failed, x.err, "")
	case giveUp:
		res := l.row(output.GaveUp, x.err, "server_said_no", time.Time{})
		if x.hint > 0 {
			res.NextAttemptAt = time.Now().Add(x.hint)
		}
		l.r.emit(res)
	case shutLane:
		l.finish(l.r.openStatus(), x.err, "lane_closed")
	case abortRun:
		l.finish(l.r.openStatus(), x.err, "")
	case cancel:
		l.stopped()
	case again:
		return l.again(x, v, fb, hint)
	}
	return nil
}

// exchange sends the body within the attempt's deadline: the earliest of its own
// timeout, the item's budget and the run's end with its drain.
func (l *life) exchange(body []byte) *exchange {
	now := time.Now()
	if l.first.IsZero() {
		l.first = now
		if l.r.c.ItemBudget > 0 {
			l.end = now.Add(l.r.c.ItemBudget)
		}
	} else if n := len(l.attempts); n > 0 && l.attempts[n-1].WaitReason != "" {
		a := &l.attempts[n-1]
		a.Wait = now.Sub(a.StartedAt.Add(a.Duration))
	}
	ctx := l.sender.until(l.deadline(now), now)
	defer l.sender.loose()
	l.r.onWire(+1)
	defer l.r.onWire(-1)
	return l.r.send(ctx, l.sender, l.task, body, now)
}

func (l *life) deadline(now time.Time) (d time.Time) {
	if l.r.c.AttemptTimeout > 0 {
		d = now.Add(l.r.c.AttemptTimeout)
	}
	d = sooner(d, l.end)
	if !l.r.c.End.IsZero() {
		d = sooner(d, l.r.c.End.Add(l.r.c.Drain))
	}
	return d
}

// sooner is the earlier of two times of which zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// body is what the next attempt sends.
func (l *life) body() ([]byte, error) {
	if err := l.r.recall(l.task); err != nil {
		return nil, err
	}
	c := *l.call
	if l.next != nil {
		c.Body = l.next
	}
	if l.r.c.Stream && !c.Stream {
		c.Body = provider.WithStream(&c)
	}
	return provider.WithFiles(c.Body, c.Files)
}

// outcome tells pacing what the attempt taught.
func (l *life) outcome(x *exchange, v verdict, hint time.Duration) pacing.Outcome {
	o := pacing.Outcome{Signal: v.signal, Hint: hint, Quota: x.quotas, Relay: v.act == keep}
	if x.stale {
		o.Signal = pacing.Nothing
	}
	if x.usage.Known {
		o.Input = float64(x.usage.InputTokens + x.usage.CacheWriteTokens)
		o.Output = float64(x.usage.OutputTokens)
	}
	return o
}

// again decides on another try and waits for its permit.
func (l *life) again(x *exchange, v verdict, fb pacing.Feedback, hint time.Duration) *pacing.Permit {
	if x.partial != "" {
		l.keepPartial(x.partial)
	}
	s := l.state(x, v, fb)
	d := l.r.c.Retry.Next(s)
	if d.GiveUp == "" && !fb.Gate.IsZero() {
		if g := l.r.c.Retry.Fits(fb.Gate.Add(-gateJitter), s); g.GiveUp != "" {
			d = g
		} else if g.Wait > 0 && d.Reason == "immediate" {
			d.Reason = "gate"
		}
	}
	if x.hint > longest && d.Reason != "capped" {
		l.r.closeLane(l.lane, x.err, laneMessage(l.lane, x.err), true)
		if d.GiveUp == "" {
			d.GiveUp = "item_budget"
		}
	}
	if d.GiveUp != "" {
		l.giveUp(d)
		return nil
	}
	a := &l.attempts[len(l.attempts)-1]
	a.WaitReason = waitReason(d, v, hint)
	a.Wait = max(d.Wait, time.Until(fb.Gate))
	if a.WaitReason == "retry_after" || a.Wait >= time.Minute {
		l.until = time.Now().Add(a.Wait)
	}
	if a.Wait >= time.Minute && !l.r.c.FinalOnly {
		l.r.write(l.row(output.Waiting, x.err, "", l.until))
	}
	if a.Wait >= DeferAfter && l.hand(time.Now().Add(a.Wait)) {
		return nil
	}
	own := d.Wait
	if v.throttled && hint <= 0 && !fb.Alone || fb.Outage {
		own = 0 // the lane's gate is the wait
	}
	return l.wait(own)
}

// gateJitter is the most by which a lane's gate opens later than it was asked
// to: no reason to give an item up.
const gateJitter = 100 * time.Millisecond

func waitReason(d retry.Decision, v verdict, hint time.Duration) string {
	if d.Reason == "gate" && v.throttled && hint == 0 {
		return "backoff" // the lane's shared one
	}
	return d.Reason
}

func (l *life) state(x *exchange, v verdict, fb pacing.Feedback) retry.State {
	if x.stale {
		l.stale++
	}
	return retry.State{
		Attempts: len(l.attempts) - l.stale, Errors: l.errs,
		Counts: (v.counts || fb.Alone) && !fb.Outage, Throttled: v.throttled, Outage: fb.Outage,
		Patient: x.err.Patient, Hint: x.hint, Unsent: x.stale && l.stale < 100,
		Now: time.Now(), ItemEnd: l.end, RunEnd: l.r.c.End, Rand: l.random(),
	}
}

// random is the item's own source: a seed repeats a run.
func (l *life) random() float64 {
	if l.rnd == nil {
		l.rnd = rand.New(rand.NewPCG(l.r.c.Seed, uint64(l.item.Index)))
	}
	return l.rnd.Float64()
}

// wait sleeps the item's own wait and then stands in its lane's queue.
func (l *life) wait(own time.Duration) *pacing.Permit {
	l.r.forget(l.task)
	l.r.waiting.Add(1)
	defer l.r.waiting.Add(-1)
	if own > 0 {
		timer := time.NewTimer(own)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-l.r.intake.Done():
			l.stopped()
			return nil
		}
	}
	notAfter, why := l.notAfter()
	for {
		p, err := l.lane.lim.Acquire(l.r.intake, l.work(notAfter))
		if err != nil {
			l.late(err, why)
			return nil
		}
		ok, settled := l.r.reserve(l.task)
		if ok {
			return p
		}
		p.Done(pacing.Outcome{})
		if !l.r.awaitMoney(settled) {
			l.stopped()
			return nil
		}
	}
}

// notAfter is when a permit is of no use any more, and the reason's name.
func (l *life) notAfter() (time.Time, string) {
	t, why := l.end, "item_budget"
	if e := l.r.c.End; !e.IsZero() && (t.IsZero() || e.Before(t)) {
		t, why = e, "run_budget"
	}
	if w := l.r.c.Retry.MaxWait; w > 0 && !l.r.capped() {
		if m := time.Now().Add(w + gateJitter); t.IsZero() || m.Before(t) {
			t, why = m, "max_wait"
		}
	}
	return t, why
}

// late ends an item that got no permit.
func (l *life) late(err error, why string) {
	var late *pacing.LateError
	switch {
	case errors.As(err, &late):
		l.giveUp(retry.Decision{GiveUp: why, NextAttemptAt: late.Until})
	case errors.Is(err, pacing.ErrClosed) && l.lane.closed.Load():
		l.finish(l.r.openStatus(), l.last, "lane_closed")
	default:
		l.stopped()
	}
}

// giveUp ends an item whose trouble outlasted a budget.
func (l *life) giveUp(d retry.Decision) {
	if d.GiveUp == "run_budget" {
		l.r.cutByEnd.Store(true)
	}
	if n := len(l.attempts); n > 0 {
		l.attempts[n-1].WaitReason, l.attempts[n-1].Wait = "", 0
	}
	res := l.row(output.GaveUp, l.last, d.GiveUp, d.NextAttemptAt)
	l.r.emit(res)
}

// answer writes the row of an item that has its answer.
func (l *life) answer(x *exchange) {
	res := l.row(output.OK, nil, "", time.Time{})
	res.Text, res.Checked = x.reply.Text, true
	switch q := x.reply.Quoted; {
	case q == nil:
		res.Text = joined(l.text, res.Text)
	case l.text != "" || !l.r.c.Fleeting: // who keeps a row wants its text
		res.Text = joined(l.text, jsonl.Text(q))
	default:
		res.Quoted = q
	}
	res.StopReason = x.reply.StopReason
	res.Model = cmp.Or(x.reply.Model, res.Model)
	res.Response = x.reply.Response
	if n := x.reply.Usage.OutputTokens; n > l.lane.mostOutput.Load() {
		l.lane.mostOutput.Store(n)
	}
	l.r.emit(res)
}

// finish writes the row of an item that has no answer.
func (l *life) finish(s output.Status, e *provider.Error, reason string) {
	l.r.emit(l.row(s, e, reason, time.Time{}))
}
