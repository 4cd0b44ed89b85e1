package runner

import (
	"time"

	"llmbatch/retry"
)

// policy is what decides on another attempt of this item: the run's, with the line's own
// options in the place of its flags.
func (i *item) policy() retry.Policy {
	p := i.r.c.Retry
	if b := i.line.Bounds; b != nil {
		p.MaxAttempts = own(b.MaxAttempts, p.MaxAttempts)
		p.MaxErrors = own(b.MaxErrors, p.MaxErrors)
		p.MaxWait = own(b.MaxWait, p.MaxWait)
	}
	return p
}

// budget is the item's time in this run; 0: none.
func (i *item) budget() time.Duration {
	if b := i.line.Bounds; b != nil {
		return own(b.ItemBudget, i.r.c.ItemBudget)
	}
	return i.r.c.ItemBudget
}

// attemptTimeout bounds one request of the item; 0: nothing does.
func (i *item) attemptTimeout() time.Duration {
	if b := i.line.Bounds; b != nil {
		return own(b.AttemptTimeout, i.r.c.AttemptTimeout)
	}
	return i.r.c.AttemptTimeout
}

func own[T any](line *T, run T) T {
	if line != nil {
		return *line
	}
	return run
}

// capped says that no wait is longer than --max-wait, whatever the server asked for.
func capped(p retry.Policy) bool { return p.OnLongWait == retry.Cap && p.MaxWait > 0 }
