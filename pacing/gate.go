package pacing

import (
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

const (
	never = time.Duration(math.MaxInt64)

	backoffBase  = 500 * time.Millisecond
	backoffMost  = 30 * time.Second
	backoffLeast = 50 * time.Millisecond
	jitterMost   = 100 * time.Millisecond
	rampPause    = 500 * time.Millisecond // the longest pause between two steps

	testAfter = 500 * time.Millisecond
	testLeast = 2 * time.Second  // a shorter gate is over before its test has told anything
	testAgain = 10 * time.Minute // a longer gate is tested again: after a minute, then so often
	farthest  = 24 * time.Hour   // no budget waits for a gate beyond this
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
	test   test
	rand   *rand.Rand
}

// test is one request at a shut gate. The server may have meant one item and not
// the lane: then another item's request is accepted, and the gate opens.
type test struct {
	refused []int64       // the items that the gate was shut for
	due     time.Duration // when the test may go; never: there is none
	flight  *flight       // it is on the wire
	count   int           // tests made
	proven  bool          // the lane held its level before: nothing but the item explains it
}

func (t *test) pending() bool { return t.due < never || t.flight != nil }

// certain is until when the gate is shut for all items; 0 while only its first
// test can tell.
func (g *gate) certain() time.Duration {
	if g.test.count == 0 && g.test.pending() {
		return 0
	}
	return g.until
}

// accuse notes that the gate is shut for an item; an unexpected refusal is to be
// tested half a second later.
func (g *gate) accuse(now time.Duration, f *flight, unexpected, proven bool) {
	t := &g.test
	switch long := g.until-now > testAgain; {
	case len(t.refused) == 0:
		*t = test{due: never, proven: proven}
		if unexpected && g.until-now >= testLeast {
			t.due = now + testAfter
		}
	case t.flight == f:
		t.flight = nil
		g.tested(now, long)
	}
	t.refused = append(t.refused, f.order)
}

// tested: a test did not open the gate.
func (g *gate) tested(now time.Duration, long bool) {
	g.test.count++
	switch {
	case !long:
		g.test.due = never
	case g.test.count == 1:
		g.test.due = now + time.Minute
	default:
		g.test.due = now + testAgain
	}
}

// open ends the gate's time before it is over.
func (g *gate) open(now time.Duration) {
	g.until = min(g.until, now)
	g.test.due, g.test.flight = never, nil
}

// shut moves the gate to until; never back. It tells whether it moved.
func (g *gate) shut(now, until time.Duration, reason string) bool {
	if until <= g.until {
		return false
	}
	if g.until <= now {
		g.test = test{due: never}
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

// shutFor tells whether the gate was shut for this item.
func (g *gate) shutFor(order int64) bool { return slices.Contains(g.test.refused, order) }

// testable tells when this item may go as a test, or the gate opens.
func (g *gate) testable(now time.Duration, order int64, survival time.Duration) time.Duration {
	switch t := &g.test; {
	case t.flight != nil:
		return min(g.until, t.flight.at+survival)
	case now < t.due:
		return min(g.until, t.due)
	case g.shutFor(order):
		return g.until
	}
	return now
}

func (g *gate) launched(now time.Duration, f *flight, refusal time.Duration) {
	if now < g.until {
		g.test.due, g.test.flight = never, f
		return
	}
	g.test = test{due: never}
	g.ramp.launched(now, refusal)
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
