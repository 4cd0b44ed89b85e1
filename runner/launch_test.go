package runner

import (
	"strconv"
	"testing"
	"time"

	"llmbatch/input"
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

// A panic anywhere on the way to a request ends the run as an internal error.
func TestPanicsEndTheRun(t *testing.T) {
	for name, set := range map[string]func(*bench){
		"reading": func(b *bench) { b.c.Items = func(func(*input.Item, error) bool) { panic("oops") } },
		"routing": func(b *bench) { b.c.Route = func(*input.Item) (*Target, error) { panic("oops") } },
		"logging": func(b *bench) { b.c.Pacing.Log = func(pacing.Change) { panic("oops") } },
		"flight":  func(b *bench) { b.c.OnFlight = func(*input.Item, Flight) { panic("oops") } },
		"writing": func(b *bench) { b.c.Write = func(*output.Result) error { panic("oops") } },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, 50, func(n int, _ string) answer {
					if n == 1 {
						return refuse(429, "rate_limit_error", "Retry-After", "1")
					}
					return ok(time.Second)
				})
				set(b)
				if rep := New(b.c).Run(t.Context()); rep.Reason != Internal {
					t.Errorf("end %v (%s), want Internal", rep.Reason, rep.Message)
				}
			})
		})
	}
}

// An open lane goes on at full speed beside four that are shut, under a small ceiling.
func TestShutLanesTakeNoPlaces(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, 500, func(_ int, body string) answer {
			if between(body, `"model":"`, `"`) != "m0" {
				return refuse(429, "rate_limit_error", "Retry-After", "300")
			}
			return ok(300 * time.Millisecond)
		})
		b.c.Items, b.c.Lanes, b.c.Pacing = items(500, func(i int) string { return "m" + strconv.Itoa(i%5) }), 5, fixed(8)
		b.c.ItemBudget = time.Minute
		b.run()
		var last time.Duration
		for _, c := range b.api.calls {
			if c.model == "m0" {
				last = max(last, c.ended.Sub(b.start))
			}
		}
		b.want(output.OK, 100)
		if last > 5*time.Second {
			t.Errorf("the open lane took %s for 100 items, want 4 s", last)
		}
	})
}
