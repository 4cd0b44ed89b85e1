package pacing

import (
	"math"
	"time"
)

const (
	slowestClock  = 3 * time.Second // see clock
	fastestClock  = 300 * time.Millisecond
	answersClock  = 10
	longestHold   = 10                // times the clock: the hold doubles up to here while probes fail at one level
	rarestProbe   = 600 * time.Second // no hold is longer, whatever a probe costs
	perProbe      = 25                // few slots, long answers: at most one probe in so many answers
	perCooldown   = 10                // a probe that costs a cooldown: at most one in so many cooldowns
	fewSlots      = 10                // a window smaller than this climbs fast enough by itself
	freeGrowth    = 32                // slow start beyond this needs answers, not mere survival
	overloadEvery = 30 * time.Second
	overload      = 0.7 // after a 503 or 529: this share of what is in flight
)

// window is how many requests the server will hold at once: AIMD.
//
// Before the first cut it grows by one for each accepted launch (slow start).
// A cut goes to what the server still holds, the plateau. From there: a short
// dip below it, in which another client gets in, back to the plateau, a hold,
// then a probe that grows with the cube of time, until the next cut. A probe
// that fails where the last one failed doubles the hold.
type window struct {
	clock              time.Duration // the scale of probing, and the least hold after a cut
	most               float64
	increase, decrease float64

	size      float64
	threshold float64 // slow start ends here
	plateau   float64 // the level last found to be held; +Inf before the first cut
	since     time.Duration
	hold      time.Duration
	deepened  time.Duration // when an overload last cut it
	blocked   time.Duration // when it last held a launch back; negative: never
}

func newWindow(most, start, increase, decrease float64) window {
	return window{most: most, increase: increase, decrease: decrease, size: min(start, most),
		threshold: math.Inf(1), plateau: math.Inf(1), clock: slowestClock, hold: slowestClock, since: -rarestProbe, deepened: -rarestProbe, blocked: -1}
}

func (w *window) limit() int { return int(max(1, min(w.most, math.Floor(w.size+0.5)))) }

func (w *window) slow() bool { return w.size < w.threshold }

// accepted is slow start's evidence: a launch made since the last cut was
// taken. It counts only if the window has held a launch back since.
func (w *window) accepted(now, launch time.Duration) {
	if !w.slow() || w.blocked < launch {
		return
	}
	w.size = min(w.most, w.threshold, w.size+1)
	if !w.slow() && !math.IsInf(w.plateau, 1) { // back at the ceiling that a burst had shown
		w.plateau, w.since = w.size, now
	}
}

// advance moves along the curve. Time in which the window is not what holds
// launches back proves nothing and does not count.
func (w *window) advance(now, answer time.Duration) {
	if w.slow() || math.IsInf(w.plateau, 1) {
		return
	}
	if now-w.blocked > max(time.Second, answer) {
		if now-w.since > w.hold {
			w.since, w.plateau = now-w.hold, w.size
		}
		return
	}
	if v := w.curve(max(0, now-w.since)); v > w.size {
		w.size = min(w.most, v, w.size*1.5+1)
	}
}

// phase names where on the curve it is.
func (w *window) phase(now time.Duration) string {
	switch t := now - w.since; {
	case w.slow() || math.IsInf(w.plateau, 1):
		return "slow start"
	case t < w.hold:
		return "back to the plateau"
	}
	return "probe"
}

func (w *window) curve(t time.Duration) float64 {
	switch {
	case t < w.clock:
		x := 1 - t.Seconds()/w.clock.Seconds()
		return w.plateau * (1 - (1-w.decrease)*x*x*x)
	case t < w.hold:
		return w.plateau
	default:
		x := (t - w.hold).Seconds() / w.clock.Seconds()
		return w.plateau + max(w.increase*w.plateau, 0.5)*x*x*x
	}
}

// evidence is what is known when a refusal opens a new epoch.
type evidence struct {
	now       time.Duration
	held      float64       // in flight without the refused one
	level     float64       // in flight just after its launch
	hint      time.Duration // the server asked for this wait
	answer    time.Duration // mean
	tolerance float64
	doubted   bool // something speaks against a ceiling
}

// cut is a refusal that a ceiling explains.
func (w *window) cut(e evidence) {
	before := w.plateau
	first := math.IsInf(before, 1)
	w.plateau = max(1, min(w.size, e.held))
	same := first || math.Abs(w.plateau-before) <= max(e.tolerance, 0.1*before)
	switch {
	case e.doubted:
		w.plateau = min(w.plateau, before)
	case same:
		costly := min(rarestProbe, time.Duration(perProbe/max(1, e.held)*float64(e.answer)))
		w.hold = min(max(longestHold*w.clock, costly), 2*w.hold)
	default:
		w.hold = w.clock
	}
	if same && e.hint > 0 {
		w.hold = max(w.hold, perCooldown*min(rarestProbe/perCooldown, e.hint))
	}
	w.size = w.plateau
	if !first {
		w.size = max(1, w.plateau*w.decrease)
	}
	w.threshold, w.since = w.size, e.now
}

// again is a further refusal of the burst that cut: its permit goes too.
func (w *window) again() {
	w.plateau = max(1, w.plateau-1)
	w.size = max(1, min(w.size, max(w.plateau, w.size-1)))
	w.threshold = w.size
}

// overloaded is a 503 or 529. It speaks of the service, not of this client: one
// deep cut relieves it, more within the same time only cost.
func (w *window) overloaded(e evidence) {
	w.size = max(1, min(w.size, overload*max(1, e.held)))
	w.plateau, w.threshold, w.hold, w.since = w.size, w.size, longestHold*w.clock, e.now
	w.deepened = e.now
}

// spare is a refusal that no ceiling explains: the window is not at fault.
func (w *window) spare(now time.Duration) {
	w.plateau, w.threshold, w.hold, w.since = w.size, w.size, w.clock, now
}

// restore undoes cuts that were made since it was as before.
func (w *window) restore(before window, now time.Duration) {
	if before.size >= w.size {
		before.blocked, before.since = w.blocked, now
		*w = before
	}
}

// pause: nothing is learnt before this time.
func (w *window) pause(until time.Duration) { w.since = max(w.since, until) }
