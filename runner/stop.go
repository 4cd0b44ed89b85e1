package runner

import (
	"cmp"
	"time"

	"llmbatch/output"
	"llmbatch/runner/provider"
)

// stop is why a run launches nothing more.
type stop struct {
	reason        Reason
	message, hint string
	err           error
}

// rank orders reasons: a later one replaces an earlier one of lower rank.
func (s stop) rank() int {
	switch s.reason {
	case BudgetEnded:
		return 1
	case Aborted, CostCap, InputFailed:
		return 2
	case Interrupted:
		return 3
	case WriteFailed:
		return 4
	case Internal:
		return 5
	default:
		return 0
	}
}

// halt stops the launching. Requests on the wire may finish within the drain.
func (r *Runner) halt(s stop) {
	r.stopMu.Lock()
	first := r.stop.reason == Finished
	if s.rank() > r.stop.rank() {
		r.stop = s
	}
	if first {
		r.drain = time.AfterFunc(r.c.Drain, func() { r.cutHard(errCut) })
	}
	r.stopMu.Unlock()
	if first {
		r.stopIntake()
		if r.c.OnStop != nil {
			r.c.OnStop(s.reason, s.message, s.hint)
		}
	}
}

// Stop interrupts the run: nothing more is launched, and requests on the wire
// may finish within Config.Drain. A second call cancels them. It may be called
// from anywhere; err is the Report's.
func (r *Runner) Stop(err error) {
	r.stopMu.Lock()
	again := r.asked
	r.asked = true
	r.stopMu.Unlock()
	r.halt(stop{reason: Interrupted, err: err, message: "interrupted"})
	if again {
		r.cutHard(errCut)
	}
}

func (r *Runner) stopTimers() {
	r.stopMu.Lock()
	if r.drain != nil {
		r.drain.Stop()
	}
	r.stopMu.Unlock()
	r.endpoint.mu.Lock()
	if r.endpoint.timer != nil {
		r.endpoint.timer.Stop()
	}
	r.endpoint.mu.Unlock()
	r.stopIntake()
	r.cutHard(errCut)
	for _, l := range r.allLanes() {
		l.lim.Close()
	}
}

// openStatus is the status of an item that can't go on: aborted if the run was
// stopped, gave_up if its time ended or only its lane is closed.
func (r *Runner) openStatus() output.Status {
	r.stopMu.Lock()
	defer r.stopMu.Unlock()
	if r.stop.reason == Finished || r.stop.reason == BudgetEnded {
		return output.GaveUp
	}
	return output.Aborted
}

// openReason goes with openStatus.
func (r *Runner) openReason() string {
	r.stopMu.Lock()
	defer r.stopMu.Unlock()
	if r.stop.reason == BudgetEnded {
		r.cutByEnd.Store(true)
		return "run_budget"
	}
	return ""
}

// abort ends the run for what an answer said.
func (r *Runner) abort(e *provider.Error) {
	msg := describe(r.errorOf(e))
	switch e.Class {
	case provider.SpendCap:
		msg = "spend cap or credit exhausted: " + msg
		if e.Regain != "" {
			msg += " (access returns: " + e.Regain + ")"
		}
	case provider.AuthError:
		msg = "the API refused the key: " + msg
	}
	r.halt(stop{reason: Aborted, message: msg, hint: adviceOf(e)})
}

func adviceOf(e *provider.Error) string {
	return cmp.Or(e.Advice, "mend what the message says, then run the same command again to continue")
}

// report sums the run up.
func (r *Runner) report() Report {
	r.stopMu.Lock()
	s := r.stop
	r.stopMu.Unlock()
	rep := Report{
		Reason: s.reason, Message: s.message, Hint: s.hint, Err: s.err,
		Rows: r.rows, Skipped: r.skipped,
		Unread: !r.readAll.Load(), Unsent: int(r.unsent.Load()),
		Requests: r.requests.Load(), Throttled: r.throttled.Load(), Peak: int(r.peak.Load()),
	}
	cut := rep.Unread || rep.Unsent > 0 || r.cutByEnd.Load()
	switch {
	case s.reason == BudgetEnded && !cut:
		rep.Reason, rep.Message = Finished, ""
	case s.reason != Finished:
		return rep
	case r.cutByEnd.Load():
		rep.Reason, rep.Message = BudgetEnded, "some items have to wait longer than the run's time"
	}
	if rep.Reason != Finished {
		return rep
	}
	if r.notice != "" {
		rep.Reason, rep.Message, rep.Hint = LaneClosed, r.notice, "run the same command again when it can succeed"
	}
	for _, l := range r.allLanes() {
		l.mu.Lock()
		if l.notice != "" {
			rep.Reason = LaneClosed
			rep.Message = l.notice
			rep.Hint = "run the same command again when it can succeed"
		}
		l.mu.Unlock()
	}
	return rep
}

// Status tells how the run stands.
func (r *Runner) Status() Status {
	s := Status{
		Open: int(r.open.Load()), InFlight: int(r.wired.Load()), Waiting: int(r.waiting.Load()),
		Requests: r.requests.Load(), Throttled: r.throttled.Load(),
		Input: r.inTokens.Load(), Output: r.outTokens.Load(),
		Stopping: r.intake.Err() != nil, Rows: map[output.Status]int{},
	}
	r.countMu.Lock()
	for k, n := range r.rows {
		s.Rows[k] = n
	}
	for _, n := range r.skipped {
		s.Skipped += n
	}
	s.Cost = r.cost
	r.countMu.Unlock()
	shut := true
	for _, l := range r.allLanes() {
		st := l.lim.Status()
		s.Lanes++
		s.Limit += st.Limit
		if st.Gate.IsZero() {
			shut = false
		} else if s.Gate.IsZero() || st.Gate.Before(s.Gate) {
			s.Gate, s.GateReason = st.Gate, st.Reason
		}
	}
	if !shut {
		s.Gate, s.GateReason = time.Time{}, ""
	}
	if due := r.firstDue.Load(); due > 0 && s.Open == 0 && s.Gate.IsZero() {
		s.Gate, s.GateReason = time.Unix(0, due), "an earlier run was told to wait until then"
	}
	if r.c.Survey != nil {
		r.c.Survey(&s)
	}
	return s
}
