package pacing

import "golang.org/x/sync/semaphore"

// permits is a semaphore whose size can change. A semaphore.Weighted can't be
// resized, and shrinking it by Acquire(k) would block all later acquirers until
// k are free; so it is built at its largest, and the permits beyond the limit
// are parked: held by nobody. At any time free + taken + parked = max.
type permits struct {
	sem                *semaphore.Weighted
	max, taken, parked int
	share              *share // of a ceiling over several lanes; nil: none
}

func newPermits(most, limit int) permits {
	p := permits{sem: semaphore.NewWeighted(int64(most)), max: most}
	p.resize(limit)
	return p
}

// take takes one, if one is free.
func (p *permits) take() bool {
	if !p.sem.TryAcquire(1) {
		return false
	}
	if !p.share.take() {
		p.sem.Release(1)
		return false
	}
	p.taken++
	return true
}

// give puts one back, or parks it if too few are parked for this limit.
func (p *permits) give(limit int) {
	p.taken--
	p.share.give()
	if p.parked < p.max-limit {
		p.parked++
		return
	}
	p.sem.Release(1)
}

// resize parks free permits, or sets parked ones free. What is still missing
// when the limit has shrunk is parked as it comes back.
func (p *permits) resize(limit int) {
	want := p.max - limit
	if n := p.parked - want; n > 0 {
		p.parked -= n
		p.sem.Release(int64(n))
		return
	}
	if n := min(want-p.parked, p.max-p.taken-p.parked); n > 0 && p.sem.TryAcquire(int64(n)) {
		p.parked += n
	}
}
