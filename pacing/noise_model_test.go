package pacing

import (
	"cmp"
	"math"
	"math/rand/v2"
)

// whimsical refuses a share at random before the server looks at the load at all;
// in spells, only in the first seconds of each period.
type whimsical struct {
	server
	whims         []whim
	spell, period float64
	rand          *rand.Rand
}

func (s *whimsical) arrive(t float64, j *job) verdict {
	if s.period == 0 || math.Mod(t+s.period/2, s.period) < s.spell {
		for _, w := range s.whims {
			if s.rand.Float64() < w.share {
				return refuse(w.status, cmp.Or(w.hint, -1))
			}
		}
	}
	return s.server.arrive(t, j)
}

func on(srv func(uint64) server, spell, period float64, whims ...whim) func(uint64) server {
	return func(seed uint64) server {
		return &whimsical{server: srv(seed), whims: whims, spell: spell, period: period, rand: rand.New(rand.NewPCG(seed, 13))}
	}
}

// variedModels are noise of 1 to 15 %, with and without hints, of 20 ms to 20 s,
// in spells, on top of a cap or a rate, in slow refusals, 24 to 256 wide.
func variedModels() []model {
	bare := func(share float64) whim { return whim{share, 429, 0} }
	over := func(share float64) whim { return whim{share, 529, 0} }
	quick := func(n, wide int) work {
		w := atMost(fast(n), wide)
		w.median = 0.02
		return w
	}
	late := func(w work, refusal float64) work { w.refusal = refusal; return w }
	second := func(n, wide int, s float64) work { return atMost(second(n, s), wide) }
	free := capped(9999, 0)
	steps := []turnOfEvents{{150, resize(32)}, {350, resize(128)}}
	return []model{
		{id: "13a", what: "no cap, 64 wide, 20 ms, 1 %", work: quick(20000, 64), server: noisy(9999, bare(0.01)), ratio: 1.15, refused: 1.5},
		{id: "13b", what: "no cap, 256 wide, 20 ms, 15 % 529", work: quick(40000, 256), server: noisy(9999, over(0.15)), ratio: 1.3, refused: 16},
		{id: "13c", what: "cap 50, 15 %", work: llm(3000), server: noisy(50, bare(0.15)), ratio: 1.15, refused: 20},
		{id: "13d", what: "cap 50, median 20 s, 5 %", work: slow(3000), server: noisy(50, bare(0.05)), ratio: 1.15, refused: 12},
		{id: "13e", what: "cap 50, 3 %, Retry-After 5", work: llm(3000), server: noisy(50, whim{0.03, 429, 5}), ratio: 1.6, refused: 5},
		{id: "13f", what: "cap 50, 50 ms, 3 %, Retry-After 1", work: fast(10000), server: noisy(50, whim{0.03, 429, 1}), ratio: 1.6, refused: 6},
		{id: "13g", what: "cap 50, 50 ms, 30 % in spells of 1 s of 10", work: fast(20000), server: on(capped(50, 0), 1, 10, bare(0.3)), ratio: 1.3, refused: 8},
		{id: "13h", what: "cap 50, 30 % 529 in spells of 10 s of 100", work: llm(4000), server: on(capped(50, 0), 10, 100, over(0.3)), ratio: 1.15, refused: 8},
		{id: "13i", what: "2b and 5 % 529", work: llm(4000), server: on(buckets(600, 10, nil), 0, 0, over(0.05)), ratio: 1.3, refused: 12},
		{id: "13j", what: "4b and 5 %", work: llm(4000), server: on(buckets(600, 10, silent), 0, 0, bare(0.05)), ratio: 1.3, refused: 15},
		{id: "13k", what: "2e, nothing said, and 2 %", work: fast(10000), server: on(buckets(6000, 100, silent), 0, 0, bare(0.02)), ratio: 1.2, refused: 8},
		{id: "13l", what: "5a and 5 %", work: llm(6000), server: noisy(64, bare(0.05)), at: steps, ratio: 1.15, refused: 9},
		{id: "13m", what: "cap 50, 3 %, refusals take 5 s", work: late(llm(3000), 5), server: noisy(50, bare(0.03)), ratio: 1.2, refused: 30},
		{id: "13n", what: "2a, refusals take 2 s", work: late(llm(4000), 2), server: buckets(600, 600, nil), ratio: 1.05, refused: 16},
		{id: "13o", what: "no cap, 64 wide, 3 % after 20 s", work: late(second(3000, 64, 4), 20), server: noisy(9999, bare(0.03)), ratio: 1.15, refused: 4},
		{id: "13p", what: "no cap, 256 wide, 600 ms, 5 % and 2 % 529", work: second(10000, 256, 0.6), server: on(free, 0, 0, bare(0.05), over(0.02)), ratio: 1.2, refused: 8},
		{id: "13q", what: "3c and 3 % 529", work: llm(3000), server: on(anthropicLike(300, 1e6, 1e6, nil), 0, 0, over(0.03)), ratio: 1.1, refused: 4},
		{id: "13r", what: "cap 8, 5 %", work: llm(600), server: noisy(8, bare(0.05)), ratio: 1.15, refused: 16},
		{id: "13s", what: "no cap, 128 wide, 2 s, 2 % 529", work: second(5000, 128, 2), server: noisy(9999, over(0.02)), ratio: 1.2, refused: 3},
		{id: "13t", what: "3,000 rpm, burst 500, silent, 5 %", work: llm(20000), server: on(buckets(3000, 500, silent), 0, 0, bare(0.05)), ratio: 1.2, refused: 15},
		{id: "13u", what: "no cap, 256 wide, 600 ms, 2 % 529, 3,000 items", work: atMost(socket(3000, 0.6), 256), server: noisy(9999, over(0.02)), ratio: 1.25, refused: 3},
		{id: "13v", what: "cap 50, 256 wide, 600 ms, 2 % 529, 3,000 items", work: atMost(socket(3000, 0.6), 256), server: noisy(50, over(0.02)), ratio: 1.15, refused: 5},
	}
}
