package retry_test

import (
	"fmt"
	"time"

	"llmbatch/retry"
)

// A server that wants to be left alone for two minutes gets its two minutes, or
// nothing: an item with one minute left gives up at once.
func ExamplePolicy_Next() {
	now := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
	hint, _ := retry.After(nil, []string{"120"}, "", now)
	p := retry.Policy{MaxErrors: 5}

	s := retry.State{Attempts: 1, Throttled: true, Hint: hint, Now: now, ItemEnd: now.Add(30 * time.Minute)}
	d := p.Next(s)
	fmt.Println(d.Reason, d.Wait)

	s.ItemEnd = now.Add(time.Minute)
	d = p.Next(s)
	fmt.Println(d.GiveUp, d.NextAttemptAt.Format(time.TimeOnly))
	// Output:
	// retry_after 2m0s
	// item_budget 00:02:00
}
