package pacing

import (
	"math"
	"time"
)

const (
	paceHold     = 5 * time.Second // least time at one pace
	paceHeld     = 0.99            // of the rate, while holding
	paceBurst    = 0.5             // seconds of pace that may be saved up
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
	rate    float64 // launches a second
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

// pace holds just under the rate, then probes with the cube of time.
func (p *pacer) pace(now time.Duration) float64 {
	t := now - p.cut
	if t < p.hold {
		return p.rate * paceHeld
	}
	x := (t - p.hold).Seconds() / paceHold.Seconds()
	return p.rate * (paceHeld + 0.05*x*x*x)
}

// idle: the pace is more than the window can ever use.
func (p *pacer) idle(now, answer time.Duration, limit int) bool {
	return answer > 0 && p.pace(now)*answer.Seconds() > 2*float64(limit)
}

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

// sample is a refusal of what was launched then. Between two refusals the
// server took count launches: that is its rate exactly if its bucket did not
// overflow in between, and too low otherwise; the pace just refused is too high
// by what the bucket still gave. The truth lies between.
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
	r, agree := float64(p.count)/dt.Seconds(), true
	if upper := p.pace(launch); p.on && upper > r {
		agree = upper < 1.15*r
		r = (r + min(upper, 2*r)) / 2
	}
	switch {
	case p.samples == 0:
		p.rate, p.hold = r, paceHold
	case agree && math.Abs(r-p.rate) < 0.1*p.rate:
		p.hold = min(longestHold, 2*p.hold)
	default:
		p.hold = paceHold
	}
	if p.samples > 0 {
		p.rate += min(1, max(0.3, dt.Seconds()/20)) * (r - p.rate)
	}
	p.samples++
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
