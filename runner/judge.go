package runner

import (
	"llmbatch/pacing"
	"llmbatch/runner/provider"
)

// action is what becomes of an item after an attempt.
type action uint8

const (
	keep     action = iota // an answer
	again                  // another try, if the budgets allow it
	fail                   // the item can't succeed
	giveUp                 // the server said not to try again
	shutLane               // nothing can succeed in this lane
	abortRun               // nothing can succeed at all
	weigh                  // it says so, but others may be answered
	cancel                 // the run cancelled it
)

// verdict is what an attempt means to the item and to its lane.
type verdict struct {
	act    action
	signal pacing.Signal
	// counts: the attempt counts against --max-errors.
	counts bool
	// throttled: the lane's gate decides when to go again, not the item's backoff.
	throttled bool
}

// judge is the one place where what the API said becomes a signal for pacing
// and a decision for the item. A nil error is an answer.
func judge(e *provider.Error) verdict {
	if e == nil {
		return verdict{act: keep, signal: pacing.Good}
	}
	v := verdict{act: actionOf(e)}
	switch e.Class {
	case provider.RateLimited:
		v.signal, v.throttled = pacing.Throttled, true
	case provider.Overloaded:
		v.signal, v.throttled = pacing.Overloaded, true
		if e.NoShrink { // a model still loading: not a matter of how many requests there are
			v.signal, v.throttled = pacing.Failed, false
		}
	case provider.ServerError, provider.Timeout, provider.ConnectionError, provider.Truncated:
		v.signal, v.counts = pacing.Failed, true
		if e.Local { // fewer at a time are what helps, and the item is not at fault
			v = verdict{act: v.act, signal: pacing.Overloaded, throttled: true}
		}
		if (e.NoShrink || e.Content) && e.Class == provider.ServerError {
			v.signal = pacing.Answered // a conflict, or what the model wrote: the server is up
		}
	case provider.InvalidResponse:
		v.signal, v.counts = pacing.Answered, true
	case provider.Canceled:
		v.signal = pacing.Nothing
	default: // rejected, spend cap, auth
		v.signal, v.counts = pacing.Answered, true
	}
	return v
}

func actionOf(e *provider.Error) action {
	switch {
	case e.Class == provider.Canceled:
		return cancel
	case e.Scope == provider.WholeRun:
		return abortRun
	case e.Scope == provider.WholeLane:
		return shutLane
	case e.Scope == provider.ItemOnly:
		return fail
	case !e.NoRetry:
		return again
	case e.Class == provider.RateLimited, e.Class == provider.Overloaded, e.Status >= 500:
		return giveUp
	default:
		return fail
	}
}
