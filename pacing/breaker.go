package pacing

import "time"

// An outage is known after so many failures in a row, from so many items, that
// are at least this share of what was launched meanwhile, or if no answer has
// come for so many times what one takes.
const (
	outageFailures = 5
	outageItems    = 3
	outageShare    = 0.8
	outageSilence  = 4
)

// breaker tells a server that is down from items that fail. Failures come back
// faster than answers, so a row is one by the order of launches: an answer breaks
// it if its request was launched after the row's first failure, and a few
// failures among many requests still on the wire are no outage.
type breaker struct {
	failures    int
	items       [outageItems]int64 // the first few items that failed in this row
	distinct    int
	first, last int64         // the row's launches
	since       time.Duration // when its first failure came
	mark        int64         // launches up to this one were made before that
	after       int           // failures of later ones

	known  bool  // an outage
	opened int64 // launches up to this one were made before it was known
	step   int   // bursts of failures in it
	seq    int64 // launches up to this one belong to the last burst
}

func (b *breaker) open() bool { return b.known }

// failed counts a failure of launch f, where answers take so long on average, and
// tells whether it opens a new burst of a known outage.
func (b *breaker) failed(now time.Duration, f *flight, lastLaunch int64, answer time.Duration) bool {
	if f.seq <= b.seq {
		return false
	}
	if b.failures == 0 {
		b.since, b.mark, b.after = now, lastLaunch, 0
		if !b.known {
			b.first = f.seq
		}
	}
	b.failures++
	if f.seq > b.mark {
		b.after++
	}
	b.first, b.last = min(b.first, f.seq), max(b.last, f.seq)
	if b.distinct < outageItems {
		known := false
		for _, o := range b.items[:b.distinct] {
			known = known || o == f.order
		}
		if !known {
			b.items[b.distinct] = f.order
			b.distinct++
		}
	}
	enough := b.known || b.failures >= outageFailures && b.distinct >= outageItems
	silent := now-b.since >= outageSilence*answer
	down := float64(b.failures) >= outageShare*float64(b.last-b.first+1) ||
		b.after >= outageFailures && float64(b.after) >= outageShare*float64(b.last-b.mark)
	if !enough || !silent && !down {
		return false
	}
	if !b.known {
		b.known, b.opened = true, lastLaunch
	}
	b.step++
	b.seq, b.first, b.failures = lastLaunch, lastLaunch+1, 0
	return true
}

// answered: the server is up, unless the answer is to a request that was sent
// before the failures, or before the outage was known.
func (b *breaker) answered(f *flight) {
	if f.seq > b.opened && (b.known || f.seq > b.first) {
		*b = breaker{opened: b.opened, seq: b.seq}
	}
}
