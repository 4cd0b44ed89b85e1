package retry

import (
	"math"
	"testing"
	"time"
)

var now = received

func after(d time.Duration) time.Time { return now.Add(d) }

type nextRow struct {
	name   string
	policy Policy
	state  State
	want   Decision
}

var nextRows = []nextRow{
	// Own backoff: full jitter on 0.5 s · 2ⁿ.
	{"first backoff, lowest", Policy{}, State{Errors: 1, Counts: true}, Decision{Wait: 50 * time.Millisecond, Reason: "backoff"}},
	{"first backoff, half", Policy{}, State{Errors: 1, Counts: true, Rand: 0.5}, Decision{Wait: 250 * time.Millisecond, Reason: "backoff"}},
	{"second", Policy{}, State{Errors: 2, Counts: true, Rand: 0.5}, Decision{Wait: 500 * time.Millisecond, Reason: "backoff"}},
	{"fifth", Policy{}, State{Errors: 5, Counts: true, Rand: 0.5}, Decision{Wait: 4 * time.Second, Reason: "backoff"}},
	{"at most 60 s", Policy{}, State{Errors: 1000000, Counts: true, Rand: 0.5}, Decision{Wait: 30 * time.Second, Reason: "backoff"}},
	{"patient", Policy{}, State{Errors: 1, Counts: true, Patient: true, Rand: 0.5}, Decision{Wait: 2500 * time.Millisecond, Reason: "backoff"}},
	{"patient, at most 60 s", Policy{}, State{Errors: 9, Counts: true, Patient: true, Rand: 0.5}, Decision{Wait: 30 * time.Second, Reason: "backoff"}},
	{"no errors at all", Policy{}, State{Rand: 0.5}, Decision{Wait: 250 * time.Millisecond, Reason: "backoff"}},
	{"kept below max-wait", Policy{MaxWait: time.Second}, State{Attempts: 9, Errors: 9, Counts: true, Rand: 0.5}, Decision{Wait: 500 * time.Millisecond, Reason: "backoff"}},
	{"a random number that is none", Policy{}, State{Errors: 1, Rand: math.NaN()}, Decision{Wait: 50 * time.Millisecond, Reason: "backoff"}},

	// Hints: never earlier, jitter upwards only.
	{"hint", Policy{}, State{Attempts: 1, Hint: 2 * time.Second}, Decision{Wait: 2 * time.Second, Reason: "retry_after"}},
	{"hint with jitter", Policy{}, State{Attempts: 1, Hint: 2 * time.Second, Rand: 0.5}, Decision{Wait: 2050 * time.Millisecond, Reason: "retry_after"}},
	{"jitter of a short hint is 10 %", Policy{}, State{Attempts: 1, Hint: 300 * time.Millisecond, Rand: 0.5}, Decision{Wait: 315 * time.Millisecond, Reason: "retry_after"}},
	{"hint below the floor", Policy{}, State{Attempts: 1, Hint: time.Millisecond}, Decision{Wait: 50 * time.Millisecond, Reason: "retry_after"}},
	{"hint of a throttle", Policy{}, State{Attempts: 1, Throttled: true, Hint: 2 * time.Second}, Decision{Wait: 2 * time.Second, Reason: "retry_after"}},
	{"hint in an outage", Policy{}, State{Attempts: 1, Outage: true, Hint: 2 * time.Second}, Decision{Wait: 2 * time.Second, Reason: "retry_after"}},
	{"hint below zero", Policy{}, State{Errors: 1, Hint: -1, Rand: 0.5}, Decision{Wait: 250 * time.Millisecond, Reason: "backoff"}},
	{"24 h without a budget", Policy{}, State{Hint: 24 * time.Hour}, Decision{Wait: 24 * time.Hour, Reason: "retry_after"}},
	{"more fits no budget", Policy{}, State{Hint: 24*time.Hour + 1}, Decision{GiveUp: "item_budget", NextAttemptAt: after(24*time.Hour + 1)}},
	{"more, with a run's end", Policy{}, State{Hint: 25 * time.Hour, RunEnd: after(99 * time.Hour)}, Decision{GiveUp: "run_budget", NextAttemptAt: after(25 * time.Hour)}},
	{"C13 without end", Policy{}, State{Attempts: 1, Hint: VeryLong}, Decision{GiveUp: "item_budget", NextAttemptAt: after(VeryLong)}},

	// The lane decides.
	{"throttled", Policy{}, State{Attempts: 9, Throttled: true}, Decision{Reason: "gate"}},
	{"outage", Policy{}, State{Attempts: 9, Errors: 3, Outage: true}, Decision{Reason: "outage"}},

	// Budgets.
	{"C09 item's budget", Policy{}, State{Hint: 277403 * time.Second, ItemEnd: after(30 * time.Minute)}, Decision{GiveUp: "item_budget", NextAttemptAt: after(277403 * time.Second)}},
	{"item's budget", Policy{}, State{Hint: 120 * time.Second, ItemEnd: after(time.Minute)}, Decision{GiveUp: "item_budget", NextAttemptAt: after(2 * time.Minute)}},
	{"no time left at its end", Policy{}, State{Hint: time.Minute, ItemEnd: after(time.Minute)}, Decision{GiveUp: "item_budget", NextAttemptAt: after(time.Minute)}},
	{"just before", Policy{}, State{Hint: time.Minute, ItemEnd: after(time.Minute + 1), Rand: 0.9}, Decision{Wait: time.Minute, Reason: "retry_after"}},
	{"run's budget", Policy{}, State{Hint: 2 * time.Minute, ItemEnd: after(time.Hour), RunEnd: after(time.Minute)}, Decision{GiveUp: "run_budget", NextAttemptAt: after(2 * time.Minute)}},
	{"both: the earlier", Policy{}, State{Hint: 2 * time.Hour, ItemEnd: after(2 * time.Minute), RunEnd: after(time.Minute)}, Decision{GiveUp: "run_budget", NextAttemptAt: after(2 * time.Hour)}},
	{"both at once", Policy{}, State{Hint: 2 * time.Hour, ItemEnd: after(time.Minute), RunEnd: after(time.Minute)}, Decision{GiveUp: "item_budget", NextAttemptAt: after(2 * time.Hour)}},
	{"backoff too", Policy{}, State{Errors: 5, Counts: true, Rand: 0.5, ItemEnd: after(time.Second)}, Decision{GiveUp: "item_budget", NextAttemptAt: after(4 * time.Second)}},
	{"gate when the time is over", Policy{}, State{Throttled: true, ItemEnd: now}, Decision{GiveUp: "item_budget"}},

	// Counts.
	{"one request", Policy{MaxAttempts: 1}, State{Attempts: 1, Errors: 1, Counts: true}, Decision{GiveUp: "max_attempts"}},
	{"one request, throttled", Policy{MaxAttempts: 1}, State{Attempts: 1, Throttled: true, Hint: time.Second}, Decision{GiveUp: "max_attempts", NextAttemptAt: after(time.Second)}},
	{"two requests", Policy{MaxAttempts: 2}, State{Attempts: 1, Throttled: true}, Decision{Reason: "gate"}},
	{"errors", Policy{MaxErrors: 5}, State{Attempts: 7, Errors: 5, Counts: true}, Decision{GiveUp: "max_errors"}},
	{"one error", Policy{MaxErrors: 1}, State{Attempts: 1, Errors: 1, Counts: true}, Decision{GiveUp: "max_errors"}},
	{"errors left", Policy{MaxErrors: 5}, State{Attempts: 7, Errors: 4, Counts: true}, Decision{Wait: 50 * time.Millisecond, Reason: "backoff"}},
	{"a throttle is no error", Policy{MaxErrors: 5}, State{Attempts: 7, Errors: 5, Throttled: true}, Decision{Reason: "gate"}},

	// Long waits.
	{"max-wait", Policy{MaxWait: 10 * time.Second}, State{Attempts: 1, Hint: 11 * time.Second}, Decision{GiveUp: "max_wait", NextAttemptAt: after(11 * time.Second)}},
	{"max-wait to the dot, without jitter", Policy{MaxWait: 10 * time.Second}, State{Attempts: 1, Hint: 10 * time.Second, Rand: 0.9}, Decision{Wait: 10 * time.Second, Reason: "retry_after"}},
	{"capped", Policy{MaxWait: 10 * time.Second, OnLongWait: Cap}, State{Attempts: 1, Hint: 11 * time.Second, Rand: 0.9}, Decision{Wait: 10 * time.Second, Reason: "capped"}},
	{"capped, without end", Policy{MaxWait: 10 * time.Second, OnLongWait: Cap}, State{Attempts: 1, Hint: VeryLong}, Decision{Wait: 10 * time.Second, Reason: "capped"}},
	{"capped, but no time", Policy{MaxWait: 10 * time.Second, OnLongWait: Cap}, State{Attempts: 1, Hint: time.Minute, RunEnd: after(time.Second)}, Decision{GiveUp: "run_budget", NextAttemptAt: after(time.Minute)}},
	{"capped at more than a day fits nothing", Policy{MaxWait: 48 * time.Hour, OnLongWait: Cap}, State{Attempts: 1, Hint: VeryLong}, Decision{GiveUp: "max_wait", NextAttemptAt: after(VeryLong)}},
	{"capped at nearly nothing", Policy{MaxWait: 1, OnLongWait: Cap}, State{Attempts: 1, Hint: time.Minute}, Decision{Wait: 50 * time.Millisecond, Reason: "capped"}},

	// A connection that had died.
	{"C21 unsent", Policy{MaxAttempts: 1, MaxErrors: 1}, State{Attempts: 1, Errors: 1, Unsent: true}, Decision{Reason: "immediate"}},
	{"unsent, no time", Policy{}, State{Unsent: true, RunEnd: now}, Decision{GiveUp: "run_budget"}},
}

func TestNext(t *testing.T) {
	for _, r := range nextRows {
		s := r.state
		s.Now = now
		if got := r.policy.Next(s); got != r.want {
			t.Errorf("%s: got %+v, want %+v", r.name, got, r.want)
		}
	}
}

func TestFits(t *testing.T) {
	for _, r := range []struct {
		name   string
		policy Policy
		at     time.Duration
		state  State
		want   Decision
	}{
		{"open", Policy{}, -time.Second, State{}, Decision{Reason: "gate"}},
		{"open, but the time is over", Policy{}, -time.Second, State{ItemEnd: now}, Decision{GiveUp: "item_budget"}},
		{"shut", Policy{}, time.Minute, State{ItemEnd: after(time.Hour), Rand: 0.9}, Decision{Wait: time.Minute, Reason: "gate"}},
		{"past the item's end", Policy{}, time.Minute, State{ItemEnd: after(time.Second)}, Decision{GiveUp: "item_budget", NextAttemptAt: after(time.Minute)}},
		{"past the run's end", Policy{}, time.Minute, State{RunEnd: after(time.Second)}, Decision{GiveUp: "run_budget", NextAttemptAt: after(time.Minute)}},
		{"more than a day", Policy{}, 25 * time.Hour, State{}, Decision{GiveUp: "item_budget", NextAttemptAt: after(25 * time.Hour)}},
		{"max-wait", Policy{MaxWait: time.Second}, time.Minute, State{Attempts: 1}, Decision{GiveUp: "max_wait", NextAttemptAt: after(time.Minute)}},
		{"max-wait binds no item that was never sent", Policy{MaxWait: time.Second}, time.Minute, State{}, Decision{Wait: time.Minute, Reason: "gate"}},
		{"capped", Policy{MaxWait: time.Second, OnLongWait: Cap}, time.Minute, State{Attempts: 1}, Decision{Wait: time.Second, Reason: "capped"}},
	} {
		s := r.state
		s.Now = now
		if got := r.policy.Fits(after(r.at), s); got != r.want {
			t.Errorf("%s: got %+v, want %+v", r.name, got, r.want)
		}
	}
}

// Backoffs are spread over their whole range.
func TestBackoffIsFullJitter(t *testing.T) {
	var low, high int
	for i := range 1000 {
		d := Policy{}.Next(State{Errors: 4, Counts: true, Now: now, Rand: float64(i) / 1000}).Wait
		if d > 4*time.Second {
			t.Fatalf("got %v, want at most 4s", d)
		}
		if d < time.Second {
			low++
		}
		if d > 3*time.Second {
			high++
		}
	}
	if low < 200 || high < 200 {
		t.Errorf("got %d below a quarter and %d above three, want about 250 each", low, high)
	}
}

func FuzzNext(f *testing.F) {
	f.Add(int64(0), int64(0), int64(0), int64(0), 1, 1, 0, 0.5, byte(0))
	f.Add(int64(time.Second), int64(time.Minute), int64(time.Hour), int64(0), 1, 1, 5, 0.99, byte(1))
	f.Add(int64(math.MaxInt64), int64(0), int64(0), int64(time.Second), 3, 9, 5, 0.0, byte(0x45))
	f.Fuzz(func(t *testing.T, hint, item, run, most int64, attempts, errors, count int, random float64, flags byte) {
		bit := func(n int) bool { return flags&(1<<n) != 0 }
		s := State{Attempts: attempts, Errors: errors, Counts: bit(0), Throttled: bit(1), Outage: bit(2), Patient: bit(3),
			Unsent: bit(4), Hint: time.Duration(hint), Now: now, Rand: random}
		if item > 0 {
			s.ItemEnd = after(time.Duration(item))
		}
		if run > 0 {
			s.RunEnd = after(time.Duration(run))
		}
		p := Policy{MaxAttempts: count, MaxErrors: count, MaxWait: time.Duration(most)}
		if bit(5) {
			p.OnLongWait = Cap
		}
		check(t, p, s, p.Next(s))
		check(t, p, s, p.Fits(after(max(time.Duration(hint), 0)), s))
	})
}

// check holds a decision to what is promised of every one.
func check(t *testing.T, p Policy, s State, d Decision) {
	t.Helper()
	if (d.GiveUp == "") == (d.Reason == "") {
		t.Fatalf("got %+v, want either a reason to wait or one to give up", d)
	}
	if d.Wait < 0 || d.GiveUp != "" && d.Wait != 0 {
		t.Fatalf("got wait %v with %+v", d.Wait, d)
	}
	switch d.Reason {
	case "retry_after":
		if d.Wait < s.Hint || d.Wait > max(s.Hint, shortestWait)+min(s.Hint/10, mostJitter) {
			t.Fatalf("got %v for a hint of %v", d.Wait, s.Hint)
		}
		fallthrough
	case "backoff", "capped":
		if d.Wait < shortestWait {
			t.Fatalf("got %v: a hot loop", d.Wait)
		}
	}
	if d.Wait > Longest+mostJitter {
		t.Fatalf("got a wait of %v", d.Wait)
	}
	for _, end := range []time.Time{s.ItemEnd, s.RunEnd} {
		if d.GiveUp == "" && !end.IsZero() && !s.Now.Add(d.Wait).Before(end) {
			t.Fatalf("got %+v, which ends after %v", d, end)
		}
	}
	if !d.NextAttemptAt.IsZero() && d.NextAttemptAt.Before(s.Now) {
		t.Fatalf("got next attempt at %v, before now", d.NextAttemptAt)
	}
}
