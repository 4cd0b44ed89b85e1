package report

import (
	"time"

	"llmbatch/output"
)

// buckets is the number of places of a time series.
const buckets = 256

// series are figures over time, in one pass and bounded memory: the buckets are
// 50 ms wide at first; when a time falls outside, pairs are joined until it
// does not. The zero value is ready.
type series struct {
	width time.Duration // 0: nothing seen yet
	start time.Time     // the first bucket's, a multiple of width

	wire, waiting level
	ok, failed    [buckets]float64
	throttled     [buckets]float64 // 429
	overloaded    [buckets]float64 // 529, 503
	tokensIn      [buckets]float64
	tokensOut     [buckets]float64
	lanes         []*lane
}

// lane is the limit of one lane: the largest seen in each bucket, 0 where none was.
type lane struct{ limit [buckets]int }

// level sums how long how many things were under way, so that what is in a
// bucket divided by its width is how many there were on average. Whole buckets
// between the ends are kept as differences: an attempt costs the same however
// long it took.
type level struct {
	part [buckets]time.Duration
	diff [buckets + 1]int
}

// totals are the sums of all buckets.
func (l *level) totals(width time.Duration) (t [buckets]time.Duration) {
	n := 0
	for i := range t {
		n += l.diff[i]
		t[i] = l.part[i] + time.Duration(n)*width
	}
	return t
}

// lane is a new lane, or the last one when there are too many.
func (s *series) lane() *lane {
	if len(s.lanes) < maxLanes {
		s.lanes = append(s.lanes, new(lane))
	}
	return s.lanes[len(s.lanes)-1]
}

// at is the bucket of t; the buckets are made to hold it.
func (s *series) at(t time.Time) int {
	if s.width == 0 {
		s.width = 50 * time.Millisecond
		s.start = t.Truncate(s.width)
	}
	for {
		d := t.Sub(s.start)
		if d >= 0 && d < buckets*s.width {
			return int(d / s.width)
		}
		s.double(d < 0)
	}
}

// double joins pairs of buckets. Before: the room that it makes lies before the
// present start, not after the end.
func (s *series) double(before bool) {
	for _, l := range []*level{&s.wire, &s.waiting} {
		l.part = joined(l.totals(s.width), before, func(a, b time.Duration) time.Duration { return a + b })
		l.diff = [buckets + 1]int{}
	}
	add := func(a, b float64) float64 { return a + b }
	for _, v := range []*[buckets]float64{&s.ok, &s.failed, &s.throttled, &s.overloaded, &s.tokensIn, &s.tokensOut} {
		*v = joined(*v, before, add)
	}
	for _, l := range s.lanes {
		l.limit = joined(l.limit, before, func(a, b int) int { return max(a, b) })
	}
	if before {
		s.start = s.start.Add(-buckets * s.width)
	}
	s.width *= 2
}

func joined[T any](old [buckets]T, before bool, join func(a, b T) T) (t [buckets]T) {
	at := 0
	if before {
		at = buckets / 2
	}
	for i := 0; i < buckets; i += 2 {
		t[at+i/2] = join(old[i], old[i+1])
	}
	return t
}

// span adds something that was under way from a to b.
func (s *series) span(l *level, a, b time.Time) {
	if !b.After(a) {
		return
	}
	// Both ends first: making room for the second moves the first.
	s.at(a)
	last := s.at(b)
	first := s.at(a)
	if first == last {
		l.part[first] += b.Sub(a)
		return
	}
	l.part[first] += s.edge(first + 1).Sub(a)
	l.part[last] += b.Sub(s.edge(last))
	l.diff[first+1]++
	l.diff[last]--
}

// edge is when bucket i begins.
func (s *series) edge(i int) time.Time { return s.start.Add(time.Duration(i) * s.width) }

// attempt adds one call: on the wire, then maybe a wait.
func (s *series) attempt(a *output.Attempt, waited time.Duration, l *lane) {
	end := a.StartedAt.Add(a.Duration)
	if !a.Unsent {
		s.span(&s.wire, a.StartedAt, end)
	}
	if waited > 0 {
		s.span(&s.waiting, end, end.Add(waited))
	}
	i := s.at(end)
	switch a.Outcome {
	case "rate_limited":
		s.throttled[i]++
	case "overloaded":
		s.overloaded[i]++
	}
	i = s.at(a.StartedAt)
	l.limit[i] = max(l.limit[i], a.Concurrency)
}

// finished adds an item's end.
func (s *series) finished(r *output.Result) {
	i := s.at(r.FinishedAt)
	if r.Status == output.OK {
		s.ok[i]++
	} else {
		s.failed[i]++
	}
	s.tokensIn[i] += float64(r.Usage.InputTokens + r.Usage.CacheReadTokens + r.Usage.CacheWriteTokens)
	s.tokensOut[i] += float64(r.Usage.OutputTokens)
}
