package pacing

import (
	"testing"
	"time"
)

// FuzzLane plays schedules of events: whatever a server does, the rules hold.
// Each step is two bytes: what happens, and how.
func FuzzLane(f *testing.F) {
	f.Add([]byte{0, 0, 0, 0, 3, 1, 4, 9, 0, 0, 1, 7}, byte(0))
	f.Add([]byte{0, 0, 0, 0, 0, 0, 3, 0, 3, 0, 3, 0, 3, 0, 8, 200, 0, 0, 9, 1}, byte(1))
	f.Add([]byte{0, 0, 0, 0, 5, 0, 5, 1, 5, 2, 5, 3, 5, 4, 8, 255, 2, 0, 9, 0, 10, 3}, byte(7))
	f.Add([]byte{0, 0, 6, 3, 6, 90, 8, 255, 0, 0, 11, 255, 11, 0, 7, 1}, byte(12))
	f.Add([]byte("0000000000000000000000Ac00008000"), byte(2))
	f.Fuzz(playSchedule)
}

func playSchedule(t *testing.T, steps []byte, conf byte) {
	c := Config{Max: 1 + int(conf>>4), Start: int(conf & 7), Fixed: conf&8 != 0, RPM: float64(conf%3) * 600, TPM: float64(conf%5) * 1e5}
	d := newDesk(t, c)
	d.l.logging = true
	var up []*flight
	var queued []*waiter
	for i := 0; i+1 < len(steps) && i < 2000; i += 2 {
		arg := steps[i+1]
		pick := func() *flight {
			if len(up) == 0 {
				return nil
			}
			k := int(arg) % len(up)
			x := up[k]
			up = append(up[:k], up[k+1:]...)
			return x
		}
		gate := d.l.gate.until
		switch op := steps[i] % 12; op {
		case 0:
			if x := d.launch(); x != nil {
				if d.now < gate && d.l.gate.test.flight != x { // one request may test a gate
					t.Fatalf("launch at %v, gate %v", d.now, gate)
				}
				up = append(up, x)
			}
		case 1, 2, 3, 4, 5, 6:
			if x := pick(); x != nil {
				d.l.done(d.now, x, outcomeOf(Signal(op-1), arg))
				d.l.done(d.now, x, Outcome{Signal: Throttled}) // a second time: ignored
			}
		case 7:
			d.wait(time.Duration(arg) * time.Microsecond)
		case 8:
			d.wait(time.Duration(arg) * 100 * time.Millisecond)
		case 9:
			w := &waiter{demand: demand{order: int64(arg), input: float64(arg), notAfter: never}, flight: &flight{}}
			if arg&1 != 0 {
				w.notAfter = d.now + time.Duration(arg)*time.Second
			}
			d.l.enqueue(w)
			queued = append(queued, w)
		case 10:
			if len(queued) > 0 {
				d.l.leave(queued[int(arg)%len(queued)])
			}
		case 11:
			d.l.pump(d.now + time.Duration(arg)) // a clock that steps a little
			d.now += time.Duration(arg)
		}
		again := d.l.pump(d.now)
		up = append(up, landedQueue(t, d, &queued)...)
		checkLane(t, d, len(up), again)
	}
	d.l.close()
	landedQueue(t, d, &queued)
	if len(queued) > 0 || d.launch() != nil {
		t.Fatalf("after close: %d still wait, or a launch", len(queued))
	}
}

// outcomeOf makes up what came back.
func outcomeOf(s Signal, arg byte) Outcome {
	o := Outcome{Signal: s, Input: float64(arg), Output: float64(arg) * 3}
	if arg&1 != 0 {
		o.Hint = time.Duration(arg) * 50 * time.Millisecond
	}
	if arg&2 != 0 {
		o.Quota = []Quota{{Resource(arg >> 6), float64(arg) * 10, float64(arg >> 2), time.Duration(arg>>3) * time.Second}}
	}
	return o
}

// landedQueue takes in how waits have ended.
func landedQueue(t *testing.T, d *desk, queued *[]*waiter) (up []*flight) {
	kept := (*queued)[:0]
	for _, w := range *queued {
		switch w.end {
		case waiting:
			kept = append(kept, w)
		case launched:
			up = append(up, w.flight)
		case late:
			if d.now < w.notAfter && w.until <= w.notAfter {
				t.Fatalf("late at %v, not after %v, gate %v", d.now, w.notAfter, w.until)
			}
		}
	}
	*queued = kept
	d.l.served = d.l.served[:0]
	return up
}

func checkLane(t *testing.T, d *desk, up int, again time.Duration) {
	l := d.l
	p := &l.permits
	free := p.max - p.taken - p.parked
	switch {
	case p.taken != up:
		t.Fatalf("%d permits taken for %d requests", p.taken, up)
	case free < 0 || !p.sem.TryAcquire(int64(free)) || p.sem.TryAcquire(1):
		t.Fatalf("%d free, %d taken, %d parked of %d", free, p.taken, p.parked, p.max)
	case free > 0 && p.taken+free > l.limit:
		t.Fatalf("%d free and %d taken at a limit of %d", free, p.taken, l.limit)
	case l.limit < 1 || l.limit > p.max || l.fixed && l.limit != p.max:
		t.Fatalf("limit %d of %d, fixed %t", l.limit, p.max, l.fixed)
	case again <= d.now:
		t.Fatalf("asks to be called again at %v, at %v", again, d.now)
	case l.queue.Len() > 0 && again == never && up == 0:
		t.Fatalf("nothing on the wire, someone waits, and nothing will ever happen: gate %v, limit %d", l.gate.until, l.limit)
	}
	p.sem.Release(int64(free))
	n := 0
	for f := l.flights.first; f != nil; f = f.next {
		n++
	}
	if n != up {
		t.Fatalf("%d flights listed for %d requests", n, up)
	}
}
