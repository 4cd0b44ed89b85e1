package pacing

import (
	"sync"

	"golang.org/x/sync/semaphore"
)

// Ceiling bounds the requests on the wire of all the Limiters that share it. While
// it is reached, each permit that becomes free goes to the lane that has waited
// longest for one, so lanes take turns; a lane that is alone may use all permits.
// It may be used by many goroutines.
type Ceiling struct {
	mu      sync.Mutex
	sem     *semaphore.Weighted
	waiting []*share // lanes that could launch but for the ceiling, longest waiting first
}

// NewCeiling returns a Ceiling of most requests, at least one.
func NewCeiling(most int) *Ceiling {
	return &Ceiling{sem: semaphore.NewWeighted(int64(max(most, 1)))}
}

// share is one Limiter's part in a Ceiling. The methods of a nil share know no bound.
type share struct {
	ceiling *Ceiling
	limiter *Limiter
	waits   bool // it is among those waiting
	granted int  // permits set aside for it that it has not taken yet
}

// take takes a permit, if one is granted or nobody waits; else the lane waits for its turn.
func (s *share) take() bool {
	if s == nil {
		return true
	}
	c := s.ceiling
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.granted > 0 {
		s.granted--
		return true
	}
	if len(c.waiting) == 0 && c.sem.TryAcquire(1) {
		return true
	}
	if !s.waits {
		s.waits = true
		c.waiting = append(c.waiting, s)
	}
	return false
}

// give gives a permit back.
func (s *share) give() {
	if s != nil {
		s.ceiling.sem.Release(1)
	}
}

// decline gives back what was granted and could not be used.
func (s *share) decline() {
	if s == nil {
		return
	}
	s.ceiling.mu.Lock()
	defer s.ceiling.mu.Unlock()
	s.ceiling.sem.Release(int64(s.granted))
	s.granted = 0
}

// next grants a free permit to the lane that has waited longest; nil if no permit
// is free or no lane waits.
func (s *share) next() *Limiter {
	if s == nil {
		return nil
	}
	c := s.ceiling
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) == 0 || !c.sem.TryAcquire(1) {
		return nil
	}
	first := c.waiting[0]
	c.waiting = c.waiting[1:]
	first.waits = false
	first.granted++
	return first.limiter
}
