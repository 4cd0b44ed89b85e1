package runner

import (
	"testing"
	"time"

	"llmbatch/output"
	"llmbatch/pacing"
)

// Rows that take long to be written hold no permit up: others launch meanwhile.
func TestSlowWritesHoldNobodyUp(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, 20, func(int, string) answer { return ok(time.Second) })
		b.c.Pacing = fixed(2)
		b.c.Write = func(r *output.Result) error {
			time.Sleep(time.Second)
			return b.sink.write(r)
		}
		b.run()
		b.want(output.OK, 20)
		if b.took() > 12*time.Second {
			t.Errorf("took %v, want 11 s: ten times a second, and the last rows", b.took())
		}
	})
}

// The last to end finds that nothing can leave before the run's end, and says so at
// once.
func TestNothingFitsAnyMore(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, 5, func(int, string) answer { return ok(100 * time.Millisecond) })
		b.c.Pacing = pacing.Config{Max: 1, Fixed: true, RPM: 1}
		b.c.End = time.Now().Add(45 * time.Second)
		b.run()
		if b.rep.Reason != BudgetEnded || b.took() > 45*time.Second {
			t.Errorf("got %v after %v, want the budget's end", b.rep.Reason, b.took())
		}
	})
}
