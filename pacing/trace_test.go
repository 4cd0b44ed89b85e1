package pacing

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

func TestTrace(t *testing.T) {
	if *only == "" {
		t.Skip()
	}
	for _, m := range models() {
		if m.id != *only {
			continue
		}
		for seed := *firstSeed; seed < *firstSeed+uint64(*seeds); seed++ {
			var next time.Duration
			c := run(t, m, seed, func(c *client) {
				c.lane.logging = *seeds == 1
				if *seeds == 1 {
					for _, ch := range c.lane.changes {
						if ch.reason != "growth" {
							fmt.Println("   ", ch.at.Seconds(), ch.from, ch.to, ch.reason, ch.detail)
						}
					}
					c.lane.changes = nil
					if c.w.now >= next {
						l := c.lane
						fmt.Printf("t=%.2f limit %d w %.1f infl %d ok %d ref %d wait %d plateau %.1f thr %.1f pacer %v %.2f strikes %d\n", c.seconds(), l.limit, l.window.size, c.inFlight, c.ok, c.refused, c.waiting, l.window.plateau, l.window.threshold, l.pacer.on, l.pacer.rate, l.doubt.strikes)
						next = c.w.now + time.Second/2
					}
				}
			})
			fmt.Println(m.id, seed, c.last/oracle(m, seed), c.refused, c.launches, c.last)
		}
	}
	_ = slices.Max[[]int]
}
