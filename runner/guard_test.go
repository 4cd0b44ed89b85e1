package runner

import (
	"fmt"
	"testing"
	"time"

	"llmbatch/output"
)

func TestUniformFailure(t *testing.T) {
	play := func(int, string) answer { return refuse(400, "invalid_request_error") }
	for _, hold := range []bool{false, true} {
		t.Run(fmt.Sprint("hold=", hold), func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, 1000, play)
				b.c.FinalOnly = hold
				rep := b.run()
				if rep.Reason != Aborted || len(b.api.calls) > 40 {
					t.Errorf("end %d after %d requests", rep.Reason, len(b.api.calls))
				}
				// Those that were on the wire when it tripped are as little at fault.
				b.want(output.Failed, 0)
				b.want(output.Aborted, len(b.api.calls))
				if n, f := rep.Rows[output.Aborted], rep.Rows[output.Failed]; n != len(b.api.calls) || f != 0 {
					t.Errorf("counted %d aborted and %d failed rows, want %d and none", n, f, len(b.api.calls))
				}
				if hold && len(b.sink.rows) != len(b.sink.last()) {
					t.Error("a row was written twice to a sink that can't supersede")
				}
			})
		})
	}
	t.Run("off", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := newBench(t, 50, play)
			b.c.NoFailFast = true
			b.run()
			b.want(output.Failed, 50)
		})
	})
	t.Run("nine", func(t *testing.T) {
		bubble(t, func(t *testing.T) {
			b := newBench(t, 9, play)
			b.c.FinalOnly = true
			b.run()
			b.want(output.Failed, 9)
		})
	})
}

func TestLanesAreIndependent(t *testing.T) {
	bubble(t, func(t *testing.T) {
		began := time.Now()
		b := newBench(t, 200, func(n int, body string) answer {
			if between(body, `"model":"`, `"`) == "slow" && time.Since(began) < 30*time.Second {
				return refuse(429, "rate_limit_error", "Retry-After", "30")
			}
			return ok(100 * time.Millisecond)
		})
		b.c.Items = items(200, func(i int) string { return []string{"slow", "fast"}[i%2] })
		b.c.Lanes = 2
		b.run()
		b.want(output.OK, 200)
		for _, c := range b.api.calls {
			if c.model == "fast" && c.begun.Sub(began) > 15*time.Second {
				t.Fatalf("the fast lane waited for the slow one: %s", c.begun.Sub(began))
			}
		}
	})
}

// A lane that is shut from the start does not keep those from launching whose
// lines come after its own.
func TestLaneBehindAShutOne(t *testing.T) {
	bubble(t, func(t *testing.T) {
		began := time.Now()
		b := newBench(t, 200, func(n int, body string) answer {
			if between(body, `"model":"`, `"`) == "slow" && time.Since(began) < time.Minute {
				return refuse(429, "rate_limit_error", "Retry-After", "60")
			}
			return ok(100 * time.Millisecond)
		})
		b.c.Items = items(200, func(i int) string { return []string{"slow", "fast"}[i/100] })
		b.c.Lanes = 2
		b.run()
		b.want(output.OK, 200)
		for _, c := range b.api.calls {
			if c.model == "fast" && c.begun.Sub(began) > 15*time.Second {
				t.Fatalf("the fast lane waited for the slow one: %s", c.begun.Sub(began))
			}
		}
	})
}

func TestClosedLane(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, 100, func(n int, body string) answer {
			if between(body, `"model":"`, `"`) == "gone" {
				return missing
			}
			return ok(100 * time.Millisecond)
		})
		b.c.Items = items(100, func(i int) string { return []string{"gone", "here"}[i%2] })
		b.c.Lanes = 2
		rep := b.run()
		if rep.Reason != LaneClosed {
			t.Errorf("reason %d, want LaneClosed", rep.Reason)
		}
		b.want(output.OK, 50)
		b.want(output.Failed, 0)
		if n := rep.Rows[output.GaveUp]; n == 0 || n > 8 {
			t.Errorf("%d items gave up, want those that were open", n)
		}
	})
}

func TestDeadEndpoint(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, 50, func(int, string) answer { return answer{err: refusedDial()} })
		rep := b.run()
		if rep.Reason != Aborted || b.took() < time.Minute || b.took() > 70*time.Second {
			t.Errorf("end %d after %s, want Aborted after a minute", rep.Reason, b.took())
		}
		b.want(output.Failed, 0)
		b.want(output.GaveUp, 0)
	})
}

func TestSuspectedCap(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, 50, func(int, string) answer { return refuse(429, "rate_limit_error") })
		b.c.ItemBudget = 0
		rep := b.run()
		if rep.Reason != Aborted || b.took() < 10*time.Minute || b.took() > 11*time.Minute {
			t.Errorf("end %d after %s, want Aborted after ten minutes", rep.Reason, b.took())
		}
		b.want(output.Failed, 0)
	})
}

// An outage costs no item its errors.
func TestOutage(t *testing.T) {
	bubble(t, func(t *testing.T) {
		began := time.Now()
		b := newBench(t, 400, func(int, string) answer {
			if d := time.Since(began); d > 2*time.Second && d < 62*time.Second {
				return refuse(500, "api_error")
			}
			return ok(200 * time.Millisecond)
		})
		b.run()
		b.want(output.OK, 400)
	})
}
