package runner

import (
	"container/heap"
	"slices"
	"sync"
	"time"

	"llmbatch/pacing"
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

// shelf is what was read and not launched yet. Launching is one decision at a
// time, under its lock: the dispatcher's, or that of a goroutine whose item has
// ended and which takes the next one itself.
type shelf struct {
	mu    sync.Mutex
	ready queue // as it was read
	read  bool  // nothing more comes
	over  bool  // nothing more is launched
	later later
	// parked counts what is in the lanes' queues, bytes what that and later hold.
	parked, bytes int
	idle          int // goroutines that wait for a launch

	blocked bool          // the reader waits for room
	room    chan struct{} // holds one token when there is some
}

func (s *shelf) full() bool { return s.parked+len(s.later) >= mostParked || s.bytes >= mostParkedBytes }

// queue is what is read ahead.
type queue struct {
	tasks []*task
	bytes int
}

func (q *queue) push(t *task) {
	q.tasks = append(q.tasks, t)
	q.bytes += t.bytes()
}

func (q *queue) pop() *task {
	t := q.tasks[0]
	q.bytes -= t.bytes()
	q.tasks = slices.Delete(q.tasks, 0, 1)
	return t
}

// Bounds of what is read ahead.
const (
	leastAhead     = 4
	mostAheadBytes = 256 << 10
)

// full says that reading waits; half is asked by one who waits already.
func (q *queue) full(ahead int) bool {
	n := len(q.tasks)
	return n >= max(ahead, leastAhead) || n >= leastAhead && q.bytes >= mostAheadBytes
}

// offer gives a task that was read to the dispatcher; false: the run has stopped.
func (r *Runner) offer(t *task) bool {
	s := &r.shelf
	s.mu.Lock()
	for s.ready.full(r.c.ReadAhead) {
		s.blocked = true
		s.mu.Unlock()
		select {
		case <-s.room:
		case <-r.intake.Done():
			return false
		}
		s.mu.Lock()
	}
	s.blocked = false
	over, first := s.over, len(s.ready.tasks) == 0
	if !over { // else nobody would count it
		s.ready.push(t)
	}
	s.mu.Unlock()
	if first {
		r.wake()
	}
	return !over
}

// handed says that nothing more is read.
func (r *Runner) handed() {
	r.shelf.mu.Lock()
	r.shelf.read = true
	r.shelf.mu.Unlock()
	r.wake()
}

// next takes what was read first; nil if nothing is there. The reader goes on
// when half of what it may read ahead is gone: woken for each, it would fall
// asleep again each time.
func (s *shelf) next(ahead int) *task {
	if len(s.ready.tasks) == 0 {
		return nil
	}
	t := s.ready.pop()
	if s.blocked && !s.ready.full(ahead/2) {
		s.blocked = false
		select {
		case s.room <- struct{}{}:
		default:
		}
	}
	return t
}

// dispatch launches items that were never sent. It returns when all are launched
// or nothing may be launched any more.
func (r *Runner) dispatch() {
	r.relay.watch = time.AfterFunc(24*time.Hour, func() {
		if r.relay.overdue() {
			r.wake()
		}
	})
	defer r.relay.watch.Stop()
	for {
		due, more := r.step()
		if !more {
			return
		}
		select {
		case <-r.woken:
		case <-due:
		case <-r.intake.Done():
		}
	}
}

// step launches what may leave now. due fires when it has to be called again, also
// if nobody wakes the dispatcher; more is false at the end.
func (r *Runner) step() (due <-chan time.Time, more bool) {
	s := &r.shelf
	s.mu.Lock()
	defer s.mu.Unlock()
	for r.intake.Err() == nil {
		r.dueNow(s)
		if r.launchParked(s) {
			continue
		}
		if s.read && len(s.ready.tasks) == 0 && s.parked == 0 && len(s.later) == 0 {
			s.over = true
			return nil, false
		}
		if s.parked > 0 && r.allLate() {
			r.cutByEnd.Store(true)
			r.halt(stop{reason: BudgetEnded, message: "every lane is shut until after the run's end"})
			break
		}
		r.noteDue(s)
		if !s.full() && (s.parked == 0 || r.otherLaneFree()) { // else reading waits
			if t := s.next(r.c.ReadAhead); t != nil {
				r.take(s, t)
				continue
			}
		}
		return s.due(), true
	}
	s.over = true
	r.unsent.Add(int64(len(s.ready.tasks) + s.parked + len(s.later)))
	r.waiting.Add(-int64(len(s.later)))
	s.ready, s.later = queue{}, nil
	r.noteDue(s)
	return nil, false
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
			if l.closed.Load() {
				r.unsent.Add(1)
				r.settleNothing(s.unpark(l))
			} else if p := r.permit(l.parked[0]); p != nil {
				r.start(s.unpark(l), p)
			} else {
				break
			}
			some = true
		}
	}
	return some
}

// unpark takes the first of a lane's queue out, while it is still the shelf's: once
// launched it belongs to its own goroutine.
func (s *shelf) unpark(l *lane) *task {
	t := l.parked[0]
	s.bytes -= t.bytes()
	s.parked--
	l.parked[0] = nil
	if len(l.parked) == 1 {
		l.parked = l.parked[:0] // its place is used again
	} else {
		l.parked = l.parked[1:]
	}
	return t
}

// permit is for a task's first attempt; nil while its lane or the money don't
// allow it.
func (r *Runner) permit(t *task) *pacing.Permit {
	if t.reserved == 0 {
		if ok, _ := r.reserve(t); !ok {
			return nil
		}
	}
	return t.lane.lim.Try(t.work(time.Time{}))
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
