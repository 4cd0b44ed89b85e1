package runner

import (
	"sync/atomic"
	"time"
)

// another ends an item and returns the next for the same goroutine, where nothing
// but a permit has to be found for it; otherwise the goroutine becomes idle, and
// the dispatcher decides. A goroutine that waits to be told falls asleep and is
// woken for each item.
func (r *Runner) another() (next launch, ok bool) {
	s := &r.shelf
	s.mu.Lock()
	defer s.mu.Unlock()
	open := r.open.Add(-1)
	if lanes := r.allLanes(); r.c.Lanes == 1 && len(lanes) == 1 && r.c.Spend == nil && open < int64(r.mostOpen)-1 {
		next, ok = r.launchNext(s, lanes[0])
	} else {
		r.wake()
	}
	if !ok {
		s.idle++
	}
	return next, ok
}

// relay counts the goroutines that have given a permit back and will take it again
// themselves, after the row of their item is written. Where that takes longer than
// relayWithin, as on a disk that hangs, the dispatcher uses the permits.
type relay struct {
	owed     atomic.Int64
	watching atomic.Bool
	watch    *time.Timer
}

const relayWithin = 5 * time.Millisecond

// owe arms the timer for the second of them: a single one is not worth a waking of
// the process for each item of a run that is told to go slowly.
func (l *relay) owe() {
	if l.owed.Add(1) > 1 && !l.watching.Swap(true) {
		l.watch.Reset(relayWithin)
	}
}

// overdue is called by the timer.
func (l *relay) overdue() bool {
	l.watching.Store(false)
	return l.owed.Load() > 0
}

// launchNext launches what may leave now, the first of it by the caller. If that
// was not decided by the want of a permit, it wakes the dispatcher.
func (r *Runner) launchNext(s *shelf, l *lane) (next launch, ok bool) {
	for !s.over && r.intake.Err() == nil && len(s.later) == 0 && !l.closed.Load() && r.open.Load() < int64(r.mostOpen) {
		if len(l.parked) == 0 {
			t := s.next(r.c.ReadAhead)
			if t == nil {
				break
			}
			r.take(s, t)
			continue
		}
		switch p := r.permit(l.parked[0]); {
		case p == nil && r.open.Load() > 0:
			return next, ok // the limiter will wake the dispatcher, or the next to end does
		case p == nil:
			r.wake()
			return next, ok
		case ok:
			r.start(s.unpark(l), p)
		default:
			r.open.Add(1)
			next, ok = launch{s.unpark(l), p}, true
		}
	}
	r.wake()
	return next, ok
}
