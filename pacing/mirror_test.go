package pacing

import (
	"testing"
	"testing/synctest"
	"time"
)

// mirrored plays a server that holds at most capacity requests of 100 ms against a
// Mirror, whose limit is obeyed late, as other processes do.
func mirrored(m *Mirror, capacity int, d time.Duration) (limit, refused int) {
	limit, next := m.Look(true).Limit, 0
	type request struct {
		key int
		end time.Time
	}
	var up []request
	shut := time.Time{}
	for begun := time.Now(); time.Since(begun) < d; time.Sleep(10 * time.Millisecond) {
		now := time.Now()
		for len(up) > 0 && !up[0].end.After(now) {
			m.Landed(up[0].key, now, Outcome{Signal: Good})
			up = up[1:]
		}
		for len(up) < limit && now.After(shut) {
			m.Launched(next, now)
			if len(up) >= capacity {
				m.Landed(next, now, Outcome{Signal: Throttled, Hint: time.Second})
				shut = now.Add(time.Second)
				refused++
			} else {
				up = append(up, request{next, now.Add(100 * time.Millisecond)})
			}
			next++
		}
		if now.Sub(begun)%(100*time.Millisecond) < 10*time.Millisecond {
			limit = m.Look(true).Limit
		}
	}
	return limit, refused
}

func TestMirrorFindsACeiling(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMirror(Config{Max: 200, Start: 10, Seed: 1}, false)
		limit, refused := mirrored(m, 40, time.Minute)
		if limit < 34 || limit > 44 || refused > 30 { // of about 20,000 requests
			t.Errorf("got limit %d after %d refusals, want about 40 after at most 30", limit, refused)
		}
	})
}

func TestMirrorGoesOnFromALearnedLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMirror(Config{Max: 200, Start: 38, Seed: 1}, true)
		limit, refused := mirrored(m, 40, 4*time.Second)
		if limit < 34 || limit > 44 || refused > 2 {
			t.Errorf("got limit %d after %d refusals, want about 38 and at most 2", limit, refused)
		}
	})
}

func TestMirrorComesBackInStepsAfterAGate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMirror(Config{Max: 64, Start: 64, Seed: 1}, true)
		m.Launched("a", time.Now())
		m.Landed("a", time.Now(), Outcome{Signal: Throttled, Hint: time.Second})
		time.Sleep(200 * time.Millisecond)
		s := m.Look(true)
		if s.Gate.IsZero() || s.Limit > 8 {
			t.Errorf("got %+v, want a gate and a limit of 8 at most", s)
		}
		time.Sleep(1200 * time.Millisecond)
		limits := []int{}
		for range 5 {
			limits = append(limits, m.Look(true).Limit)
			time.Sleep(100 * time.Millisecond)
		}
		if limits[0] >= limits[4] || limits[4] < 50 {
			t.Errorf("got limits %v, want them to come back in steps", limits)
		}
	})
}

func TestMirrorForgetsWhatNobodyTellsOf(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMirror(Config{Max: 10, Start: 10, Seed: 1}, false)
		for i := range 12 { // more than there are permits: they are on the wire all the same
			m.Launched(i, time.Now())
		}
		time.Sleep(time.Second)
		if n := m.Look(false).InFlight; n != 12 {
			t.Errorf("got %d in flight, want 12", n)
		}
		m.Forget(func(key any) bool { return key.(int) >= 2 })
		if n := m.Look(false).InFlight; n != 2 {
			t.Errorf("got %d in flight, want 2", n)
		}
		m.Landed(0, time.Now(), Outcome{Signal: Good})
		m.Landed(0, time.Now(), Outcome{Signal: Good})
		time.Sleep(time.Second)
		if n := m.Look(false).InFlight; n != 1 {
			t.Errorf("got %d in flight, want 1", n)
		}
	})
}
