package pacing

import (
	"math"
	"slices"
	"testing"
)

// byID is a model of the table.
func byID(t *testing.T, id string) model {
	for _, m := range models() {
		if m.id == id {
			return m
		}
	}
	t.Fatalf("no model %s", id)
	return model{}
}

// TestModels holds the most telling models to their targets; the whole table
// runs with -table.
func TestModels(t *testing.T) {
	for _, id := range []string{"1b", "1c", "1h", "2b", "2f", "3a", "3e", "4b", "5a", "7a", "9a", "10c", "11e", "12d", "12k"} {
		t.Run(id, func(t *testing.T) {
			t.Parallel()
			m := byID(t, id)
			if id == "1b" {
				m.worst = 3
			}
			m.judge(t, play(t, m, 1, 2))
		})
	}
}

func TestTwelveItemsFromAStartOf32(t *testing.T) {
	m := byID(t, "1b")
	m.work.start = 32
	if c := run(t, m, 1, nil); c.last > 1.5 {
		t.Errorf("got %.2f s, want < 1.5: each refusal of one burst doubles the backoff?", c.last)
	}
	m.work.start = 0
	if c := run(t, m, 1, nil); c.refused > 2 || c.peak > 4 {
		t.Errorf("got %d refused, %d at once, want ≤ 2 and ≤ 4", c.refused, c.peak)
	}
}

// first notes the first time that a condition holds.
func first(c *client, at *float64, holds bool) {
	if holds && math.IsNaN(*at) {
		*at = c.seconds()
	}
}

func TestRecoveryAfterCapacityComesBack(t *testing.T) {
	m := model{id: "3, then 50", work: llm(4000), server: capped(3, 0), at: []turnOfEvents{{10, resize(50)}}}
	low, back := 50, math.NaN()
	run(t, m, 1, func(c *client) {
		if s := c.seconds(); s > 1 && s < 10 {
			low = min(low, c.lane.limit)
		}
		first(c, &back, c.seconds() > 10 && c.inFlight >= 50)
	})
	if low != 3 || !(back < 40) {
		t.Errorf("got limit %d at a cap of 3 and 50 in flight at %.0f s, want 3 and before 40", low, back)
	}
}

func TestCapacityHalvesAndQuadruples(t *testing.T) {
	m := byID(t, "5a")
	low, high := math.NaN(), math.NaN()
	c := run(t, m, 3, func(c *client) {
		first(c, &low, c.seconds() > 150 && c.lane.limit <= 33)
		first(c, &high, c.seconds() > 350 && c.inFlight >= 115)
	})
	if n := count(c.turned, 150, 175); n > 40 {
		t.Errorf("got %d refusals in the 25 s after the cap fell from 64 to 32, want ≤ 40", n)
	}
	if !(low < 160) || !(high < 380) {
		t.Errorf("got 32 at %.0f s and 115 at %.0f s, want before 160 and 380", low, high)
	}
	for from := 175.0; from < 340; from += 10 {
		if a, b := count(c.taken, from, from+10), count(c.turned, from, from+10); float64(b) > 0.05*float64(a+b) {
			t.Errorf("got %d of %d refused in the 10 s after %.0f, want it quiet", b, a+b, from)
		}
	}
	m = byID(t, "5b")
	c = run(t, m, 1, nil)
	if up := within(c.taken, 0.9*40, 10, 350); !(up <= 35) {
		t.Errorf("got 90 %% of the new rate after %.0f s, want ≤ 35", up)
	}
}

func TestSlowProducerLeavesTheLimitAlone(t *testing.T) {
	m := byID(t, "9a")
	before := 0
	c := run(t, m, 1, func(c *client) {
		if t := c.seconds(); t < 199 {
			before = max(before, c.lane.limit)
		}
	})
	if before > 50 || c.peak > 55 {
		t.Errorf("got limit %d while the producer was slow and %d in flight after it, want ≤ 50 and ≤ 55", before, c.peak)
	}
}

// C01: a long Retry-After must not freeze the limit for the rest of the run.
func TestLongHintsDoNotFreezeTheLimit(t *testing.T) {
	m := model{id: "C01", work: startingAt(llm(6000), 20), server: capped(10, 89), at: []turnOfEvents{{400, resize(100)}}}
	back := math.NaN()
	c := run(t, m, 1, func(c *client) { first(c, &back, c.seconds() > 400 && c.inFlight >= 50) })
	if n := count(c.turned, 0, 400); n < 1 || n > 30 {
		t.Errorf("got %d refusals at first, want a few", n)
	}
	if !(back < 1400) {
		t.Errorf("got 50 in flight at %.0f s, want growth to resume", back)
	}
}

// C04: a server that refuses a steep ramp sees one start of four, not a burst.
func TestStartIsGentle(t *testing.T) {
	c := run(t, model{id: "C04", work: llm(2000), server: capped(1000, 0)}, 1, nil)
	for _, x := range []struct {
		until float64
		want  int
	}{{0.9, 8}, {2.9, 32}, {5, 64}} {
		if got := count(c.taken, 0, x.until); got > x.want {
			t.Errorf("got %d launches in the first %.1f s, want ≤ %d", got, x.until, x.want)
		}
	}
}

func TestEmptyBucketWithManyInFlight(t *testing.T) {
	m := byID(t, "4a")
	c := run(t, m, 1, nil)
	if n := count(c.turned, c.turned[0], c.turned[0]+10); n > 25 {
		t.Errorf("got %d refusals in the 10 s after the bucket ran dry, want ≤ 25", n)
	}
}

func TestWaitingItemsHoldNoPermit(t *testing.T) {
	m := byID(t, "10b")
	busy, turns := 0.0, 0.0
	run(t, m, 1, func(c *client) {
		if s := c.seconds(); s > 1 && s < 10 {
			busy, turns = busy+float64(c.inFlight), turns+50
		}
	})
	if busy/turns < 0.9 {
		t.Errorf("got %.0f %% of the slots busy, want ≥ 90", 100*busy/turns)
	}
}

func TestOutageOfAMinute(t *testing.T) {
	c := run(t, byID(t, "10c"), 1, nil)
	if c.lost > 0 {
		t.Errorf("got %d items lost, want 0", c.lost)
	}
	if n := count(c.turned, 100, 160); n > 60 {
		t.Errorf("got %d requests in the outage, want ≤ 60", n)
	}
	if back := within(c.taken, 0.9*50/llm(1).mean(), 10, 160); !(back <= 35) {
		t.Errorf("got 90 %% of the rate %.0f s after the outage, want ≤ 35", back)
	}
}

func TestOpenItemsAreBounded(t *testing.T) {
	for _, hint := range []float64{0, 5} {
		open := 0
		m := model{id: "all refused", work: fast(5000), server: capped(0, hint), at: []turnOfEvents{{60, resize(1000)}}}
		run(t, m, 1, func(c *client) {
			open = max(open, c.open)
		})
		if open > 2*512 {
			t.Errorf("hint %v: got %d items open, want ≤ twice the ceiling", hint, open)
		}
	}
}

func TestTermsCostOneEpisodeEach(t *testing.T) {
	c := run(t, byID(t, "7a"), 1, func(c *client) {
		if c.seconds() > 60 && c.lane.limit < 20 {
			t.Fatalf("%v: got limit %d, want no collapse after a long gate", c.w.now, c.lane.limit)
		}
	})
	episodes := 0
	for i, at := range c.turned {
		if i == 0 || at-c.turned[i-1] > 5 {
			episodes++
		}
	}
	if terms := int((c.last+termPhase)/termLength) + 1; episodes > terms {
		t.Errorf("got %d episodes of refusals in %d terms, want one each", episodes, terms)
	}
}

func TestCollapsingServer(t *testing.T) {
	m, cut := byID(t, "6b"), math.NaN()
	run(t, m, 1, func(c *client) {
		first(c, &cut, c.refused > 0)
		if s := c.seconds(); s > cut+1 && s < cut+29 && c.lane.limit > 116 {
			t.Fatalf("%.0f s after a 529: got limit %d, want about 112", s-cut, c.lane.limit)
		}
		if c.lane.pacer.on {
			t.Fatalf("%v: the pacer is on against an overload", c.w.now)
		}
	})
}

func TestPacerTellsARateFromACeiling(t *testing.T) {
	run(t, byID(t, "1c"), 1, func(c *client) {
		if c.lane.pacer.on {
			t.Fatalf("%v: the pacer is on against a ceiling", c.w.now)
		}
	})
	on, sum, n := math.NaN(), 0.0, 0.0
	run(t, byID(t, "2b"), 1, func(c *client) {
		first(c, &on, c.lane.pacer.on)
		got := c.lane.pacer.rate
		if c.seconds() < 120 {
			return
		}
		if sum, n = sum+got, n+1; math.Abs(got-10) > 2 {
			t.Fatalf("%v: got a rate of %.2f, want about 10", c.w.now, got)
		}
	})
	if !(on < 60) || math.Abs(sum/n-10) > 0.5 {
		t.Errorf("got the pacer on at %.0f s and a mean rate of %.2f, want before 60, and 10 within 5 %%", on, sum/n)
	}
}

// Headers as of admission or of the end, output reserved or charged at the end.
func TestHeadersOfAllKinds(t *testing.T) {
	for _, early := range []bool{false, true} {
		for _, reserves := range []bool{false, true} {
			m := model{work: llm(2000), server: anthropicLike(4000, 400e3, 160e3, func(s *rateServer) { s.early, s.reserves = early, reserves })}
			most := 0.005
			if early && reserves { // admission needs more than what is charged, and the header does not tell
				most = 0.02
			}
			if c := run(t, m, 1, nil); float64(c.refused) > most*float64(c.launches) {
				t.Errorf("early %t, reserved %t: got %d of %d refused, want ≤ %.1f %%", early, reserves, c.refused, c.launches, 100*most)
			}
		}
	}
}

// A client that guesses half of the tokens, with long answers, must not feed
// its own correction back.
func TestWrongEstimatesConverge(t *testing.T) {
	m := model{work: slow(3000), server: anthropicLike(4000, 400e3, 400e3, nil)}
	w := &world{}
	c := newClient(t, w, m.work, 1, m.server(1))
	for _, j := range c.jobs {
		j.guess = j.in / 2
	}
	w.at(0, c.turn)
	w.run(4*3600, c.finished)
	if got := c.lane.appraiser.ratio; math.Abs(got-2) > 0.05 || float64(c.refused) > 0.02*float64(c.launches) {
		t.Errorf("got a ratio of %.2f and %d of %d refused, want 2 and ≤ 2 %%", got, c.refused, c.launches)
	}
}

func TestTwoClientsShare(t *testing.T) {
	for _, tt := range []struct {
		id         string
		least, sum float64
	}{{"1c", 0.25, 0.9 * 50 / llm(1).mean()}, {"2b", 0.4, 9}} {
		m := byID(t, tt.id)
		m.work.n = 20000
		w, srv := &world{}, m.server(1)
		early, late := newClient(t, w, m.work, 1, srv), newClient(t, w, m.work, 2, srv)
		w.at(0, early.turn)
		w.at(seconds(60), late.turn)
		w.run(600, func() bool { return false })
		a, b := float64(count(early.taken, 300, 600)), float64(count(late.taken, 300, 600))
		if share := b / (a + b); share < tt.least || (a+b)/300 < tt.sum {
			t.Errorf("model %s: got %.0f %% for the later client, %.1f/s in all, want ≥ %.0f %% and ≥ %.1f", tt.id, 100*share, (a+b)/300, 100*tt.least, tt.sum)
		}
	}
}

func TestSameSeedSameRun(t *testing.T) {
	trace := func() (out []change) {
		run(t, byID(t, "4b"), 5, func(c *client) {
			c.lane.logging = true
			out = append(out, c.lane.changes...)
			c.lane.changes = nil
		})
		return out
	}
	if a, b := trace(), trace(); len(a) < 50 || !slices.Equal(a, b) {
		t.Errorf("got %d and %d changes, or different ones, want the same", len(a), len(b))
	}
}
