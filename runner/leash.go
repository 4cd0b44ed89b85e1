package runner

import (
	"context"
	"time"

	"llmbatch/runner/provider"
)

// leash gives the attempts of one goroutine, one after another, a context with a
// deadline. It is context.WithDeadlineCause without a new timer and a new place
// among the run's children, which all goroutines lock, for each attempt.
type leash struct {
	run   context.Context
	ctx   context.Context // nil until it is needed, or when it is used up
	cut   context.CancelCauseFunc
	timer *time.Timer
}

// until returns a context that ends with the run's, or at d with
// provider.ErrAttemptTimeout; a zero d means never. It is good until loose.
func (s *leash) until(d, now time.Time) context.Context {
	if d.IsZero() {
		return s.run
	}
	if s.ctx == nil {
		s.ctx, s.cut = context.WithCancelCause(s.run)
	}
	switch left := d.Sub(now); {
	case left <= 0:
		s.cut(provider.ErrAttemptTimeout)
	case s.timer == nil:
		cut := s.cut
		s.timer = time.AfterFunc(left, func() { cut(provider.ErrAttemptTimeout) })
	default:
		s.timer.Reset(left)
	}
	return s.ctx
}

// loose ends the attempt. A context that has ended, or is about to, is not used
// again.
func (s *leash) loose() {
	if s.ctx != nil && (s.timer == nil || !s.timer.Stop() || s.ctx.Err() != nil) {
		s.drop()
	}
}

func (s *leash) drop() {
	if s.ctx == nil {
		return
	}
	if s.timer != nil {
		s.timer.Stop()
	}
	s.cut(nil)
	s.ctx, s.cut, s.timer = nil, nil, nil
}
