package mockapi

import (
	"math"
	"strconv"
	"time"
)

// bucket is a token bucket that fills continuously. It may go below zero, by what was not known beforehand.
type bucket struct {
	level, size, rate float64
	at                time.Time
}

// fill brings the bucket to now; perMinute and size may have changed since.
func (b *bucket) fill(now time.Time, perMinute int, size float64) {
	b.rate = float64(perMinute) / 60
	if b.at.IsZero() {
		b.level = size
	} else {
		b.level += now.Sub(b.at).Seconds() * b.rate
	}
	b.size, b.at = size, now
	b.level = min(b.level, size)
}

// wait returns how long until need is there; 0 when it is. What is larger than the bucket passes when the bucket is full.
func (b *bucket) wait(need float64) time.Duration {
	need = min(need, b.size)
	// A billionth is what rounding may lose between a wait and its end.
	if b.level+1e-9 >= need {
		return 0
	}
	return time.Duration(math.Ceil((need - b.level) / b.rate * 1e9))
}

// reset returns how long until the bucket is full.
func (b *bucket) reset() time.Duration {
	return time.Duration(max(0, b.size-b.level) / b.rate * 1e9)
}

// The buckets of one model, in the order of the headers.
const (
	requests = iota
	tokens
	inputTokens
	outputTokens
)

type buckets [4]bucket

// limits returns the limits a minute in the order of the buckets.
func (p *Params) limits() [4]int { return [4]int{p.RPM, p.TPM, p.ITPM, p.OTPM} }

// limited reports whether there is any limit.
func (p *Params) limited() bool { return p.limits() != [4]int{} }

// size returns how much a full bucket holds.
func (p *Params) size(i int) float64 {
	switch {
	case i == requests && p.Burst > 0:
		return float64(p.Burst)
	case i == requests:
		return max(1, float64(p.RPM)/60)
	}
	return max(1, float64(p.limits()[i])/6)
}

// maxModels bounds the buckets kept for a scenario; further models share one set.
const maxModels = 1000

// of returns the model's buckets, filled to now.
func (st *state) of(c *call, now time.Time) *buckets {
	model := c.req.model
	if len(st.buckets) >= maxModels && st.buckets[model] == nil {
		model = ""
	}
	b := st.buckets[model]
	if b == nil {
		b = &buckets{}
		st.buckets[model] = b
	}
	for i, limit := range c.p.limits() {
		if limit > 0 {
			b[i].fill(now, limit, c.p.size(i))
		}
	}
	return b
}

// needs returns what a request takes from each bucket on arrival. Anthropic counts output as it is produced and asks
// only that there is some left; OpenAI reserves max_tokens.
func (c *call) needs() [4]float64 {
	in, out := float64(c.p.in()), float64(c.p.out())
	if c.api.anthropic() {
		return [4]float64{1, in, in, 0}
	}
	out = max(out, float64(c.req.maxTokens))
	return [4]float64{1, in + out, in, out}
}

// charge takes the request from the buckets, or refuses it with the wait that the fullest of them asks for.
func (st *state) charge(c *call, now time.Time) (step, bool) {
	if !c.p.limited() {
		return step{}, true
	}
	b, need := st.of(c, now), c.needs()
	var wait time.Duration
	fault := faultRate
	for i, limit := range c.p.limits() {
		if limit == 0 {
			continue
		}
		if need[i] > float64(limit) {
			return step{act: refuse, fault: faultTooLarge}, false
		}
		least := need[i]
		if i == outputTokens {
			least = max(least, 1)
		}
		if w := b[i].wait(least); w > wait {
			wait = w
			if fault = faultRate; i != requests {
				fault = faultTokens
			}
		}
	}
	if wait == 0 || c.p.ChargeRefused {
		for i := range b {
			b[i].level = max(b[i].level-need[i], -b[i].size)
		}
	}
	c.rateHeaders(b, now)
	if wait == 0 {
		return step{}, true
	}
	if c.p.RA == "ms" || c.p.RA == "both" {
		c.w.Header().Set(retryAfterMS, strconv.FormatInt(int64(math.Ceil(wait.Seconds()*1e3)), 10))
	}
	if c.p.RA == "" || c.p.RA == "s" || c.p.RA == "both" {
		c.w.Header().Set(retryAfter, seconds(wait))
	}
	return step{act: refuse, fault: fault}, false
}

// settle charges the output of an answer where it was not charged on arrival, and renews the headers.
func (s *Server) settle(c *call) {
	if !c.p.limited() || !c.hold {
		return
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	b := c.state.of(c, now)
	if c.api.anthropic() {
		for _, i := range []int{tokens, outputTokens} {
			b[i].level = max(b[i].level-float64(c.p.out()), -b[i].size)
		}
	}
	c.rateHeaders(b, now)
}

// rateHeaders writes the buckets as the vendor does: Anthropic's reset is a time, its tokens are rounded to thousands,
// and it tells input and output apart; OpenAI's reset is a duration, and it knows requests and tokens only.
func (c *call) rateHeaders(b *buckets, now time.Time) {
	if c.p.NoHeaders || c.api == gemini {
		return
	}
	h := c.w.Header()
	for i, limit := range c.p.limits() {
		if limit == 0 {
			continue
		}
		name := [4]string{"requests", "tokens", "input-tokens", "output-tokens"}[i]
		left := math.Floor(max(0, b[i].level) + 1e-9)
		if !c.api.anthropic() {
			if i <= tokens {
				h.Set("x-ratelimit-limit-"+name, strconv.Itoa(limit))
				h.Set("x-ratelimit-remaining-"+name, strconv.Itoa(int(left)))
				h.Set("x-ratelimit-reset-"+name, b[i].reset().Round(time.Millisecond).String())
			}
			continue
		}
		if i != requests && limit >= 10000 {
			left = math.Round(left/1000) * 1000
		}
		full := now.Add(b[i].reset() + time.Second - 1).UTC().Truncate(time.Second)
		h.Set("anthropic-ratelimit-"+name+"-limit", strconv.Itoa(limit))
		h.Set("anthropic-ratelimit-"+name+"-remaining", strconv.Itoa(int(left)))
		h.Set("anthropic-ratelimit-"+name+"-reset", full.Format(time.RFC3339))
	}
}
