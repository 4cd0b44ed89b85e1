package pacing

import "time"

// flight is one request on the wire.
type flight struct {
	seq   int64 // launches are numbered from 1
	order int64 // the item
	at    time.Duration
	level int // in flight just after the launch, itself included

	input  float64 // raw estimate
	cost   costs   // estimate
	before costs   // launched before its burst
	probe  bool    // launched although the headers said that nothing is left

	up, taken, grown bool // on the wire; counted as accepted; counted by slow start
	prev, next       *flight
}

// flights are the requests on the wire in the order of their launch. Two marks
// move along: launches before taking are known to be accepted (they were not
// refused in time), launches before proving have been looked at by slow start.
// Each launch is passed once by each mark, so a step costs O(1) on average.
type flights struct {
	first, last, taking, proving *flight
}

func (l *flights) add(f *flight) {
	f.up, f.prev = true, l.last
	if l.last == nil {
		l.first = f
	} else {
		l.last.next = f
	}
	l.last = f
	if l.taking == nil {
		l.taking = f
	}
	if l.proving == nil {
		l.proving = f
	}
}

func (l *flights) remove(f *flight) {
	if l.taking == f {
		l.taking = f.next
	}
	if l.proving == f {
		l.proving = f.next
	}
	if f.prev == nil {
		l.first = f.next
	} else {
		f.prev.next = f.next
	}
	if f.next == nil {
		l.last = f.prev
	} else {
		f.next.prev = f.prev
	}
	f.up, f.prev, f.next = false, nil, nil
}

// tempo is how fast the server answers, in moving means.
type tempo struct {
	refusal time.Duration // launch → refusal
	answer  time.Duration // launch → result; 0 until one came
	refused bool          // refusal is measured
}

func newTempo() tempo { return tempo{refusal: 100 * time.Millisecond} }

func (t *tempo) answered(d time.Duration) {
	if t.answer == 0 {
		t.answer = d
		return
	}
	t.answer += (d - t.answer) / 10
}

func (t *tempo) refuse(d time.Duration) {
	if !t.refused {
		t.refused, t.refusal = true, d
		return
	}
	t.refusal += (d - t.refusal) / 5
}

// survival is how long a launch must go without a refusal to count as accepted
// by slow start.
func (t *tempo) survival() time.Duration { return max(time.Second, 4*t.refusal) }

// tolerance: levels of in flight closer than this can't be told apart, for as
// much is on the wire while a refusal travels.
func (t *tempo) tolerance(n float64) float64 {
	if t.answer <= 0 {
		return 1
	}
	return 1 + 2*n/t.answer.Seconds()*t.refusal.Seconds()
}

// sharp: refusals are so fast against answers that levels are exact.
func (t *tempo) sharp() bool { return t.answer == 0 || t.refusal < t.answer/10 }

// clock is the time scale of all that is tried: a run of short answers is not
// held up for seconds, and one of long answers need not wait for them.
func (t *tempo) clock() time.Duration {
	if t.answer == 0 {
		return slowestClock
	}
	return min(slowestClock, max(fastestClock, answersClock*t.answer))
}
