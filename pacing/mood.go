package pacing

import "time"

const (
	moodFall  = 0.6         // an interval with less than this share of the last one's rate is odd
	moodCount = 10          // if so many were accepted in it:
	moodMean  = 20          // in a trickle, and where fewer are accepted on average, chance alone is odd
	moodKeeps = 15.0 / 16.0 // what is kept at each refusal of the count of odd ones
	moodSure  = 1.8         // so many of late: a mood
	moodOver  = 1           // fewer: no longer
)

// mood tells refusals that name a wait, but come whatever the load. The gate is
// shut as long as each asks for; the question is only whether they show a limit.
// A limit on rate takes as much in one second as in the next, gates included, so
// the rate between two refusals hardly ever falls. Refusals at random do not
// care: it takes much more before one than before the next. While that goes on,
// a refusal shuts the gate and nothing more.
type mood struct {
	at    time.Duration // launch of the last refusal
	count float64       // accepted since
	mean  float64       // of that, over the last few
	rate  float64       // a second before it; 0: not known
	odd   float64       // odd intervals of late
	on    bool
}

func (m *mood) accepted(launch time.Duration) {
	if launch > m.at {
		m.count++
	}
}

// refused takes in a refusal that opens an epoch and names a wait, launched then,
// and tells whether no limit explains it. If another guard does explain it, its
// interval is not counted as odd.
func (m *mood) refused(launch time.Duration, explained bool) bool {
	rate := (m.count + 1) / max(0.01, (launch-m.at).Seconds())
	m.mean += (m.count - m.mean) / 8
	m.odd *= moodKeeps
	if !explained && m.count >= moodCount && rate < moodFall*m.rate {
		m.odd++
	}
	m.on = m.mean >= moodMean && (m.odd >= moodSure || m.on && m.odd >= moodOver)
	m.at, m.count, m.rate = launch, 0, rate
	return m.on
}

// moody takes in a refusal that opens an epoch and names a wait, and tells
// whether it only shuts the gate. Where a full window probed, it is a ceiling's
// as before. A mood is first found against the pacer, which it then ends.
func (l *lane) moody(now time.Duration, f *flight) bool {
	if l.fixed {
		return false
	}
	was, probed := l.mood.on, f.level >= l.limit && l.probing(f.at)
	if !l.mood.refused(f.at, probed || !l.pacer.on && !was) {
		return false
	}
	if !was {
		l.pacer.off()
		l.doubt.strikes = 0
		l.window.spare(now)
		l.epoch, l.full = l.seq, false
		l.resize(now, "refused whatever the rate", "")
		return true
	}
	return !probed
}
