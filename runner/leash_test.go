package runner

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"llmbatch/runner/provider"
)

func TestLeash(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		run, cut := context.WithCancelCause(t.Context())
		s := leash{run: run}
		cause := func(after time.Duration) error {
			time.Sleep(after)
			synctest.Wait()
			return context.Cause(s.ctx)
		}

		s.until(time.Time{}, time.Now())
		if err := cause(1000 * time.Hour); err != nil {
			t.Errorf("without a deadline: got %v, want it open", err)
		}
		s.loose()

		now := time.Now()
		first := s.until(now.Add(time.Second), now)
		if err := cause(999 * time.Millisecond); err != nil {
			t.Errorf("before the deadline: got %v, want it open", err)
		}
		s.loose()
		now = time.Now()
		if again := s.until(now.Add(time.Second), now); again != first {
			t.Error("the second attempt: got a new context, want the same")
		}
		if err := cause(time.Second); !errors.Is(err, provider.ErrAttemptTimeout) {
			t.Errorf("at the deadline: got %v, want a timeout", err)
		}
		s.loose()
		now = time.Now()
		if next := s.until(now.Add(time.Hour), now); next == first || next.Err() != nil {
			t.Errorf("after a timeout: got the old context or %v, want an open one", next.Err())
		}
		s.loose()
		if err := cause(2 * time.Hour); err != nil {
			t.Errorf("between attempts: got %v, want it open", err)
		}

		for _, c := range []struct{ before, after time.Duration }{{time.Second, time.Minute}, {time.Hour, time.Second}} {
			s.until(time.Now().Add(c.before), time.Now())
			s.loose()
			s.until(time.Now().Add(c.after), time.Now())
			if err := cause(c.after - time.Millisecond); err != nil {
				t.Errorf("%v after an attempt of %v: got %v early, want it open", c.after, c.before, err)
			}
			if err := cause(time.Millisecond); !errors.Is(err, provider.ErrAttemptTimeout) {
				t.Errorf("%v after an attempt of %v: got %v, want a timeout", c.after, c.before, err)
			}
			s.loose()
		}

		now = time.Now()
		if err := s.until(now.Add(-time.Second), now).Err(); err == nil {
			t.Error("a deadline in the past: got an open context, want none")
		}
		s.loose()
		now = time.Now()
		last := s.until(now.Add(time.Hour), now)
		cut(errCut)
		if err := context.Cause(last); !errors.Is(err, errCut) {
			t.Errorf("the run is cut: got %v, want its cause", err)
		}
		s.drop()
	})
}
