package pacing

import "sync"

// Spend is the cap on money: what requests may still cost is reserved before
// they are sent. Its methods may be called by many goroutines.
type Spend struct {
	max float64

	mu              sync.Mutex
	spent, reserved float64
}

// NewSpend returns a cap of max, in the currency of the prices; 0 means none.
func NewSpend(max float64) *Spend { return &Spend{max: max} }

// Reserve sets estimate aside. It is false, and nothing is set aside, if what
// is spent and reserved would pass the cap.
func (s *Spend) Reserve(estimate float64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.max > 0 && s.spent+s.reserved+estimate > s.max {
		return false
	}
	s.reserved += estimate
	return true
}

// Settle replaces a reservation by what was really billed. If that is not known
// the reservation stays: the request may have been billed in full.
func (s *Spend) Settle(estimate, actual float64, known bool) {
	if !known {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.reserved -= estimate
	s.spent += actual
}

// Spent is the money known to be billed.
func (s *Spend) Spent() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.spent
}

// Reserved is the money set aside for requests on the wire, and for those that
// ended without telling what they cost.
func (s *Spend) Reserved() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.reserved
}
