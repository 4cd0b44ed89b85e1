package runner

import (
	"errors"
	"sync"
	"time"

	"llmbatch/input"
)

// Bounds of what was read and waits: of all items together, and of those of one
// lane that were never sent.
const (
	mostWaiting      = 4096
	mostWaitingBytes = 64 << 20
	leastAhead       = 4
	mostAheadBytes   = 256 << 10
)

// intake bounds what was read and is not on the wire. An item whose lane is shut
// takes nothing from another lane: the reader goes past it while another lane could
// launch something.
type intake struct {
	ahead   int           // items of one lane that may wait for their first request
	changed chan struct{} // holds a token when there may be room again

	reading sync.Mutex // held while an item is being opened

	mu    sync.Mutex
	over  bool // nothing more is taken in
	count int
	bytes int
	due   map[*item]time.Time // of items that an earlier run left waiting
}

// add takes in an item that was never sent, and starts it; false means that the run
// is over.
func (in *intake) add(i *item, start func()) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.over {
		return false
	}
	in.hold(i)
	i.lane.fresh++
	i.lane.freshBytes += i.held
	if !i.notBefore.IsZero() {
		if in.due == nil {
			in.due = map[*item]time.Time{}
		}
		in.due[i] = i.notBefore
	}
	start()
	return true
}

// again takes in an item that waits between two attempts.
func (in *intake) again(i *item) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.hold(i)
}

func (in *intake) hold(i *item) {
	i.held = i.bytes()
	in.count++
	in.bytes += i.held
}

// remove takes out an item that is sent for the first time, or never will be.
func (in *intake) remove(i *item) {
	in.mu.Lock()
	i.lane.fresh--
	i.lane.freshBytes -= i.held
	delete(in.due, i)
	in.mu.Unlock()
	in.leave(i)
}

// leave takes out an item that waits no longer.
func (in *intake) leave(i *item) {
	in.mu.Lock()
	in.count--
	in.bytes -= i.held
	in.mu.Unlock()
	in.look()
}

// look makes the reader look again for room.
func (in *intake) look() {
	select {
	case in.changed <- struct{}{}:
	default:
	}
}

// room says whether another item of a lane may be taken in. If not, it may be later:
// when something changes, or when a shut lane opens at again.
func (in *intake) room(l *lane, ls *lanes, expected int) (ok bool, again time.Time) {
	in.mu.Lock()
	full := in.count >= mostWaiting || in.count > 0 && in.bytes >= mostWaitingBytes
	some := l.fresh >= in.ahead || l.fresh >= leastAhead && l.freshBytes >= mostAheadBytes
	var idle []*lane
	known := ls.all()
	for _, o := range known {
		if o != l && o.fresh == 0 {
			idle = append(idle, o)
		}
	}
	in.mu.Unlock()
	if full || !some {
		return !full, time.Time{}
	}
	if len(known) < expected && l.shut().After(time.Now()) {
		return true, time.Time{} // a lane that nobody has seen yet may be open
	}
	for _, o := range idle {
		s := o.lim.Status()
		switch {
		case o.closed.Load():
		case s.Gate.IsZero() && s.InFlight < s.Limit:
			return true, time.Time{}
		case !s.Gate.IsZero():
			again = sooner(again, s.Gate)
		}
	}
	return false, again
}

// parks says that a lane has more items waiting than it will launch soon.
func (in *intake) parks(l *lane) bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return l.fresh >= in.ahead
}

// close takes nothing in any more.
func (in *intake) close() {
	in.mu.Lock()
	in.over = true
	in.mu.Unlock()
}

// firstDue is when the first item may leave that an earlier run left waiting.
func (in *intake) firstDue() (first time.Time) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for _, at := range in.due {
		first = sooner(first, at)
	}
	return first
}

// read opens items in order and starts those that need work.
func (r *Runner) read() {
	n := 0
	for line, err := range r.c.Items {
		if err != nil {
			r.inputFailed(err)
			return
		}
		i, did := r.opened(line)
		if i != nil && !r.start(i) {
			r.settleNothing(i)
			r.unsent.Add(1)
			return
		}
		if r.ending.intake.Err() != nil {
			return
		}
		if did {
			n++
		}
		if r.c.Limit > 0 && n >= r.c.Limit {
			break
		}
	}
	r.readAll.Store(true)
}

// opened prepares one item, and writes the row of one that can't be sent. did is
// false where there is nothing to do for it. Nothing is written once the run has
// ended: the input may be a pipe that keeps the reader longer than that.
func (r *Runner) opened(line *input.Item) (i *item, did bool) {
	r.intake.reading.Lock()
	defer r.intake.reading.Unlock()
	if r.ending.intake.Err() != nil {
		return nil, false
	}
	i, row := r.prepareItem(line)
	if row != nil {
		r.emit(row)
	}
	return i, i != nil || row != nil
}

func (r *Runner) inputFailed(err error) {
	s := stop{reason: InputFailed, err: err, message: err.Error()}
	if le, ok := errors.AsType[*input.LineError](err); ok {
		s.hint = le.Hint
	}
	r.ending.halt(s)
}

// start sets money aside for an item's first request, puts the item into its lane's
// queue, and starts the goroutine that waits for the permit. It waits while there is
// no money or no room, and is false when the run stops before.
func (r *Runner) start(i *item) bool {
	for ok, settled := r.reserve(i); !ok; ok, settled = r.reserve(i) {
		if !r.awaitMoney(settled) {
			return false
		}
	}
	for ok, again := r.intake.room(i.lane, &r.lanes, r.c.Lanes); !ok; ok, again = r.intake.room(i.lane, &r.lanes, r.c.Lanes) {
		if !r.awaitRoom(again) {
			return false
		}
	}
	if parked := r.intake.parks(i.lane); parked || !i.notBefore.IsZero() {
		r.forget(i)
	}
	return r.intake.add(i, func() {
		if i.notBefore.IsZero() {
			i.enqueue(r.c.End)
		}
		r.group.Go(func() error {
			defer r.recovered()
			i.run()
			return nil
		})
	})
}

func (r *Runner) awaitRoom(again time.Time) bool {
	var opens <-chan time.Time
	if !again.IsZero() {
		opens = time.After(time.Until(again))
	}
	select {
	case <-r.intake.changed:
	case <-opens:
	case <-r.ending.intake.Done():
		return false
	}
	return true
}
