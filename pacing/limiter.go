package pacing

import (
	"context"
	"sync"
	"time"
)

// Limiter guards one lane. Its methods may be called by many goroutines.
// All decisions are the lane's; here are only the lock, the clock and the
// one timer.
type Limiter struct {
	origin time.Time
	wake   func()
	log    func(Change)

	mu    sync.Mutex
	lane  *lane
	timer *time.Timer
	armed time.Duration // when the timer fires; never if it is not set
	spare *Permit       // for the next Try: most of those at a full window fail
}

// Permit is the right to have one request on the wire.
type Permit struct {
	// Limit was the lane's limit at the launch.
	Limit int

	limiter *Limiter
	flight  flight
}

// New returns a Limiter, open, with its whole first limit free.
func New(c Config) *Limiter {
	l := &Limiter{origin: time.Now(), wake: c.Wake, log: c.Log, armed: never, lane: newLane(c)}
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
	l.mu.Lock()
	l.armed = never
	l.release(l.now())
}

// release lets the lane act on what has changed, unlocks, and wakes who waits.
func (l *Limiter) release(now time.Duration) {
	if l.settle(now) && l.wake != nil {
		l.wake()
	}
}

// settle is release without the waking; it tells whether that is due.
func (l *Limiter) settle(now time.Duration) (wake bool) {
	again := l.lane.pump(now)
	for _, w := range l.lane.served {
		close(w.ready)
	}
	l.lane.served = l.lane.served[:0]
	if again < l.armed && !l.lane.closed {
		l.armed = again
		l.timer.Reset(max(again-now, 0))
	}
	changes, wake := l.lane.changes, l.lane.wake
	l.lane.changes, l.lane.wake = nil, false
	l.mu.Unlock()
	if l.log != nil {
		for _, c := range changes {
			l.log(Change{At: l.origin.Add(c.at), From: c.from, To: c.to, Reason: c.reason, Detail: c.detail})
		}
	}
	return wake
}

// Try returns a permit for an item that was never sent, or nil if it may not
// leave now or a waiting item comes first. It never blocks. After a nil,
// Config.Wake is called as soon as another Try may succeed.
func (l *Limiter) Try(w Work) *Permit {
	l.mu.Lock()
	now, p := l.now(), l.spare
	if p == nil {
		p = &Permit{limiter: l}
	}
	if l.lane.offer(now, l.demand(w), &p.flight) {
		p.Limit, l.spare = l.lane.limit, nil
	} else {
		p, l.spare = nil, p
	}
	l.release(now)
	return p
}

// Acquire waits for a permit. Waiting items come before those of Try, lowest
// Order first. The error is ctx's cause, ErrClosed or a *LateError: the gate
// opens after w.NotAfter, or w.NotAfter has passed.
func (l *Limiter) Acquire(ctx context.Context, w Work) (*Permit, error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	p := &Permit{limiter: l}
	me := &waiter{demand: l.demand(w), flight: &p.flight, ready: make(chan struct{})}
	l.mu.Lock()
	now := l.now()
	l.lane.enqueue(me)
	l.release(now)
	select {
	case <-me.ready:
	case <-ctx.Done():
		l.mu.Lock()
		now := l.now()
		if l.lane.leave(me) || me.end == gone { // else a permit came at the same time
			l.release(now)
			return nil, context.Cause(ctx)
		}
		if me.end == launched {
			l.lane.done(now, &p.flight, Outcome{})
		}
		l.release(now)
		return nil, context.Cause(ctx)
	}
	switch me.end {
	case launched:
		p.Limit = me.limit
		return p, nil
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
	l.mu.Lock()
	l.lane.close()
	l.timer.Stop()
	l.release(l.now())
}

// Done gives the permit back with what the request taught. Call it once;
// further calls do nothing.
func (p *Permit) Done(o Outcome) Feedback {
	l := p.limiter
	l.mu.Lock()
	now := l.now()
	outage, alone := l.lane.done(now, &p.flight, o)
	f := Feedback{Outage: outage, Alone: alone}
	if until := l.lane.gate.certain(); until > now {
		f.Gate = l.at(until)
	}
	if o.Relay {
		l.settle(now)
	} else {
		l.release(now)
	}
	return f
}
