package runner

import (
	"container/heap"
	"time"
)

// Bounds of what is kept of items that were read and never sent.
const (
	mostParked      = 4096
	mostParkedBytes = 64 << 20
)

// later is a heap of tasks by the time before which they may not leave.
type later []*task

func (h later) Len() int           { return len(h) }
func (h later) Less(i, j int) bool { return h[i].notBefore.Before(h[j].notBefore) }
func (h later) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *later) Push(x any)        { *h = append(*h, x.(*task)) }
func (h *later) Pop() any {
	o := *h
	t := o[len(o)-1]
	*h = o[:len(o)-1]
	return t
}

// shelf is what the dispatcher holds back.
type shelf struct {
	later  later
	parked int // in the lanes' queues
	bytes  int // of both
}

func (s *shelf) full() bool { return s.parked+len(s.later) >= mostParked || s.bytes >= mostParkedBytes }

// dispatch is the one place from which items that were never sent are launched.
// It returns when all are launched or nothing may be launched any more.
func (r *Runner) dispatch() {
	var s shelf
	tasks := r.tasks
	for r.intake.Err() == nil {
		r.dueNow(&s)
		if r.launchParked(&s) {
			continue
		}
		if tasks == nil && s.parked == 0 && len(s.later) == 0 {
			return
		}
		if s.parked > 0 && r.allLate() {
			r.cutByEnd.Store(true)
			r.halt(stop{reason: BudgetEnded, message: "every lane is shut until after the run's end"})
			break
		}
		r.noteDue(&s)
		in := tasks
		if s.full() || s.parked > 0 && !r.otherLaneFree() {
			in = nil // reading waits
		}
		select {
		case t, ok := <-in:
			if !ok {
				tasks = nil
				continue
			}
			r.take(&s, t)
		case <-r.woken:
		case <-s.due():
		case <-r.intake.Done():
		}
	}
	r.unsent.Add(int64(s.parked + len(s.later)))
	r.waiting.Add(-int64(len(s.later)))
	s.later = nil
	r.noteDue(&s)
}

// noteDue tells Status when the first of later is due.
func (r *Runner) noteDue(s *shelf) {
	due := int64(0)
	if len(s.later) > 0 {
		due = s.later[0].notBefore.UnixNano()
	}
	r.firstDue.Store(due)
}

// take puts a task where launchParked finds it.
func (r *Runner) take(s *shelf, t *task) {
	if !t.notBefore.IsZero() {
		r.forget(t)
		heap.Push(&s.later, t)
		r.waiting.Add(1)
		s.bytes += t.bytes()
		return
	}
	s.park(t)
}

func (s *shelf) park(t *task) {
	t.lane.parked = append(t.lane.parked, t)
	s.parked++
	s.bytes += t.bytes()
}

// dueNow parks the tasks whose time has come.
func (r *Runner) dueNow(s *shelf) {
	for len(s.later) > 0 && !s.later[0].notBefore.After(time.Now()) {
		t := heap.Pop(&s.later).(*task)
		r.waiting.Add(-1)
		s.bytes -= t.bytes()
		s.park(t)
	}
}

// due fires when the next of later is due; nil if there is none.
func (s *shelf) due() <-chan time.Time {
	if len(s.later) == 0 {
		return nil
	}
	return time.After(time.Until(s.later[0].notBefore))
}

// launchParked launches what may leave now and reports whether anything did.
func (r *Runner) launchParked(s *shelf) bool {
	if s.parked == 0 {
		return false
	}
	some := false
	for _, l := range r.allLanes() {
		for len(l.parked) > 0 && r.open.Load() < int64(r.mostOpen) {
			t := l.parked[0]
			size := t.bytes() // once launched it belongs to its own goroutine
			if l.closed.Load() {
				r.unsent.Add(1)
				r.settleNothing(t)
			} else if !r.launch(t) {
				break
			}
			s.bytes -= size
			s.parked--
			l.parked[0] = nil
			l.parked = l.parked[1:]
			some = true
		}
		if len(l.parked) == 0 {
			l.parked = nil
		}
	}
	return some
}

// launch starts a task if its lane and the money allow it.
func (r *Runner) launch(t *task) bool {
	if t.reserved == 0 {
		if ok, _ := r.reserve(t); !ok {
			return false
		}
	}
	p := t.lane.lim.Try(t.work(time.Time{}))
	if p == nil {
		return false
	}
	r.start(t, p)
	return true
}

// otherLaneFree says that a lane without parked items could launch something: a
// known one, or, while a known one is shut, one that has not been seen yet.
func (r *Runner) otherLaneFree() bool {
	lanes := r.allLanes()
	more := len(lanes) < r.c.Lanes
	if len(lanes) == 1 && !more {
		return false
	}
	for _, l := range lanes {
		if len(l.parked) == 0 && l.free() || more && !l.lim.Status().Gate.IsZero() {
			return true
		}
	}
	return false
}

// allLate says that every lane is shut until after the run's end.
func (r *Runner) allLate() bool {
	if r.c.End.IsZero() {
		return false
	}
	for _, l := range r.allLanes() {
		if !l.closed.Load() && !l.lim.Status().Gate.After(r.c.End) {
			return false
		}
	}
	return true
}
