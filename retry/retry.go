// Package retry decides whether and when an item is sent again.
//
// It is pure: no clock, no sleep, no random source and no HTTP. The caller says
// what it knows in a State and gets a Decision. The policy:
//
//   - A wait that the server asked for is never cut short; jitter is added on
//     top, at most 10 % and at most 100 ms. Cap is the one exception.
//   - Without one, the wait is full jitter on 0.5 s · 2ⁿ (5 s · 2ⁿ where the
//     server needs patience), at most 60 s and at least 50 ms.
//   - A wait that does not fit what is left of the item's or the run's time is
//     not begun, and neither is one of more than 24 h: the item gives up at once
//     and knows when it may be sent again.
package retry

import (
	"math"
	"time"
)

const (
	// Longest is the longest wait that any budget holds. A longer one is given up
	// also where there is no budget at all.
	Longest = 24 * time.Hour

	firstBackoff   = 500 * time.Millisecond
	patientBackoff = 5 * time.Second
	longestBackoff = 60 * time.Second
	shortestWait   = 50 * time.Millisecond
	mostJitter     = 100 * time.Millisecond
)

// LongWait says what happens to a wait of more than Policy.MaxWait.
type LongWait uint8

const (
	// GiveUp ends the item with the reason "max_wait".
	GiveUp LongWait = iota
	// Cap waits MaxWait and tries anyway, earlier than the server asked for.
	Cap
)

// Policy bounds the tries of one item. The zero value bounds nothing but waits
// of more than 24 h: it leaves the end to the item's and the run's time.
type Policy struct {
	// MaxAttempts counts every request, throttled ones too; 1 is exactly one
	// request, 0 no bound.
	MaxAttempts int
	// MaxErrors counts failures other than throttling and known outages; 0 is no
	// bound.
	MaxErrors int
	// MaxWait is the longest single wait of an item that has had an attempt; 0 is
	// no bound. An own backoff is kept below it, a longer hint is given up or capped.
	MaxWait    time.Duration
	OnLongWait LongWait
}

// State is what is known about an item after an attempt that did not succeed.
type State struct {
	// Attempts is how many requests were begun in this run, Errors how many of
	// them failed for a reason that counts, the last one included.
	Attempts, Errors int
	// Counts says that the last failure is one of Errors.
	Counts bool
	// Throttled (429, 503, 529): the lane's gate decides the wait, there is no
	// backoff of the item's own.
	Throttled bool
	// Outage: the endpoint is known to be down, and the lane's shared backoff
	// decides the wait.
	Outage bool
	// Patient begins the backoff at 5 s.
	Patient bool
	// Hint is the wait that the server asked for, 0 if none. It is never cut
	// short; more than Longest fits nothing.
	Hint time.Duration
	// Unsent: nothing of the request reached the wire, because a kept connection
	// had died. It goes again at once.
	Unsent bool
	// Now is the present; ItemEnd and RunEnd end the item's and the run's time,
	// zero for none.
	Now, ItemEnd, RunEnd time.Time
	// Rand is a random number in [0,1).
	Rand float64
}

// Decision says what follows an attempt.
type Decision struct {
	// Wait is how long the item itself waits, counted from State.Now. It is 0 for
	// the reasons "gate" and "outage", where the lane decides, and "immediate".
	Wait time.Duration
	// Reason is "retry_after", "backoff", "gate", "capped", "outage" or
	// "immediate"; "" when given up.
	Reason string
	// GiveUp is "" or the reason why the item is not sent again in this run:
	// "max_attempts", "max_errors", "max_wait", "item_budget" or "run_budget".
	GiveUp string
	// NextAttemptAt is set with GiveUp, where a wait is known: the item should not
	// be sent earlier, in a later run either.
	NextAttemptAt time.Time
}

// Next decides on the next attempt of an item whose last one did not succeed.
func (p Policy) Next(s State) Decision {
	hint := max(s.Hint, 0)
	if s.Unsent && hint == 0 {
		// Nothing was sent, so neither count applies to it.
		return s.within(Decision{Reason: "immediate"}, 0)
	}
	if reason := p.spent(s); reason != "" {
		d := Decision{GiveUp: reason}
		if hint > 0 {
			d.NextAttemptAt = s.Now.Add(hint)
		}
		return d
	}
	switch {
	case hint > 0:
		return p.wait(s, hint, "retry_after")
	case s.Throttled:
		return s.within(Decision{Reason: "gate"}, 0)
	case s.Outage:
		return s.within(Decision{Reason: "outage"}, 0)
	}
	return s.within(Decision{Wait: p.backoff(s), Reason: "backoff"}, 0)
}

// Fits decides on a wait until a gate opens at the given time: whether it may be
// begun by the rules of a hint. An item that has had no attempt in this run is
// not bound by MaxWait. A Wait of 0 says that the gate is open.
func (p Policy) Fits(at time.Time, s State) Decision {
	return p.wait(s, max(at.Sub(s.Now), 0), "gate")
}

// spent names the count that is used up.
func (p Policy) spent(s State) string {
	if p.MaxAttempts > 0 && s.Attempts >= p.MaxAttempts {
		return "max_attempts"
	}
	// Throttling is not an error, so it can't be the one too many.
	if p.MaxErrors > 0 && s.Counts && s.Errors >= p.MaxErrors {
		return "max_errors"
	}
	return ""
}

// wait decides on a wait that is not the item's own choice.
func (p Policy) wait(s State, d time.Duration, reason string) Decision {
	if p.MaxWait > 0 && d > p.MaxWait && s.Attempts > 0 {
		if p.OnLongWait == Cap && p.MaxWait <= Longest {
			capped := s.within(Decision{Wait: max(p.MaxWait, shortestWait), Reason: "capped"}, 0)
			if capped.GiveUp != "" { // a later run waits for what the server asked for
				capped.NextAttemptAt = s.Now.Add(d)
			}
			return capped
		}
		return Decision{GiveUp: "max_wait", NextAttemptAt: s.Now.Add(d)}
	}
	if d > Longest {
		return Decision{GiveUp: s.shortest(), NextAttemptAt: s.Now.Add(d)}
	}
	var jitter time.Duration
	if reason == "retry_after" {
		jitter = time.Duration(s.rand() * float64(min(d/10, mostJitter)))
		d = max(d, shortestWait)
	}
	if p.MaxWait > 0 && s.Attempts > 0 {
		jitter = min(jitter, max(p.MaxWait-d, 0))
	}
	return s.within(Decision{Wait: d, Reason: reason}, jitter)
}

// within gives a decision up whose wait ends after the item's or the run's time.
// Jitter is added where there is room for it.
func (s State) within(d Decision, jitter time.Duration) Decision {
	at := s.Now.Add(d.Wait)
	reason, end := s.end()
	if !end.IsZero() && !at.Before(end) {
		g := Decision{GiveUp: reason}
		if d.Wait > 0 {
			g.NextAttemptAt = at
		}
		return g
	}
	if end.IsZero() || at.Add(jitter).Before(end) {
		d.Wait += jitter
	}
	return d
}

// end is the earlier of the two ends, with its name.
func (s State) end() (string, time.Time) {
	if s.ItemEnd.IsZero() || !s.RunEnd.IsZero() && s.RunEnd.Before(s.ItemEnd) {
		return "run_budget", s.RunEnd
	}
	return "item_budget", s.ItemEnd
}

// shortest names the budget that a wait without end is too long for.
func (s State) shortest() string {
	if reason, end := s.end(); !end.IsZero() {
		return reason
	}
	return "item_budget"
}

// backoff is full jitter on a doubling ceiling.
func (p Policy) backoff(s State) time.Duration {
	ceiling := firstBackoff
	if s.Patient {
		ceiling = patientBackoff
	}
	for n := 1; n < s.Errors && ceiling < longestBackoff; n++ {
		ceiling *= 2
	}
	ceiling = min(ceiling, longestBackoff)
	if p.MaxWait > 0 {
		ceiling = min(ceiling, p.MaxWait)
	}
	return max(time.Duration(s.rand()*float64(ceiling)), shortestWait)
}

// rand keeps a number from outside in [0,1), NaN too.
func (s State) rand() float64 {
	if !(s.Rand > 0) {
		return 0
	}
	return min(s.Rand, math.Nextafter(1, 0))
}
