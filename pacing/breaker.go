package pacing

// An outage is known after so many failures in a row, from so many items.
const (
	outageFailures = 5
	outageItems    = 3
)

// breaker tells a server that is down from items that fail.
type breaker struct {
	failures int
	items    [outageItems]int64 // the first few items that failed in this row
	distinct int
	step     int   // bursts of failures in this outage
	seq      int64 // launches up to this one belong to the last burst
}

func (b *breaker) open() bool { return b.failures >= outageFailures && b.distinct >= outageItems }

// failed counts a failure of launch f and tells whether it opens a new burst of
// a known outage.
func (b *breaker) failed(f *flight, lastLaunch int64) bool {
	b.failures++
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
	if !b.open() || f.seq <= b.seq {
		return false
	}
	b.seq = lastLaunch
	b.step++
	return true
}

// answered: the server is up, unless the answer is to a request that was sent
// before the outage.
func (b *breaker) answered(f *flight) {
	if f.seq > b.seq {
		b.failures, b.distinct, b.step = 0, 0, 0
	}
}
