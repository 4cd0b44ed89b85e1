// Package report turns results into figures: the table at the end of a run, the
// machine-readable summary, and one self-contained page with plots.
//
// Statistics are streaming and bounded in memory, whatever the number of rows:
// latencies go into logarithmic buckets (at most 3.2 % off), time series into at
// most 256 buckets whose width doubles when the run outgrows them, causes and
// reasons into tables with a fixed number of places and one more for the rest.
// Failures are in every figure beside the successes, never left out of it.
//
// Text from results is shown by Summary.WriteText and HTML only after control
// characters are made visible and markup is escaped.
package report

import (
	"time"

	"llmbatch/output"
)

// Stats collects figures from results. It is not safe for concurrent use. Use
// NewStats; the zero value is not ready.
type Stats struct {
	rows      int
	statuses  table[output.Status, int]
	causes    table[causeKey, *cause]
	stops     table[string, int]
	giveUps   table[string, int]
	outcomes  table[string, *outcome]
	waits     table[string, *wait]
	models    table[string, *model]
	itemTimes table[output.Status, *histogram]
	slow      slowest
	usage     output.Usage
	cost      float64
	hasCost   bool

	attempts int // sent and unsent
	unsent   int
	retried  int // items with more than one attempt

	first, last time.Time
	series      series
	shapes      shapeCache

	// lastModel is the place of the row before, which had this provider and model.
	lastProvider, lastName string
	lastModel              *model
}

// outcome is what became of the attempts that ended in one way.
type outcome struct {
	count   int
	unsent  int
	latency histogram
}

// wait sums what items waited for one reason.
type wait struct {
	count int
	total time.Duration
}

// model is what one provider and model did.
type model struct {
	items  int
	ok     int
	usage  output.Usage
	cost   float64
	series *lane
}

// The places of each table. What comes after the last place is counted
// together, under the name "other".
const (
	maxCauses   = 200
	maxWords    = 32 // stop reasons, outcomes, wait reasons, give-up reasons
	maxModels   = 16
	maxLanes    = 8 // lanes with a limit of their own in the time series
	maxSlow     = 10
	otherName   = "other"
	maxShapeLen = 160 // characters of a message's shape
)

// NewStats returns empty statistics.
func NewStats() *Stats {
	return &Stats{
		statuses:  table[output.Status, int]{max: maxWords, other: otherName},
		causes:    table[causeKey, *cause]{max: maxCauses, other: causeKey{class: otherName}},
		stops:     table[string, int]{max: maxWords, other: otherName},
		giveUps:   table[string, int]{max: maxWords, other: otherName},
		outcomes:  table[string, *outcome]{max: maxWords, other: otherName},
		waits:     table[string, *wait]{max: maxWords, other: otherName},
		models:    table[string, *model]{max: maxModels, other: otherName},
		itemTimes: table[output.Status, *histogram]{max: maxWords, other: otherName},
	}
}

// Add takes one result with its Attempts: a row that was read has all of them
// there, that of a run only the run's own, and History is not looked at. Rows that a later row of the same id replaces must not be added. r is not
// kept.
func (s *Stats) Add(r *output.Result) {
	s.rows++
	*s.statuses.at(r.Status)++
	m := s.model(r)
	m.items++
	if r.Status == output.OK {
		m.ok++
		*s.stops.at(r.StopReason)++
	} else {
		s.addCause(r)
	}
	if r.GiveUpReason != "" {
		*s.giveUps.at(r.GiveUpReason)++
	}
	m.usage, s.usage = m.usage.Add(r.Usage), s.usage.Add(r.Usage)
	if r.HasCost {
		s.hasCost = true
		s.cost += r.Cost
		m.cost += r.Cost
	}
	s.addAttempts(r, m)
	if !r.FinishedAt.IsZero() && r.Status != output.Waiting {
		s.seen(r.FinishedAt)
		s.series.finished(r)
	}
}

// model is the place of a row's provider and model, with a lane of its own in
// the time series as long as there are any left.
func (s *Stats) model(r *output.Result) *model {
	if s.lastModel != nil && s.lastName == r.Model && s.lastProvider == r.Provider {
		return s.lastModel
	}
	name := r.Model
	if r.Provider != "" && name != "" {
		name = r.Provider + " " + name
	} else if name == "" {
		name = r.Provider
	}
	p := s.models.at(name)
	if *p == nil {
		*p = &model{series: s.series.lane()}
	}
	s.lastProvider, s.lastName, s.lastModel = r.Provider, r.Model, *p
	return *p
}

func (s *Stats) addAttempts(r *output.Result, m *model) {
	if len(r.Attempts) > 1 {
		s.retried++
	}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		s.attempts++
		o := s.outcomes.at(a.Outcome)
		if *o == nil {
			*o = new(outcome)
		}
		(*o).count++
		if a.Unsent {
			s.unsent++
			(*o).unsent++
		}
		(*o).latency.add(a.Duration)
		waited := waitAfter(r, i)
		if waited > 0 {
			w := s.waits.at(a.WaitReason)
			if *w == nil {
				*w = new(wait)
			}
			(*w).count++
			(*w).total += waited
		}
		if a.StartedAt.IsZero() {
			continue
		}
		end := a.StartedAt.Add(a.Duration)
		s.seen(a.StartedAt)
		s.seen(end)
		s.series.attempt(a, waited, m.series)
	}
	s.addItemTime(r)
}

// waitAfter is how long an item waited by decision after its attempt i: what was
// decided, if another attempt came or the item still waits. A wait that did not
// fit a budget was never begun.
func waitAfter(r *output.Result, i int) time.Duration {
	a := &r.Attempts[i]
	if a.Wait <= 0 {
		return 0
	}
	if i+1 < len(r.Attempts) {
		next := r.Attempts[i+1].StartedAt
		if gap := next.Sub(a.StartedAt.Add(a.Duration)); gap > 0 && !next.IsZero() {
			return min(a.Wait, gap)
		}
		return a.Wait
	}
	if r.Status == output.Waiting {
		return a.Wait
	}
	return 0
}

func (s *Stats) addItemTime(r *output.Result) {
	if len(r.Attempts) == 0 || r.Status == output.Waiting {
		return
	}
	took := itemTime(r)
	h := s.itemTimes.at(r.Status)
	if *h == nil {
		*h = new(histogram)
	}
	(*h).add(took)
	s.slow.add(r, took)
}

func (s *Stats) seen(t time.Time) {
	if s.first.IsZero() || t.Before(s.first) {
		s.first = t
	}
	if t.After(s.last) {
		s.last = t
	}
}

// itemTime is from the first attempt's start to the last one's end; 0 without attempts.
func itemTime(r *output.Result) time.Duration {
	if len(r.Attempts) == 0 {
		return 0
	}
	first, last := &r.Attempts[0], &r.Attempts[len(r.Attempts)-1]
	return max(last.StartedAt.Add(last.Duration).Sub(first.StartedAt), 0)
}
