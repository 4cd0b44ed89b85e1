package runner

import (
	"errors"
	"io"
	"testing"
	"time"

	"llmbatch/output"
	"llmbatch/pacing"
	"llmbatch/retry"
)

func TestAllOK(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, 300, func(int, string) answer { return ok(50 * time.Millisecond) })
		if rep := b.run(); rep.Reason != Finished {
			t.Errorf("reason %v, want Finished", rep.Reason)
		}
		b.want(output.OK, 300)
		if len(b.api.calls) != 300 {
			t.Errorf("%d requests, want 300", len(b.api.calls))
		}
	})
}

var missing = answer{status: 404, body: `{"type":"error","error":{"type":"not_found_error","message":"model: claude-gone"}}`}

// Each case is one item against a script; the contract's table of scenarios.
func TestOneItem(t *testing.T) {
	type want struct {
		requests int
		status   output.Status
		reason   string // give_up_reason
		end      Reason
		least    time.Duration
		most     time.Duration
	}
	always := func(a answer) script { return func(int, string) answer { return a } }
	first := func(n int, a answer) script {
		return func(i int, _ string) answer {
			if i <= n {
				return a
			}
			return ok(50 * time.Millisecond)
		}
	}
	slow := answer{status: 200, body: okBody, after: 5 * time.Second}
	spend := answer{status: 429, body: `{"type":"error","error":{"type":"rate_limit_error","message":"You have reached your API usage limits","details":{"error_code":"enforced_spend_limit_reached"}}}`}
	cases := []struct {
		name string
		play script
		set  func(*Config)
		want want
	}{
		{"429 always, four attempts", always(refuse(429, "rate_limit_error")), func(c *Config) { c.Retry.MaxAttempts = 4 },
			want{4, output.GaveUp, "max_attempts", Finished, 0, 20 * time.Second}},
		{"retry-after 2", first(1, refuse(429, "rate_limit_error", "Retry-After", "2")), nil,
			want{2, output.OK, "", Finished, 2 * time.Second, 3 * time.Second}},
		{"retry-after-ms 300", first(1, refuse(429, "rate_limit_error", "Retry-After-Ms", "300")), nil,
			want{2, output.OK, "", Finished, 300 * time.Millisecond, time.Second}},
		{"retry-after 120 capped", first(1, refuse(429, "rate_limit_error", "Retry-After", "120")), func(c *Config) {
			c.Retry.MaxWait, c.Retry.OnLongWait, c.ItemBudget = 2*time.Second, retry.Cap, 20*time.Second
		}, want{2, output.OK, "", Finished, 2 * time.Second, 3 * time.Second}},
		{"retry-after 120, item budget 5 s", always(refuse(429, "rate_limit_error", "Retry-After", "120")), func(c *Config) { c.ItemBudget = 5 * time.Second },
			want{1, output.GaveUp, "item_budget", Finished, 0, time.Second}},
		{"retry-after 120, max wait 5 s", always(refuse(429, "rate_limit_error", "Retry-After", "120")), func(c *Config) { c.Retry.MaxWait = 5 * time.Second },
			want{1, output.GaveUp, "max_wait", Finished, 0, time.Second}},
		{"retry-after 2, max wait 2 s", first(1, refuse(429, "rate_limit_error", "Retry-After", "2")), func(c *Config) { c.Retry.MaxWait = 2 * time.Second },
			want{2, output.OK, "", Finished, 2 * time.Second, 3 * time.Second}},
		// C06, C07: a spend cap stops the run at once.
		{"spend cap", always(spend), nil, want{1, output.Aborted, "", Aborted, 0, time.Second}},
		{"529 twice", first(2, refuse(529, "overloaded_error")), nil, want{3, output.OK, "", Finished, 0, 20 * time.Second}},
		{"400", always(refuse(400, "invalid_request_error")), nil, want{1, output.Failed, "", Finished, 0, time.Second}},
		{"413", always(refuse(413, "request_too_large")), nil, want{1, output.Failed, "", Finished, 0, time.Second}},
		{"500 no retry", always(refuse(500, "api_error", "X-Should-Retry", "false")), nil,
			want{1, output.GaveUp, "server_said_no", Finished, 0, time.Second}},
		{"400 force retry", first(1, refuse(400, "invalid_request_error", "X-Should-Retry", "true")), nil,
			want{2, output.OK, "", Finished, 0, 2 * time.Second}},
		{"401", always(refuse(401, "authentication_error")), nil, want{1, output.Aborted, "", Aborted, 0, time.Second}},
		{"cut connection, three errors", always(answer{err: io.ErrUnexpectedEOF}), func(c *Config) { c.Retry.MaxErrors = 3 },
			want{3, output.GaveUp, "max_errors", Finished, 0, 20 * time.Second}},
		// C41: three knobs, each its own.
		{"slow, attempt timeout 1 s, three errors", always(slow), func(c *Config) {
			c.AttemptTimeout, c.Retry.MaxErrors = time.Second, 3
		}, want{3, output.GaveUp, "max_errors", Finished, 3 * time.Second, 20 * time.Second}},
		{"slow, item budget 3 s", always(slow), func(c *Config) { c.ItemBudget = 3 * time.Second },
			want{1, output.GaveUp, "item_budget", Finished, 3 * time.Second, 3 * time.Second}},
		// C09: 3.2 days fit no budget; the lane closes.
		{"retry-after 277403", always(refuse(429, "rate_limit_error", "Retry-After", "277403")), func(c *Config) { c.ItemBudget = 0 },
			want{1, output.GaveUp, "item_budget", LaneClosed, 0, time.Second}},
		{"run budget shorter than the hint", always(refuse(429, "rate_limit_error", "Retry-After", "120")), func(c *Config) { c.End = time.Now().Add(10 * time.Second) },
			want{1, output.GaveUp, "run_budget", BudgetEnded, 0, time.Second}},
		{"model missing, only lane", always(missing), nil, want{1, output.Aborted, "", Aborted, 0, time.Second}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, 1, c.play)
				if c.set != nil {
					c.set(&b.c)
				}
				rep := b.run()
				row := b.sink.last()["q0"]
				if row == nil {
					t.Fatal("no row")
				}
				if len(b.api.calls) != c.want.requests || row.Status != c.want.status || row.GiveUpReason != c.want.reason || rep.Reason != c.want.end {
					t.Errorf("got %d requests, %s %q, end %d (%s); want %+v", len(b.api.calls), row.Status, row.GiveUpReason, rep.Reason, rep.Message, c.want)
				}
				if d := b.took(); d < c.want.least || d > c.want.most {
					t.Errorf("took %s, want %s to %s", d, c.want.least, c.want.most)
				}
			})
		})
	}
}

func TestWaitIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, 1, func(n int, _ string) answer {
			if n == 1 {
				return refuse(429, "rate_limit_error", "Retry-After", "120")
			}
			return ok(0)
		})
		b.c.Retry.MaxWait, b.c.Retry.OnLongWait = 2*time.Second, retry.Cap
		b.run()
		a := b.sink.last()["q0"].Attempts[0]
		if a.WaitReason != "capped" || a.RetryAfter != "120" || a.Wait < 2*time.Second || a.Wait > 2200*time.Millisecond {
			t.Errorf("logged %s %q after %q, want about 2s capped after 120", a.Wait, a.WaitReason, a.RetryAfter)
		}
	})
}

// An item keeps when it may be sent again, and a later run keeps to it.
func TestNextAttemptAt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, 1, func(int, string) answer { return refuse(429, "rate_limit_error", "Retry-After", "120") })
		b.c.ItemBudget = 5 * time.Second
		b.run()
		row := b.sink.last()["q0"]
		if d := time.Until(row.NextAttemptAt); d < 119*time.Second || d > 121*time.Second {
			t.Fatalf("next attempt in %s, want 120s", d)
		}
		start := time.Now()
		again := newBench(t, 1, func(int, string) answer { return ok(0) })
		again.c.Old, again.c.OldRow = rounds(b.sink.last())
		again.r = New(again.c)
		time.AfterFunc(time.Minute, func() {
			if s := again.r.Status(); s.Waiting != 1 || !s.Gate.Equal(row.NextAttemptAt) || s.GateReason == "" {
				t.Errorf("while it waits: %+v, want 1 waiting until %s, and why", s, row.NextAttemptAt)
			}
		})
		again.rep = again.r.Run(t.Context())
		again.invariants()
		again.want(output.OK, 1)
		if d := time.Since(start); d < 119*time.Second {
			t.Errorf("sent after %s, want 120s", d)
		}
		got := again.sink.last()["q0"]
		if got.Attempts[0].Attempt != 2 || !got.FirstAttemptAt.Equal(row.FirstAttemptAt) || got.IdempotencyKey != row.IdempotencyKey {
			t.Errorf("history was not carried over: %+v", got)
		}
	})
}

// A run that is stopped in the middle of a wait leaves when it would have ended.
func TestNextAttemptAtOfAStoppedWait(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, 1, func(int, string) answer { return refuse(429, "rate_limit_error", "Retry-After", "120") })
		b.r = New(b.c)
		time.AfterFunc(30*time.Second, func() { b.r.Stop(errors.New("ctrl-c")) })
		b.rep = b.r.Run(t.Context())
		b.invariants()
		b.want(output.Aborted, 1)
		if d := time.Until(b.sink.last()["q0"].NextAttemptAt); d < 89*time.Second || d > 91*time.Second {
			t.Errorf("next attempt in %s, want 90s", d)
		}
	})
}

// A wait that fits no budget leaves the row as it is.
func TestNextAttemptPastTheBudgets(t *testing.T) {
	for name, set := range map[string]func(*Config){
		"item budget": func(c *Config) { c.ItemBudget = time.Minute },
		"run budget":  func(c *Config) { c.End = time.Now().Add(time.Minute) },
		"max wait":    func(c *Config) { c.Retry.MaxWait = time.Minute },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, func(t *testing.T) {
				b := newBench(t, 1, func(int, string) answer { return ok(0) })
				left := &output.Result{Key: "q0", ID: []byte(`"q0"`), Status: output.GaveUp, NextAttemptAt: time.Now().Add(2 * time.Minute)}
				b.c.Old, b.c.OldRow = rounds(map[string]*output.Result{"q0": left})
				set(&b.c)
				if rep := b.run(); len(b.api.calls) != 0 || len(b.sink.rows) != 0 || rep.Skipped[output.GaveUp] != 1 || b.took() != 0 {
					t.Errorf("%d requests, %d rows, skipped %v, after %s; want the row left alone at once", len(b.api.calls), len(b.sink.rows), rep.Skipped, b.took())
				}
			})
		})
	}
}

// C08: after a cap, requests on the wire are kept, nothing is launched, and
// untouched items have no row.
func TestSpendCapKeepsAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		answered := 0
		b := newBench(t, 300, func(int, string) answer {
			if answered++; answered <= 20 {
				return ok(100 * time.Millisecond)
			}
			return answer{status: 400, after: 100 * time.Millisecond, body: `{"type":"error","error":{"type":"invalid_request_error","message":"Your credit balance is too low to access the Anthropic API."}}`}
		})
		b.c.Pacing = fixed(8)
		rep := b.run()
		if rep.Reason != Aborted || len(b.api.calls) > 28 {
			t.Errorf("end %d after %d requests, want Aborted and at most 28", rep.Reason, len(b.api.calls))
		}
		b.want(output.OK, 20)
		b.want(output.Failed, 0)
		next := newBench(t, 300, func(int, string) answer { return ok(0) })
		next.c.Old, next.c.OldRow = rounds(b.sink.last())
		next.run()
		if len(next.api.calls) != 280 {
			t.Errorf("the next run sent %d, want 280", len(next.api.calls))
		}
	})
}

func TestInterrupt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, 100, func(int, string) answer { return ok(10 * time.Second) })
		b.c.Pacing = fixed(10)
		b.r = New(b.c)
		time.AfterFunc(15*time.Second, func() { b.r.Stop(errors.New("ctrl-c")) })
		b.rep = b.r.Run(t.Context())
		b.invariants()
		if b.rep.Reason != Interrupted {
			t.Errorf("reason %d, want Interrupted", b.rep.Reason)
		}
		b.want(output.OK, 20) // those on the wire drained
		if d := b.took(); d != 20*time.Second {
			t.Errorf("took %s, want 20s", d)
		}
	})
	bubble(t, func(t *testing.T) { // the second one does not wait
		b := newBench(t, 100, func(int, string) answer { return ok(10 * time.Second) })
		b.c.Pacing = fixed(10)
		b.r = New(b.c)
		for _, s := range []time.Duration{15, 16} {
			time.AfterFunc(s*time.Second, func() { b.r.Stop(errors.New("ctrl-c")) })
		}
		b.rep = b.r.Run(t.Context())
		b.invariants()
		b.want(output.OK, 10)
		b.want(output.Aborted, 10)
		if d := b.took(); d != 16*time.Second {
			t.Errorf("took %s, want 16s", d)
		}
	})
}

func TestRunBudget(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, 100, func(int, string) answer { return ok(10 * time.Second) })
		b.c.Pacing = fixed(10)
		b.c.End = time.Now().Add(15 * time.Second)
		rep := b.run()
		if rep.Reason != BudgetEnded || !rep.Unread && rep.Unsent == 0 {
			t.Errorf("report %+v, want BudgetEnded with items left", rep)
		}
		b.want(output.OK, 20)
		for _, c := range b.api.calls {
			if c.begun.After(b.c.End) {
				t.Errorf("%s launched after the run's end", c.id)
			}
		}
	})
	bubble(t, func(t *testing.T) { // all done in time: the budget is no reason
		b := newBench(t, 20, func(int, string) answer { return ok(10 * time.Second) })
		b.c.Pacing = fixed(20)
		b.c.End = time.Now().Add(5 * time.Second)
		if rep := b.run(); rep.Reason != Finished {
			t.Errorf("reason %d, want Finished", rep.Reason)
		}
	})
}

// C67 and the promise of exit 5: sending stops at once when a row can't be kept.
func TestWriteFails(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, 500, func(int, string) answer { return ok(100 * time.Millisecond) })
		b.c.Pacing = fixed(8)
		b.sink.fail = func(n int) error {
			if n > 20 {
				return errors.New("disk full")
			}
			return nil
		}
		b.r = New(b.c)
		rep := b.r.Run(t.Context())
		if rep.Reason != WriteFailed || len(b.api.calls) > 20+16 {
			t.Errorf("end %d after %d requests, want WriteFailed within one window", rep.Reason, len(b.api.calls))
		}
	})
}

// Everything is refused in the first second: no collapse to one at a time.
func TestRefusedAtFirst(t *testing.T) {
	bubble(t, func(t *testing.T) {
		began := time.Now()
		b := newBench(t, 2000, func(int, string) answer {
			if time.Since(began) < time.Second {
				return refuse(429, "rate_limit_error")
			}
			return ok(20 * time.Millisecond)
		})
		b.c.Pacing = pacing.Config{Start: 40}
		b.run()
		b.want(output.OK, 2000)
		if d := b.took(); d > 20*time.Second {
			t.Errorf("took %s, want at most 20s", d)
		}
	})
}

func TestPanicKeepsRows(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, 50, func(n int, body string) answer {
			if between(body, "item ", ".") == "q20" {
				panic("scripted")
			}
			return ok(10 * time.Millisecond)
		})
		b.c.Pacing = fixed(2)
		b.r = New(b.c)
		if rep := b.r.Run(t.Context()); rep.Reason != Internal {
			t.Errorf("reason %d, want Internal", rep.Reason)
		}
		if n := len(b.sink.last()); n < 18 {
			t.Errorf("%d rows kept, want those before the panic", n)
		}
	})
}
