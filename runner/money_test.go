package runner

import (
	"io"
	"testing"
	"time"

	"llmbatch/output"
	"llmbatch/pacing"
)

// priced gives a run a cap on money. A request reserves about 200 for its body
// and costs 5: the cap has room for one reservation beside what ten answers cost.
func priced(b *bench, most float64) {
	b.c.Spend = pacing.NewSpend(most)
	b.c.Price = func(string) (Price, bool) { return Price{Input: 1e6}, true }
}

// A refused request gives its reservation back.
func TestMoneyOfRefusals(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, 10, func(n int, _ string) answer {
			if n == 1 {
				return refuse(429, "rate_limit_error", "Retry-After", "1")
			}
			return ok(time.Second)
		})
		priced(b, 300)
		if rep := b.run(); rep.Reason != Finished {
			t.Errorf("end %d (%s), want Finished", rep.Reason, rep.Message)
		}
		b.want(output.OK, 10)
	})
}

// What may have been billed and nobody said how much keeps its reservation.
func TestMoneyOfCutAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, 10, func(n int, _ string) answer { return answer{err: io.ErrUnexpectedEOF} })
		priced(b, 500)
		if rep := b.run(); rep.Reason != CostCap || len(b.api.calls) < 2 || len(b.api.calls) > 5 {
			t.Errorf("end %d (%s) after %d requests, want CostCap after a few", rep.Reason, rep.Message, len(b.api.calls))
		}
	})
}

// The run stops before the estimate passes the cap, and goes on in the next one.
func TestMoneyEnds(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, 100, func(int, string) answer { return ok(time.Second) })
		priced(b, 400)
		if rep := b.run(); rep.Reason != CostCap {
			t.Errorf("end %d, want CostCap", rep.Reason)
		}
		if n := len(b.api.calls); n < 10 || n > 79 {
			t.Errorf("%d requests of 5 each under a cap of 400", n)
		}
		b.want(output.OK, len(b.api.calls))
	})
}

// A reservation of nothing is settled like any other: a run of free and priced models
// under a cap ends when the money does.
func TestMoneyOfFreeModels(t *testing.T) {
	bubble(t, func(t *testing.T) {
		model := func(i int) string { return []string{"free", "priced"}[i%2] }
		b := newBench(t, 100, func(int, string) answer { return ok(time.Second) })
		b.c.Items, b.c.Lanes = items(100, model), 2
		b.c.Spend = pacing.NewSpend(230)
		b.c.Price = func(model string) (Price, bool) {
			if model == "free" {
				return Price{}, true
			}
			return Price{Input: 1e6}, true
		}
		if rep := b.run(); rep.Reason != CostCap || b.took() > time.Minute {
			t.Errorf("end %d after %s, want CostCap soon", rep.Reason, b.took())
		}
	})
}

// What an earlier run paid stays in the row of an item that costs nothing more.
func TestCostStays(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, 1, func(int, string) answer { return refuse(500, "api_error", "X-Should-Retry", "false") })
		priced(b, 1000)
		b.run()
		rows := b.sink.last()
		rows["q0"].Cost, rows["q0"].HasCost = 0.018, true
		again := newBench(t, 1, func(int, string) answer { return refuse(500, "api_error", "X-Should-Retry", "false") })
		priced(again, 1000)
		again.c.Old, again.c.OldRow = rounds(rows)
		again.run()
		if got := again.sink.last()["q0"]; !got.HasCost || got.Cost != 0.018 {
			t.Errorf("got a cost of %v (%t), want 0.018", got.Cost, got.HasCost)
		}
	})
}

// When the guard trips, no row's tokens count twice.
func TestTrippedGuardCountsOnce(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, 10, func(int, string) answer { return refuse(400, "invalid_request_error") })
		b.r = New(b.c)
		b.rep = b.r.Run(t.Context())
		if b.rep.Reason != Aborted || b.rep.Rows[output.Aborted] != 10 || b.rep.Rows[output.Failed] != 0 {
			t.Errorf("got %v, %v, want ten aborted rows and no failed one", b.rep.Reason, b.rep.Rows)
		}
	})
}
