package pacing

import "time"

// allowance is a limit a minute that the user knows: a bucket that holds a
// second's worth, at least one request, or the burst that the user knows too. So in any minute at most the limit and
// one second of it leave, also under a limit that is counted by the clock; a
// provider's own bucket, which holds up to a minute, is never overdrawn. One
// item larger than a second's worth goes when the bucket is full, and the next
// waits until its debt is paid.
type allowance struct {
	rate, most float64 // per second; rate 0: no limit
	left       float64
	at         time.Duration
}

// burstReserve is left of a known burst, in seconds of the rate and at least half a
// request: launches reach the server closer together than they leave.
const burstReserve = 0.1

// newAllowance returns a full bucket. A burst of 0 means a second's worth.
func newAllowance(perMinute, least, burst float64) allowance {
	a := allowance{rate: max(0, perMinute) / 60}
	a.most = max(a.rate, least)
	if burst > 0 {
		a.most = max(least, burst-max(0.5, burstReserve*a.rate))
	}
	a.left = a.most
	return a
}

func (a *allowance) ready(now time.Duration, cost float64) time.Duration {
	if a.rate == 0 {
		return now
	}
	a.left = min(a.most, a.left+a.rate*(now-a.at).Seconds())
	a.at = now
	need := min(cost, a.most)
	if a.left >= need-1e-9 {
		return now
	}
	return later(now, seconds((need-a.left)/a.rate)+1)
}

// take charges cost; a negative one gives back.
func (a *allowance) take(cost float64) {
	if a.rate > 0 {
		a.left -= cost
	}
}
