package live

import "time"

// window is how far back a rate looks: long enough to be calm, short enough to
// follow a limit that grows.
const window = 30 * time.Second

// rates remembers the last half minute of a run, from the end of its last pause on.
// The zero value is ready.
type rates struct {
	past []sample // oldest first, at most one a second
}

type sample struct {
	at     time.Duration
	done   int
	tokens int64
}

// add takes the state at a moment of the run.
func (r *rates) add(s Status, at time.Time) {
	if s.paused(at) {
		r.past = r.past[:0]
	}
	// Not Done: it leaps over what an earlier run did.
	now := sample{s.Elapsed, s.OK + s.Failed + s.GaveUp, s.OutputTokens}
	n := len(r.past)
	switch {
	case n > 0 && now.at < r.past[n-1].at: // a new run, or a clock that was set anew
		r.past = append(r.past[:0], now)
	case n > 1 && now.at-r.past[n-2].at < time.Second:
		r.past[n-1] = now
	default:
		r.past = append(r.past, now)
	}
	old := 0
	for old < len(r.past)-2 && now.at-r.past[old].at > window {
		old++
	}
	r.past = append(r.past[:0], r.past[old:]...)
}

// tokens is output tokens a second over the last half minute.
func (r *rates) tokens() int64 {
	if len(r.past) < 2 {
		return 0
	}
	a, b := r.past[0], r.past[len(r.past)-1]
	if b.at <= a.at {
		return 0
	}
	return int64(float64(b.tokens-a.tokens)/(b.at-a.at).Seconds() + 0.5)
}

// eta is how long the rest takes at the recent rate; ok is false in a pause, while
// nothing finished, or if the length is not known.
func (r *rates) eta(s Status, now time.Time) (d time.Duration, ok bool) {
	if s.paused(now) || s.Total < 0 || s.Done >= s.Total || len(r.past) < 2 {
		return 0, false
	}
	a, b := r.past[0], r.past[len(r.past)-1]
	if b.at <= a.at || b.done <= a.done {
		return 0, false
	}
	perItem := float64(b.at-a.at) / float64(b.done-a.done)
	left := perItem * float64(s.Total-s.Done)
	if left > float64(1000*time.Hour) {
		return 0, false
	}
	return time.Duration(left), true
}
