package batch

import (
	"testing"
	"testing/synctest"
	"time"

	"llmbatch/output"
	"llmbatch/runner"
)

// Whatever the API does, each item ends with one row, what was bought is in the
// rows, and nothing is bought that has an answer.
func TestScenarios(t *testing.T) {
	type rows = map[output.Status]int
	ok := rows{output.OK: 40}
	one := rows{output.OK: 39, output.GaveUp: 1} // its line is bad each time
	for _, tt := range []struct {
		scenario string
		openai   rows
		// anthropic is nil where it is the same, empty where there is no such thing.
		anthropic rows
		batches   int // at least
	}{
		{scenario: "batch-ok", openai: ok, batches: 4},
		{scenario: "batch-shuffled", openai: ok, batches: 4},
		{scenario: "batch-missing", openai: one, batches: 5},
		{scenario: "batch-doubled", openai: ok, batches: 4},
		{scenario: "batch-foreign", openai: ok, batches: 4},
		{scenario: "batch-torn", openai: ok, batches: 4},
		{scenario: "batch-bad-line", openai: one, batches: 4},
		{scenario: "batch-create-lost", openai: ok, batches: 4},
		{scenario: "batch-create-lost?lost=500", openai: ok, batches: 4},
		{scenario: "batch-upload-503", openai: ok, anthropic: rows{}, batches: 4},
		{scenario: "batch-create-429", openai: ok, batches: 4},
		{scenario: "batch-404", openai: ok, batches: 4},
		{scenario: "batch-poll-429", openai: ok, batches: 4},
		{scenario: "batch-poll-5xx", openai: ok, batches: 4},
		{scenario: "batch-slow-list", openai: ok, batches: 4},
		{scenario: "batch-azure", openai: ok, anthropic: rows{}, batches: 4},
	} {
		t.Run(tt.scenario, func(t *testing.T) {
			both(t, func(t *testing.T, api string) {
				want := tt.openai
				if api == "anthropic" && tt.anthropic != nil {
					t.Skip("the API has no such thing")
				}
				w := newWorld(t, api, tt.scenario, 40)
				c := w.config()
				if tt.scenario == "batch-azure" {
					c.Vendor = "azure"
				}
				rep := w.run(c)
				if rep.Reason != runner.Finished || rep.Open != 0 {
					t.Errorf("report %+v", rep)
				}
				w.check(want)
				if n := w.server.Stats().Batches; n < tt.batches || n != len(rep.Ended) {
					t.Errorf("%d batches were created, %d ended, want %d", n, len(rep.Ended), tt.batches)
				}
			})
		})
	}
}

// What an expired batch brought is kept; the rest is left to the live run.
func TestExpiredHalf(t *testing.T) {
	both(t, func(t *testing.T, api string) {
		w := newWorld(t, api, "batch-expired-half", 40)
		c := w.config()
		c.Then = "live"
		if rep := w.run(c); rep.Reason != runner.Finished {
			t.Errorf("report %+v", rep)
		}
		got := w.statuses()
		if got[output.OK] < 15 || got[output.OK]+got[output.Waiting] != 40 {
			t.Errorf("rows %v", got)
		}
		w.check(got)
	})
}

func TestAllFailedAlikeStopsTheRun(t *testing.T) {
	both(t, func(t *testing.T, api string) {
		w := newWorld(t, api, "batch-all-failed", 40)
		rep := w.run(w.config())
		if rep.Reason != runner.Aborted {
			t.Errorf("report %+v", rep)
		}
		if got := w.statuses(); got[output.Aborted] < 10 || got[output.Failed] > 0 || rep.Open == 0 {
			t.Errorf("rows %v, report %+v", got, rep)
		}
	})
}

func TestSpendCapAtCreation(t *testing.T) {
	both(t, func(t *testing.T, api string) {
		w := newWorld(t, api, "batch-spend-cap", 40)
		rep := w.run(w.config())
		if rep.Reason != runner.Aborted || rep.Open != 0 {
			t.Errorf("report %+v", rep)
		}
		if n := w.server.Stats().Items; n != 0 {
			t.Errorf("%d items bought", n)
		}
	})
}

// A part that passes the limit of tokens goes back, and smaller ones go one after
// another.
func TestTokenLimitIsLearned(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "openai", "batch-token-limit?token-limit=250", 40)
		rep := w.run(w.config())
		if rep.Reason != runner.Finished {
			t.Errorf("report %+v", rep)
		}
		if got := w.statuses(); got[output.OK] != 40 {
			t.Errorf("rows %v", got)
		}
	})
}

func TestBadLineOfTheInput(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "openai", "batch-validating-fails", 20)
		c := w.config()
		c.Size = 200 // the first part is a tenth: all of them in one
		rep := w.run(c)
		if w.statuses()[output.Failed] == 0 || rep.Reason != runner.Finished && rep.Reason != runner.Aborted {
			t.Errorf("report %+v, rows %v", rep, w.statuses())
		}
	})
}

// What never ends is left at the provider, and named; nothing is bought again.
func TestStuckBatchesStayOpen(t *testing.T) {
	for _, scenario := range []string{"batch-stuck-validating", "batch-stuck-finalizing", "batch-stuck-pending"} {
		t.Run(scenario, func(t *testing.T) {
			both(t, func(t *testing.T, api string) {
				w := newWorld(t, api, scenario, 40)
				c := w.config()
				c.End = time.Now().Add(30 * time.Hour)
				rep := w.run(c)
				if rep.Reason != runner.BudgetEnded || rep.Open == 0 || rep.Items != 40 {
					t.Errorf("report %+v", rep)
				}
				if n := w.server.Stats().Items; n != 40 {
					t.Errorf("%d items bought, want 40", n)
				}
			})
		})
	}
}

// At the end of the time open batches are cancelled, and what came of them is kept,
// before their items are free for the live run.
func TestHandOver(t *testing.T) {
	for _, scenario := range []string{"batch-ok?batch-time=40m", "batch-cancel-slow?batch-time=40m"} {
		t.Run(scenario, func(t *testing.T) {
			both(t, func(t *testing.T, api string) {
				w := newWorld(t, api, scenario, 40)
				c := w.config()
				c.End, c.HandOver, c.Then = time.Now().Add(20*time.Minute), true, "live"
				rep := w.run(c)
				if rep.Open != 0 {
					t.Errorf("report %+v", rep)
				}
				got := w.statuses()
				if got[output.OK]+got[output.Waiting] != 40 || got[output.Waiting] == 0 {
					t.Errorf("rows %v", got)
				}
				if n := w.bought(); n != 40 {
					t.Errorf("%d attempts in batches, want 40", n)
				}
			})
		})
	}
}

// Cron: a run sends, the next collects.
func TestNoWait(t *testing.T) {
	both(t, func(t *testing.T, api string) {
		w := newWorld(t, api, "batch-ok?batch-time=1h", 40)
		c := w.config()
		c.NoWait = true
		began := time.Now()
		if rep := w.run(c); rep.Reason != runner.BudgetEnded || rep.Items != 40 {
			t.Errorf("report %+v", rep)
		}
		if took := time.Since(began); took > time.Second {
			t.Errorf("it took %s", took)
		}
		if rep := w.run(w.noWait()); rep.Items != 40 {
			t.Errorf("report %+v", rep)
		}
		time.Sleep(time.Hour)
		if rep := w.run(w.noWait()); rep.Reason != runner.Finished {
			t.Errorf("report %+v", rep)
		}
		w.check(map[output.Status]int{output.OK: 40})
	})
}

func (w *world) noWait() Config {
	c := w.config()
	c.NoWait = true
	return c
}
