package pacing

import (
	"math"
	"testing"
	"time"
)

// desk drives a lane by hand.
type desk struct {
	t     *testing.T
	l     *lane
	now   time.Duration
	order int64
}

func newDesk(t *testing.T, c Config) *desk { return &desk{t: t, l: newLane(c)} }

// launch offers one fresh item; nil if the lane declines.
func (d *desk) launch() *flight {
	d.order++
	f := &flight{}
	if !d.l.offer(d.now, demand{order: d.order, notAfter: never}, f) {
		return nil
	}
	return f
}

func (d *desk) fill() (out []*flight) {
	for f := d.launch(); f != nil; f = d.launch() {
		out = append(out, f)
	}
	return out
}

func (d *desk) land(f *flight, s Signal, hint time.Duration) bool {
	outage, _ := d.l.done(d.now, f, Outcome{Signal: s, Hint: hint})
	d.l.pump(d.now)
	return outage
}

func (d *desk) wait(t time.Duration) {
	d.now += t
	d.l.pump(d.now)
}

func (d *desk) limit(want int) {
	d.t.Helper()
	if d.l.limit != want {
		d.t.Errorf("at %v: got limit %d, want %d", d.now, d.l.limit, want)
	}
}

func TestBurstOfRefusalsCutsOnceToWhatIsHeld(t *testing.T) {
	d := newDesk(t, Config{Start: 80, Decrease: 0.5})
	epochs := 0
	d.l.logging = true
	flights := d.fill()
	d.wait(50 * time.Millisecond)
	for _, f := range flights[:50] {
		d.land(f, Throttled, 0)
	}
	d.limit(30)
	for _, c := range d.l.changes {
		if c.reason == "refused" {
			epochs++
		}
	}
	if epochs != 1 || d.l.gate.step != 1 {
		t.Errorf("got %d cuts and %d steps of the backoff, want one each", epochs, d.l.gate.step)
	}
	if d.l.gate.until > d.now {
		t.Errorf("got a gate until %v after a first bare refusal with 30 in flight, want none", d.l.gate.until)
	}
}

func TestEvidenceFromBeforeTheCutIsIgnored(t *testing.T) {
	d := newDesk(t, Config{Start: 20})
	old := d.fill()
	d.wait(50 * time.Millisecond)
	d.land(old[0], Throttled, 0)
	d.limit(19)
	step := d.l.gate.step
	d.wait(50 * time.Millisecond)
	for _, f := range old[1:10] {
		d.land(f, Good, 0)
	}
	d.limit(19)
	d.l.full = false // as after a refusal by rate, whose burst takes no permits
	d.land(old[10], Throttled, 0)
	d.limit(19)
	if d.l.gate.step != step {
		t.Errorf("got backoff step %d after a late refusal, want %d", d.l.gate.step, step)
	}
	d.land(old[11], Nothing, 0)
	d.land(old[12], Answered, 0)
	d.land(old[13], Failed, 0)
	d.limit(19)
}

func TestGateOpensThenOneTwoFour(t *testing.T) {
	d := newDesk(t, Config{Start: 40})
	fs := d.fill()
	d.wait(40 * time.Millisecond)
	d.land(fs[0], Throttled, 2*time.Second)
	first := d.l.gate.until
	if late := first - d.now; late < 2*time.Second || late > 2100*time.Millisecond {
		t.Fatalf("got a gate of %v, want 2 s to 2.1 s", late)
	}
	d.land(fs[1], Throttled, time.Second)
	if d.l.gate.until != first {
		t.Errorf("got gate %v after a shorter wait, want %v still", d.l.gate.until, first)
	}
	for _, f := range fs[2:] {
		d.land(f, Good, 0)
	}
	d.wait(first - d.now - 1)
	if d.launch() != nil {
		t.Error("got a launch before the gate opened, want none")
	}
	d.wait(1)
	for _, want := range []int{1, 2, 4, 8} {
		if got := len(d.fill()); got != want {
			t.Errorf("at %v: got %d launches, want %d", d.now, got, want)
		}
		d.wait(2 * d.l.tempo.refusal)
	}
}

// C09, C13: absurd hints never overflow, and never send early.
func TestAbsurdHints(t *testing.T) {
	for _, hint := range []time.Duration{math.MaxInt64, math.MaxInt64 - 1, 1000000000 * time.Second, 24 * time.Hour} {
		d := newDesk(t, Config{})
		d.wait(time.Hour)
		d.land(d.launch(), Throttled, hint)
		if got := d.l.gate.until; got < hint || got < d.now {
			t.Errorf("hint %v: got gate %v, want no earlier", hint, got)
		}
		d.wait(hint/2 - time.Hour)
		d.order-- // the item that was refused; another one may go to test the gate
		if d.launch() != nil {
			t.Errorf("hint %v: got a launch half-way, want none", hint)
		}
	}
	// C12: zero or negative is no hint: the backoff holds, never a hot loop.
	for _, hint := range []time.Duration{0, -1, math.MinInt64} {
		d := newDesk(t, Config{Start: 1})
		for range 20 {
			f := d.launch()
			d.wait(time.Millisecond)
			d.land(f, Throttled, hint)
			if got := d.l.gate.until - d.now; got < 50*time.Millisecond || got > 30*time.Second {
				t.Fatalf("hint %v: got a backoff of %v, want 50 ms to 30 s", hint, got)
			}
			d.wait(d.l.gate.until - d.now)
		}
	}
}

func TestJitterIsUpwardsAndSmall(t *testing.T) {
	d := newDesk(t, Config{Seed: 7})
	for _, hint := range []time.Duration{time.Nanosecond, 20 * time.Millisecond, time.Second, time.Hour} {
		most := min(hint/10, 100*time.Millisecond)
		for range 200 {
			if got := d.l.gate.hinted(time.Minute, hint) - time.Minute - hint; got < 0 || got > most {
				t.Fatalf("hint %v: got %v on top, want 0 to %v", hint, got, most)
			}
		}
	}
}

func TestOutageNeedsFiveFailuresOfThreeItems(t *testing.T) {
	d := newDesk(t, Config{Start: 20})
	for i, tt := range []struct {
		orders []int64
		outage bool
	}{
		{[]int64{1, 2, 3, 4}, false},
		{[]int64{1, 1, 1, 1, 1, 1, 2, 2, 2}, false},
		{[]int64{1, 1, 2, 2, 3}, true},
		{[]int64{1, 2, 3, 1, 2}, true},
	} {
		var got bool
		for _, o := range tt.orders {
			d.wait(time.Second)
			f := d.launch()
			if f == nil {
				t.Fatalf("row %d: got no launch at %v, gate %v", i, d.now, d.l.gate)
			}
			f.order = o
			got = d.land(f, Failed, 0)
			d.wait(d.l.gate.until)
		}
		if got != tt.outage {
			t.Errorf("row %d: got outage %t, want %t", i, got, tt.outage)
		}
		d.wait(time.Minute)
		if f := d.launch(); f == nil {
			t.Fatalf("row %d: got no launch a minute later, want one", i)
		} else {
			d.land(f, Good, 0)
		}
		if d.l.breaker.open() {
			t.Errorf("row %d: got an outage after an answer, want none", i)
		}
	}
}

func TestAnswersFromBeforeTheOutageDoNotEndIt(t *testing.T) {
	d := newDesk(t, Config{Start: 20})
	fs := d.fill()
	for _, f := range fs[:6] {
		d.land(f, Failed, 0)
	}
	if !d.l.breaker.open() || d.l.gate.until <= d.now {
		t.Fatal("got no outage after six failures, want one, and a gate")
	}
	d.limit(20)
	d.land(fs[6], Good, 0)
	d.land(fs[7], Answered, 0)
	if !d.l.breaker.open() {
		t.Error("got the outage ended by an answer to an older request, want it open")
	}
	d.wait(d.l.gate.until - d.now)
	d.land(d.launch(), Answered, 0)
	if d.l.breaker.open() {
		t.Error("got an outage after a newer request was answered, want none")
	}
}

func TestHintOfAFailureMovesNoGateUnlessOutage(t *testing.T) {
	d := newDesk(t, Config{Start: 20})
	fs := d.fill()
	for i, f := range fs[:5] {
		d.land(f, Failed, time.Minute)
		if shut := d.l.gate.until >= d.now+time.Minute; shut != (i == 4) {
			t.Errorf("failure %d: got gate %v", i+1, d.l.gate.until)
		}
	}
}

func TestGrowthNeedsABlockedLaunch(t *testing.T) {
	d := newDesk(t, Config{})
	for range 200 { // one at a time: the limit is not what holds it back
		f := d.launch()
		d.wait(time.Second)
		d.land(f, Good, 0)
	}
	d.limit(4)
}

// Growth is not tied to answers up to 32, and a survivor counts once.
func TestSlowStartBySurvival(t *testing.T) {
	d := newDesk(t, Config{})
	var fs []*flight
	for d.now < 8*time.Second {
		fs = append(fs, d.fill()...)
		d.wait(100 * time.Millisecond)
	}
	d.limit(32)
	for _, f := range fs[len(fs)-5:] {
		d.land(f, Throttled, 0)
	}
	d.limit(27)
	d.wait(20 * time.Second)
	before := d.l.limit
	for _, f := range fs[:10] {
		d.land(f, Good, 0)
	}
	if d.l.limit > before+1 {
		t.Errorf("got limit %d after answers to launches from before the cut, want about %d", d.l.limit, before)
	}
}

func TestFixedStaysWhateverComes(t *testing.T) {
	d := newDesk(t, Config{Max: 10, Fixed: true})
	for range 20 {
		fs := d.fill()
		if len(fs) == 0 {
			t.Fatal("got no launch, want some")
		}
		d.wait(10 * time.Millisecond)
		for i, f := range fs {
			d.land(f, []Signal{Throttled, Overloaded, Failed}[i%3], time.Second)
			d.limit(10)
		}
		if d.launch() != nil {
			t.Error("got a launch at a shut gate, want none")
		}
		d.wait(d.l.gate.until - d.now)
	}
}

func TestOverloadCutsToSevenTenths(t *testing.T) {
	d := newDesk(t, Config{Start: 101})
	fs := d.fill()
	d.land(fs[0], Overloaded, 0)
	d.limit(70)
	d.land(fs[1], Overloaded, 0)
	d.limit(70)
	if d.l.pacer.on || d.l.doubt.strikes > 0 {
		t.Error("got the pacer on, or a strike, from overload, want neither")
	}
}

func TestPermitsParkWithoutBlocking(t *testing.T) {
	p := newPermits(50, 50)
	for range 45 {
		p.take()
	}
	p.resize(10) // far below what is taken: the five free ones are parked at once
	if p.parked != 5 || p.take() {
		t.Errorf("got %d parked, want 5 and no permit free", p.parked)
	}
	for range 40 {
		p.give(10)
	}
	if p.taken != 5 || p.parked != 40 {
		t.Errorf("got %d taken, %d parked, want 5 and 40", p.taken, p.parked)
	}
	for range 5 {
		if !p.take() {
			t.Error("got no permit below the limit, want one")
		}
	}
	if p.take() {
		t.Error("got a permit at the limit, want none")
	}
	p.resize(50)
	if p.parked != 0 || !p.take() {
		t.Errorf("got %d parked after growth, want 0 and a permit", p.parked)
	}
}

func TestWastedBurstTwiceIsGone(t *testing.T) {
	p := pacer{burst: paceBurst}
	p.wasted()
	p.wasted()
	if p.burst != 0 {
		t.Errorf("got a burst of %v s, want 0", p.burst)
	}
}

func TestSpend(t *testing.T) {
	s := NewSpend(10)
	if !s.Reserve(4) || !s.Reserve(6) || s.Reserve(0.1) {
		t.Error("want 4 and 6 reserved under a cap of 10, and no more")
	}
	s.Settle(4, 1, true)
	if s.Spent() != 1 || s.Reserved() != 6 || s.Reserve(4) || !s.Reserve(3) {
		t.Errorf("got %v spent, %v reserved, want 1 and 6, then room for 3", s.Spent(), s.Reserved())
	}
	s.Settle(6, 0, false) // not known: it stays set aside
	if s.Reserved() != 9 {
		t.Errorf("got %v reserved, want 9", s.Reserved())
	}
	free := NewSpend(0)
	if !free.Reserve(1e12) {
		t.Error("got no reservation without a cap, want one")
	}
}

// --aimd-decrease and --aimd-increase: a repeated cut goes to that share of what
// is held, and a probe rises by that share of the plateau.
func TestDecreaseAndIncreaseAct(t *testing.T) {
	low := func(c Config) int {
		d, low := newDesk(t, c), 101
		for range 2 {
			fs := d.fill()
			d.wait(10 * time.Millisecond)
			d.land(fs[0], Throttled, 0)
			low = min(low, d.l.limit)
			for _, f := range fs[1:] {
				d.land(f, Good, 0)
			}
			d.wait(4 * time.Second)
		}
		return low
	}
	for _, tt := range []struct {
		decrease float64
		want     int
	}{{0.5, 49}, {0.8, 78}, {0, 93}} {
		if got := low(Config{Start: 100, Decrease: tt.decrease}); got != tt.want {
			t.Errorf("decrease %v: got a limit of %d after the second cut, want %d", tt.decrease, got, tt.want)
		}
	}
	reached := func(c Config) int {
		d := newDesk(t, c)
		d.land(d.fill()[0], Throttled, 0)
		for range 100 {
			d.fill()
			d.wait(100 * time.Millisecond)
		}
		return d.l.limit
	}
	if few, many := reached(Config{Start: 50, Increase: 0.01}), reached(Config{Start: 50, Increase: 0.5}); many < few+20 {
		t.Errorf("got limits of %d and %d after probing by 0.01 and by 0.5, want the second far higher", few, many)
	}
}
