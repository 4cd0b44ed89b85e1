package pacing

import (
	"math"
	"time"
)

const (
	paceHold     = 5.0 / 3 // times the clock: least time at one pace
	paceLower    = 0.95    // of the rate, once it was refused while holding
	paceAgree    = 0.1     // samples closer than this share agree
	paceBurst    = 0.5     // seconds of pace that may be saved up
	paceMinimum  = 1e-3
	samplePeriod = time.Second      // a sample needs so much time and
	sampleCount  = 5                // so many launches
	longSample   = 30 * time.Second // or so much time and
	longCount    = 3                // so many: one or two are chance, as beside another client
)

// pacer is a launch rate learned from refusals, for servers that refuse by rate
// and say nothing about it. It is on only while refusals contradict a ceiling.
type pacer struct {
	on      bool
	clock   time.Duration // as the window's
	rate    float64       // launches a second
	last    float64       // sample
	samples int
	hold    time.Duration
	cut     time.Duration // the pace has grown since then
	burst   float64

	tokens float64
	at     time.Duration

	anchored bool
	anchor   time.Duration // launch of the refusal that the count began at
	count    int           // launches accepted since
}

// pace holds at the rate, then probes with the cube of time.
func (p *pacer) pace(now time.Duration) float64 {
	t := now - p.cut
	if t < p.hold {
		return p.rate
	}
	x := (t - p.hold).Seconds() / p.least().Seconds()
	return p.rate * (1 + 0.05*x*x*x)
}

// least is the least time at one pace.
func (p *pacer) least() time.Duration { return time.Duration(paceHold * float64(p.clock)) }

func (p *pacer) off() { p.on, p.anchored, p.samples = false, false, 0 }

// ready tells when there is a token.
func (p *pacer) ready(now time.Duration) time.Duration {
	r := max(p.pace(now), paceMinimum)
	p.tokens = min(max(1, r*p.burst), p.tokens+r*(now-p.at).Seconds())
	p.at = now
	if p.tokens >= 1 {
		return now
	}
	return later(now, seconds((1-p.tokens)/r)+time.Microsecond)
}

func (p *pacer) accepted(launch time.Duration) {
	if launch > p.anchor {
		p.count++
	}
}

// wasted: what was saved up while the gate was shut has been refused.
func (p *pacer) wasted() {
	if p.burst *= 0.5; p.burst < paceBurst/2 {
		p.burst = 0
	}
}

// sample is a refusal of what was launched then. What a token bucket takes between
// two refusals, over the time between, never passes its rate, and is less if the
// bucket overflowed meanwhile. So the rate is the largest of these. A probe that is
// refused leaves it. If what holds the rate is refused, the rate has fallen: a
// little at first, and to what two samples agree on.
func (p *pacer) sample(launch time.Duration) {
	dt := launch - p.anchor
	switch {
	case !p.anchored:
		p.anchored, p.anchor, p.count = true, launch, 0
		return
	case dt >= samplePeriod && p.count >= sampleCount:
	case dt > longSample && p.count >= longCount:
	default:
		return
	}
	r := float64(p.count) / dt.Seconds()
	switch probed := p.on && launch >= p.cut+p.hold; {
	case p.samples == 0:
		p.rate, p.hold = r, p.least()
	case probed && math.Abs(r-p.rate) < paceAgree*p.rate:
		p.rate, p.hold = max(p.rate, r), min(longestHold*p.clock, 2*p.hold)
	case r > p.rate:
		if probed { // much too low: the truth is between this and the pace
			r = (r + min(p.pace(launch), 2*r)) / 2
		}
		p.rate, p.hold = r, p.least()
	case probed:
		p.hold = p.least()
	case math.Abs(r-p.last) < paceAgree*r:
		p.rate, p.hold = r, p.least()
	default:
		p.rate, p.hold = p.rate*paceLower, p.least()
	}
	p.samples, p.last = p.samples+1, r
	p.anchor, p.count = launch, 0
}

// refused sets the pace on or off; on, it starts anew from now.
func (p *pacer) refused(now time.Duration, byRate bool) {
	p.on = byRate && p.samples > 0
	if p.on {
		p.tokens, p.at, p.cut = min(p.tokens, 0), now, now
	}
}

func (p *pacer) pause(until time.Duration) { p.cut = max(p.cut, until) }

// seconds converts without overflow.
func seconds(s float64) time.Duration {
	if s >= never.Seconds() {
		return never
	}
	return time.Duration(s * float64(time.Second))
}
