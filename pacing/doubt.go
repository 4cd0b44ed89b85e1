package pacing

import (
	"math"
	"time"
)

// patience: a wait this long costs one refusal an episode, and pacing gains
// nothing.
const patience = 3 * time.Second

// doubt weighs whether refusals contradict "the server holds at most N of
// ours". That predicts refusals only when the window was full and had been
// raised beyond a level known to be accepted.
type doubt struct {
	strikes int
	known   float64 // highest level accepted since the last refusal
	tops    last3   // the same for the last three epochs
	levels  last3   // held at the last three refusals
}

// last3 are the three latest values, oldest first.
type last3 struct {
	v [3]float64
	n int
}

func (l *last3) add(x float64) {
	if l.n == 3 {
		copy(l.v[:], l.v[1:])
		l.n = 2
	}
	l.v[l.n] = x
	l.n++
}

func (l *last3) span() (lo, hi float64) {
	lo, hi = math.Inf(1), math.Inf(-1)
	for _, x := range l.v[:l.n] {
		lo, hi = min(lo, x), max(hi, x)
	}
	return lo, hi
}

func (d *doubt) accepted(level int) { d.known = max(d.known, float64(level)) }

// refusal is what doubt is decided on.
type refusal struct {
	evidence
	launch time.Duration
	sharp  bool
	paced  bool // the pacer is on
	limit  float64
}

// weigh takes a refusal in. It tells whether no ceiling explains it, and a
// level at which a ceiling is certain after all (0: none).
func (d *doubt) weigh(w *window, r refusal) (byRate bool, ceiling float64) {
	full := w.blocked >= r.launch || r.level >= r.limit
	_, top := d.tops.span()
	top = max(d.known, top)
	d.levels.add(r.held)
	d.tops.add(d.known)
	d.known = 0
	switch {
	case r.level <= 1 && r.held < 1: // nothing else was in flight
		d.strikes += 2
	case !full && (r.sharp || r.level < w.plateau-r.tolerance):
		d.strikes += 2
	case r.sharp && r.now-w.since < w.hold, r.level < top-r.tolerance:
		d.strikes++
	default:
		d.strikes = max(0, d.strikes-1)
	}
	if r.hint > patience {
		d.strikes = 0
	}
	if d.levels.n == 3 {
		lo, hi := d.levels.span()
		spread := 0.04 * hi
		if r.paced {
			spread = max(1, spread)
		}
		if _, top := d.tops.span(); (r.paced || hi >= 8) && hi-lo <= spread && top <= hi+r.tolerance {
			d.strikes, ceiling = 0, hi // three times at one level
		}
	}
	return d.strikes >= 2, ceiling
}
