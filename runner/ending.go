package runner

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"llmbatch/output"
	"llmbatch/runner/provider"
)

// stop is why a run launches nothing more.
type stop struct {
	reason        Reason
	message, hint string
	err           error
	// here: the cause may be this machine alone: its key, its way to the API.
	here bool
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

// ending is how a run stops: why, and the two contexts that end its launching and
// its requests.
type ending struct {
	intake     context.Context // done: nothing more is launched
	stopIntake context.CancelFunc
	hard       context.Context // done: requests on the wire are cancelled
	cutHard    context.CancelCauseFunc
	drainFor   time.Duration
	onStop     func(reason Reason, message, hint string, here bool)

	mu     sync.Mutex
	stop   stop
	drain  *time.Timer
	asked  bool   // Stop was called
	notice string // why the run did less than all, where no lane of its own says so
}

var errCut = errors.New("the run was stopped")

func newEnding(c *Config) *ending {
	e := &ending{drainFor: c.Drain, onStop: c.OnStop}
	e.intake, e.stopIntake = context.WithCancel(context.Background())
	e.hard, e.cutHard = context.WithCancelCause(context.Background())
	return e
}

// halt stops the launching. Requests on the wire may finish within the drain.
func (e *ending) halt(s stop) {
	e.mu.Lock()
	first := e.stop.reason == Finished
	if s.rank() > e.stop.rank() {
		e.stop = s
	}
	if first {
		e.drain = time.AfterFunc(e.drainFor, func() { e.cutHard(errCut) })
	}
	e.mu.Unlock()
	if first {
		if e.onStop != nil {
			e.onStop(s.reason, s.message, s.hint, s.here)
		}
		e.stopIntake()
	}
}

// Stop interrupts the run: nothing more is launched, and requests on the wire
// may finish within Config.Drain. A second call cancels them. It may be called
// from anywhere; err is the Report's.
func (r *Runner) Stop(err error) {
	e := r.ending
	e.mu.Lock()
	again := e.asked
	e.asked = true
	e.mu.Unlock()
	e.halt(stop{reason: Interrupted, err: err, message: "interrupted"})
	if again {
		e.cutHard(errCut)
	}
}

// close ends what is left of a run that is over.
func (e *ending) close() {
	e.mu.Lock()
	if e.drain != nil {
		e.drain.Stop()
	}
	e.mu.Unlock()
	e.stopIntake()
	e.cutHard(errCut)
}

// why is why the run stops; its reason is Finished if it does not.
func (e *ending) why() stop {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.stop
}

func (e *ending) note() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.notice
}

// openStatus is the status of an item that can't go on: aborted if the run was
// stopped, gave_up if its time ended or only its lane is closed.
func (e *ending) openStatus() output.Status {
	if r := e.why().reason; r == Finished || r == BudgetEnded {
		return output.GaveUp
	}
	return output.Aborted
}

// openReason goes with openStatus.
func (r *Runner) openReason() string {
	if r.ending.why().reason != BudgetEnded {
		return ""
	}
	r.cutByEnd.Store(true)
	return "run_budget"
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
	r.ending.halt(stop{reason: Aborted, message: msg, hint: adviceOf(e), here: e.Class == provider.AuthError})
}

func adviceOf(e *provider.Error) string {
	return cmp.Or(e.Advice, "mend what the message says, then run the same command again to continue")
}
