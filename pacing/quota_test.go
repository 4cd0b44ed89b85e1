package pacing

import (
	"math"
	"testing"
	"time"
)

func (d *desk) report(s Signal, hint time.Duration, q ...Quota) {
	d.t.Helper()
	f := d.launch()
	if f == nil {
		d.t.Fatalf("at %v: got no launch, want one", d.now)
	}
	d.l.done(d.now, f, Outcome{Signal: s, Hint: hint, Quota: q})
	d.l.pump(d.now)
}

func TestEmptyQuotaHoldsUntilItRefills(t *testing.T) {
	for _, tt := range []struct {
		what        string
		quota       Quota
		least, most time.Duration
	}{
		{"ten a second, none left", Quota{Requests, 600, 0, time.Minute}, 100 * time.Millisecond, time.Second},
		{"one a second, none left", Quota{Requests, 60, 0, time.Minute}, time.Second, 2 * time.Second},
		{"half left", Quota{Requests, 60, 30, 30 * time.Second}, 0, 0},
		{"a term, ends in 20 s", Quota{Requests, 600, 0, 20 * time.Second}, 100 * time.Millisecond, time.Second},
		{"a limit for the day, plenty left", Quota{Requests, 14400, 14000, 8 * time.Hour}, 0, 0},
		{"a limit of zero", Quota{Requests, 0, 0, time.Minute}, 0, 0},
		{"a negative remainder", Quota{Requests, 60, -1, time.Minute}, 0, 0},
		{"a reset in epoch milliseconds", Quota{Requests, 60, 0, 1790000000 * time.Second}, 0, 0},
		{"not a number", Quota{Requests, math.NaN(), 0, time.Minute}, 0, 0},
		{"an unknown resource", Quota{9, 60, 0, time.Minute}, 0, 0},
	} {
		d := newDesk(t, Config{})
		d.report(Good, 0, tt.quota)
		for d.launch() == nil && d.now < 10*time.Minute {
			d.wait(10 * time.Millisecond)
		}
		if d.now < tt.least || d.now > tt.most {
			t.Errorf("%s: got a launch after %v, want %v to %v", tt.what, d.now, tt.least, tt.most)
		}
	}
}

// A remaining of zero with Retry-After 14 means 14 s, not one refill.
func TestRetryAfterMeasuresTheHiddenDebt(t *testing.T) {
	d := newDesk(t, Config{})
	d.report(Throttled, 14*time.Second, Quota{Requests, 600, 0, time.Minute})
	b := &d.l.quota.buckets[Requests]
	if b.refill(d.now+13*time.Second, 0); b.left >= 1 {
		t.Errorf("got %.1f left after 13 s, want less than one request", b.left)
	}
	if b.refill(d.now+15*time.Second, 0); b.left < 1 {
		t.Errorf("got %.1f left after 15 s, want a request", b.left)
	}
}

// Headers that say "none left" for ever hold a launch for a minute, then are no
// longer believed.
func TestLyingHeadersDoNotStall(t *testing.T) {
	for _, q := range []Quota{
		{Requests, 1, 0, 20 * time.Hour},
		{InputTokens, 1000, 0, 20 * time.Hour},
		{Requests, 1000, 1, 20 * time.Hour},
	} {
		d := newDesk(t, Config{})
		lie := func() bool {
			f := &flight{}
			d.order++
			if !d.l.offer(d.now, demand{order: d.order, input: 2000, notAfter: never}, f) {
				return false
			}
			d.l.done(d.now, f, Outcome{Signal: Good, Quota: []Quota{q}})
			return true
		}
		sent := 0
		for d.now < 4*time.Minute {
			if lie() {
				sent++
			}
			d.wait(100 * time.Millisecond)
		}
		if sent < 100 {
			t.Errorf("%+v: got %d launches in four minutes, want the lie found out", q, sent)
		}
	}
}

// An instant rounded to a second, as of a request's admission, shows a range of
// rates only: a minute's rate within it stays.
func TestRateFromReset(t *testing.T) {
	for _, tt := range []struct {
		what        string
		quota       Quota // Reset as it stands when the answer comes
		age         time.Duration
		least, most float64 // a second; 0 and 0: it refills at once
	}{
		{"exact", Quota{Requests, 600, 300, 30 * time.Second}, 0, 10, 10},
		{"rounded down by 0.9 s", Quota{Requests, 6000, 5900, 600 * time.Millisecond}, 0, 100, 100},
		{"20 s old", Quota{Requests, 600, 300, 10 * time.Second}, 20 * time.Second, 10, 10},
		{"20 s old, as of the end", Quota{Requests, 600, 300, 30 * time.Second}, 20 * time.Second, 10, 10},
		{"20 a second for certain", Quota{Requests, 600, 300, 15 * time.Second}, 0, 18, 20},
		{"5 a second for certain", Quota{Requests, 600, 300, time.Minute}, 0, 5, 5.2},
		{"a term that ends", Quota{Requests, 600, 100, 2 * time.Second}, 4 * time.Second, 0, 0},
		{"a term that began", Quota{Requests, 600, 500, 55 * time.Second}, 0, 0, 0},
	} {
		b := &bucket{seen: tt.quota.Limit}
		if got := b.pace(tt.quota, tt.age); !b.whole && (got < tt.least || got > tt.most) || b.whole != (tt.most == 0) {
			t.Errorf("%s: got %.2f a second (whole: %t), want %v to %v", tt.what, got, b.whole, tt.least, tt.most)
		}
	}
}

// A report says nothing of the time in which its bucket was full: what came in
// then is not there.
func TestReportNeverFillsBeyondTheBucket(t *testing.T) {
	d := newDesk(t, Config{})
	f := d.launch()
	d.wait(20 * time.Second)
	d.l.done(d.now, f, Outcome{Signal: Good, Quota: []Quota{{Requests, 6000, 99, 0}}})
	if got := d.l.quota.buckets[Requests].left; got > 100 {
		t.Errorf("got %.0f left of a bucket that never showed more than 99, want ≤ 100", got)
	}
}

func TestKnownLimitsArePaced(t *testing.T) {
	for _, tt := range []struct {
		rpm, tpm   float64
		input      float64
		first, all int // launches at once, and in the first minute
	}{
		{rpm: 60, first: 1, all: 61},
		{rpm: 600, first: 10, all: 610},
		{rpm: 0.5, first: 1, all: 1},
		{tpm: 60000, input: 100, first: 10, all: 610},
		{tpm: 6000, input: 1000, first: 1, all: 7},
		{rpm: 60, tpm: 6000, input: 1000, first: 1, all: 7},
	} {
		d := newDesk(t, Config{Max: 1000, Start: 1000, RPM: tt.rpm, TPM: tt.tpm})
		at, all := 0, 0
		for d.now < time.Minute {
			d.order++
			f := &flight{}
			for d.l.offer(d.now, demand{order: d.order, input: tt.input, notAfter: never}, f) {
				d.l.done(d.now, f, Outcome{Signal: Good, Input: tt.input})
				f = &flight{}
				all++
				if d.now == 0 {
					at++
				}
			}
			d.wait(10 * time.Millisecond)
		}
		if at != tt.first || all > tt.all || all < tt.all-2 {
			t.Errorf("rpm %v, tpm %v, %v tokens: got %d at once and %d in a minute, want %d and %d", tt.rpm, tt.tpm, tt.input, at, all, tt.first, tt.all)
		}
	}
}

func TestAppraiserLearnsFromUsage(t *testing.T) {
	var a appraiser
	d := demand{input: 100, output: 1000}
	if c := a.cost(d); c != (costs{1, 100, 1000, 1100}) {
		t.Errorf("got %v before any answer, want the estimates", c)
	}
	for range 200 {
		a.learn(100, 150, 40)
	}
	if c := a.cost(d); math.Abs(c[InputTokens]-150) > 1 || c[OutputTokens] != 40 {
		t.Errorf("got %v, want 150 in and 40 out", c)
	}
	a.learn(100, 0, 0) // an answer without usage teaches nothing
	if c := a.cost(demand{input: 100, output: 10}); c[OutputTokens] != 10 {
		t.Errorf("got %v out, want no more than was asked for", c[OutputTokens])
	}
}
