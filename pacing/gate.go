package pacing

import (
	"math"
	"math/rand/v2"
	"time"
)

const (
	never = time.Duration(math.MaxInt64)

	backoffBase  = 500 * time.Millisecond
	backoffMost  = 30 * time.Second
	backoffLeast = 50 * time.Millisecond
	jitterMost   = 100 * time.Millisecond
	rampPause    = 500 * time.Millisecond // the longest pause between two steps
)

// later adds without overflow.
func later(t, d time.Duration) time.Duration {
	if d > 0 && t > never-d {
		return never
	}
	return t + d
}

// gate is when the lane may launch again, shared by all its items, and the
// gentle restart after that.
type gate struct {
	until  time.Duration
	reason string
	step   int // bare refusals: bursts since a launch was last accepted
	ramp   ramp
	rand   *rand.Rand
}

// shut moves the gate to until; never back. It tells whether it moved.
func (g *gate) shut(until time.Duration, reason string) bool {
	if until <= g.until {
		return false
	}
	g.until, g.reason = until, reason
	g.ramp = ramp{on: true, left: 1, size: 1}
	return true
}

// hinted is when to open after the server asked for a wait: never earlier, and
// at most 10 % and 100 ms later.
func (g *gate) hinted(now, hint time.Duration) time.Duration {
	most := min(hint/10, jitterMost)
	return later(later(now, hint), time.Duration(g.rand.Float64()*float64(most)))
}

// backoff is full jitter on base · 2ⁿ (n from 0), at least 50 ms, at most 30 s.
func (g *gate) backoff(base time.Duration, n int) time.Duration {
	most := min(float64(backoffMost), float64(base)*math.Exp2(float64(min(n, 12))))
	return max(backoffLeast, time.Duration(g.rand.Float64()*most))
}

// ramp lets 1, 2, 4, 8 … launches go after the gate has opened, with a pause
// long enough for a refusal to come back. It ends when the window is full.
type ramp struct {
	on         bool
	left, size int
	next       time.Duration
}

// ready tells when the next launch may go: now or later.
func (r *ramp) ready(now time.Duration) time.Duration {
	if !r.on || r.left > 0 {
		return now
	}
	if now < r.next {
		return r.next
	}
	r.size = min(2*r.size, 1<<20)
	r.left = r.size
	return now
}

func (r *ramp) launched(now, refusal time.Duration) {
	if !r.on {
		return
	}
	if r.left--; r.left <= 0 {
		r.next = now + min(2*refusal, rampPause)
	}
}
