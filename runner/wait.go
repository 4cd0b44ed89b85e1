package runner

import (
	"errors"
	"time"

	"llmbatch/output"
	"llmbatch/pacing"
	"llmbatch/retry"
	"llmbatch/runner/provider"
)

// gateJitter is the most by which a lane's gate opens later than it was asked
// to: no reason to give an item up.
const gateJitter = 100 * time.Millisecond

// enqueue puts the item into its lane's queue.
func (i *item) enqueue(notAfter time.Time) {
	i.ticket = i.lane.lim.Enqueue(i.work(notAfter))
}

// firstPermit waits for the first permit; nil if the run stops or the lane closes
// before there is one.
func (i *item) firstPermit() *pacing.Permit {
	r := i.r
	if i.ticket == nil { // an earlier run was told to wait
		r.waiting.Add(1)
		in := i.sleep(time.Until(i.notBefore))
		r.waiting.Add(-1)
		if !in {
			return nil
		}
		i.enqueue(r.c.End)
	}
	p, err := i.ticket.Wait(r.ending.intake)
	if late, ok := errors.AsType[*pacing.LateError](err); ok {
		r.cutByEnd.Store(true)
		if !late.Until.IsZero() && r.lanes.allLate(r.c.End) {
			r.ending.halt(stop{reason: BudgetEnded, message: "every lane is shut until after the run's end"})
		}
	}
	return p
}

// sleep waits; false means that the run stopped before.
func (i *item) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-i.r.ending.intake.Done():
		return false
	}
}

// again decides on another try and waits for its permit.
func (i *item) again(x *exchange, v verdict, fb pacing.Feedback, hint time.Duration) *pacing.Permit {
	if x.partial != "" {
		i.keepPartial(x.partial)
	}
	d := i.decide(x, v, fb)
	if d.GiveUp != "" {
		i.giveUp(d)
		return nil
	}
	a := &i.attempts[len(i.attempts)-1]
	a.WaitReason = waitReason(d, v, hint)
	a.Wait = max(d.Wait, time.Until(fb.Gate))
	if a.WaitReason == "retry_after" || a.Wait >= time.Minute {
		i.until = time.Now().Add(a.Wait)
	}
	if a.Wait >= time.Minute && !i.r.c.FinalOnly {
		i.r.write(i.row(output.Waiting, x.err, "", i.until))
	}
	if a.Wait >= DeferAfter && i.hand(time.Now().Add(a.Wait)) {
		return nil
	}
	own := d.Wait
	if v.throttled && hint <= 0 && !fb.Alone || fb.Outage {
		own = 0 // the lane's gate is the wait
	}
	return i.wait(own)
}

// decide says whether and when the item goes again, as far as its own budgets, the
// lane's gate and the run's end allow it.
func (i *item) decide(x *exchange, v verdict, fb pacing.Feedback) retry.Decision {
	s := i.state(x, v, fb)
	p := i.policy()
	d := p.Next(s)
	if d.GiveUp == "" && !fb.Gate.IsZero() {
		if g := p.Fits(fb.Gate.Add(-gateJitter), s); g.GiveUp != "" {
			d = g
		} else if g.Wait > 0 && d.Reason == "immediate" {
			d.Reason = "gate"
		}
	}
	if x.hint > longest && d.Reason != "capped" {
		i.r.closeLane(i.lane, x.err, laneMessage(i.lane, x.err), true)
		if d.GiveUp == "" {
			d.GiveUp = "item_budget"
		}
	}
	return d
}

func waitReason(d retry.Decision, v verdict, hint time.Duration) string {
	if d.Reason == "gate" && v.throttled && hint == 0 {
		return "backoff" // the lane's shared one
	}
	return d.Reason
}

func (i *item) state(x *exchange, v verdict, fb pacing.Feedback) retry.State {
	if x.stale {
		i.stale++
	}
	return retry.State{
		Attempts: len(i.attempts) - i.stale, Errors: i.errs,
		Counts: (v.counts || fb.Alone) && !fb.Outage, Throttled: v.throttled, Outage: fb.Outage,
		Patient: x.err.Patient, Hint: x.hint, Unsent: x.stale && i.stale < 100,
		Now: time.Now(), ItemEnd: i.end, RunEnd: i.r.c.End, Rand: i.random(),
	}
}

// wait sleeps the item's own wait and then stands in its lane's queue. It holds no
// permit meanwhile, no money, and no body that can be read again.
func (i *item) wait(own time.Duration) *pacing.Permit {
	r := i.r
	r.forget(i)
	r.intake.again(i)
	defer r.intake.leave(i)
	r.waiting.Add(1)
	defer r.waiting.Add(-1)
	if own > 0 && !i.sleep(own) {
		i.stopped()
		return nil
	}
	notAfter, why := i.notAfter()
	for {
		p, err := i.lane.lim.Acquire(r.ending.intake, i.work(notAfter))
		if err != nil {
			i.late(err, why)
			return nil
		}
		ok, settled := r.reserve(i)
		if ok {
			return p
		}
		p.Done(pacing.Outcome{})
		if !r.awaitMoney(settled) {
			i.stopped()
			return nil
		}
	}
}

// notAfter is when a permit is of no use any more, and the reason's name.
func (i *item) notAfter() (time.Time, string) {
	t, why := i.end, "item_budget"
	if e := i.r.c.End; !e.IsZero() && (t.IsZero() || e.Before(t)) {
		t, why = e, "run_budget"
	}
	if p := i.policy(); p.MaxWait > 0 && !capped(p) {
		if m := time.Now().Add(p.MaxWait + gateJitter); t.IsZero() || m.Before(t) {
			t, why = m, "max_wait"
		}
	}
	return t, why
}

// late ends an item that got no permit.
func (i *item) late(err error, why string) {
	var late *pacing.LateError
	switch {
	case errors.As(err, &late):
		i.giveUp(retry.Decision{GiveUp: why, NextAttemptAt: late.Until})
	case errors.Is(err, pacing.ErrClosed) && i.lane.closed.Load():
		i.finish(i.r.ending.openStatus(), i.last, "lane_closed")
	default:
		i.stopped()
	}
}

// giveUp ends an item whose trouble outlasted a budget.
func (i *item) giveUp(d retry.Decision) {
	if d.GiveUp == "run_budget" {
		i.r.cutByEnd.Store(true)
	}
	if n := len(i.attempts); n > 0 {
		i.attempts[n-1].WaitReason, i.attempts[n-1].Wait = "", 0
	}
	if i.wrong != nil && i.last.Class == provider.Unexpected && (d.GiveUp == "max_errors" || d.GiveUp == "max_attempts") {
		i.unexpectedRow()
		return
	}
	i.r.emit(i.row(output.GaveUp, i.last, d.GiveUp, d.NextAttemptAt))
}

// stopped ends an item that is open when the run stops.
func (i *item) stopped() {
	if !i.hand(time.Time{}) {
		i.finish(i.r.ending.openStatus(), i.last, i.r.openReason())
	}
}
