package pacing

import (
	"math"
	"math/rand/v2"
)

// work describes the items of a model. Times are in seconds.
type work struct {
	n             int
	median, sigma float64 // of the service
	network       float64 // one way
	refusal       float64 // median time a refusal takes in the server
	trickle       int     // the first so many come at perSecond, the rest at once
	perSecond     float64
	limit, start  int // Config.Max (0: 512), Config.Start
	fixed         bool
	rpm, tpm      float64
	burst         float64
}

func (w work) mean() float64 { return w.median*math.Exp(w.sigma*w.sigma/2) + 2*w.network }

// llm has the latencies and tokens of a chat model, fast is the same at 50 ms.
func llm(n int) work {
	return work{n: n, median: 4, sigma: 0.8, network: 0.02, refusal: 0.03}
}

func fast(n int) work {
	return work{n: n, median: 0.05, sigma: 0.5, network: 0.001, refusal: 0.003}
}

func (w work) jobs(seed uint64) []*job {
	r := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	draw := func(median, sigma float64) float64 { return median * math.Exp(sigma*r.NormFloat64()) }
	out := make([]*job, w.n)
	for i := range out {
		j := &job{id: i, maxOutput: 1024}
		j.service = draw(w.median, w.sigma)
		j.in = math.Floor(draw(800, 0.8)) + 1
		j.out = min(math.Floor(draw(250, 0.7))+1, j.maxOutput)
		j.guess = math.Floor(draw(j.in, 0.2)) + 1
		if w.trickle > 0 {
			j.from = float64(min(i, w.trickle)) / w.perSecond
		}
		out[i] = j
	}
	return out
}
