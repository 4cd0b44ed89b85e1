package fleet

import (
	"testing"
	"time"
)

// The limit at most doubles in half a second, from what it ever was: a look that
// comes late makes no leap, and what was cut comes back at once.
func TestALimitGrowsSteadily(t *testing.T) {
	t.Parallel()
	now := time.Now()
	l := &lane{most: 4, looked: now}
	look := func(want int, after time.Duration) int {
		now = now.Add(after)
		return l.within(want, now)
	}
	for i, c := range []struct {
		want  int
		after time.Duration
		got   int
	}{
		{4, 100 * time.Millisecond, 4},
		{100, 0, 5}, // by one at each look at least
		{100, 25 * time.Millisecond, 6},
		{100, time.Hour, 7}, // an hour counts as 100 ms
		{3, 100 * time.Millisecond, 3},
		{7, 0, 7},
		{7, time.Hour, 7},
	} {
		if got := look(c.want, c.after); got != c.got {
			t.Errorf("look %d for %d after %v: got %d, want %d", i+1, c.want, c.after, got, c.got)
		}
	}
	l.most = 64
	for range 5 {
		look(10_000, 100*time.Millisecond)
	}
	if l.most < 120 || l.most > 128 {
		t.Errorf("after 500 ms at 64: got %d, want 120 to 128", l.most)
	}
	if got := look(130, 100*time.Millisecond); got != 130 {
		t.Errorf("got %d, want 130: no more than was asked for", got)
	}
}
