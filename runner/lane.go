package runner

import (
	"cmp"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"llmbatch/pacing"
	"llmbatch/runner/provider"
)

type laneKey struct {
	target *Target
	model  string
}

// lane is a base URL, a key and a model: what shares a limit, a gate and a quota.
type lane struct {
	laneKey
	lim    *pacing.Limiter
	header http.Header // of each request; shared, never written to
	conns  *conns      // nil: http.Transport's
	urls   sync.Map    // path → *url.URL

	// parked holds items that were never sent and whose lane is shut. Only the
	// dispatcher touches it.
	parked []*task

	closed     atomic.Bool
	mostOutput atomic.Int64 // most output tokens seen in an answer

	mu       sync.Mutex
	lastGood time.Time
	bare     time.Time // since when there were only bare 429s; zero: none
	notice   string    // why it was closed
}

// laneOf returns the lane of a target and model.
func (r *Runner) laneOf(target *Target, model string) *lane {
	k := laneKey{target, model}
	r.lanesMu.Lock()
	defer r.lanesMu.Unlock()
	if l, ok := r.lanes[k]; ok {
		return l
	}
	l := &lane{laneKey: k, header: headerOf(target, r.c.UserAgent), conns: r.connsOf(target)}
	c := r.c.Pacing
	c.Seed ^= uint64(len(r.lanes)) << 32
	c.Wake = r.wake
	if log := c.Log; log != nil && model != "" {
		c.Log = func(ch pacing.Change) {
			ch.Detail = "model=" + model + " " + ch.Detail
			log(ch)
		}
	}
	l.lim = pacing.New(c)
	r.lanes[k] = l
	r.order = append(r.order, l)
	return l
}

func headerOf(t *Target, agent string) http.Header {
	h := http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"application/json"},
		"User-Agent":   {cmp.Or(agent, "llmbatch")},
	}
	t.Provider.Sign(h, t.Credentials)
	for k, v := range t.Header {
		h[http.CanonicalHeaderKey(k)] = v
	}
	return h
}

// allLanes returns the lanes in the order in which they were first seen.
func (r *Runner) allLanes() []*lane {
	r.lanesMu.Lock()
	defer r.lanesMu.Unlock()
	return r.order[:len(r.order):len(r.order)]
}

// free says that the lane could launch something now.
func (l *lane) free() bool {
	s := l.lim.Status()
	return !l.closed.Load() && s.Gate.IsZero() && s.InFlight < s.Limit
}

// name is how messages call the lane.
func (l *lane) name() string { return cmp.Or(l.model, l.target.Base.Host) }

// closeLane lets nothing more be launched in a lane. It aborts the run where the
// lane is the only one, unless the lane only waits for too long.
func (r *Runner) closeLane(l *lane, e *provider.Error, message string, onlyWaits bool) {
	if r.c.Lanes == 1 && !onlyWaits {
		r.halt(stop{reason: Aborted, message: message, hint: adviceOf(e)})
		return
	}
	l.mu.Lock()
	if l.notice == "" {
		l.notice = message
	}
	l.mu.Unlock()
	if !l.closed.Swap(true) {
		r.warn(message, "model", l.model)
		l.lim.Close()
		r.wake()
		if r.c.OnLaneClosed != nil {
			r.c.OnLaneClosed(l.target.Defaults.Name, l.model, message)
		}
	}
}

// CloseLane closes the lanes that match, as an answer could have done. It may be
// called from anywhere.
func (r *Runner) CloseLane(match func(provider, model string) bool, message string) {
	for _, l := range r.allLanes() {
		if match(l.target.Defaults.Name, l.model) {
			r.closeLane(l, nil, message, true)
		}
	}
}
