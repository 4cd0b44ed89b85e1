package batch

import (
	"errors"
	"net/http"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"llmbatch/output"
	"llmbatch/runner"
)

var errKilled = errors.New("killed")

// killer ends a run at its nth step, as a kill -9 would: a step is the moment
// before a request, the one after its answer, or one before or after a row.
type killer struct {
	at, n int
	next  http.RoundTripper
}

func (k *killer) step() {
	if k.n++; k.n == k.at {
		panic(errKilled)
	}
}

func (k *killer) RoundTrip(r *http.Request) (*http.Response, error) {
	k.step()
	resp, err := k.next.RoundTrip(r)
	k.step()
	return resp, err
}

// killed runs until the nth step; false where the run ended before that.
func (w *world) killed(c Config, at int) (was bool) {
	k := &killer{at: at, next: c.Transport}
	c.Transport = k
	write := c.Write
	c.Write = func(r *output.Result) error {
		k.step()
		err := write(r)
		k.step()
		return err
	}
	e, err := Open(c)
	if err != nil {
		w.t.Fatal(err)
	}
	defer func() {
		if r := recover(); r != nil {
			if was = r == errKilled; !was {
				panic(r)
			}
			e.j.file.Close()
		}
	}()
	e.Collect(w.t.Context())
	e.Run(w.t.Context())
	_ = e.Close()
	return false
}

// Killed at each step of a run and run again, nothing is bought twice and nothing
// is lost.
func TestKilledAtEachStep(t *testing.T) {
	scenarios := []string{"batch-create-lost"}
	if stride() == 1 {
		scenarios = append(scenarios, "batch-ok", "batch-slow-list")
	}
	for _, scenario := range scenarios {
		t.Run(scenario, func(t *testing.T) {
			both(t, func(t *testing.T, api string) {
				for at := 1; ; at += stride() {
					w := newWorld(t, api, scenario, 12)
					c := w.config()
					c.Size = 7
					if !w.killed(c, at) {
						if at < 20 {
							t.Errorf("only %d steps", at)
						}
						return
					}
					w.resumed(c, at)
				}
			})
		})
	}
}

// stride is how far apart the steps are at which runs are killed. LLMBATCH_KILLS=all
// kills at each, and in more scenarios: each run waits for the disk some 30 times.
func stride() int {
	if os.Getenv("LLMBATCH_KILLS") == "all" {
		return 1
	}
	return 7
}

// resumed runs to the end and checks what was bought.
func (w *world) resumed(c Config, at int) {
	w.t.Helper()
	if rep := w.run(c); rep.Reason != runner.Finished {
		w.t.Errorf("killed at step %d: report %+v", at, rep)
	}
	s := w.server.Stats()
	if s.Items != w.n || w.bought() != w.n {
		w.t.Errorf("killed at step %d: %d items bought in %d batches, %d attempts in rows, want %d", at, s.Items, s.Batches, w.bought(), w.n)
	}
	if got := w.statuses(); got[output.OK] != w.n {
		w.t.Errorf("killed at step %d: rows %v", at, got)
	}
}

// The same again and again, with a run for cron.
func TestKilledManyTimes(t *testing.T) {
	both(t, func(t *testing.T, api string) {
		for seed := range 1 + 9/stride() {
			w := newWorld(t, api, "batch-create-lost", 40)
			for i := 0; w.killed(w.noWait(), 1+(seed*7+i*5)%23) || i < 3; i++ {
				time.Sleep(time.Duration(i*i) * 700 * time.Millisecond)
				if i > 200 {
					t.Fatal("no run comes to its end")
				}
			}
			w.resumed(w.config(), seed)
		}
	})
}

// Two batches of one size were made within the minute, and only one is ours.
func TestForeignBatchOfTheSameSize(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, "anthropic", "batch-ok", 7)
		other := newWorld(t, "anthropic", "batch-ok", 7)
		other.server = w.server
		if rep := other.run(other.config()); rep.Reason != runner.Finished {
			t.Fatal(rep)
		}
		if !w.killed(w.config(), 4) {
			t.Fatal("it came to its end")
		}
		if rep := w.run(w.config()); rep.Reason != runner.Finished {
			t.Errorf("report %+v", rep)
		}
		if s := w.server.Stats(); s.Items != 14 || w.bought() != 7 {
			t.Errorf("%d items bought in all, %d of ours, want 14 and 7", s.Items, w.bought())
		}
	})
}
