package pacing

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestWaitingItemsLeaveLowestOrderFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{Max: 1, Start: 1})
		p := granted(t, l, Work{Order: 1})
		order := make(chan int64, 3)
		var wg sync.WaitGroup
		defer wg.Wait()
		for _, o := range []int64{9, 3, 5} {
			wg.Go(func() {
				p, err := l.Acquire(t.Context(), Work{Order: o})
				if err != nil {
					t.Errorf("Acquire(%d): got %v, want a permit", o, err)
					return
				}
				order <- o
				<-time.After(time.Second)
				p.Done(Outcome{Signal: Good})
			})
			synctest.Wait()
		}
		p.Done(Outcome{Signal: Good})
		for _, want := range []int64{3, 5, 9} {
			if got := <-order; got != want {
				t.Errorf("got item %d, want %d", got, want)
			}
		}
	})
}

func TestGateHoldsEverybodyForAsLongAsAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{})
		p := granted(t, l, Work{})
		start := time.Now()
		f := p.Done(Outcome{Signal: Throttled, Hint: 2 * time.Second})
		if d := f.Gate.Sub(start); d < 2*time.Second || d > 2100*time.Millisecond {
			t.Errorf("got a gate of %v, want 2 s to 2.1 s", d)
		}
		var late *LateError
		_, err := l.Acquire(t.Context(), Work{NotAfter: start.Add(time.Second)})
		if !errors.As(err, &late) || !late.Until.Equal(f.Gate) {
			t.Errorf("got %v, want a LateError until %v", err, f.Gate)
		}
		granted(t, l, Work{})
		if d := time.Since(start); d < 2*time.Second || d > 2100*time.Millisecond {
			t.Errorf("launched after %v, want 2 s to 2.1 s", d)
		}
	})
}

func TestAcquireEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(Config{Max: 1})
		p := granted(t, l, Work{})
		cause := errors.New("stopped")
		ctx, cancel := context.WithCancelCause(t.Context())
		ended := make(chan error, 1)
		wait := func(ctx context.Context, w Work) {
			go func() { _, err := l.Acquire(ctx, w); ended <- err }()
			synctest.Wait()
		}
		wait(ctx, Work{})
		cancel(cause)
		if err := <-ended; err != cause {
			t.Errorf("cancelled: got %v, want the cause", err)
		}
		start := time.Now()
		wait(t.Context(), Work{NotAfter: start.Add(3 * time.Second)})
		var late *LateError
		if err := <-ended; !errors.As(err, &late) || time.Since(start) != 3*time.Second {
			t.Errorf("out of time: got %v after %v, want a LateError after 3 s", err, time.Since(start))
		}
		wait(t.Context(), Work{NotAfter: start.Add(30 * time.Second)})
		p.Done(Outcome{Signal: Throttled, Hint: time.Minute})
		if err := <-ended; !errors.As(err, &late) || time.Since(start) != 3*time.Second {
			t.Errorf("gate moved: got %v after %v, want a LateError at once", err, time.Since(start))
		}
		wait(t.Context(), Work{})
		l.Close()
		if err := <-ended; err != ErrClosed {
			t.Errorf("closed: got %v, want ErrClosed", err)
		}
		if _, err := l.Acquire(t.Context(), Work{}); err != ErrClosed {
			t.Errorf("after Close: got %v, want ErrClosed", err)
		}
	})
}

func BenchmarkAcquireDone(b *testing.B) {
	l := New(Config{Max: 64, Start: 64})
	for i := 0; b.Loop(); i++ {
		granted(b, l, Work{Order: int64(i)}).Done(Outcome{Signal: Good})
	}
}

// granted waits for a permit.
func granted(t testing.TB, l *Limiter, w Work) *Permit {
	t.Helper()
	p, err := l.Acquire(t.Context(), w)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// offer launches an item that leaves now or not at all.
func (l *lane) offer(now time.Duration, d demand, f *flight) bool {
	w := &waiter{demand: d, flight: f}
	l.enqueue(w)
	l.pump(now)
	l.served = slices.DeleteFunc(l.served, func(o *waiter) bool { return o == w })
	return !l.leave(w) && w.end == launched
}
