package runner

import (
	"slices"
	"sync"
	"time"

	"llmbatch/output"
	"llmbatch/runner/provider"
)

// convincing is how many different items in a row have to get an answer that would
// end the run, or close their lane, for that to happen.
const convincing = 5

// road is a path on a base URL with its key, and the model where an answer is about
// that.
type road struct {
	target *Target
	path   string
	model  string
}

// weighing holds back the verdicts on the run or a lane that one item's answer
// seems to give. A firewall's page, or a file that is gone, may be about the item
// alone: then others are answered on the same road, and the item has failed. If item
// after item gets such an answer and none is answered between, it is true of all.
// Before the first answer on a road, nobody can tell yet: the items wait for one.
type weighing struct {
	mu    sync.Mutex
	roads map[road]*scales
}

// scales are one road's: whether it answered, whether it was found closed to all, and
// the items that wait for the verdict.
type scales struct {
	answered  bool
	convicted bool
	held      []*accused
}

type accused struct {
	item  *item
	err   *provider.Error
	begun time.Time // when its request began
	// decided: the item has its row, and counts only as one of several in a row.
	decided bool
}

// weighs says that an answer is weighed. A refused key, a model that does not exist,
// money and a quota hold for all, and so does what no server has said.
func weighs(e *provider.Error) bool {
	about := e.Scope == provider.WholeLane && e.Class == provider.Rejected // the model, by name
	return e.Status >= 400 && !about && e.Status != 401 && e.Status != 407 && e.Status != 429 && e.Class != provider.SpendCap
}

func roadOf(i *item, scope provider.Scope) road {
	k := road{target: i.lane.target, path: i.call.Path}
	if scope == provider.WholeLane {
		k.model = i.lane.model
	}
	return k
}

func (w *weighing) scales(k road) *scales {
	if w.roads == nil {
		w.roads = map[road]*scales{}
	}
	s := w.roads[k]
	if s == nil {
		s = &scales{}
		w.roads[k] = s
	}
	return s
}

// answered says that an item got an answer to a request begun then, and returns those
// that have failed by that: their requests began earlier, so the road is open still.
func (w *weighing) answered(i *item, begun time.Time) (failed []*accused) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, scope := range []provider.Scope{provider.WholeRun, provider.WholeLane} {
		s := w.scales(roadOf(i, scope))
		s.answered = true
		held := s.held
		s.held = nil
		for _, a := range held {
			if a.decided {
				continue
			}
			if a.begun.Before(begun) {
				failed = append(failed, a)
			} else {
				s.held = append(s.held, a)
			}
		}
	}
	return failed
}

// accuse takes an answer in and tells what becomes of those that wait: true means
// that it holds for all of them. With now nobody waits, as in a fleet's worker, where
// a row that is held back keeps a place from others: an item has failed at once where
// the road has answered, and else it holds.
func (w *weighing) accuse(i *item, x *exchange, now bool) (due []*accused, holds bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := x.err
	s := w.scales(roadOf(i, e.Scope))
	a := &accused{item: i, err: e, begun: x.started}
	s.held = append(s.held, a)
	if now && len(s.held) < convincing && !s.convicted {
		a.decided = true
		return []*accused{a}, !s.answered
	}
	if s.convicted || len(s.held) >= convincing {
		due, s.held, s.convicted = s.held, nil, true
		return due, true
	}
	return nil, false
}

// rest returns what nobody has decided when all others have ended: it holds where
// nothing was ever answered.
func (w *weighing) rest() (failed, held []*accused) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range w.roads {
		s.held = slices.DeleteFunc(s.held, func(a *accused) bool { return a.decided })
		if s.answered {
			failed = append(failed, s.held...)
		} else {
			held = append(held, s.held...)
		}
		s.held = nil
	}
	return failed, held
}

// weigh decides what an answer that would end the run or close the lane does.
func (r *Runner) weigh(i *item, x *exchange) {
	due, holds := r.weighing.accuse(i, x, r.c.Defer != nil)
	if holds {
		r.convict(due)
	} else {
		r.acquit(due)
	}
}

// convict ends the run, or the lane, for what these items were told.
func (r *Runner) convict(due []*accused) {
	for _, a := range due {
		if a.err.Scope == provider.WholeLane {
			r.closeLane(a.item.lane, a.err, laneMessage(a.item.lane, a.err), false)
		} else {
			r.abort(a.err)
		}
		if a.decided && len(due) > 1 {
			continue // it has its row
		}
		a.item.finish(r.ending.openStatus(), a.err, "lane_closed")
	}
}

// acquit fails the items that were told what others were not.
func (r *Runner) acquit(due []*accused) {
	for _, a := range due {
		a.item.finish(output.Failed, a.err, "")
	}
}

// settleVerdicts decides at the end of a run what is still held back.
func (r *Runner) settleVerdicts() {
	failed, held := r.weighing.rest()
	r.acquit(failed)
	r.convict(held)
}
