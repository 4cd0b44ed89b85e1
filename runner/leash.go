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
// the deadline has moved.
type leash struct {
	run   context.Context
	ctx   context.Context // nil until it is needed, or when it is used up
	cut   context.CancelCauseFunc
	alarm *alarm
}

// alarm calls cut at a time that may move.
type alarm struct {
	cut context.CancelCauseFunc

	mu    sync.Mutex
	at    time.Time // zero: never
	rings time.Time // when the timer fires; zero: it doesn't
	timer *time.Timer
	rang  bool
}

// until returns a context that ends with the run's, or at d with
// provider.ErrAttemptTimeout; a zero d means never. It is good until loose.
func (s *leash) until(d, now time.Time) context.Context {
	if d.IsZero() {
		return s.run
	}
	if s.ctx == nil {
		s.ctx, s.cut = context.WithCancelCause(s.run)
		s.alarm = &alarm{cut: s.cut}
	}
	s.alarm.set(d, now)
	return s.ctx
}

// loose ends the attempt. A context that has ended is not used again.
func (s *leash) loose() {
	if s.ctx != nil && (s.alarm.off() || s.ctx.Err() != nil) {
		s.drop()
	}
}

func (s *leash) drop() {
	if s.ctx == nil {
		return
	}
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

func (a *alarm) ring() {
	a.rang = true
	a.cut(provider.ErrAttemptTimeout)
}

// off reports whether the alarm rang.
func (a *alarm) off() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = time.Time{}
	return a.rang
}

func (a *alarm) stop() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.at = time.Time{}
	if a.timer != nil {
		a.timer.Stop()
	}
}
