package runner

import (
	"cmp"
	"fmt"
	"strings"
	"sync"
	"time"

	"llmbatch/output"
	"llmbatch/pacing"
	"llmbatch/runner/provider"
)

// So many items have to fail alike in a row, none answered between, for the cause to
// be taken for the run's: the first ones of a run, and later ones.
const (
	uniformFirst = 10
	uniformLater = 20
)

// uniform watches the finished items: if the first all failed with one cause, the
// whole file would. If many in a row do so later, something has changed that nobody
// knows by name, such as an account that may do nothing more.
type uniform struct {
	off bool

	mu      sync.Mutex
	later   bool // an item had another fate than the first ones
	tripped bool // it ended the run
	cause   string
	seen    []*output.Result // failed in a row, with that cause
}

// rowsDue is what becomes of rows: which to write now, which to tell the
// listeners of, which of those counted the written ones replace, and why to abort.
type rowsDue struct {
	write, tell []*output.Result
	undo        []*output.Result
	trip        string
}

// finished takes a final row. With hold no row is written that may still change.
func (u *uniform) finished(res *output.Result, hold bool) rowsDue {
	now := []*output.Result{res}
	if u.off {
		return rowsDue{write: now, tell: now}
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	failed := res.Status == output.Failed || !u.later && wrongPage(res)
	cause := causeOf(res)
	if u.tripped && failed && cause == u.cause {
		a := *res // it was on the wire then, and is as little at fault
		a.Status, a.GiveUpReason = output.Aborted, ""
		now[0] = &a
	}
	if u.tripped || res.Status == output.Aborted || len(res.Attempts) == 0 {
		return rowsDue{write: now, tell: now}
	}
	if !failed {
		u.later = true
		if len(u.seen) > 0 && begun(res).Before(begun(u.seen[0])) {
			return rowsDue{write: now, tell: now} // it says nothing of what came later
		}
		due := u.release(hold)
		due.write, due.tell = append(due.write, res), append(due.tell, res)
		return due
	}
	var due rowsDue
	if len(u.seen) > 0 && cause != u.cause {
		u.later = true
		due = u.release(hold)
	}
	u.cause = cause
	u.seen = append(u.seen, res)
	if !u.later && len(u.seen) >= uniformFirst || len(u.seen) >= uniformLater {
		return u.trip(due, hold)
	}
	if !hold {
		due.write = append(due.write, res)
	}
	return due
}

// begun is when the last request for a row began.
func begun(res *output.Result) time.Time { return res.Attempts[len(res.Attempts)-1].StartedAt }

// trip ends the run: the rows of those that failed alike become aborted.
func (u *uniform) trip(due rowsDue, hold bool) rowsDue {
	u.tripped = true
	n, which := len(u.seen), "the first %d items all failed alike: %s"
	if u.later {
		which = "%d items in a row failed alike, and none was answered meanwhile: %s"
	}
	due.trip = fmt.Sprintf(which, n, describe(u.seen[n-1].Error))
	if !hold {
		due.undo = u.seen[:n-1]
	}
	for _, s := range u.seen {
		a := *s
		a.Status, a.GiveUpReason = output.Aborted, ""
		due.write, due.tell = append(due.write, &a), append(due.tell, &a)
	}
	u.seen = nil
	return due
}

// wrongPage says that an item was answered with a 200 and nothing that the API would
// send, such as a web page: the base URL may be wrong.
func wrongPage(res *output.Result) bool {
	return res.Status == output.GaveUp && res.Error != nil &&
		res.Error.Class == string(provider.InvalidResponse) && res.Error.Status/100 == 2
}

// release ends a row of failures and returns the rows held back.
func (u *uniform) release(hold bool) (due rowsDue) {
	due.tell = u.seen
	if hold {
		due.write = append(due.write, u.seen...)
	}
	u.seen = nil
	return due
}

// rest returns what is still held back at the end of a run.
func (u *uniform) rest(hold bool) rowsDue {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.off {
		return rowsDue{}
	}
	return u.release(hold)
}

func causeOf(res *output.Result) string {
	e := res.Error
	if e == nil {
		return ""
	}
	return fmt.Sprint(e.Class, e.Status, e.Type, e.Code, shape(e.Message))
}

// shape is a message without what differs from item to item.
func shape(s string) string {
	return strings.Map(func(c rune) rune {
		if c >= '0' && c <= '9' {
			return -1
		}
		return c
	}, s)
}

// describe says in a few words what an error was.
func describe(e *output.Error) string {
	if e == nil {
		return "no error known"
	}
	s := e.Class
	if e.Status > 0 {
		s = fmt.Sprintf("HTTP %d", e.Status)
	}
	if k := cmp.Or(e.Code, e.Type); k != "" {
		s += " " + k
	}
	if e.Message != "" {
		s += ": " + e.Message
	}
	return s
}

// deadAfter is how long an endpoint that never answered may be unreachable.
const deadAfter = time.Minute

// endpoint watches whether anything ever answered, and, while nothing did, whether a
// connection was made.
type endpoint struct {
	mu        sync.Mutex
	alive     bool
	timer     *time.Timer
	connected int    // requests that hold a connection
	cause     string // of the last failure to make one
	local     bool   // the user was told of a fault of this machine
}

// connect says that a request has a connection: the endpoint is not dead. The
// returned function is called at the request's end.
func (e *endpoint) connect() (end func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.alive {
		return func() {}
	}
	e.connected++
	e.disarm()
	return func() {
		e.mu.Lock()
		e.connected--
		e.mu.Unlock()
	}
}

func (e *endpoint) disarm() {
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
}

// dead reports whether nothing could be reached when the timer fired; why is the
// last failure.
func (e *endpoint) dead() (why string, dead bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	dead = !e.alive && e.timer != nil && e.connected == 0
	e.timer = nil
	return e.cause, dead
}

// suspectAfter is how long a lane at its floor may get nothing but bare 429s.
const suspectAfter = 10 * time.Minute

// observe feeds the guards with what an attempt showed.
func (r *Runner) observe(l *lane, x *exchange, v verdict, alone bool) {
	r.observeEndpoint(x)
	now := time.Now()
	l.mu.Lock()
	switch {
	case v.act == keep:
		l.lastGood, l.bare = now, time.Time{}
	case v.signal != pacing.Throttled || alone:
	case x.hint > 0 || x.rates:
		l.bare = time.Time{}
	case l.bare.IsZero():
		l.bare = now
	}
	since := l.bare
	l.mu.Unlock()
	if since.IsZero() || now.Sub(since) < suspectAfter {
		return // in that time without an answer the limit or the pace is at its floor
	}
	r.ending.halt(stop{
		reason:  Aborted,
		message: fmt.Sprintf("suspected spend cap: %s has answered nothing but 429 without a hint for %s", l.name(), suspectAfter),
		hint:    "look at the account's limits and balance, then run the same command again to continue",
	})
}

func (r *Runner) observeEndpoint(x *exchange) {
	e := &r.endpoint
	e.mu.Lock()
	defer e.mu.Unlock()
	if x.err != nil && x.err.Local && !e.local {
		e.local = true
		r.c.Log.Warn(x.err.Advice, "error", x.err.Message)
	}
	switch {
	case e.alive:
	case x.status > 0:
		e.alive = true
		e.disarm()
	case x.err != nil && x.err.DeadEndpoint:
		e.cause = r.c.Scrub.String(x.err.Message)
		if e.timer == nil && e.connected == 0 {
			e.timer = time.AfterFunc(deadAfter, r.endpointDead)
		}
	}
}

func (r *Runner) endpointDead() {
	if why, dead := r.endpoint.dead(); dead {
		r.ending.halt(stop{
			reason:  Aborted,
			message: fmt.Sprintf("the endpoint could not be reached for %s: %s", deadAfter, why), here: true,
			hint: "check --base-url and the network, then run the same command again",
		})
	}
}

// close ends the watch over the endpoint.
func (e *endpoint) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.disarm()
}

// laneMessage says why a lane launches nothing more.
func laneMessage(l *lane, e *provider.Error) string {
	return fmt.Sprintf("nothing more is sent to %s: %s", l.name(), describe(&output.Error{
		Class: string(e.Class), Status: e.Status, Type: e.Type, Code: e.Code, Message: e.Message,
	}))
}
