package input

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"llmbatch/input/jsonl"
)

// Bounds are a line's "options": the budgets of this item alone. Each takes the place of
// the run's flag of that name; nil leaves the flag's.
type Bounds struct {
	// ItemBudget and AttemptTimeout are above 0. MaxWait is the longest single wait;
	// 0 leaves it to the budgets.
	ItemBudget, AttemptTimeout, MaxWait *time.Duration
	// MaxAttempts counts every request, 0: no count. MaxErrors is above 0.
	MaxAttempts, MaxErrors *int
}

var boundNames = []string{"item_budget", "attempt_timeout", "max_attempts", "max_errors", "max_wait"}

// ownOptions tells whether the line's "options" are ours: always beside "prompt", and
// where other members are the user's own, if one of the names is.
func (p *parser) ownOptions() bool {
	for w := jsonl.Members(p.raw(kOptions)); w.Next(); {
		if slices.Contains(boundNames, string(w.Name)) {
			return true
		}
	}
	return false
}

// bounds reads the line's "options".
func (p *parser) bounds(it *Item) *LineError {
	v, bad := p.typed(kOptions, '{')
	if v == nil || bad != nil {
		return bad
	}
	m, _ := p.member(kOptions)
	it.Bounds = &Bounds{}
	for w := jsonl.Members(v); w.Next(); {
		name := string(w.Name)
		if jsonl.Kind(w.Value) == "null" {
			continue
		}
		var what error
		switch name {
		case "item_budget":
			it.Bounds.ItemBudget, what = span(w.Value, false)
		case "attempt_timeout":
			it.Bounds.AttemptTimeout, what = span(w.Value, false)
		case "max_wait":
			it.Bounds.MaxWait, what = span(w.Value, true)
		case "max_attempts":
			it.Bounds.MaxAttempts, what = count(w.Value, 0)
		case "max_errors":
			it.Bounds.MaxErrors, what = count(w.Value, 1)
		default:
			bad := badAt(m.start+w.NameAt, `unknown member %.40q in "options"`, name)
			bad.Hint = "options are " + quoted(boundNames)
			if near := nearest(name, boundNames); near != "" {
				bad.Hint = fmt.Sprintf("did you mean %q?", near)
			}
			return bad
		}
		if what != nil {
			return badAt(m.start+w.At, "%q is %.30s, want %v", name, w.Value, what)
		}
	}
	return nil
}

func span(v []byte, zero bool) (*time.Duration, error) {
	d, err := time.ParseDuration(jsonl.Text(v))
	if err != nil || d < 0 || d == 0 && !zero {
		return nil, fmt.Errorf(`a time such as "90s" or "6h"`)
	}
	return &d, nil
}

func count(v []byte, least int) (*int, error) {
	n, err := strconv.Atoi(string(v))
	if err != nil || n < least {
		return nil, fmt.Errorf("a whole number from %d on", least)
	}
	return &n, nil
}
