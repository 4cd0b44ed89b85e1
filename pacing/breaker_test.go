package pacing

import (
	"testing"
	"time"
)

// Failures come back faster than answers: a few among many on the wire are no
// outage, unless the answers stay away.
func TestFailuresAmongManyAreNoOutage(t *testing.T) {
	d := newDesk(t, Config{Start: 64})
	f := d.launch()
	d.wait(100 * time.Millisecond)
	d.land(f, Good, 0)
	fs := d.fill()
	for _, f := range fs[len(fs)-40:] {
		if f.seq%5 == 0 {
			d.land(f, Failed, 0)
		}
	}
	if d.l.breaker.open() {
		t.Fatal("got an outage after eight failures among 40 launches of one moment, want none")
	}
	d.wait(time.Second)
	if d.land(fs[0], Failed, 0); !d.l.breaker.open() {
		t.Error("got no outage after a second in which nothing was answered, want one")
	}
}

// An answer to any request launched since ends an outage, also if another one
// failed meanwhile.
func TestOneOfManyFailingDoesNotKeepAnOutage(t *testing.T) {
	d := newDesk(t, Config{Start: 40})
	f := d.launch()
	d.wait(100 * time.Millisecond)
	d.land(f, Good, 0)
	for _, f := range d.fill()[:6] {
		d.land(f, Failed, 0)
	}
	if !d.l.breaker.open() {
		t.Fatal("got no outage after six failures in a row, want one")
	}
	d.wait(d.l.gate.until - d.now)
	first := d.launch()
	d.wait(rampPause)
	second, third := d.launch(), d.launch()
	gate := d.l.gate.until
	d.land(third, Failed, 0)
	if d.l.gate.until != gate {
		t.Errorf("got the gate shut again by one failure of three, want it open")
	}
	d.land(second, Failed, 0)
	d.land(first, Good, 0)
	if d.l.breaker.open() {
		t.Error("got an outage after an answer, want none")
	}
}

// A server that fails often is not down, and one that is down costs its items
// hardly an error.
func TestOutagesAreFound(t *testing.T) {
	for _, tt := range []struct {
		what     string
		work     work
		errors   float64
		down     span
		outages  int
		counted  int // failures that count for their items
		slowdown float64
	}{
		{"20 % fail", atMost(socket(5000, 1), 64), 0.2, span{}, 20, 5000, 1.3},
		{"down for 10 s", llm(3000), 0, span{100, 110}, 10, 10, 1.1},
		{"down for a minute, 50 ms", fast(60000), 0, span{10, 70}, 15, 15, 1.5},
		{"down at first", fast(6000), 0, span{0, 60}, 15, 5, 1.5},
	} {
		for seed := range uint64(3) {
			m := model{what: tt.what, work: tt.work, server: failing(64, tt.errors, tt.down)}
			outages, step := 0, 0
			c := run(t, m, seed+1, func(c *client) {
				if c.lane.breaker.step > step {
					outages++
				}
				step = c.lane.breaker.step
			})
			slowdown := c.last / oracle(m, seed+1)
			if outages > tt.outages || c.counted > tt.counted || slowdown > tt.slowdown || tt.down.to > 0 && outages == 0 {
				t.Errorf("%s, seed %d: got %d bursts of outage, %d failures counted, %.2f × the oracle's time; want ≤ %d, %d and %.1f, and an outage: %t",
					tt.what, seed, outages, c.counted, slowdown, tt.outages, tt.counted, tt.slowdown, tt.down.to > 0)
			}
		}
	}
}
