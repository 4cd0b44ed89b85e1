package pacing

import (
	"math"
	"time"
)

const (
	chance     = 1e-3 // an item refused so often that chance does it to fewer items than this is alone
	surely     = 3    // so many refusals of one item and of no other: what they did to the lane is undone
	provenRun  = 20   // so many launches accepted in a row, at its level, make a refusal unexpected
	largeInput = 4    // times the mean: such an item may be refused for its size
	forgiven   = 10   // refusals of items that are alone, and as many again for
	forgiving  = 20   // each so many accepted launches; more are the lane's after all
)

// suspect is an item whose latest request was refused, and how the lane was
// before its first refusal. If the item turns out to be alone, that comes back.
type suspect struct {
	times, charged   int // refused, and of these, counted against the lane
	passed, rejected int // the lane's counts then
	window           window
	paced            bool
	alone            bool
}

// justice tells an item that the server refuses whatever else happens from a
// lane that is at a limit. Only what other items got can tell: a limit refuses
// them as well.
type justice struct {
	suspects         map[int64]*suspect
	passed, rejected int     // launches of items that are not alone
	calm             int     // accepted since the last of these refusals, and
	level            int     // the highest level among them
	input            float64 // mean input of what was accepted
	spent            float64 // of what is forgiven
}

func (j *justice) accepted(f *flight) {
	j.passed++
	j.calm++
	j.spent = max(0, j.spent-1.0/forgiving)
	j.level = max(j.level, f.level)
	if j.input == 0 {
		j.input = f.input
	}
	j.input += (f.input - j.input) / 20
}

func (j *justice) isAlone(order int64) bool { s := j.suspects[order]; return s != nil && s.alone }

func (j *justice) answered(f *flight) { delete(j.suspects, f.order) }

// refused takes in a refusal and tells whether it binds only its item: the item is
// known to be alone, and others pass, or it was refused again and again while so
// few others were that chance does not explain it. Example: refused twice, and of
// the twenty launches since the first time all were accepted.
func (j *justice) refused(f *flight, w window, paced bool) (s *suspect, alone bool) {
	s = j.suspects[f.order]
	if s == nil {
		if j.suspects == nil {
			j.suspects = map[int64]*suspect{}
		}
		s = &suspect{passed: j.passed, rejected: j.rejected, window: w, paced: paced}
		j.suspects[f.order] = s
	}
	s.times++
	if j.spent > forgiven || s.alone {
		return s, s.alone && j.calm > 0 && j.spent <= forgiven
	}
	passed, rejected := float64(j.passed-s.passed), float64(j.rejected-s.rejected-s.charged)
	share := (rejected + 0.5) / (rejected + passed + 0.5)
	s.alone = s.times >= 2 && math.Pow(share, float64(s.times)) < chance
	return s, s.alone
}

// counted takes in a refusal that the lane answers for.
func (j *justice) counted() { j.rejected++; j.calm, j.level = 0, 0 }

// unexpected: nothing that is known of the lane explains this refusal.
func (j *justice) unexpected(f *flight, o Outcome) bool {
	room := len(o.Quota) > 0
	for _, q := range o.Quota {
		room = room && q.Resource < resources && q.Remaining >= f.cost[q.Resource]
	}
	return room || o.Hint > time.Minute || j.input > 0 && f.input >= largeInput*j.input || j.proven(f, 0)
}

// proven: the lane's last launches, some of them so far above this level, were all
// accepted.
func (j *justice) proven(f *flight, above float64) bool {
	return j.calm >= provenRun && float64(f.level)+above <= float64(j.level)
}

// bindsItem tells whether a refusal is the item's own: then the lane learns
// nothing from it. What its earlier ones have done to the lane is undone, if
// nothing else was refused since.
func (l *lane) bindsItem(now time.Duration, f *flight, o Outcome) bool {
	if l.unpaced || f.order < 0 {
		return o.Alone
	}
	s, alone := l.justice.refused(f, l.window, l.pacer.on)
	if o.Alone {
		s.alone, alone = true, true
	}
	if !alone {
		s.charged++
		return false
	}
	l.justice.spent++
	l.note(now, l.limit, "refused alone", "one item is refused while others pass: it waits by itself")
	if s.times == surely && l.justice.rejected-s.rejected == s.charged {
		l.absolve(now, s)
	}
	return true
}

// passedTest: the server took another item's request although the gate was shut.
func (l *lane) passedTest(now time.Duration) {
	l.gate.open(now)
	l.note(now, l.limit, "gate open", "another item's request was accepted")
	// The wait that was asked for is not what a refusal costs.
	l.window.since, l.window.hold = min(l.window.since, now), min(l.window.hold, longestHold*l.window.clock)
	l.pacer.cut = min(l.pacer.cut, now)
	l.justice.calm = max(l.justice.calm, 1)
	for i, order := range l.gate.test.refused {
		s := l.justice.suspects[order]
		if s == nil {
			continue
		}
		s.alone = true
		if i == 0 && (l.gate.test.proven || l.justice.rejected == 1) {
			l.absolve(now, s)
		}
	}
}

// absolve undoes what refusals of one item have done to the lane.
func (l *lane) absolve(now time.Duration, s *suspect) {
	if l.fixed {
		return
	}
	l.window.restore(s.window, now)
	l.doubt.strikes, l.gate.step = 0, 0
	if l.pacer.on && !s.paced {
		l.pacer.off()
	}
	l.resize(now, "back: only one item was refused", "")
}
