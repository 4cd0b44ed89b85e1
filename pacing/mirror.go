package pacing

import (
	"cmp"
	"container/heap"
	"sync"
	"time"
)

// Mirror is a Limiter's rules for requests that other processes launch: it is
// told of launches and landings, late and in any order, and finds the limit and
// the gate that hold for all of them together. It launches nothing.
//
// A launch rate can't be held from here, so every refusal is taken for a
// ceiling's: by Little's law there is one for each rate. Headers and known limits
// are not part of it.
// Its methods may be called by many goroutines.
type Mirror struct {
	origin time.Time
	log    func(Change)

	mu     sync.Mutex
	lane   *lane
	events sightings
	up     map[any]*flight
	last   time.Duration // the lane's clock
	ramp   int           // the limit as long as it comes back after a gate; 0: it is back
	step   time.Duration // when the ramp grows next
}

// mirrorLag is how long a sighting may be under way and still be seen in order.
const mirrorLag = 150 * time.Millisecond

// rampStep is the least time between two steps of the ramp after a gate.
const rampStep = 80 * time.Millisecond

// NewMirror returns a Mirror. With learned, Config.Start is a limit that was
// found earlier: growth goes on from there by probing, not by doubling.
func NewMirror(c Config, learned bool) *Mirror {
	m := &Mirror{origin: time.Now(), log: c.Log, lane: newLane(c), up: map[any]*flight{}}
	m.lane.unpaced = true
	if learned {
		m.lane.window.spare(0)
	}
	return m
}

// Launched tells that a request was launched then; key is its name as long as it
// is on the wire, a comparable value.
func (m *Mirror) Launched(key any, at time.Time) { m.add(sighting{at: at, key: key}) }

// Landed tells what came back for a request, and when.
func (m *Mirror) Landed(key any, at time.Time, o Outcome) {
	m.add(sighting{at: at, key: key, landed: true, outcome: o})
}

func (m *Mirror) add(s sighting) {
	m.mu.Lock()
	heap.Push(&m.events, s)
	m.mu.Unlock()
}

// Forget drops the requests whose key satisfies gone: nobody will tell what came
// of them.
func (m *Mirror) Forget(gone func(key any) bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for key, f := range m.up {
		if gone(key) {
			m.lane.done(m.last, f, Outcome{})
			delete(m.up, key)
		}
	}
}

// Look takes in what was told and returns the lane as it stands. hungry says
// that launches are held back by the limit, which is what lets it grow.
func (m *Mirror) Look(hungry bool) Status {
	m.mu.Lock()
	now := max(m.last, time.Since(m.origin)-mirrorLag)
	for len(m.events) > 0 {
		at := m.events[0].at.Sub(m.origin)
		if at > now {
			break
		}
		s := heap.Pop(&m.events).(sighting)
		m.last = max(m.last, at)
		m.replay(s, m.last)
	}
	m.last = now
	if hungry && now >= m.lane.gate.until {
		m.lane.window.blocked = now
		m.lane.gate.ramp.on = false
	}
	m.lane.observe(now)
	s := m.status(now)
	changes := m.lane.changes
	m.lane.changes = nil
	m.mu.Unlock()
	if m.log != nil {
		for _, c := range changes {
			m.log(Change{At: m.origin.Add(c.at), From: c.from, To: c.to, Reason: c.reason, Detail: c.detail})
		}
	}
	return s
}

func (m *Mirror) replay(s sighting, now time.Duration) {
	f := m.up[s.key]
	if !s.landed {
		if f != nil { // its landing was lost
			m.lane.done(now, f, Outcome{})
		}
		f = &flight{}
		m.lane.observe(now)
		m.lane.permits.force()
		m.lane.launch(now, demand{notAfter: never}, f)
		if now < m.lane.gate.until {
			// Launched while word of the refusal was under way: it belongs to the burst.
			f.seq = min(f.seq, m.lane.epoch)
		}
		m.up[s.key] = f
		return
	}
	if f != nil {
		m.lane.done(now, f, s.outcome)
		delete(m.up, s.key)
	}
}

func (m *Mirror) status(now time.Duration) Status {
	l := m.lane
	s := Status{Limit: l.limit, InFlight: l.permits.taken, Peak: l.peak, Floor: l.atFloor(), Outage: l.breaker.open()}
	s.Limit = m.ramped(s.Limit, now)
	if l.gate.until > now {
		s.Gate, s.Reason = m.origin.Add(l.gate.until), l.gate.reason
	}
	return s
}

// ramped lets the limit come back in steps after a gate: all at once would be a
// burst that a bucket which has just begun to fill refuses.
func (m *Mirror) ramped(limit int, now time.Duration) int {
	switch {
	case m.lane.gate.until > now:
		m.ramp = max(1, limit/8)
	case m.ramp > 0 && now >= m.step:
		m.ramp, m.step = 2*m.ramp, now+rampStep
		if m.ramp >= limit {
			m.ramp = 0
		}
	}
	if m.ramp > 0 {
		return min(limit, m.ramp)
	}
	return limit
}

// force takes a permit although the limit may be reached: the request is on the
// wire already, or tests whether a gate holds for all. Only a common ceiling can
// refuse it.
func (p *permits) force() bool {
	if !p.share.take() {
		return false
	}
	if !p.sem.TryAcquire(1) {
		p.parked--
	}
	p.taken++
	return true
}

// sighting is a launch or a landing as another process saw it.
type sighting struct {
	at      time.Time
	key     any
	landed  bool
	outcome Outcome
}

// sightings is a heap by time; a launch comes before a landing.
type sightings []sighting

func (h sightings) Len() int { return len(h) }
func (h sightings) Less(i, j int) bool {
	return cmp.Or(h[i].at.Compare(h[j].at), rank(h[i].landed)-rank(h[j].landed)) < 0
}
func (h sightings) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *sightings) Push(x any)   { *h = append(*h, x.(sighting)) }
func (h *sightings) Pop() any {
	o := *h
	s := o[len(o)-1]
	*h = o[:len(o)-1]
	return s
}

func rank(landed bool) int {
	if landed {
		return 1
	}
	return 0
}
