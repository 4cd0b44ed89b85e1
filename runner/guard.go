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

// uniformCount is how many first items have to fail alike for the run to be
// taken for misconfigured.
const uniformCount = 10

// uniform watches the first finished items: if they all failed with one cause,
// the whole file would.
type uniform struct {
	off bool

	mu      sync.Mutex
	decided bool
	tripped bool // it ended the run
	cause   string
	seen    []*output.Result
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
	if u.tripped && res.Status == output.Failed && causeOf(res) == u.cause {
		a := *res // it was on the wire then, and is as little at fault
		a.Status = output.Aborted
		now[0] = &a
	}
	if u.decided || res.Status == output.Aborted || len(res.Attempts) == 0 {
		return rowsDue{write: now, tell: now}
	}
	cause := causeOf(res)
	if res.Status != output.Failed || u.cause != "" && cause != u.cause {
		due := u.release(hold)
		due.write, due.tell = append(due.write, res), append(due.tell, res)
		return due
	}
	u.cause = cause
	u.seen = append(u.seen, res)
	if len(u.seen) < uniformCount {
		if hold {
			now = nil
		}
		return rowsDue{write: now}
	}
	u.decided, u.tripped = true, true
	due := rowsDue{trip: fmt.Sprintf("the first %d items all failed alike: %s", uniformCount, describe(res.Error))}
	if !hold {
		due.undo = u.seen[:uniformCount-1]
	}
	for _, s := range u.seen {
		a := *s
		a.Status = output.Aborted
		due.write = append(due.write, &a)
	}
	due.tell = due.write
	return due
}

// release ends the watch and returns the rows held back.
func (u *uniform) release(hold bool) (due rowsDue) {
	u.decided = true
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
	if u.decided || u.off {
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

// endpoint watches whether anything ever answered.
type endpoint struct {
	mu    sync.Mutex
	alive bool
	timer *time.Timer
	local bool // the user was told of a fault of this machine
}

// suspectAfter is how long a lane at its floor may get nothing but bare 429s.
const suspectAfter = 10 * time.Minute

// observe feeds the guards with what an attempt showed.
func (r *Runner) observe(l *lane, x *exchange, v verdict) {
	r.observeEndpoint(x)
	now := time.Now()
	l.mu.Lock()
	switch {
	case v.act == keep:
		l.lastGood, l.bare = now, time.Time{}
	case v.signal != pacing.Throttled:
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
		if e.timer != nil {
			e.timer.Stop()
		}
	case x.err != nil && x.err.DeadEndpoint && e.timer == nil:
		msg := r.c.Scrub.String(x.err.Message)
		e.timer = time.AfterFunc(deadAfter, func() {
			r.ending.halt(stop{
				reason:  Aborted,
				message: fmt.Sprintf("the endpoint could not be reached for %s: %s", deadAfter, msg),
				hint:    "check --base-url and the network, then run the same command again",
			})
		})
	}
}

// close ends the watch over the endpoint.
func (e *endpoint) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.timer != nil {
		e.timer.Stop()
	}
}

// laneMessage says why a lane launches nothing more.
func laneMessage(l *lane, e *provider.Error) string {
	return fmt.Sprintf("nothing more is sent to %s: %s", l.name(), describe(&output.Error{
		Class: string(e.Class), Status: e.Status, Type: e.Type, Code: e.Code, Message: e.Message,
	}))
}
