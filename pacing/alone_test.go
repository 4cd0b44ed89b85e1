package pacing

import (
	"testing"
	"time"
)

// picky refuses a few items for ever and serves all others as it is.
type picky struct {
	server
	items map[int]verdict
	group int // so many launches of these in all
}

func (s *picky) arrive(t float64, j *job) verdict {
	if v, ok := s.items[j.id]; ok {
		s.group++
		return v
	}
	return s.server.arrive(t, j)
}

func refusing(v verdict, srv func(uint64) server, items ...int) func(uint64) server {
	return func(seed uint64) server {
		p := &picky{server: srv(seed), items: map[int]verdict{}}
		for _, i := range items {
			p.items[i] = v
		}
		return p
	}
}

// single are models in which the trouble is one item's, or looks like everybody's
// and is not: each has items that are never answered, and a time that all others
// may take, over the oracle's for a run without them.
func single() []model {
	day := 24 * 3600.0
	busy := capped(50, 0)
	crowd := func(uint64) server { return &capServer{n: 10, hint: 60, tooMany: true} }
	return []model{
		{id: "14a", what: "cap 50, one item 429 for ever, bare", work: llm(1000), server: refusing(refuse(429, -1), busy, 300), ratio: 1.1, refused: 2, gone: 1},
		{id: "14b", what: "the same, Retry-After 5", work: llm(1000), server: refusing(refuse(429, 5), busy, 300), ratio: 1.2, worst: 1.3, refused: 2, gone: 1},
		{id: "14c", what: "the same, Retry-After an hour, the first item", work: llm(1000), server: refusing(refuse(429, 3600), busy, 0), ratio: 1.1, refused: 2, gone: 1},
		{id: "14d", what: "the same, Retry-After a day, in mid-run", work: llm(1000), server: refusing(refuse(429, day), busy, 300), ratio: 1.1, refused: 2, gone: 1},
		{id: "14e", what: "no cap, 64 wide, 1 s, three items 429 for ever, Retry-After 30", work: atMost(socket(2000, 1), 64), server: refusing(refuse(429, 30), capped(999, 0), 300, 900, 901), ratio: 1.25, refused: 2, gone: 3},
		{id: "14f", what: "no cap, 64 wide, 1 s, one item 500 for ever", work: atMost(socket(2000, 1), 64), server: refusing(refuse(500, -1), capped(999, 0), 10), ratio: 1.15, refused: 1, gone: 1},
		{id: "14g", what: "cap 10, 30 items of 2 s, too many at once, Retry-After 60", work: atMost(socket(30, 2), 30), server: crowd, ratio: 3.3, refused: 20},
	}
}

func TestOneItemDecidesForNobody(t *testing.T) {
	for _, m := range single() {
		t.Run(m.id, func(t *testing.T) {
			t.Parallel()
			for seed := uint64(1); seed <= 3; seed++ {
				m.judge(t, play(t, m, seed, 1))
			}
		})
	}
}

// A gate that an hour's wait has shut is tested by the smallest other item that
// waits; accepted, it opens for all but the refused item.
func TestGateIsTestedByAnotherItem(t *testing.T) {
	for _, tt := range []struct {
		what   string
		answer Signal
		open   bool
	}{{"accepted", Good, true}, {"refused too", Throttled, false}} {
		d := newDesk(t, Config{Start: 2})
		fs := d.fill()
		order := fs[0].order
		d.wait(10 * time.Millisecond)
		d.land(fs[0], Throttled, time.Hour)
		small, large := &waiter{demand: demand{order: 11, input: 5, notAfter: never}, flight: &flight{}}, &waiter{demand: demand{order: 10, input: 50, notAfter: never}, flight: &flight{}}
		again := &waiter{demand: demand{order: order, notAfter: never}, flight: &flight{}}
		for _, w := range []*waiter{again, large, small} {
			d.l.enqueue(w)
		}
		d.wait(testAfter - 1)
		if small.end == launched {
			t.Fatalf("%s: got the test before its time", tt.what)
		}
		d.wait(1)
		if small.end != launched || large.end == launched || again.end == launched {
			t.Fatalf("%s: got %d %d %d launched, want the smallest other item alone", tt.what, small.end, large.end, again.end)
		}
		d.wait(10 * time.Millisecond)
		d.land(small.flight, tt.answer, 2*time.Hour)
		d.land(fs[1], Nothing, 0)
		if open := large.end == launched; open != tt.open {
			t.Errorf("%s: got the others launched: %t, want %t", tt.what, open, tt.open)
		}
		if !tt.open && d.l.gate.until < 2*time.Hour {
			t.Errorf("%s: got a gate until %v, want the longer of both waits", tt.what, d.l.gate.until)
		}
		d.wait(time.Minute)
		if large.end != launched {
			t.Errorf("%s: got no second test after a minute", tt.what)
		}
	}
}

// After a gate another item goes first.
func TestAfterAGateAnotherItemGoesFirst(t *testing.T) {
	d := newDesk(t, Config{Start: 1})
	f := d.launch()
	d.land(f, Throttled, time.Second)
	again, other := &waiter{demand: demand{order: f.order, notAfter: never}, flight: &flight{}}, &waiter{demand: demand{order: 9, notAfter: never}, flight: &flight{}}
	d.l.enqueue(again)
	d.l.enqueue(other)
	d.wait(1100 * time.Millisecond)
	if other.end != launched || again.end == launched {
		t.Error("got the refused item first after its gate, want another one")
	}
}

func TestTooManyAtOnceShutsNoGate(t *testing.T) {
	d := newDesk(t, Config{Start: 10})
	fs := d.fill()
	d.wait(10 * time.Millisecond)
	d.l.done(d.now, fs[9], Outcome{Signal: Throttled, Hint: time.Minute, Concurrent: true})
	d.limit(9)
	if d.l.gate.until > d.now {
		t.Errorf("got a gate until %v, want none", d.l.gate.until)
	}
}
