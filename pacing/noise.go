package pacing

import (
	"math"
	"time"
)

const (
	noiseSteps  = 3    // so many refusals in a row that the guard did not expect, and
	noiseFall   = 0.7  // the window down to this share, and still refused: noise
	noiseMost   = 0.2  // a larger share is no noise
	noiseLonger = 4    // a run this many times the mean: the cuts helped
	noiseMemory = 500  // launches that the share is a mean of
	noiseProof  = 20   // if an excess shows within as many refusals at what was restored, it was a limit
	excessShare = 0.25 // what is looked for besides noise: so many refused, or thrice the noise
	excessScore = 9    // log-likelihood at which it is found

	trialPace  = 0.8 // of the pace, in a trial
	trialRun   = 2   // a run this many times the mean ends it: there is a limit
	trialSteps = 2   // so many more refusals in it: noise
	trialCount = 20  // launches at one pace before it grows, once it is doubted
)

// noise is the share of refusals that come whatever the load: a gateway's mood,
// a neighbour's burst. No level and no rate explains them, so each cut for them
// only costs time. They show when refusals go on, while nothing is probed, as
// often as before although cuts have taken the window or the pace clearly below
// what was accepted: a limit would be met no more. Then what was cut is
// restored, and from there a refusal counts only when there are clearly more of
// them: a CUSUM of the log-likelihood of an excess against the noise. With no
// noise known each refusal counts.
type noise struct {
	share float64 // of launches; 0: no noise is known
	score float64 // CUSUM
	age   int     // launches since it was found

	need    int     // refusals in a row that make a trail; more after each mistake
	run     int     // accepted since the last refusal that counted
	burst   int     // refused right after that
	steps   int     // refusals of the trail, none expected
	taken   int     // accepted in it
	refused int     // refused in it, bursts included
	latest  window  // before the last cut
	before  window  // before the first cut of the trail
	trial   float64 // the pace's rate before its trial; 0: none
}

func (n *noise) reset() { n.steps, n.taken, n.refused = 0, 0, 0 }

// excess is the share of refusals that is looked for.
func (n *noise) excess() float64 { return max(excessShare, 3*n.share) }

// accepted takes in a launch that the server took; steady says that nothing was
// probed with it.
func (n *noise) accepted(steady bool) {
	n.run++
	n.age++
	if n.share == 0 {
		return
	}
	n.score = max(0, n.score+math.Log((1-n.excess())/(1-n.share)))
	if steady {
		n.share -= n.share / noiseMemory
	}
}

// excused takes in a refusal, launched at this level. It tells whether noise
// explains it. As the share falls to nothing, each refusal counts again.
func (n *noise) excused(steady bool, level float64) bool {
	if n.share == 0 {
		return false
	}
	n.age++
	n.score += math.Log(n.excess() / n.share)
	if steady {
		n.share = min(noiseMost, n.share+(1-n.share)/noiseMemory)
	}
	if n.score < excessScore {
		return true
	}
	n.score = 0
	if float64(n.age)*n.share < noiseProof && level <= 0.85*n.before.size {
		n.share = 0
		n.need += 2
	}
	return false
}

// weigh takes in a refusal that counts, before its cut, with the window as it
// is; expected says that the guard in charge probed. It tells whether it is
// noise after all.
func (n *noise) weigh(w window, expected bool) bool {
	if n.run == 0 {
		n.burst++
		return false
	}
	run, burst := n.run, n.burst
	n.run, n.burst = 0, 0
	mean := max(5, float64(n.taken)/float64(max(1, n.steps)))
	switch {
	case n.steps > 0 && float64(run) > noiseLonger*mean || expected && n.steps <= 1:
		n.latest = w
		n.reset()
		return false
	case expected:
		n.steps--
		return false
	}
	if n.latest.size == 0 {
		n.latest = w
	}
	if n.steps == 0 {
		n.before = n.latest
	}
	n.latest = w
	n.steps++
	n.taken += run
	n.refused += 1 + burst
	n.need = max(n.need, noiseSteps)
	fell := w.size <= max(1, noiseFall*n.before.size) || n.trial > 0 && n.steps >= n.need+trialSteps
	share := float64(n.refused) / float64(n.refused+n.taken)
	if n.steps < n.need || !fell || share > noiseMost {
		return false
	}
	n.reset()
	n.share, n.score, n.age, n.trial = max(share, n.share), 0, 0, 0
	return true
}

// probing tells whether the guard in charge was trying more when this was
// launched, so that a refusal was to be expected.
func (l *lane) probing(launch time.Duration) bool {
	if l.pacer.on {
		return launch >= l.pacer.cut+l.pacer.hold
	}
	return math.IsInf(l.window.plateau, 1) || launch >= l.window.since+l.window.hold
}

// steady tells whether a launch was made at a level that was held.
func (l *lane) steady(launch time.Duration) bool {
	return l.window.size >= l.window.most || !l.probing(launch)
}

// noisy takes in a refusal that opens an epoch and tells whether it is noise.
// When it is found to be, the cuts it made are undone; how much the server holds
// is unknown again.
func (l *lane) noisy(now time.Duration, f *flight, bare bool) bool {
	if l.fixed {
		return false
	}
	if l.noise.excused(l.steady(f.at), float64(f.level)) {
		return true
	}
	// A server that names a wait knows its limit: that is believed, but for mood.
	if !bare || !l.noise.weigh(l.window, l.probing(f.at)) {
		return false
	}
	l.window.restore(l.noise.before, now)
	l.window.threshold, l.window.plateau = math.Inf(1), math.Inf(1)
	l.noise.latest = l.window
	l.pacer.off()
	l.gate.ramp = ramp{on: true, left: 1, size: 1} // a mistake shows before much is sent
	l.doubt.strikes, l.gate.step, l.full, l.epoch = 0, 0, false, l.seq
	l.resize(now, "refused as often at any limit", "")
	return true
}

// try lowers the pace by a clear step for a while, once refusals have gone on in
// spite of it.
func (l *lane) try(bare bool) {
	n, p := &l.noise, &l.pacer
	switch {
	case !p.on || n.steps == 0:
		n.trial = 0
	case n.trial == 0 && bare && n.steps >= n.need:
		n.trial = p.rate
		p.rate *= trialPace
		p.hold = longestHold * p.clock
	case bare && n.steps >= 2:
		p.hold = max(p.hold, min(longestHold*p.clock, seconds(trialCount/max(p.rate, paceMinimum))))
	}
}

// tried ends a trial in which refusals have ceased: it is a rate's limit, and
// the pace comes back.
func (l *lane) tried(now time.Duration) {
	n, p := &l.noise, &l.pacer
	if n.trial == 0 || float64(n.run)*float64(n.steps) < trialRun*float64(n.taken) {
		return
	}
	if p.on {
		p.rate, p.hold, p.cut, p.anchored = n.trial, p.least(), now, false
	}
	n.trial = 0
	n.need += 2
	n.reset()
}
