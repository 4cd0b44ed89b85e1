package pacing

import (
	"container/heap"
	"time"
)

// demand is a Work in the lane's own time.
type demand struct {
	order         int64
	input, output float64
	notAfter      time.Duration
}

// ending says how a waiter's wait ended.
type ending uint8

const (
	waiting ending = iota
	launched
	late
	shut // the lane was closed
	gone // its caller went away
)

// waiter is an item that wants to be sent.
type waiter struct {
	demand
	flight *flight
	ready  chan struct{} // closed when end is set; nil for a caller that looks itself

	place int // in the queue
	end   ending
	until time.Duration // late: when the gate opens, 0 if it is open
	limit int           // launched: the limit then
}

// queue holds the waiting items, lowest order first.
type queue struct {
	items []*waiter
	// due is no later than the earliest notAfter of all: the deadlines are looked
	// through only once this has passed or the gate has moved beyond it.
	due time.Duration
}

func (q *queue) Len() int           { return len(q.items) }
func (q *queue) Less(i, j int) bool { return q.items[i].order < q.items[j].order }
func (q *queue) Swap(i, j int) {
	q.items[i], q.items[j] = q.items[j], q.items[i]
	q.items[i].place, q.items[j].place = i, j
}

// Push is for container/heap.
func (q *queue) Push(x any) {
	w := x.(*waiter)
	w.place = len(q.items)
	q.items = append(q.items, w)
}

// Pop is for container/heap.
func (q *queue) Pop() any {
	n := len(q.items) - 1
	w := q.items[n]
	q.items[n] = nil
	q.items = q.items[:n]
	return w
}

func (q *queue) add(w *waiter) {
	if len(q.items) == 0 || w.notAfter < q.due {
		q.due = w.notAfter
	}
	heap.Push(q, w)
}

func (q *queue) remove(w *waiter) { heap.Remove(q, w.place) }

// overdue removes and returns those whose time ends before the gate opens, or
// has ended. It looks at all only when one may be among them.
func (q *queue) overdue(now, gate time.Duration) []*waiter {
	if len(q.items) == 0 || (now < q.due && gate <= q.due) {
		return nil
	}
	var out []*waiter
	kept := q.items[:0]
	q.due = never
	for _, w := range q.items {
		if now >= w.notAfter || gate > w.notAfter {
			out = append(out, w)
			continue
		}
		q.due = min(q.due, w.notAfter)
		kept = append(kept, w)
	}
	clear(q.items[len(kept):])
	q.items = kept
	for i, w := range q.items {
		w.place = i
	}
	heap.Init(q)
	return out
}
