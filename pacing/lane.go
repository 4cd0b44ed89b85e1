package pacing

import (
	"cmp"
	"math/rand/v2"
	"time"
)

// lane is all that a Limiter decides, as functions of time and evidence: no
// clock, no lock, no goroutine. Instants are durations since it was opened.
type lane struct {
	fixed     bool
	unpaced   bool // nobody could hold a pace: every refusal is a ceiling's
	window    window
	gate      gate
	breaker   breaker
	pacer     pacer
	doubt     doubt
	noise     noise
	mood      mood
	justice   justice
	quota     quota
	rpm, tpm  allowance
	appraiser appraiser
	tempo     tempo
	permits   permits
	flights   flights
	queue     queue

	seq   int64  // last launched
	epoch int64  // launches up to this one were made before the last cut
	full  bool   // the last cut was a ceiling's
	whole window // before the cuts since a launch was last accepted
	limit int
	peak  int
	probe bool          // the next launch goes against the headers
	dry   time.Duration // until then the quota holds the next launch back

	closed bool

	// for the one who drives the lane
	served  []*waiter
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
	increase, decrease := cmp.Or(max(c.Increase, 0), 0.05), cmp.Or(max(c.Decrease, 0), 0.95)
	l.window = newWindow(float64(most), float64(start), increase, min(decrease, 1))
	l.permits = newPermits(most, start)
	l.pacer.burst, l.pacer.clock = paceBurst, slowestClock
	l.quota, l.rpm, l.tpm = newQuota(), newAllowance(c.RPM, 1, c.Burst), newAllowance(c.TPM, 1, 0)
	l.gate.rand = rand.New(rand.NewPCG(c.Seed, 0x6c616e65))
	return l
}

func (l *lane) atFloor() bool { return l.fixed || l.limit <= 1 }

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
	return l.serve(now)
}

// serve gives permits to waiting items and sends away those that are late. It
// tells when to look again.
func (l *lane) serve(now time.Duration) time.Duration {
	gate := l.gate.certain()
	if gate > later(now, farthest) {
		gate = never
	}
	for _, w := range l.queue.overdue(now, gate) {
		w.end = late
		if l.gate.until > now {
			w.until = l.gate.until
		}
		l.served = append(l.served, w)
	}
	for l.queue.Len() > 0 {
		w := l.next(now)
		if again := l.ready(now, w.demand); again > now {
			return min(again, l.queue.due)
		}
		if !l.take(now) {
			return l.queue.due
		}
		l.queue.remove(w)
		l.launch(now, w.demand, w.flight)
		w.end, w.limit = launched, l.limit
		l.served = append(l.served, w)
	}
	return never
}

// take takes a permit; a test needs none to be free.
func (l *lane) take(now time.Duration) bool {
	if now < l.gate.until {
		return l.permits.force()
	}
	return l.permits.take()
}

// next is the waiter whose turn it is: the first. Only a test, and what leaves first
// after a gate, is of an item that the gate was not shut for; a test of the smallest.
func (l *lane) next(now time.Duration) *waiter {
	best, testing := l.queue.items[0], now < l.gate.until
	if len(l.gate.test.refused) == 0 || testing && now < l.gate.test.due {
		return best
	}
	found := false
	for _, w := range l.queue.items {
		if l.gate.shutFor(w.order) || testing && l.justice.isAlone(w.order) {
			continue
		}
		if !testing && l.justice.suspects[w.order] != nil && found {
			continue // it was refused too: first one that was not
		}
		if !found || testing && w.bettersTest(best) || !testing && (w.order < best.order || l.justice.suspects[best.order] != nil) {
			best, found = w, true
		}
	}
	return best
}

// bettersTest says that w tells more than best of whether a gate holds for all: it is
// smaller or, of about that size, stands farther from the refused, which may be the
// first of several in a row.
func (w *waiter) bettersTest(best *waiter) bool {
	return w.input < best.input/2 || w.input <= 2*best.input && w.order > best.order
}

// ready tells when the demand may leave as far as is known now: at once if that
// is not after now, never if an event must come first.
func (l *lane) ready(now time.Duration, d demand) time.Duration {
	if now < l.gate.until && l.permits.taken <= l.limit { // a test may take the place of what was refused
		if again := l.gate.testable(now, d.order, l.tempo.survival()); again > now {
			return again
		}
		return l.affordable(now, l.appraiser.cost(d))
	}
	if l.permits.taken >= l.limit {
		l.window.blocked = now
		if now < l.gate.until {
			return never
		}
		l.gate.ramp.on = false
		return l.nextLook(now)
	}
	if again := l.gate.ramp.ready(now); again > now {
		return again
	}
	if l.pacer.on {
		if again := l.pacer.ready(now); again > now {
			return again
		}
	}
	return l.affordable(now, l.appraiser.cost(d))
}

// affordable tells when the known limits and the provider's quota have the cost.
func (l *lane) affordable(now time.Duration, c costs) time.Duration {
	again := max(l.rpm.ready(now, 1), l.tpm.ready(now, c[TotalTokens]))
	at, against := l.quota.ready(now, c)
	l.probe = against
	if again = max(again, at); again > now {
		l.dry = again
	}
	return again
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
	*f = flight{seq: l.seq, order: d.order, at: now, level: l.permits.taken,
		input: d.input, cost: l.appraiser.cost(d), probe: l.probe}
	l.gate.launched(now, f, l.tempo.refusal)
	if l.pacer.on {
		l.pacer.tokens--
	}
	l.rpm.take(1)
	l.tpm.take(f.cost[TotalTokens])
	l.quota.launched(now, f)
	l.flights.add(f)
	l.dry, l.probe = 0, false
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
			l.grow(now, f)
		}
	}
	if t := l.gate.test.flight; t != nil && now >= t.at+l.tempo.survival() {
		l.passedTest(now)
	}
	if !l.unpaced { // a mirror learns too late to be quick
		l.window.clock = l.tempo.clock()
		l.pacer.clock = l.window.clock
	}
	l.tried(now)
	l.window.advance(now, l.tempo.answer)
	l.resize(now, l.window.phase(now), "")
}

// accept: the server took this launch.
func (l *lane) accept(f *flight) {
	if f.taken {
		return
	}
	f.taken = true
	l.justice.accepted(f)
	l.pacer.accepted(f.at)
	l.noise.accepted(l.steady(f.at))
	l.mood.accepted(f.at)
	if f.seq > l.epoch {
		l.gate.step = 0
		l.doubt.accepted(f.level)
	}
}

// grow: slow start counts each launch once, and none from before the last cut.
func (l *lane) grow(now time.Duration, f *flight) {
	if !f.grown && f.seq > l.epoch {
		l.window.accepted(now, f.at)
	}
	f.grown = true
}

// resize makes the permits follow the window. A detail is noted even if the
// limit stays.
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

// shutUntil is when the lane opens and why it is shut; not after now if it is
// open.
func (l *lane) shutUntil(now time.Duration) (time.Duration, string) {
	if l.gate.until <= now && l.dry > now {
		return l.dry, "quota used up"
	}
	return l.gate.until, l.gate.reason
}
