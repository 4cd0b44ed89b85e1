package pacing

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Three lanes under one ceiling share it evenly, whoever came first, and one that is
// left alone uses all of it.
func TestCeilingIsShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const lanes, each = 3, 120
		ceiling := NewCeiling(6)
		start := time.Now()
		var mu sync.Mutex
		up, peak := 0, 0
		var done [lanes]map[int]int // second → answers
		for n := range done {
			done[n] = map[int]int{}
		}
		count := func(d int) {
			mu.Lock()
			defer mu.Unlock()
			up += d
			peak = max(peak, up)
		}
		var wg sync.WaitGroup
		for n := range lanes {
			l := New(Config{Max: 6, Fixed: true, Ceiling: ceiling})
			defer l.Close()
			items := each
			if n == 0 {
				items = 2 * each
			}
			for i := range items {
				ticket := l.Enqueue(Work{Order: int64(i)})
				wg.Go(func() {
					p, err := ticket.Wait(t.Context())
					if err != nil {
						t.Error(err)
						return
					}
					count(+1)
					<-time.After(100 * time.Millisecond)
					count(-1)
					mu.Lock()
					done[n][int(time.Since(start).Seconds()-0.05)]++
					mu.Unlock()
					p.Done(Outcome{Signal: Good})
				})
			}
		}
		wg.Wait()
		if peak != 6 {
			t.Errorf("got %d at once, want the ceiling of 6", peak)
		}
		for n := range lanes {
			if got := done[n][3]; got < 18 || got > 22 {
				t.Errorf("lane %d: got %d answers in the fourth second, want 20: a third", n, got)
			}
		}
		if d := time.Since(start); d > 8100*time.Millisecond {
			t.Errorf("took %v, want 8 s: the ceiling is used up by whoever is left", d)
		}
	})
}

// A lane whose turn comes when it can't use it passes it on.
func TestCeilingPassesOn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ceiling := NewCeiling(2)
		a, b := New(Config{Ceiling: ceiling}), New(Config{Ceiling: ceiling})
		defer a.Close()
		defer b.Close()
		p, q := granted(t, a, Work{}), granted(t, a, Work{})
		shut := a.Enqueue(Work{Order: 1})
		other := b.Enqueue(Work{Order: 1})
		q.Done(Outcome{Signal: Throttled, Hint: time.Minute}) // a is shut, and it is its turn
		start := time.Now()
		if _, err := other.Wait(t.Context()); err != nil || time.Since(start) > 0 {
			t.Errorf("got %v after %v, want a permit at once", err, time.Since(start))
		}
		p.Done(Outcome{Signal: Good})
		if _, err := shut.Wait(t.Context()); err != nil || time.Since(start) < time.Minute {
			t.Errorf("got %v after %v, want a permit after a minute", err, time.Since(start))
		}
	})
}
