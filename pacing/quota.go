package pacing

import (
	"cmp"
	"math"
	"time"
)

const (
	reserve     = 0.03                  // share of a reported limit that is left untouched
	trust       = time.Minute           // no header holds a launch back for longer at a time
	longestTerm = 24 * time.Hour        // a reset beyond this is no reset
	together    = 50 * time.Millisecond // launches this close reach the server in any order
)

// costs is an amount of each resource.
type costs [resources]float64

// appraiser estimates what an item will be charged, and learns from what was.
type appraiser struct {
	answers int
	output  float64 // mean output billed
	ratio   float64 // mean of input billed / the raw estimate
}

func (a *appraiser) cost(d demand) costs {
	in, out := d.input*cmp.Or(a.ratio, 1), d.output
	if a.answers > 0 && (out == 0 || a.output < out) {
		out = a.output
	}
	return costs{1, in, out, in + out}
}

// learn compares with the raw estimate: against the corrected one it would feed
// back on itself, and diverge once answers take long.
func (a *appraiser) learn(estimate, input, output float64) {
	if input <= 0 && output <= 0 {
		return
	}
	a.answers++
	a.output += max(1/float64(a.answers), 0.05) * (output - a.output)
	if estimate > 0 && input > 0 {
		a.ratio = cmp.Or(a.ratio, 1)
		a.ratio += 0.05 * (input/estimate - a.ratio)
	}
}

// bucket is one resource as seen from here.
type bucket struct {
	limit, rate float64 // limit 0: nothing known
	seen        float64 // most that was ever reported left: the burst may be far below the limit
	left        float64 // after our commitments
	at          time.Duration
	whole       bool          // refills all at once, at reset
	reset       time.Duration // of a whole bucket; never: not known yet
	expected    float64       // output expected of requests on the wire
	distrusted  bool          // it was caught lying
}

// refill lets time pass. A bucket is believed to hold no more than was ever
// reported left, unless more is needed.
func (b *bucket) refill(now time.Duration, need float64) {
	switch {
	case b.limit == 0:
	case !b.whole:
		most := min(b.limit, max(b.seen, b.left, need, b.limit/60))
		b.left = min(most, b.left+b.rate*(now-b.at).Seconds())
	case now >= b.reset:
		b.left, b.reset = b.limit, never
	}
	b.at = now
}

// wait is how long until cost is there besides the reserve, 0 for now.
func (b *bucket) wait(now time.Duration, cost float64) time.Duration {
	if b.limit == 0 {
		return 0
	}
	need := cost
	if !b.whole { // a whole one's reserve would be lost at each reset
		need += reserve * b.seen
	}
	need = min(need, b.limit)
	b.refill(now, need)
	if b.left >= need {
		return 0
	}
	if b.whole {
		return min(trust, b.reset-now)
	}
	return min(trust, seconds((need-b.left)/max(b.rate, 1e-9)))
}

// quota mirrors the provider's buckets. A header gives only bounds: it may be
// from the admission or from the end of its request, with output reserved or
// charged at the end, and these hold for all four.
type quota struct {
	buckets [resources]bucket
	spent   costs // launched so far
	burst   time.Duration
	before  costs         // launched before the burst of this moment
	held    time.Duration // since when it alone holds launches back; negative: it does not
}

func newQuota() quota { return quota{held: -1, burst: -together} }

// ready tells when the cost may leave, and whether that is against the
// headers, because they have held back everything for a minute.
func (q *quota) ready(now time.Duration, c costs) (time.Duration, bool) {
	var w time.Duration
	for i := range q.buckets {
		w = max(w, q.buckets[i].wait(now, c[i]))
	}
	if w == 0 {
		q.held = -1
		return now, false
	}
	if q.held < 0 {
		q.held = now
	}
	if now-q.held >= trust {
		return now, true
	}
	return now + min(w+1, q.held+trust-now), false
}

func (q *quota) launched(now time.Duration, f *flight) {
	if now-q.burst > together {
		q.burst, q.before = now, q.spent
	}
	f.before, q.held = q.before, -1
	for i := range q.buckets {
		b := &q.buckets[i]
		q.spent[i] += f.cost[i]
		if Resource(i) >= OutputTokens {
			b.expected += f.cost[OutputTokens]
		}
		if b.limit > 0 {
			b.left -= f.cost[i]
		}
	}
}

// landed replaces the estimate by what was charged, and takes in the headers.
func (q *quota) landed(now time.Duration, f *flight, charged costs, o Outcome) {
	for i := range q.buckets {
		b := &q.buckets[i]
		b.refill(now, 0)
		if Resource(i) >= OutputTokens {
			b.expected = max(0, b.expected-f.cost[OutputTokens])
		}
		if b.limit > 0 {
			b.left += f.cost[i] - charged[i]
		}
	}
	for _, h := range o.Quota {
		if h.Resource < resources && h.Limit > 0 && h.Remaining >= 0 && h.Reset <= longestTerm {
			q.report(now, f, h, o)
		}
	}
}

func (q *quota) report(now time.Duration, f *flight, h Quota, o Outcome) {
	b := &q.buckets[h.Resource]
	if f.probe && o.Signal == Good && h.Remaining < f.cost[h.Resource] {
		b.distrusted = true // it said that nothing was left, twice, and took the request
	}
	if b.distrusted {
		b.limit = 0
		return
	}
	fresh := b.limit == 0
	b.seen = max(b.seen, h.Remaining)
	rate := b.pace(h, now-f.at)
	if reset := now + max(h.Reset, 0); b.whole && (fresh || b.reset == never || (reset-b.reset).Abs() > time.Second) {
		b.reset = reset
	}
	most := h.Remaining - b.expected
	if !b.whole {
		most = min(most+rate*(now-f.at).Seconds(), max(b.seen, h.Limit/60))
	}
	least := most - (q.spent[h.Resource] - f.before[h.Resource])
	if fresh {
		b.left = least
	}
	b.limit, b.rate = h.Limit, rate
	if h.Remaining > 0 { // zero may hide a debt
		b.left = max(b.left, least)
	}
	b.left = min(b.left, most)
	if cost := f.cost[h.Resource]; o.Signal == Throttled && o.Hint > 0 && !b.whole && h.Remaining < max(1, cost) {
		// The wait measures the debt that a remaining of zero hides.
		b.left = min(b.left, cost-max(0, o.Hint.Seconds()-0.5)*rate-b.expected)
	}
}

// pace is the refill rate that a report shows. All these limits are a minute's.
// What is used up against the limit, or against the most that was ever left,
// comes back until the reset. The report may be as old as its request and its
// instant may be rounded to a second, so that shows only a range: a minute's rate
// within it stays, else the nearest end is taken. If neither range comes within a
// factor of three of a minute's rate, the bucket refills all at once, at its
// reset.
func (b *bucket) pace(h Quota, age time.Duration) float64 {
	minute := h.Limit / 60
	known := minute
	if b.limit > 0 && !b.whole {
		known = b.rate
	}
	used := h.Limit - h.Remaining
	if b.whole || h.Reset <= 500*time.Millisecond || used <= 0.05*h.Limit {
		return known
	}
	if h.Remaining <= 0 { // the true level may be below zero: the ratio means nothing
		return known
	}
	longest, shortest := (h.Reset + age + time.Second).Seconds(), (h.Reset - time.Second).Seconds()
	for _, used := range []float64{used, b.seen - h.Remaining} {
		least, most := used/longest, math.Inf(1)
		if shortest > 0 {
			most = used / shortest
		}
		if least <= 3*minute && most >= minute/3 {
			return max(least, min(minute, most))
		}
	}
	if b.seen-h.Remaining > 0.05*b.seen || b.seen > h.Limit/2 {
		b.whole, b.reset = true, never
	}
	return known
}
