package pacing

import (
	"cmp"
	"math"
	"math/rand/v2"
)

// Model servers: state machines over time in seconds. Each holds what a real
// one would, and says as much or as little about it.

// job is one item as the server sees it, and what the client believes of it.
type job struct {
	id        int
	in, out   float64 // tokens it really takes
	guess     float64 // the client's estimate of in
	maxOutput float64
	service   float64 // seconds
	from      float64 // when it can first be read

	launches, refusals, errors int
	first                      float64
	ended, alone               bool
}

// verdict is the decision at admission. hint is in seconds; negative: none.
type verdict struct {
	status  int
	service float64
	hint    float64
	quota   []Quota

	concurrent bool // too many at once
}

type server interface {
	arrive(t float64, j *job) verdict
	finish(t float64, j *job) []Quota
	// peek tells the oracle whether the job would be taken at t with so many of
	// its requests on the wire, or when to look again.
	peek(t float64, j *job, inFlight int) (ok bool, again float64)
}

var forever = math.Inf(1)

func refuse(status int, hint float64) verdict { return verdict{status: status, hint: hint} }
func admit(service float64) verdict           { return verdict{status: 200, service: service} }

// capServer refuses what is more than n at once.
type capServer struct {
	n        int
	hint     float64 // 0: none
	errors   float64 // share answered 500
	down     span    // everything is answered 500
	deaf     span    // everything is answered 429
	whims    []whim  // refusals that have nothing to do with load
	every    float64 // everything is answered 429 for a second, so often
	rand     *rand.Rand
	inFlight int
	tooMany  bool // it says that it is too many at once
}

// whim refuses a share of requests at random, whatever the load.
type whim struct {
	share  float64
	status int
	hint   float64 // 0: none
}

type span struct{ from, to float64 }

func (s span) holds(t float64) bool { return t >= s.from && t < s.to }

func (s *capServer) arrive(t float64, j *job) verdict {
	switch {
	case s.down.holds(t), s.errors > 0 && s.rand.Float64() < s.errors:
		return refuse(500, -1)
	case s.deaf.holds(t):
		return refuse(429, -1)
	case s.every > 0 && math.Mod(t, s.every) >= s.every-1:
		return refuse(429, -1)
	case s.inFlight >= s.n && s.hint > 0:
		v := refuse(429, s.hint)
		v.concurrent = s.tooMany
		return v
	case s.inFlight >= s.n:
		return refuse(429, -1)
	}
	for _, w := range s.whims {
		if s.rand.Float64() < w.share {
			return refuse(w.status, cmp.Or(w.hint, -1))
		}
	}
	s.inFlight++
	return admit(j.service)
}

func (s *capServer) finish(float64, *job) []Quota { s.inFlight--; return nil }

func (s *capServer) peek(t float64, _ *job, inFlight int) (bool, float64) {
	for _, out := range []span{s.deaf, s.down} {
		if out.holds(t) {
			return false, out.to
		}
	}
	if s.every > 0 {
		if x := math.Mod(t, s.every); x >= s.every-1 {
			return false, t - x + s.every
		}
	}
	return inFlight < s.n, forever
}

// tank is a token bucket that fills all the time.
type tank struct{ most, rate, level, at float64 }

func newTank(rate, most float64) *tank { return &tank{most: most, rate: rate, level: most} }

func (b *tank) fill(t float64) {
	if b != nil && t > b.at {
		b.level, b.at = min(b.most, b.level+b.rate*(t-b.at)), t
	}
}

func (b *tank) wait(need float64) float64 {
	if need = min(need, b.most); b.level >= need {
		return 0
	}
	return (need - b.level) / b.rate
}

// rateServer refuses by buckets of requests and tokens.
type rateServer struct {
	tanks    [resources]*tank
	reserves bool // max_tokens is taken at admission and refunded; else output is charged when it is known
	charges  bool // refused requests count too
	silent   bool // no Retry-After
	headers  bool
	early    bool  // headers are as of admission
	coarse   bool  // resets are whole seconds of the clock, rounded down
	shown    *tank // the headers of requests show this one instead
	round    float64
	minute   float64 // reported as the limit of requests instead of the burst
	early0   map[int][]Quota
}

func (s *rateServer) fill(t float64) {
	for _, b := range s.tanks {
		b.fill(t)
	}
	s.shown.fill(t)
}

func (s *rateServer) needs(j *job) costs {
	if s.reserves {
		return costs{1, j.in, j.maxOutput, j.in + j.maxOutput}
	}
	return costs{1, j.in, 1, j.in}
}

func (s *rateServer) wait(j *job) float64 {
	w, c := 0.0, s.needs(j)
	for i, b := range s.tanks {
		if b != nil {
			w = max(w, b.wait(c[i]))
		}
	}
	return w
}

// full is how long until the bucket is full, as the header tells it at t.
func (s *rateServer) full(t float64, b *tank) float64 {
	d := (b.most - b.level) / b.rate
	if s.coarse {
		d = math.Floor(t+d) - t
	}
	return max(0, d)
}

func (s *rateServer) report(t float64) []Quota {
	if !s.headers {
		return nil
	}
	var out []Quota
	for i, b := range s.tanks {
		if b == nil {
			continue
		}
		if i == int(Requests) && s.shown != nil {
			b = s.shown
		}
		unit := 1.0
		if i != int(Requests) {
			unit = max(1, s.round)
		}
		left := math.Floor(max(0, b.level)/unit+0.5) * unit
		if unit == 1 {
			left = math.Floor(max(0, b.level))
		}
		limit := b.most
		if i == int(Requests) && s.minute > 0 {
			limit = s.minute
		}
		out = append(out, Quota{Resource: Resource(i), Limit: limit, Remaining: left,
			Reset: seconds(s.full(t, b))})
	}
	return out
}

func (s *rateServer) arrive(t float64, j *job) verdict {
	s.fill(t)
	if w := s.wait(j); w > 1e-12 {
		if s.charges && s.tanks[Requests] != nil {
			s.tanks[Requests].level = max(0, s.tanks[Requests].level-1)
		}
		v := refuse(429, max(1, math.Ceil(w)))
		if s.silent {
			v.hint = -1
		}
		v.quota = s.report(t)
		return v
	}
	c := s.needs(j)
	if !s.reserves {
		c[OutputTokens] = 0
	}
	for i, b := range s.tanks {
		if b != nil {
			b.level -= c[i]
		}
	}
	if s.shown != nil {
		s.shown.level--
	}
	if s.early {
		if s.early0 == nil {
			s.early0 = map[int][]Quota{}
		}
		s.early0[j.id] = s.report(t)
	}
	return admit(j.service)
}

func (s *rateServer) finish(t float64, j *job) []Quota {
	s.fill(t)
	for _, i := range []Resource{OutputTokens, TotalTokens} {
		b := s.tanks[i]
		switch {
		case b == nil:
		case s.reserves:
			b.level = min(b.most, b.level+j.maxOutput-j.out)
		default:
			b.level -= j.out
		}
	}
	if s.early {
		q := s.early0[j.id]
		delete(s.early0, j.id)
		if s.coarse { // an instant, which has come nearer since
			for i := range q {
				q[i].Reset = max(0, q[i].Reset-seconds(j.service))
			}
		}
		return q
	}
	return s.report(t)
}

func (s *rateServer) peek(t float64, j *job, _ int) (bool, float64) {
	s.fill(t)
	w := s.wait(j)
	return w <= 1e-12, t + w + 1e-9
}

// loadServer slows down above its knee, and refuses with 529 above most.
type loadServer struct {
	knee, power float64
	most        int
	inFlight    int
}

func (s *loadServer) arrive(_ float64, j *job) verdict {
	if s.inFlight >= s.most {
		return refuse(529, -1)
	}
	s.inFlight++
	return admit(j.service * math.Pow(max(1, float64(s.inFlight)/s.knee), s.power))
}

func (s *loadServer) finish(float64, *job) []Quota { s.inFlight--; return nil }

func (s *loadServer) peek(_ float64, _ *job, n int) (bool, float64) { return n < s.most, forever }

// termServer takes so many requests in each fixed term.
type termServer struct {
	limit   int
	silent  bool
	headers bool
	term    int
	used    int
}

const termLength, termPhase = 60.0, 37.0

func (s *termServer) turn(t float64) {
	if k := int(math.Floor((t + termPhase) / termLength)); k != s.term {
		s.term, s.used = k, 0
	}
}

func (s *termServer) end() float64 { return float64(s.term+1)*termLength - termPhase }

func (s *termServer) report(t float64) []Quota {
	if !s.headers {
		return nil
	}
	return []Quota{{Requests, float64(s.limit), float64(s.limit - s.used), seconds(s.end() - t)}}
}

func (s *termServer) arrive(t float64, j *job) verdict {
	s.turn(t)
	if s.used >= s.limit {
		v := refuse(429, max(1, math.Ceil(s.end()-t)))
		if s.silent {
			v.hint = -1
		}
		v.quota = s.report(t)
		return v
	}
	s.used++
	return admit(j.service)
}

func (s *termServer) finish(t float64, _ *job) []Quota { s.turn(t); return s.report(t) }

func (s *termServer) peek(t float64, _ *job, _ int) (bool, float64) {
	s.turn(t)
	return s.used < s.limit, s.end() + 1e-6
}

// queueServer has slots and a queue in front of them; 503 beyond.
type queueServer struct {
	slots, queue int
	free         []float64
	inFlight     int
}

func (s *queueServer) arrive(t float64, j *job) verdict {
	if s.inFlight >= s.slots+s.queue {
		return refuse(503, -1)
	}
	if s.free == nil {
		s.free = make([]float64, s.slots)
	}
	k := 0
	for i := range s.free {
		if s.free[i] < s.free[k] {
			k = i
		}
	}
	start := max(t, s.free[k])
	s.free[k] = start + j.service
	s.inFlight++
	return admit(s.free[k] - t)
}

func (s *queueServer) finish(float64, *job) []Quota { s.inFlight--; return nil }

func (s *queueServer) peek(_ float64, _ *job, n int) (bool, float64) { return n < s.slots+1, forever }
