package pacing

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// shop is a server for goroutines: it holds so many at once, is deaf for a
// while, and takes a fixed time.
type shop struct {
	cap     int64
	deaf    time.Duration
	opened  time.Time
	takes   time.Duration
	inside  atomic.Int64
	peak    atomic.Int64
	refused atomic.Int64
}

func (s *shop) visit() Signal {
	n := s.inside.Add(1)
	defer s.inside.Add(-1)
	for p := s.peak.Load(); n > p && !s.peak.CompareAndSwap(p, n); p = s.peak.Load() {
	}
	if time.Since(s.opened) < s.deaf || n > s.cap {
		<-time.After(time.Millisecond)
		s.refused.Add(1)
		return Throttled
	}
	<-time.After(s.takes)
	return Good
}

// shopTrip runs items against a shop as a runner would, and tells how long it
// took.
func shopTrip(t *testing.T, c Config, s *shop, items int) time.Duration {
	t.Helper()
	l := New(c)
	s.opened = time.Now()
	var wg sync.WaitGroup
	for i := range int64(items) {
		p := granted(t, l, Work{Order: i})
		wg.Go(func() {
			for {
				signal := s.visit()
				p.Done(Outcome{Signal: signal})
				if signal == Good {
					return
				}
				var err error
				if p, err = l.Acquire(t.Context(), Work{Order: i}); err != nil {
					t.Errorf("item %d: %v", i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if st := l.Status(); st.InFlight != 0 || st.Waiting != 0 || st.Peak < 1 {
		t.Errorf("got %+v at the end, want nothing in flight and nobody waiting", st)
	}
	l.Close()
	return time.Since(s.opened)
}

func TestTripsWithGoroutines(t *testing.T) {
	for _, tt := range []struct {
		what    string
		config  Config
		shop    *shop
		items   int
		most    time.Duration
		refused int64
		peak    int64
	}{
		{"cap 3, twelve items", Config{}, &shop{cap: 3, takes: 50 * time.Millisecond}, 12, 260 * time.Millisecond, 2, 4},
		{"one second deaf, start 40", Config{Start: 40}, &shop{cap: 1000, deaf: time.Second, takes: 20 * time.Millisecond}, 2000, 6 * time.Second, 60, 256},
		{"one second deaf, start 4", Config{}, &shop{cap: 1000, deaf: time.Second, takes: 20 * time.Millisecond}, 2000, 6 * time.Second, 20, 256},
		// All end and begin in one moment, in random order: harsher than a socket.
		{"cap 20, asked for 200", Config{Max: 200}, &shop{cap: 20, takes: 200 * time.Millisecond}, 1000, 20 * time.Second, 60, 40},
		{"fixed", Config{Max: 50, Fixed: true}, &shop{cap: 1000, takes: 100 * time.Millisecond}, 500, 1010 * time.Millisecond, 0, 50},
		{"told 600 a minute", Config{RPM: 600}, &shop{cap: 1000, takes: 100 * time.Millisecond}, 100, 9500 * time.Millisecond, 0, 10},
	} {
		t.Run(tt.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				took := shopTrip(t, tt.config, tt.shop, tt.items)
				if took > tt.most || tt.shop.refused.Load() > tt.refused || tt.shop.peak.Load() > tt.peak {
					t.Errorf("got %v, %d refused, %d at once, want ≤ %v, %d and %d", took, tt.shop.refused.Load(), tt.shop.peak.Load(), tt.most, tt.refused, tt.peak)
				}
			})
		})
	}
}

// C15: an item refused over and over is sent again and again, never failed here.
func TestItemRefusedFiftyTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{})
		p := granted(t, l, Work{Order: 1})
		for i := range 50 {
			if f := p.Done(Outcome{Signal: Throttled}); f.Outage || f.Gate.IsZero() {
				t.Fatalf("refusal %d: got %+v, want a gate and no outage", i, f)
			}
			var err error
			if p, err = l.Acquire(t.Context(), Work{Order: 1}); err != nil {
				t.Fatalf("refusal %d: got %v, want a permit", i, err)
			}
		}
		if f := p.Done(Outcome{Signal: Good}); !f.Gate.IsZero() {
			t.Errorf("got gate %v after an answer, want none", f.Gate)
		}
		l.Close()
	})
}

// C04, C11: many items meet at one gate; none leaves early, and they do not
// all leave at once.
func TestGateReleasesGently(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{Start: 100})
		var permits []*Permit
		for i := range int64(100) {
			permits = append(permits, granted(t, l, Work{Order: i}))
		}
		<-time.After(30 * time.Millisecond)
		start := time.Now()
		var wg sync.WaitGroup
		var mu sync.Mutex
		var left []time.Duration
		for i, p := range permits {
			wg.Go(func() {
				p.Done(Outcome{Signal: Throttled, Hint: 171 * time.Second})
				if _, err := l.Acquire(t.Context(), Work{Order: int64(i)}); err != nil && !errors.Is(err, ErrClosed) {
					t.Errorf("item %d: %v", i, err)
					return
				}
				mu.Lock()
				left = append(left, time.Since(start))
				mu.Unlock()
			})
		}
		<-time.After(171*time.Second + 110*time.Millisecond)
		synctest.Wait()
		mu.Lock()
		if len(left) < 1 || len(left) > 3 || left[0] < 171*time.Second {
			t.Errorf("got %d launches just after the gate, the first at %v, want 1 to 3, not before 171 s", len(left), left)
		}
		mu.Unlock()
		l.Close()
		wg.Wait()
	})
}

func TestCancelledWaiterGivesItsPermitBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{Max: 1})
		for range 200 {
			p := granted(t, l, Work{}) // one that was lost would be missed here
			ctx, cancel := context.WithCancel(t.Context())
			var wg sync.WaitGroup
			wg.Go(func() {
				if p, err := l.Acquire(ctx, Work{}); err == nil {
					p.Done(Outcome{})
				}
			})
			wg.Go(cancel)
			wg.Go(func() { p.Done(Outcome{}) })
			wg.Wait()
		}
		if st := l.Status(); st.InFlight != 0 || st.Waiting != 0 {
			t.Errorf("got %+v, want an idle lane", st)
		}
		l.Close()
	})
}

func TestStatusTellsWhyItIsShut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var changes []Change
		l := New(Config{Log: func(c Change) { mu.Lock(); changes = append(changes, c); mu.Unlock() }})
		p := granted(t, l, Work{})
		if st := l.Status(); st.Limit != 4 || st.InFlight != 1 || !st.Gate.IsZero() || st.Reason != "" || st.Floor {
			t.Errorf("got %+v, want a limit of 4, one in flight, open", st)
		}
		p.Done(Outcome{Signal: Overloaded, Hint: time.Minute})
		if st := l.Status(); time.Until(st.Gate) < time.Minute || st.Reason == "" || st.Outage {
			t.Errorf("got %+v, want a gate of a minute and a reason", st)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(changes) < 2 || changes[len(changes)-1].Reason != "gate" || changes[0].At.IsZero() {
			t.Errorf("got %+v, want the cut and the gate", changes)
		}
		l.Close()
	})
}
