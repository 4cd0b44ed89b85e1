package mockapi

import (
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
	"time"
)

// state is what the server remembers of one scenario since the last reset; the server's lock guards it.
type state struct {
	Counts
	// first is when the first request came.
	first   time.Time
	batches batches
	// held is how many requests are being served, paid how many ok answers were given or are being given.
	held, paid int
	bodies     map[uint64]seen
	buckets    map[string]*buckets
}

// seen is how often a body came, and how often it was answered.
type seen struct{ attempts, ok uint32 }

// begin counts a call and gives it its number in its scenario.
func (s *Server) begin(c *call, name string) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	name, _, _ = strings.Cut(name, "=")
	if c.unknown != nil {
		name = "unknown"
	}
	st := s.states[name]
	if st == nil {
		st = &state{first: now, bodies: make(map[uint64]seen), buckets: make(map[string]*buckets)}
		s.states[name] = st
	}
	c.totals, c.state = s.totals, st
	c.totals.begin()
	c.state.begin()
	c.nth = st.Count
	c.entry = Request{Time: now, Scenario: name, Nth: c.nth, Method: c.r.Method, Path: prefix(c.r.URL.Path, 200),
		Key: prefix(c.r.Header.Get("Idempotency-Key"), 200)}
	c.log = s.log
	c.slot = c.log.add(c.entry)
}

// finish counts how a call ended, once: the first outcome holds. It comes before the last byte is written, so that a client
// which has its answer finds its place free and the request counted.
func (s *Server) finish(c *call, outcome string) {
	if c.finished {
		return
	}
	c.finished = true
	e := &c.entry
	if e.Outcome = outcome; c.r.Context().Err() != nil {
		e.Outcome = "canceled"
	}
	now := time.Now()
	e.MS = float64(now.Sub(e.Time).Microseconds()) / 1000
	s.mu.Lock()
	c.totals.end(e)
	st := c.state
	st.end(e)
	if c.hold {
		st.held--
	}
	if b := st.bodies[c.req.hash]; e.Outcome == "ok" && c.req.hash != 0 {
		if b.ok++; b.ok > 1 {
			c.totals.Again++
			st.Again++
		}
		st.bodies[c.req.hash] = b
	} else if c.spend {
		st.paid--
	}
	c.log.set(c.slot, *e)
	s.mu.Unlock()
	if s.config.Log != nil {
		s.config.Log(string(e.appendJSON(nil)))
	}
}

// admit decides what the server does with a well-formed request. The order is that of a provider: what concerns the
// account comes before what concerns the request.
func (s *Server) admit(c *call) step {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	st := c.state
	b := st.bodies[c.req.hash]
	b.attempts++
	st.bodies[c.req.hash] = b
	c.req.attempt = int(b.attempts)
	if c.p.Only != "" && c.p.Only != c.req.model {
		return step{}
	}
	switch {
	case c.p.FailFirst > 0 && now.Sub(st.first) < c.p.FailFirst:
		return step{act: refuse, fault: faultRate}
	case c.p.SpendCapAfter > 0 && st.paid >= c.p.SpendCapAfter:
		return step{act: refuse, fault: faultSpend}
	case c.p.Cap > 0 && st.held >= c.p.Cap:
		full := step{act: refuse, fault: faultRate}
		if c.p.CapRetryAfter > 0 {
			full.name, full.value = retryAfter, seconds(c.p.CapRetryAfter)
		}
		return full
	}
	if refused, ok := st.charge(c, now); !ok {
		return refused
	}
	st.held++
	c.hold = true
	next := c.p.step(c.nth)
	if next.act == answer {
		next = c.p.mix(s.config.Seed, c)
	}
	if c.p.Stream || next.act == answer {
		st.paid++
		c.spend = true
	}
	return next
}

// seconds writes d as a Retry-After: whole seconds, rounded up, at least one.
func seconds(d time.Duration) string {
	return strconv.Itoa(max(1, int(math.Ceil(d.Seconds()))))
}

// random returns the random source of one attempt: it follows from the seed, the body and how often the body came, so
// that a run comes out the same whatever the order of its requests.
func (p Params) random(seed uint64, c *call) *rand.Rand {
	if p.Seed != 0 {
		seed = p.Seed
	}
	return rand.New(rand.NewPCG(seed, c.req.hash^uint64(c.req.attempt)*0x9e3779b97f4a7c15))
}

// mix draws whether a fault hits the attempt, and which.
func (p *Params) mix(seed uint64, c *call) step {
	f := p.Faults
	if f == (Faults{}) {
		return step{}
	}
	at := p.random(seed, c).Float64() * 100
	for _, m := range []struct {
		share float64
		step  step
	}{
		{f.P429, step{act: refuse, fault: faultRate}}, {f.P500, step{act: refuse, fault: fault500}},
		{f.P503, step{act: refuse, fault: fault503}}, {f.P529, step{act: refuse, fault: fault529}},
		{f.Drop, step{act: drop}}, {f.Cut, step{act: cut}}, {f.HTML, step{act: page}},
	} {
		if at -= m.share; at < 0 {
			return m.step
		}
	}
	if at < f.Slow {
		p.Latency = slowLatency
	}
	return step{}
}

// slowLatency is how long a slow answer takes.
const slowLatency = 5 * time.Second

// maxLatency bounds what a spread can make of a latency.
const maxLatency = 24 * time.Hour

// latency returns how long the answer takes.
func (p Params) latency(seed uint64, c *call) time.Duration {
	d := p.Latency
	switch {
	case d == 0:
		d = okLatency
	case d < 0:
		return 0
	}
	if p.Spread > 0 {
		r := p.random(seed, c)
		_ = r.Float64() // the first draw decides about faults
		d = time.Duration(min(float64(d)*math.Exp(p.Spread*r.NormFloat64()), float64(maxLatency)))
	}
	return d
}
