package runner

import (
	"net/http"
	"strconv"
	"testing"
	"time"

	"llmbatch/output"
	"llmbatch/pacing"
)

// TestPacedRuns holds runner and pacing together to what the simulator's table
// asks of the same servers: time over the ideal, and share refused.
func TestPacedRuns(t *testing.T) {
	const takes = 200 * time.Millisecond
	for _, tt := range []struct {
		what    string
		items   int
		config  pacing.Config
		seeds   int
		server  func() script
		ideal   time.Duration
		ratio   float64
		refused float64 // percent
	}{
		// All end and begin in one moment: harsher than a socket.
		{"cap 20, asked for 200", 1000, pacing.Config{Max: 200}, 1, func() script { return holding(20, takes) }, 10 * time.Second, 1.12, 4},
		{"6,000 a minute, burst 100, headers", 3000, pacing.Config{}, 6, func() script { return refilling(100, 100, takes, true) }, 29200 * time.Millisecond, 1.1, 0.5},
		{"6,000 a minute, burst 100, Retry-After alone", 3000, pacing.Config{}, 1, func() script { return refilling(100, 100, takes, false) }, 29200 * time.Millisecond, 1.15, 5},
	} {
		for seed := range tt.seeds {
			bubble(t, func(t *testing.T) {
				// The headers name whole seconds: where in one a run begins must not matter.
				<-time.After(time.Duration(seed) * 170 * time.Millisecond)
				b := newBench(t, tt.items, tt.server())
				b.c.Pacing = tt.config
				b.c.Seed = uint64(seed + 1)
				if rep := b.run(); rep.Reason != Finished {
					t.Errorf("got reason %v, want Finished", rep.Reason)
				}
				b.want(output.OK, tt.items)
				ratio := b.took().Seconds() / tt.ideal.Seconds()
				refused := 100 * float64(len(b.api.calls)-tt.items) / float64(len(b.api.calls))
				t.Logf("%s, seed %d: %.3f × the ideal time, %.2f %% refused", tt.what, seed, ratio, refused)
				if ratio > tt.ratio || refused > tt.refused {
					t.Errorf("%s, seed %d: got %.3f × the ideal time and %.2f %% refused, want ≤ %.2f and ≤ %.1f", tt.what, seed, ratio, refused, tt.ratio, tt.refused)
				}
			})
		}
	}
}

// holding refuses what is more than n at once.
func holding(n int, takes time.Duration) script {
	var ends []time.Time
	return func(int, string) answer {
		now, held := time.Now(), ends[:0]
		for _, end := range ends {
			if end.After(now) {
				held = append(held, end)
			}
		}
		if ends = held; len(ends) >= n {
			return refuse(429, "rate_limit_error")
		}
		ends = append(ends, now.Add(takes))
		return ok(takes)
	}
}

// refilling is a bucket of so many requests that fills at a rate a second. It
// asks for a wait when it refuses; its headers tell what is left.
func refilling(burst, rate float64, takes time.Duration, headers bool) script {
	level, at := burst, time.Time{}
	return func(int, string) answer {
		now := time.Now()
		if !at.IsZero() {
			level = min(burst, level+rate*now.Sub(at).Seconds())
		}
		at = now
		a := refuse(429, "rate_limit_error", "Retry-After", "1")
		if level >= 1 {
			level--
			a = ok(takes)
			a.header = http.Header{}
		}
		if headers {
			a.header.Set("Anthropic-Ratelimit-Requests-Limit", strconv.Itoa(int(60*rate)))
			a.header.Set("Anthropic-Ratelimit-Requests-Remaining", strconv.Itoa(int(level)))
			full := now.Add(time.Duration((burst - level) / rate * float64(time.Second)))
			a.header.Set("Anthropic-Ratelimit-Requests-Reset", full.UTC().Format(time.RFC3339))
		}
		return a
	}
}
