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
