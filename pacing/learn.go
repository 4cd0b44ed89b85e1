package pacing

import (
	"fmt"
	"math"
	"time"
)

// done takes the permit back and learns. It tells whether the failure belongs
// to a known outage, and whether it binds only its item. A flight that has landed
// already is ignored.
func (l *lane) done(now time.Duration, f *flight, o Outcome) (outage, alone bool) {
	if !f.up {
		return false, false
	}
	l.flights.remove(f)
	l.permits.give(l.limit)
	l.charge(now, f, o)
	switch o.Signal {
	case Good:
		l.tempo.answered(now - f.at)
		l.answered(now, f)
		l.accept(f)
		l.grow(now, f)
	case Answered:
		l.answered(now, f)
	case Throttled, Overloaded:
		return false, l.refused(now, f, o)
	case Failed:
		if o.Alone {
			return false, true
		}
		outage = l.failed(now, f, o)
	}
	if l.gate.test.flight == f { // it has told nothing
		l.gate.test.flight = nil
		l.gate.tested(now, l.gate.until-now > testAgain)
	}
	return outage, false
}

// charge settles what the request cost, as far as that is known.
func (l *lane) charge(now time.Duration, f *flight, o Outcome) {
	var c costs
	switch o.Signal {
	case Good:
		c = f.cost
		if o.Input > 0 || o.Output > 0 {
			c = costs{1, o.Input, o.Output, o.Input + o.Output}
		}
		l.appraiser.learn(f.input, o.Input, o.Output)
	case Answered, Failed:
		c[Requests] = 1
	}
	if o.Signal == Nothing {
		l.rpm.take(-1)
	}
	l.tpm.take(c[TotalTokens] - f.cost[TotalTokens])
	l.quota.landed(now, f, c, o)
}

func (l *lane) answered(now time.Duration, f *flight) {
	l.justice.answered(f)
	if l.gate.test.flight == f {
		l.passedTest(now)
	}
	out := l.breaker.open()
	l.breaker.answered(f)
	if out && !l.breaker.open() {
		l.note(now, l.limit, "outage over", "")
	}
}

func (l *lane) failed(now time.Duration, f *flight, o Outcome) bool {
	if l.breaker.failed(now, f, l.seq, l.tempo.answer) {
		until := later(now, l.gate.backoff(backoffBase, l.breaker.step-1))
		if o.Hint > 0 {
			until = max(until, l.gate.hinted(now, o.Hint))
		}
		l.shut(now, until, "outage")
	}
	return l.breaker.open()
}

// refused is a 429, 503 or 529. It tells whether it binds only its item.
func (l *lane) refused(now time.Duration, f *flight, o Outcome) (alone bool) {
	l.observe(now)
	l.tempo.refuse(now - f.at)
	if l.bindsItem(now, f, o) {
		return true
	}
	unexpected, proven := l.justice.unexpected(f, o), l.justice.proven(f, l.tempo.tolerance(float64(f.level)))
	l.justice.counted()
	l.blame(now, f, o)
	if l.gate.until > now {
		l.gate.accuse(now, f, o.Hint > 0 && unexpected, proven)
	}
	return false
}

// blame takes in a refusal that the lane answers for.
func (l *lane) blame(now time.Duration, f *flight, o Outcome) {
	held := float64(l.permits.taken)
	if o.Concurrent {
		o.Hint = 0 // it binds the item
	}
	if f.seq <= l.epoch { // of a burst that has been counted
		if l.full {
			l.window.again()
			l.resize(now, "refused with the burst", "")
		}
		l.noise.burst++
		l.penalize(now, o, false, false)
		return
	}
	if !o.Concurrent && (o.Hint > 0 && l.moody(now, f) || l.noisy(now, f, o.Hint <= 0)) {
		l.penalize(now, o, false, false)
		return
	}
	e := evidence{now: now, held: held, level: float64(f.level), hint: o.Hint, answer: l.tempo.answer, tolerance: l.tempo.tolerance(held)}
	if l.gate.step == 0 {
		l.whole = l.window
		if o.Signal == Overloaded {
			l.whole.overloaded(evidence{now: now, held: l.whole.size})
		}
	}
	reason, byRate := "overloaded", false
	switch {
	case l.tempo.answer == 0 && l.permits.taken == 0:
		reason, byRate = "nothing answered yet", true
	case o.Signal == Overloaded && now >= l.window.deepened+overloadEvery:
		l.window.overloaded(e)
	case o.Signal == Overloaded:
		l.window.cut(e)
	case o.Concurrent:
		reason = "too many at once"
		l.window.cut(e)
	default:
		reason, byRate = l.throttled(f, e)
	}
	if l.permits.taken == 0 && (l.gate.step > 0 || l.tempo.answer == 0) {
		// Nothing was accepted since the first of these cuts and nothing is held: the
		// server refuses everything, which says nothing about how much it can hold.
		l.window.restore(l.whole, now)
	}
	if l.pacer.on {
		l.window.threshold = math.Inf(1) // the pacer guards; the window gets out of its way
	}
	l.try(o.Hint <= 0)
	l.epoch, l.full = l.seq, o.Signal == Throttled && !byRate
	l.gate.step++
	l.cutNote(now, reason, e)
	l.penalize(now, o, true, byRate)
}

// throttled decides whether the 429 that opens an epoch is a ceiling's or a
// rate's.
func (l *lane) throttled(f *flight, e evidence) (reason string, byRate bool) {
	byRate, ceiling := l.doubt.weigh(&l.window, refusal{evidence: e, launch: f.at,
		sharp: l.tempo.sharp(), paced: l.pacer.on, limit: float64(l.limit)})
	if l.fixed || l.unpaced {
		byRate = false
	}
	if ceiling > 0 {
		l.window.size = min(l.window.size, ceiling)
	}
	if l.pacer.on && l.gate.until > 0 && f.at-l.gate.until < time.Second {
		l.pacer.wasted()
	}
	l.pacer.sample(f.at)
	l.pacer.refused(e.now, byRate)
	if byRate {
		l.window.spare(e.now)
		return "refused by rate", true
	}
	e.doubted = l.doubt.strikes > 0
	l.window.cut(e)
	return "refused", false
}

func (l *lane) cutNote(now time.Duration, reason string, e evidence) {
	if !l.logging {
		l.resize(now, reason, "")
		return
	}
	l.resize(now, reason, fmt.Sprintf("held %.0f, plateau %.1f, hold %v, hint %v, pace %.2f (on %t), strikes %d",
		e.held, l.window.plateau, l.window.hold, e.hint, l.pacer.rate, l.pacer.on, l.doubt.strikes))
}

// penalize shuts the gate for a refusal: as long as the server asked, else by the
// shared backoff, one step a burst. The first bare refusal is clocked by
// completions as long as there are any to come.
func (l *lane) penalize(now time.Duration, o Outcome, fresh, byRate bool) {
	reason := "rate limited"
	if o.Signal == Overloaded {
		reason = "overloaded"
	}
	if o.Hint > 0 {
		l.shut(now, l.gate.hinted(now, o.Hint), reason+", the server asked for it")
		return
	}
	if !fresh || o.Concurrent && l.permits.taken > 0 { // the lane goes on as slots come free
		return
	}
	n := l.gate.step - 1
	if l.permits.taken == 0 || byRate && !l.pacer.on {
		n++
	}
	if n > 0 {
		base := backoffBase
		if l.tempo.answer > 0 {
			base = min(base, max(4*l.tempo.refusal, l.tempo.answer/4))
		}
		l.shut(now, later(now, l.gate.backoff(base, n-1)), reason+", backing off")
	}
}

func (l *lane) shut(now, until time.Duration, reason string) {
	if !l.gate.shut(now, until, reason) {
		return
	}
	l.window.pause(until)
	l.pacer.pause(until)
	if l.logging {
		l.note(now, l.limit, "gate", fmt.Sprintf("shut for %v: %s", until-now, reason))
	}
}
