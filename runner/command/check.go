package command

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"llmbatch/input"
	"llmbatch/output"
)

// found is what the check of the input found, before anything is sent. All
// counts are of the items that the run is about.
type found struct {
	items, bad int
	todo       int                   // need work
	old        map[output.Status]int // rows of earlier runs
	changed    []string              // lines of items that are done and have changed: the first ten
	changes    int                   // how many there are
	lanes      map[string]bool       // provider and model of the items that need work
	ids        int                   // of --only-ids that were seen
	family     string                // the last good line's provider

	// With --dedupe: the requests of the items so far, true where several items have
	// one, and the row that has a request's answer already.
	requests map[uint64]bool
	answers  map[uint64]int64

	first  *input.Item           // the first that needs work; only its place is set
	before map[output.Status]int // rows of the items before it
}

// mostNamed is how many lines an error names.
const mostNamed = 10

// check reads the whole input before the first request: every line is read,
// routed and encoded, and compared with its row.
func (s *session) check(ctx context.Context) error { return s.checkEach(ctx, s.compare) }

// checkEach is check with another function for each item, which calls compare.
func (s *session) checkEach(ctx context.Context, each func(*input.Item, uint64) error) error {
	s.found = found{old: map[output.Status]int{}, lanes: map[string]bool{}, requests: map[uint64]bool{}, answers: map[uint64]int64{}}
	err := s.in.Check(ctx, input.CheckFuncs{Prepare: s.hash, Each: each})
	if fault := s.fault.first(); fault != nil {
		return fault
	}
	if err != nil {
		return inputError(ctx, err, s.found.items > 0)
	}
	if err := s.changedError(); err != nil {
		return err
	}
	if s.found.items == 0 {
		return s.nothing()
	}
	for lane := range s.found.lanes {
		family, _, _ := strings.Cut(lane, " ")
		if err := s.router.requireKey(family); err != nil && !s.dry {
			return err
		}
	}
	return s.unpriced()
}

// compare counts an item and finds out whether it needs work.
func (s *session) compare(it *input.Item, hash uint64) error {
	if !s.wants(it) {
		return nil
	}
	f := &s.found
	f.items++
	family, err := s.compareFamily(it)
	if err != nil {
		return err
	}
	if s.ids != nil {
		f.ids++
	}
	if it.Bad != nil {
		f.bad++
	}
	row, ok := s.old(it.Key)
	if ok {
		f.old[row.Status]++
	}
	done := ok && s.isDone(row)
	if done && row.Hash != 0 && hash != 0 && row.Hash != hash {
		if f.changes++; len(f.changed) < mostNamed {
			f.changed = append(f.changed, fmt.Sprintf("%s:%d: %s already has an answer, but its line (or --model, --system) has changed", s.in.Name(), it.Line, it.ID))
		}
		done = s.o.onChanged != "rerun"
	}
	if s.o.dedupe && hash != 0 {
		_, f.requests[hash] = f.requests[hash]
		if done && row.Status == output.OK && row.Hash == hash {
			f.answers[hash] = row.Offset
		}
	}
	if done {
		return nil
	}
	if f.todo++; f.todo == 1 {
		f.first = &input.Item{Index: it.Index, Line: it.Line, Offset: it.Offset}
		f.before = maps.Clone(f.old)
		if ok {
			f.before[row.Status]--
		}
	}
	if it.Bad != nil {
		return nil
	}
	lane := family + " " + orElse(it.Model, s.o.model)
	if !f.lanes[lane] {
		f.lanes[strings.Clone(lane)] = true
	}
	return nil
}

// isDone says that an item with this row needs no work.
func (s *session) isDone(row output.Row) bool {
	return !s.o.rerun && (row.Status == output.OK || row.Status == output.Failed && !s.o.retryFailed)
}

// compareFamily is the provider of a good line. Settings that are for one provider
// must not reach another.
func (s *session) compareFamily(it *input.Item) (string, error) {
	if it.Bad != nil {
		return "", nil
	}
	family, err := s.router.family(it)
	if err != nil {
		return "", err
	}
	f := &s.found
	if f.family != "" && f.family != family {
		if err := s.router.twoProviders(family, it.Line); err != nil {
			return "", err
		}
	}
	f.family = family
	return family, nil
}

func (s *session) changedError() error {
	if s.found.changes == 0 || s.o.onChanged == "rerun" {
		return nil
	}
	msg := strings.Join(s.found.changed, "\n")
	if more := s.found.changes - len(s.found.changed); more > 0 {
		msg += fmt.Sprintf("\n… and %d more", more)
	}
	return usagef("%s changed since the answers in %s; nothing was sent:\n%s", plural(s.found.changes, "line has", "lines have"), s.out, msg).
		hint("--on-changed rerun asks for these again, --fresh starts over, -o FILE keeps both")
}

// nothing says why there is no item at all.
func (s *session) nothing() error {
	switch {
	case s.ids != nil:
		return usagef("%s has none of the ids in %s", s.in.Name(), s.o.onlyIDs)
	case s.shard.n > 1:
		return nil // a small input has empty shards
	default:
		return usagef("%s holds no prompts", s.in.Name()).hint(`a line is a JSON object such as {"id": "q1", "prompt": "…"}`)
	}
}

// unpriced refuses a cap on money for a model without a price.
func (s *session) unpriced() error {
	if s.o.maxCost == 0 {
		return nil
	}
	for lane := range s.found.lanes {
		_, model, _ := strings.Cut(lane, " ")
		if _, ok := s.o.price(model); !ok && model != "" {
			return usagef("--max-cost: there is no price for %s", model).
				hint("add --price-input and --price-output, or the model to prices in the file of --config")
		}
	}
	return nil
}

// inputError turns what the check returned into a usage error with the hint of
// its first line; good says whether there are good lines too.
func inputError(ctx context.Context, err error, good bool) error {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	bad, ok := errors.AsType[*input.Errors](err)
	if !ok {
		return usagef("%w", err)
	}
	f := usagef("%s; nothing was sent:\n%w", plural(bad.Count, "bad line", "bad lines"), err)
	if !good {
		return f.hint("no line before these is good: is it the right file, and are the flags right?")
	}
	if bad.Count == 1 {
		return f.hint("mend it, or run the others with --skip-invalid")
	}
	return f.hint("mend them, or run the others with --skip-invalid")
}
