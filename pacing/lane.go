package pacing

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"time"
)

// lane is all that a Limiter decides, as functions of time and evidence: no
// clock, no lock, no goroutine. Instants are durations since it was opened.
type lane struct {
	fixed   bool
	window  window
	gate    gate
	breaker breaker
	tempo   tempo
	permits permits
	flights flights
	queue   queue

	seq   int64 // last launched
	epoch int64 // launches up to this one were made before the last cut
	full  bool  // the last cut was a ceiling's
	limit int
	peak  int

	hungry bool   // a Try has failed since the last wake
	want   demand // its demand
	closed bool

	// for the one who drives the lane
	served  []*waiter
	wake    bool
	changes []change
	logging bool
}

type change struct {
	at             time.Duration
	from, to       int
	reason, detail string
}

func newLane(c Config) *lane {
	most := cmp.Or(max(c.Max, 0), 256)
	start := min(most, cmp.Or(max(c.Start, 0), 4))
	if c.Fixed {
		start = most
	}
	l := &lane{fixed: c.Fixed, tempo: newTempo(), limit: start, logging: c.Log != nil}
	l.window = newWindow(float64(most), float64(start), cmp.Or(c.Increase, 0.05), cmp.Or(c.Decrease, 0.95))
	l.permits = newPermits(most, start)
	l.gate.rand = rand.New(rand.NewPCG(c.Seed, 0x6c616e65))
	return l
}

func (l *lane) atFloor() bool { return l.fixed || l.limit <= 1 }

// offer is Try: f leaves now, or the demand is remembered.
func (l *lane) offer(now time.Duration, d demand, f *flight) bool {
	if l.closed {
		return false
	}
	l.observe(now)
	if l.queue.Len() > 0 {
		l.serve(now)
	}
	if l.queue.Len() == 0 && l.ready(now, d) <= now && l.permits.take() {
		l.launch(now, d, f)
		l.hungry = false
		return true
	}
	l.hungry, l.want = true, d
	return false
}

func (l *lane) enqueue(w *waiter) {
	if l.closed {
		w.end = shut
		l.served = append(l.served, w)
		return
	}
	l.queue.add(w)
}

// leave takes w out of the queue; false if it is no longer in it.
func (l *lane) leave(w *waiter) bool {
	if w.end != waiting {
		return false
	}
	w.end = gone
	l.queue.remove(w)
	return true
}

func (l *lane) close() {
	l.closed = true
	for l.queue.Len() > 0 {
		w := l.queue.items[0]
		l.queue.remove(w)
		w.end = shut
		l.served = append(l.served, w)
	}
}

// pump launches what may go, and tells when to call it again at the latest.
func (l *lane) pump(now time.Duration) time.Duration {
	if l.closed {
		return never
	}
	l.observe(now)
	again := l.serve(now)
	if l.hungry && l.queue.Len() == 0 {
		if again = l.ready(now, l.want); again <= now {
			l.hungry, l.wake = false, true
			return never
		}
	}
	return again
}

// serve gives permits to waiting items and sends away those that are late. It
// tells when to look again.
func (l *lane) serve(now time.Duration) time.Duration {
	for _, w := range l.queue.overdue(now, l.gate.until) {
		w.end = late
		if l.gate.until > now {
			w.until = l.gate.until
		}
		l.served = append(l.served, w)
	}
	for l.queue.Len() > 0 {
		w := l.queue.items[0]
		if again := l.ready(now, w.demand); again > now {
			return min(again, l.queue.due)
		}
		if !l.permits.take() {
			return l.queue.due
		}
		l.queue.remove(w)
		l.launch(now, w.demand, w.flight)
		w.end, w.limit = launched, l.limit
		l.served = append(l.served, w)
	}
	return never
}

// ready tells when the demand may leave as far as is known now: at once if that
// is not after now, never if an event must come first.
func (l *lane) ready(now time.Duration, d demand) time.Duration {
	if l.permits.taken >= l.limit {
		l.window.blocked = now
		if now >= l.gate.until {
			l.gate.ramp.on = false
		}
		return l.nextLook(now)
	}
	if now < l.gate.until {
		return l.gate.until
	}
	return l.gate.ramp.ready(now)
}

// nextLook is when a full window may have grown by itself.
func (l *lane) nextLook(now time.Duration) time.Duration {
	switch {
	case l.fixed || l.window.size >= l.window.most:
		return never
	case !l.window.slow():
		return now + time.Second
	case l.flights.proving != nil:
		return max(l.flights.proving.at+l.tempo.survival(), now+1)
	}
	return never
}

func (l *lane) launch(now time.Duration, d demand, f *flight) {
	l.seq++
	l.peak = max(l.peak, l.permits.taken)
	*f = flight{seq: l.seq, order: d.order, at: now, level: l.permits.taken}
	l.gate.ramp.launched(now, l.tempo.refusal)
	l.flights.add(f)
}

// observe counts launches that were not refused in time, and lets the window
// grow.
func (l *lane) observe(now time.Duration) {
	for f := l.flights.taking; f != nil && now >= f.at+2*l.tempo.refusal; f = l.flights.taking {
		l.flights.taking = f.next
		l.accept(f)
	}
	for f := l.flights.proving; f != nil && now >= f.at+l.tempo.survival(); f = l.flights.proving {
		l.flights.proving = f.next
		if l.window.size < freeGrowth {
			l.grow(f)
		}
	}
	l.window.advance(now, l.tempo.answer)
	l.resize(now, "growth", "")
}

// accept: the server took this launch.
func (l *lane) accept(f *flight) {
	if f.taken {
		return
	}
	f.taken = true
	if f.seq > l.epoch {
		l.gate.step = 0
	}
}

// grow: slow start counts each launch once, and none from before the last cut.
func (l *lane) grow(f *flight) {
	if !f.grown && f.seq > l.epoch {
		l.window.accepted(f.at)
	}
	f.grown = true
}

// resize makes the permits follow the window.
func (l *lane) resize(now time.Duration, reason, detail string) {
	from := l.limit
	if !l.fixed {
		l.limit = l.window.limit()
	}
	if l.limit == from && detail == "" {
		return
	}
	l.permits.resize(l.limit)
	l.note(now, from, reason, detail)
}

func (l *lane) note(now time.Duration, from int, reason, detail string) {
	if l.logging {
		l.changes = append(l.changes, change{now, from, l.limit, reason, detail})
	}
}

// done takes the permit back and learns. It tells whether the failure belongs
// to a known outage. A flight that has landed already is ignored.
func (l *lane) done(now time.Duration, f *flight, o Outcome) bool {
	if !f.up {
		return false
	}
	l.flights.remove(f)
	l.permits.give(l.limit)
	switch o.Signal {
	case Good:
		l.tempo.answered(now - f.at)
		l.breaker.answered(f)
		l.accept(f)
		l.grow(f)
	case Answered:
		l.breaker.answered(f)
	case Throttled, Overloaded:
		l.refused(now, f, o)
	case Failed:
		return l.failed(now, f, o)
	}
	return false
}

func (l *lane) failed(now time.Duration, f *flight, o Outcome) bool {
	if l.breaker.failed(f, l.seq) {
		until := later(now, l.gate.backoff(backoffBase, l.breaker.step-1))
		if o.Hint > 0 {
			until = max(until, l.gate.hinted(now, o.Hint))
		}
		l.shut(now, until, "outage")
	}
	return l.breaker.open()
}

func (l *lane) refused(now time.Duration, f *flight, o Outcome) {
	l.observe(now)
	l.tempo.refuse(now - f.at)
	held := float64(l.permits.taken)
	if f.seq <= l.epoch {
		if l.full {
			l.window.again()
			l.resize(now, "refused with the burst", "")
		}
		l.penalize(now, o, false, held)
		return
	}
	e := evidence{now: now, held: held, hint: o.Hint, answer: l.tempo.answer, tolerance: l.tempo.tolerance(held)}
	reason := "429"
	if o.Signal == Overloaded {
		reason = "overloaded"
		l.window.overloaded(e)
	} else {
		l.window.cut(e)
	}
	l.epoch, l.full = l.seq, o.Signal == Throttled
	l.gate.step++
	l.resize(now, reason, fmt.Sprintf("in flight %d, plateau %.1f, hold %v", l.permits.taken, l.window.plateau, l.window.hold))
	l.penalize(now, o, true, held)
}

// penalize shuts the gate for a refusal: as long as the server asked, else by the
// shared backoff, one step a burst. The first bare refusal is clocked by
// completions as long as there are any to come.
func (l *lane) penalize(now time.Duration, o Outcome, fresh bool, held float64) {
	reason := "rate limited"
	if o.Signal == Overloaded {
		reason = "overloaded"
	}
	if o.Hint > 0 {
		l.shut(now, l.gate.hinted(now, o.Hint), reason+", the server asked for it")
		return
	}
	if !fresh {
		return
	}
	n := l.gate.step - 1
	if held < 1 {
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
	if !l.gate.shut(until, reason) {
		return
	}
	l.window.pause(until)
	l.note(now, l.limit, "gate", reason)
}

// shutUntil is when the lane opens and why it is shut; not after now if open.
func (l *lane) shutUntil(now time.Duration) (time.Duration, string) {
	return l.gate.until, l.gate.reason
}
