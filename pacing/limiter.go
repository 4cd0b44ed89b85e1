package pacing

import (
	"context"
	"sync"
	"time"
)

// Limiter guards one lane. Its methods may be called by many goroutines. All
// decisions are the lane's; here are only the lock, the clock and the one timer.
type Limiter struct {
	origin time.Time
	log    func(Change)
	share  *share

	mu    sync.Mutex
	lane  *lane
	timer *time.Timer
	armed time.Duration // when the timer fires; never if it is not set
}

// Permit is the right to have one request on the wire.
type Permit struct {
	// Limit was the lane's limit at the launch.
	Limit int

	limiter *Limiter
	flight  flight
}

// Ticket is a place in a lane's queue. Its Wait is called once.
type Ticket struct {
	limiter *Limiter
	permit  *Permit
	waiter  waiter
}

// New returns a Limiter, open, with its whole first limit free.
func New(c Config) *Limiter {
	l := &Limiter{origin: time.Now(), log: c.Log, armed: never, lane: newLane(c)}
	if c.Ceiling != nil {
		l.share = &share{ceiling: c.Ceiling, limiter: l}
		l.lane.permits.share = l.share
	}
	l.timer = time.AfterFunc(never, l.tick)
	return l
}

// now must be read under the lock: the lane's clock never runs backwards.
func (l *Limiter) now() time.Duration { return time.Since(l.origin) }

func (l *Limiter) at(t time.Duration) time.Time {
	if t <= 0 {
		return time.Time{}
	}
	return l.origin.Add(t)
}

func (l *Limiter) tick() {
	l.act(func(time.Duration) { l.armed = never })
}

// act makes a change under the lock and lets the lane do what follows from it.
// Then the lanes that wait for a common ceiling take what has become free.
func (l *Limiter) act(do func(now time.Duration)) {
	l.tell(l.locked(do))
	for next := l.share.next(); next != nil; next = l.share.next() {
		next.tell(next.locked(nil))
	}
}

func (l *Limiter) locked(do func(now time.Duration)) []change {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	if do != nil {
		do(now)
	}
	again := l.lane.pump(now)
	l.share.decline()
	for _, w := range l.lane.served {
		close(w.ready)
	}
	l.lane.served = l.lane.served[:0]
	if again < l.armed && !l.lane.closed {
		l.armed = again
		l.timer.Reset(max(again-now, 0))
	}
	changes := l.lane.changes
	l.lane.changes = nil
	return changes
}

func (l *Limiter) tell(changes []change) {
	if l.log == nil {
		return
	}
	for _, c := range changes {
		l.log(Change{At: l.origin.Add(c.at), From: c.from, To: c.to, Reason: c.reason, Detail: c.detail})
	}
}

// Enqueue puts an item into the lane's queue. Items leave lowest Order first, as
// soon as limit, gate, quota and ceiling allow it. It never blocks.
func (l *Limiter) Enqueue(w Work) *Ticket {
	t := &Ticket{limiter: l, permit: &Permit{limiter: l}}
	t.waiter = waiter{demand: l.demand(w), flight: &t.permit.flight, ready: make(chan struct{})}
	l.act(func(time.Duration) { l.lane.enqueue(&t.waiter) })
	return t
}

// Acquire is Enqueue and Wait.
func (l *Limiter) Acquire(ctx context.Context, w Work) (*Permit, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return l.Enqueue(w).Wait(ctx)
}

// Wait waits for the permit. The error is ctx's cause, ErrClosed or a *LateError:
// the gate opens after the Work's NotAfter, or that has passed.
func (t *Ticket) Wait(ctx context.Context) (*Permit, error) {
	l, me := t.limiter, &t.waiter
	select {
	case <-me.ready:
	case <-ctx.Done():
		l.act(func(now time.Duration) {
			if !l.lane.leave(me) && me.end == launched { // the permit came at the same time
				l.lane.done(now, me.flight, Outcome{})
			}
		})
		return nil, context.Cause(ctx)
	}
	switch me.end {
	case launched:
		t.permit.Limit = me.limit
		return t.permit, nil
	case late:
		return nil, &LateError{Until: l.at(me.until)}
	default:
		return nil, ErrClosed
	}
}

func (l *Limiter) demand(w Work) demand {
	d := demand{order: w.Order, input: w.Input, output: w.MaxOutput, notAfter: never}
	if !w.NotAfter.IsZero() {
		d.notAfter = w.NotAfter.Sub(l.origin)
	}
	return d
}

// Status tells how the lane stands.
func (l *Limiter) Status() Status {
	l.mu.Lock()
	defer l.mu.Unlock()
	now, c := l.now(), l.lane
	s := Status{Limit: c.limit, InFlight: c.permits.taken, Peak: c.peak, Waiting: c.queue.Len(),
		Floor: c.atFloor(), Outage: c.breaker.open()}
	if until, reason := c.shutUntil(now); until > now {
		s.Gate, s.Reason = l.at(until), reason
	}
	return s
}

// Close wakes all who wait with ErrClosed; nothing is launched any more.
// Permits already given are still to be given back.
func (l *Limiter) Close() {
	l.act(func(time.Duration) {
		l.lane.close()
		l.timer.Stop()
	})
}

// Done gives the permit back with what the request taught. Call it once;
// further calls do nothing.
func (p *Permit) Done(o Outcome) Feedback {
	var f Feedback
	l := p.limiter
	l.act(func(now time.Duration) {
		f.Outage, f.Alone = l.lane.done(now, &p.flight, o)
		if until := l.lane.gate.certain(); until > now {
			f.Gate = l.at(until)
		}
	})
	return f
}
