package runner

import (
	"io"
	"strings"
	"testing"
	"time"

	"llmbatch/input"
)

// A line's own options bound its item alone, whatever the run's flags are; kept columns
// are in the row.
func TestLineBounds(t *testing.T) {
	slow, cut, refused := answer{after: time.Hour}, answer{err: io.ErrUnexpectedEOF}, refuse(429, "rate_limit_error", "Retry-After", "40")
	for _, c := range []struct {
		name     string
		answer   answer
		bounds   input.Bounds
		requests int
		reason   string
		took     time.Duration // at most
	}{
		{"errors", cut, input.Bounds{MaxErrors: new(2)}, 2, "max_errors", time.Minute},
		{"attempts", refused, input.Bounds{MaxAttempts: new(1)}, 1, "max_attempts", time.Second},
		{"wait", refused, input.Bounds{MaxWait: new(30 * time.Second)}, 1, "max_wait", time.Second},
		{"budget", slow, input.Bounds{ItemBudget: new(3 * time.Second)}, 1, "item_budget", 3 * time.Second},
		{"timeout", slow, input.Bounds{AttemptTimeout: new(time.Second), MaxErrors: new(1)}, 1, "max_errors", time.Second},
	} {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, 2, func(_ int, body string) answer {
					if strings.Contains(body, "item q0.") {
						return c.answer
					}
					return ok(time.Second)
				})
				lines := b.c.Items
				b.c.Items = func(yield func(*input.Item, error) bool) {
					for line, err := range lines {
						if line.Key == "q0" {
							line.Bounds, line.Input = &c.bounds, []byte(`{"a":"1"}`)
						}
						if !yield(line, err) {
							return
						}
					}
				}
				b.run()
				rows := b.sink.last()
				got := rows["q0"]
				if got == nil || len(got.Attempts) != c.requests || got.GiveUpReason != c.reason || string(got.Input) != `{"a":"1"}` || b.took() > c.took+2*time.Second {
					t.Errorf("got %+v after %v, want %d requests, then %s", got, b.took(), c.requests, c.reason)
				}
				if rows["q1"] == nil || rows["q1"].Status != "ok" || rows["q1"].Input != nil {
					t.Errorf("the other item: got %+v", rows["q1"])
				}
			})
		})
	}
}
