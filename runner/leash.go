package runner

import (
	"context"
	"sync"
	"time"

	"llmbatch/runner/provider"
)

// leash gives the attempts of one goroutine, one after another, a context with a
// deadline. It is context.WithDeadlineCause without a place among the run's
// children, which all goroutines lock, and without a timer of its own for each
// attempt: the timer of an earlier one goes on, and looks when it fires whether
// the deadline has moved. It closes the connection of a request when the context
// ends: given the context, net/http would do so at the cost of a place in it.
type leash struct {
	run   context.Context
	ctx   context.Context // nil until it is needed, or when it is used up
	cut   context.CancelCauseFunc
	alarm *alarm
	freed bool // by free, in this attempt
}

// alarm calls cut at a time that may move.
type alarm struct {
	cut    context.CancelCauseFunc
	forget func() bool // ends the watch over the context

	mu    sync.Mutex
	at    time.Time // zero: never
	rings time.Time // when the timer fires; zero: it doesn't
	timer *time.Timer
	over  bool  // it rang, or the context has ended
	conn  *conn // of the request on the wire
}

// until returns a context that ends with the run's, or at d with
// provider.ErrAttemptTimeout; a zero d means never. It is good until loose.
func (s *leash) until(d, now time.Time) context.Context {
	if s.ctx == nil {
		s.ctx, s.cut = context.WithCancelCause(s.run)
		s.alarm = &alarm{cut: s.cut}
		s.alarm.forget = context.AfterFunc(s.ctx, s.alarm.close)
	}
	if !d.IsZero() {
		s.alarm.set(d, now)
	}
	return s.ctx
}

// hold says on which connection a request is about to be made; false: the context
// has ended.
func (s *leash) hold(c *conn) bool {
	a := s.alarm
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over || s.ctx.Err() != nil {
		return false
	}
	a.conn = c
	return true
}

// free says that the request is over: its connection may carry another.
func (s *leash) free() {
	s.alarm.off()
	s.freed = true
}

// loose ends the attempt. A context that has ended is not used again.
func (s *leash) loose() {
	if s.ctx == nil {
		return
	}
	if !s.freed {
		s.alarm.off()
	}
	if s.freed = false; s.ctx.Err() != nil {
		s.drop()
	}
}

func (s *leash) drop() {
	if s.ctx == nil {
		return
	}
	s.alarm.forget()
	s.alarm.stop()
	s.cut(nil)
	s.ctx, s.cut, s.alarm = nil, nil, nil
}

func (a *alarm) set(d, now time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	left := d.Sub(now)
	if left <= 0 {
		a.ring()
		return
	}
	a.at = d
	switch {
	case a.timer == nil:
		a.timer = time.AfterFunc(left, a.fire)
	case a.rings.IsZero() || d.Before(a.rings):
		a.timer.Reset(left)
	default:
		return
	}
	a.rings = d
}

func (a *alarm) fire() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.rings = time.Time{}
	if a.at.IsZero() {
		return
	}
	if left := time.Until(a.at); left > 0 {
		a.rings = a.at
		a.timer.Reset(left)
		return
	}
	a.ring()
}

// ring is called with the lock held, so that no attempt ends meanwhile.
func (a *alarm) ring() {
	a.over = true
	a.cut(provider.ErrAttemptTimeout)
}

// close is called when the context has ended.
func (a *alarm) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	if a.conn != nil { // under the lock: it may carry another's request afterwards
		_ = a.conn.Close()
		_ = a.conn.raw.Close() // one that a 101 has taken from HTTP is not closed by that
	}
}

func (a *alarm) off() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at, a.conn = time.Time{}, nil
}

func (a *alarm) stop() {
	a.off()
	if a.timer != nil {
		a.timer.Stop()
	}
}
