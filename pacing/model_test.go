package pacing

import (
	"math/rand/v2"
)

// model is a server, a run against it, and what the run must reach: makespan
// over the oracle's, and share of requests refused in percent; mean over the
// seeds, and of the worst seed (0: as the mean).
type model struct {
	id, what       string
	work           work
	server         func(seed uint64) server
	at             []turnOfEvents
	rate           float64 // launches a second that it can sustain at first; 0: not looked at
	ratio, refused float64
	worst          float64 // ratio of the worst seed
	gone           int     // items that are never answered
}

// turnOfEvents changes a server at a time.
type turnOfEvents struct {
	at float64
	do func(s server)
}

func capped(n int, hint float64) func(uint64) server {
	return func(uint64) server { return &capServer{n: n, hint: hint} }
}

// buckets is a request bucket; with turns it on the way.
func buckets(perMinute, burst float64, with func(*rateServer)) func(uint64) server {
	return func(uint64) server {
		s := &rateServer{}
		s.tanks[Requests] = newTank(perMinute/60, burst)
		if with != nil {
			with(s)
		}
		return s
	}
}

// anthropicLike has three buckets of a minute each, output charged at the end,
// tokens rounded to thousands.
func anthropicLike(requests, input, output float64, with func(*rateServer)) func(uint64) server {
	return buckets(requests, requests, func(s *rateServer) {
		s.headers, s.round = true, 1000
		s.tanks[InputTokens] = newTank(input/60, input)
		s.tanks[OutputTokens] = newTank(output/60, output)
		if with != nil {
			with(s)
		}
	})
}

func silent(s *rateServer)  { s.silent = true }
func charged(s *rateServer) { s.charges = true }

func openAILike(uint64) server {
	s := &rateServer{reserves: true, charges: true, headers: true}
	s.tanks[Requests] = newTank(50, 3000)
	s.tanks[TotalTokens] = newTank(500e3/60, 500e3)
	return s
}

// failing takes n at once, answers a share 500, and everything for a while.
func failing(n int, share float64, down span) func(uint64) server {
	return func(seed uint64) server {
		return &capServer{n: n, errors: share, down: down, rand: rand.New(rand.NewPCG(seed, 5))}
	}
}

// deaf takes 1,000 at once, but refuses everything for a while.
func deaf(from, to float64) func(uint64) server {
	return func(uint64) server { return &capServer{n: 1000, deaf: span{from, to}} }
}

func resize(n int) func(server) { return func(s server) { s.(*capServer).n = n } }

func refit(t, rate, most float64) func(server) {
	return func(s server) {
		b := s.(*rateServer).tanks[Requests]
		b.fill(t)
		b.rate, b.most, b.level = rate, most, min(b.level, most)
	}
}

func slow(n int) work {
	w := llm(n)
	w.median, w.sigma = 20, 0.5
	return w
}

func trickling(n int) work {
	w := llm(n)
	w.trickle, w.perSecond = 400, 2
	return w
}

// socket is a run against a real server on the same machine.
func socket(n int, service float64) work {
	return work{n: n, median: service, network: 0.0005, refusal: 0.0005, limit: 256}
}

func startingAt(w work, start int) work   { w.start = start; return w }
func atMost(w work, limit int) work       { w.limit = limit; return w }
func pinned(w work) work                  { w.fixed = true; return w }
func bursting(w work, burst float64) work { w.burst = burst; return w }
func second(n int, s float64) work        { w := llm(n); w.median = s; return w }
func told(w work, rpm, tpm float64) work {
	w.rpm, w.tpm = rpm, tpm
	return w
}

func models() []model {
	return append([]model{
		{id: "1a", what: "cap 3, 12 items", work: llm(12), server: capped(3, 0), ratio: 1.05, refused: 15},
		{id: "1b", what: "cap 3, 12 items of 50 ms", work: fast(12), server: capped(3, 0), ratio: 1.05, refused: 15},
		{id: "1c", what: "cap 50", work: llm(3000), server: capped(50, 0), rate: 50 / llm(1).mean(), ratio: 1.04, refused: 0.8},
		{id: "1d", what: "cap 200, 20,000 items", work: llm(20000), server: capped(200, 0), rate: 200 / llm(1).mean(), ratio: 1.05, refused: 0.3},
		{id: "1e", what: "cap 50, 50 ms", work: fast(10000), server: capped(50, 0), ratio: 1.04, refused: 0.8},
		{id: "1f", what: "cap 50, Retry-After 1", work: llm(3000), server: capped(50, 1), ratio: 1.05, refused: 0.8},
		{id: "1g", what: "cap 50, median 20 s", work: slow(3000), server: capped(50, 0), rate: 50 / slow(1).mean(), ratio: 1.04, refused: 2},
		{id: "1i", what: "cap 50, Retry-After 10", work: llm(3000), server: capped(50, 10), ratio: 1.15, refused: 0.8},
		{id: "1j", what: "cap 50, Retry-After 60", work: llm(3000), server: capped(50, 60), ratio: 1.3, refused: 0.8},
		{id: "1h", what: "cap 1, 60 items", work: llm(60), server: capped(1, 0), ratio: 1.02, refused: 20},
		{id: "2a", what: "600 rpm, burst 600", work: llm(4000), server: buckets(600, 600, nil), rate: 10, ratio: 1.03, refused: 2},
		{id: "2b", what: "600 rpm, burst 10", work: llm(4000), server: buckets(600, 10, nil), rate: 10, ratio: 1.07, refused: 1.5},
		{id: "2c", what: "3,000 rpm, burst 500", work: llm(20000), server: buckets(3000, 500, nil), rate: 50, ratio: 1.07, refused: 2},
		{id: "2d", what: "2b, refusals charged", work: llm(4000), server: buckets(600, 10, charged), rate: 10, ratio: 1.08, refused: 1.5},
		{id: "2e", what: "6,000 rpm, burst 100, 50 ms", work: fast(10000), server: buckets(6000, 100, nil), rate: 100, ratio: 1.08, refused: 0.6},
		{id: "2f", what: "60 rpm, 300 items", work: llm(300), server: buckets(60, 60, nil), rate: 1, ratio: 1.03, refused: 10.7},
		{id: "2g", what: "600 rpm, one at a time", work: llm(4000), server: buckets(600, 1, nil), rate: 10, ratio: 2, refused: 5},
		{id: "2h", what: "60 rpm, one at a time", work: llm(300), server: buckets(60, 1, nil), rate: 1, ratio: 2, refused: 15},
		{id: "2i", what: "2b, told the limit", work: told(llm(4000), 600, 0), server: buckets(600, 10, nil), rate: 10, ratio: 1.02, refused: 0.1},
		{id: "2j", what: "120 rpm, burst 20, 80 items, told", work: bursting(told(atMost(second(80, 1), 512), 120, 0), 20), server: buckets(120, 20, nil), ratio: 1.05, refused: 0},
		{id: "3a", what: "Anthropic-like, output binds", work: llm(5000), server: anthropicLike(4000, 400e3, 80e3, nil), ratio: 1.06, refused: 0},
		{id: "3b", what: "Anthropic-like, input binds, early headers", work: llm(3000), server: anthropicLike(4000, 400e3, 400e3, func(s *rateServer) { s.early = true }), ratio: 1.02, refused: 0.5},
		{id: "3c", what: "Anthropic-like, requests bind", work: llm(3000), server: anthropicLike(300, 1e6, 1e6, nil), rate: 5, ratio: 1.01, refused: 0},
		{id: "3d", what: "headers show a minute, burst 1 s", work: llm(4000), server: buckets(600, 10, func(s *rateServer) { s.headers, s.shown = true, newTank(10, 600) }), rate: 10, ratio: 1.07, refused: 1.5},
		{id: "3e", what: "OpenAI-like", work: llm(4000), server: openAILike, ratio: 1.02, refused: 0.4},
		{id: "3f", what: "3a, headers as of admission, whole seconds", work: llm(5000), server: anthropicLike(4000, 400e3, 80e3, func(s *rateServer) { s.early, s.coarse = true, true }), ratio: 1.06, refused: 0.5},
		{id: "3g", what: "3c, headers as of admission, whole seconds", work: llm(3000), server: anthropicLike(300, 1e6, 1e6, func(s *rateServer) { s.early, s.coarse = true, true }), rate: 5, ratio: 1.01, refused: 0.5},
		{id: "3h", what: "3g, median 20 s", work: slow(3000), server: anthropicLike(300, 1e6, 1e6, func(s *rateServer) { s.early, s.coarse = true, true }), rate: 5, ratio: 1.08, refused: 0.5},
		{id: "4a", what: "2a, nothing said", work: llm(4000), server: buckets(600, 600, silent), rate: 10, ratio: 1.03, refused: 2.5},
		{id: "4b", what: "2b, nothing said", work: llm(4000), server: buckets(600, 10, silent), rate: 10, ratio: 1.05, refused: 2},
		{id: "4c", what: "3a, nothing said", work: llm(5000), server: anthropicLike(4000, 400e3, 80e3, func(s *rateServer) { s.silent, s.headers = true, false }), ratio: 1.07, refused: 5},
		{id: "4d", what: "2d, nothing said", work: llm(4000), server: buckets(600, 10, func(s *rateServer) { s.silent, s.charges = true, true }), rate: 10, ratio: 1.08, refused: 3},
		{id: "5a", what: "cap 64, then 32, then 128", work: llm(6000), server: capped(64, 0), at: []turnOfEvents{{150, resize(32)}, {350, resize(128)}}, rate: 64 / llm(1).mean(), ratio: 1.08, refused: 1.5},
		{id: "5b", what: "1,200 rpm, then 600, then 2,400", work: llm(8000), server: buckets(1200, 40, nil), at: []turnOfEvents{{150, refit(150, 10, 20)}, {350, refit(350, 40, 80)}}, rate: 20, ratio: 1.08, refused: 1.5},
		{id: "6a", what: "slower above 64, 529 above 160", work: llm(4000), server: func(uint64) server { return &loadServer{knee: 64, power: 1, most: 160} }, ratio: 1.13, refused: 1.5},
		{id: "6b", what: "collapse above 64, 529 above 160", work: llm(4000), server: func(uint64) server { return &loadServer{knee: 64, power: 1.5, most: 160} }, ratio: 1.6, refused: 1.7},
		{id: "7a", what: "terms of 600, Retry-After", work: llm(4000), server: func(uint64) server { return &termServer{limit: 600} }, rate: 10, ratio: 1.05, refused: 1.2, worst: 1.2},
		{id: "7b", what: "terms of 600, nothing said", work: llm(4000), server: func(uint64) server { return &termServer{limit: 600, silent: true} }, rate: 10, ratio: 1.12, refused: 3, worst: 1.25},
		{id: "7c", what: "terms of 600, headers", work: llm(4000), server: func(uint64) server { return &termServer{limit: 600, headers: true} }, rate: 10, ratio: 1.05, refused: 0, worst: 1.2},
		{id: "8a", what: "4 slots and a queue", work: llm(400), server: func(uint64) server { return &queueServer{slots: 4, queue: 512} }, ratio: 1.02, refused: 0},
		{id: "8b", what: "1 slot and a queue", work: llm(100), server: func(uint64) server { return &queueServer{slots: 1, queue: 512} }, ratio: 1.02, refused: 0},
		{id: "8c", what: "64 slots and a queue", work: llm(4000), server: func(uint64) server { return &queueServer{slots: 64, queue: 512} }, ratio: 1.02, refused: 0},
		{id: "9a", what: "trickle, then 3,000 at once; cap 50", work: trickling(3400), server: capped(50, 0), ratio: 1.02, refused: 0.6},
		{id: "9b", what: "trickle, then 3,000 at once; 600 rpm", work: trickling(3400), server: buckets(600, 10, nil), ratio: 1.07, refused: 1.5},
		{id: "10a", what: "cap 50, 5 % errors", work: llm(3000), server: failing(50, 0.05, span{}), ratio: 1.04, refused: 6},
		{id: "10b", what: "the same at 50 ms", work: fast(10000), server: failing(50, 0.05, span{}), ratio: 1.15, refused: 6, worst: 1.25},
		{id: "10c", what: "cap 50, down for a minute", work: llm(3000), server: failing(50, 0, span{100, 160}), ratio: 1.1, refused: 2},
		{id: "10d", what: "10c and 5 % errors", work: llm(3000), server: failing(50, 0.05, span{100, 160}), ratio: 1.1, refused: 7},
		{id: "10e", what: "no cap, 64 wide, 1 s, 10 % errors", work: atMost(socket(5000, 1), 64), server: failing(9999, 0.1, span{}), ratio: 1.15, refused: 12},
		{id: "11a", what: "6,000 rpm, burst 100, 200 ms, headers", work: socket(3000, 0.2), server: buckets(6000, 100, func(s *rateServer) { s.headers, s.minute = true, 6000 }), ratio: 1.05, refused: 1},
		{id: "11j", what: "the same as of admission, whole seconds", work: socket(3000, 0.2), server: buckets(6000, 100, func(s *rateServer) { s.headers, s.minute, s.early, s.coarse = true, 6000, true, true }), ratio: 1.05, refused: 1},
		{id: "11b", what: "cap 20, 200 ms, 200 wide", work: atMost(socket(1000, 0.2), 200), server: capped(20, 0), ratio: 1.12, refused: 4},
		{id: "11c", what: "500 ms, 256 wide, default start", work: socket(5000, 0.5), server: capped(1000, 0), ratio: 1.27, refused: 0},
		{id: "11d", what: "500 ms, 256 wide, fixed", work: pinned(socket(5000, 0.5)), server: capped(1000, 0), ratio: 1.03, refused: 0},
		{id: "11e", what: "20 ms, start 40, deaf for the first second", work: startingAt(socket(2000, 0.02), 40), server: deaf(0, 1), ratio: 3, refused: 5},
		{id: "11f", what: "20 ms, start 4, deaf for the first second", work: socket(2000, 0.02), server: deaf(0, 1), ratio: 3, refused: 5},
		{id: "11g", what: "20 ms, deaf from 1 to 2 s", work: socket(40000, 0.02), server: deaf(1, 2), ratio: 3, refused: 5},
		{id: "11h", what: "LLM, deaf from 100 to 110 s", work: llm(10000), server: deaf(100, 110), ratio: 1.2, refused: 5},
		{id: "11i", what: "cap 50, deaf from 100 to 160 s", work: llm(3000), server: func(uint64) server { return &capServer{n: 50, deaf: span{100, 160}} }, ratio: 1.2, refused: 5},
	}, append(append(noisyModels(), variedModels()...), single()...)...)
}

// noisy takes n at once and refuses at a whim besides.
func noisy(n int, whims ...whim) func(uint64) server {
	return func(seed uint64) server {
		return &capServer{n: n, whims: whims, rand: rand.New(rand.NewPCG(seed, 12))}
	}
}

func deafAtTimes(n int) func(uint64) server {
	return func(uint64) server { return &capServer{n: n, every: 60} }
}

// noisyModels refuse whatever the load. Their oracle sends what was refused
// again at once, or when the server allows it, at full width. The aim is 1.3,
// and 1.15 where 2 % are refused; 12c is wider because on some seeds
// the noise is taken for a rate for minutes, 12h because a server that names a
// wait is believed to have a rate until its refusals fit none.
func noisyModels() []model {
	mixed := []whim{{0.05, 429, 0}, {0.02, 529, 0}}
	return []model{
		{id: "12a", what: "cap 50, 2 % at random", work: llm(3000), server: noisy(50, whim{0.02, 429, 0}), ratio: 1.15, refused: 5},
		{id: "12b", what: "cap 50, 5 % at random", work: llm(3000), server: noisy(50, whim{0.05, 429, 0}), ratio: 1.3, refused: 9, worst: 1.6},
		{id: "12c", what: "cap 50, 10 % at random", work: llm(3000), server: noisy(50, whim{0.1, 429, 0}), ratio: 1.6, refused: 15, worst: 2.8},
		{id: "12d", what: "cap 50, 50 ms, 2 % at random", work: fast(10000), server: noisy(50, whim{0.02, 429, 0}), ratio: 1.15, refused: 5},
		{id: "12e", what: "cap 50, 50 ms, 5 % at random", work: fast(10000), server: noisy(50, whim{0.05, 429, 0}), ratio: 1.3, refused: 15},
		{id: "12f", what: "cap 50, 50 ms, 10 % at random", work: fast(10000), server: noisy(50, whim{0.1, 429, 0}), ratio: 1.3, refused: 18, worst: 1.6},
		{id: "12g", what: "cap 50, 1 % at random, Retry-After 1", work: llm(3000), server: noisy(50, whim{0.01, 429, 1}), ratio: 1.3, refused: 3},
		{id: "12h", what: "the same at 50 ms", work: fast(10000), server: noisy(50, whim{0.01, 429, 1}), ratio: 2, refused: 3, worst: 5},
		{id: "12i", what: "cap 50, 2 % 529 at random", work: llm(3000), server: noisy(50, whim{0.02, 529, 0}), ratio: 1.15, refused: 5},
		{id: "12j", what: "cap 50, 50 ms, 2 % 529 at random", work: fast(10000), server: noisy(50, whim{0.02, 529, 0}), ratio: 1.15, refused: 5, worst: 1.5},
		{id: "12k", what: "no cap, 24 wide, 50 ms, 5 % and 2 % 529", work: atMost(fast(10000), 24), server: noisy(9999, mixed...), ratio: 1.3, refused: 9},
		{id: "12l", what: "no cap, 256 wide, 50 ms, 5 % and 2 % 529", work: atMost(fast(20000), 256), server: noisy(9999, mixed...), ratio: 1.3, refused: 9},
		{id: "12m", what: "cap 50, deaf for a second every minute", work: llm(3000), server: deafAtTimes(50), ratio: 1.15, refused: 5},
		{id: "12n", what: "cap 50, 50 ms, deaf for a second every minute", work: fast(100000), server: deafAtTimes(50), ratio: 1.15, refused: 5, worst: 1.25},
		{id: "12o", what: "cap 40, 700 ms, 2 % at random", work: socket(5000, 0.7), server: noisy(40, whim{0.02, 429, 0}), ratio: 1.3, refused: 5, worst: 2.5},
		{id: "12p", what: "cap 40, 700 ms, 5 % and 2 % 529", work: socket(5000, 0.7), server: noisy(40, mixed...), ratio: 1.3, refused: 12, worst: 2.5},
	}
}
