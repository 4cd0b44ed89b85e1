package runner

import (
	"cmp"
	"net/http"
	"net/url"
	"slices"
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
	urls   sync.Map    // path → *url.URL

	// Items that were read and never sent, and their bytes: the intake's.
	fresh, freshBytes int

	closed     atomic.Bool
	mostOutput atomic.Int64 // most output tokens seen in an answer

	mu       sync.Mutex
	lastGood time.Time
	bare     time.Time // since when there were only bare 429s; zero: none
	notice   string    // why it was closed
}

// lanes are those that the run has met, in that order.
type lanes struct {
	mu    sync.Mutex
	known map[laneKey]*lane
	order []*lane
}

// laneOf returns the lane of a target and model.
func (r *Runner) laneOf(target *Target, model string) *lane {
	k := laneKey{target, model}
	r.lanes.mu.Lock()
	defer r.lanes.mu.Unlock()
	if l, ok := r.lanes.known[k]; ok {
		return l
	}
	l := &lane{laneKey: k, header: headerOf(target, target.Credentials, r.c.UserAgent)}
	c := r.c.Pacing
	c.Seed ^= uint64(len(r.lanes.known)) << 32
	if log := c.Log; log != nil {
		c.Log = func(ch pacing.Change) {
			defer r.recovered()
			if model != "" {
				ch.Detail = "model=" + model + " " + ch.Detail
			}
			log(ch)
		}
	}
	l.lim = pacing.New(c)
	r.lanes.known[k] = l
	r.lanes.order = append(r.lanes.order, l)
	return l
}

func headerOf(t *Target, c provider.Credentials, agent string) http.Header {
	h := http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"application/json"},
		"User-Agent":   {cmp.Or(agent, "llmbatch")},
	}
	t.Provider.Sign(h, c)
	for k, v := range t.Header {
		h[http.CanonicalHeaderKey(k)] = v
	}
	return h
}

func (ls *lanes) all() []*lane {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return slices.Clip(ls.order)
}

// notice is why the last of the closed lanes was closed; "" if none was.
func (ls *lanes) notice() (why string) {
	for _, l := range ls.all() {
		l.mu.Lock()
		why = cmp.Or(l.notice, why)
		l.mu.Unlock()
	}
	return why
}

func (ls *lanes) status(s *Status) {
	open := false
	for _, l := range ls.all() {
		st := l.lim.Status()
		s.Lanes++
		s.Limit += st.Limit
		if st.Gate.IsZero() {
			open = true
		} else if s.Gate.IsZero() || st.Gate.Before(s.Gate) {
			s.Gate, s.GateReason = st.Gate, st.Reason
		}
	}
	if open {
		s.Gate, s.GateReason = time.Time{}, ""
	}
}

// allLate says that every lane is shut until after end.
func (ls *lanes) allLate(end time.Time) bool {
	for _, l := range ls.all() {
		if !l.closed.Load() && !l.shut().After(end) {
			return false
		}
	}
	return true
}

// shut is when the lane opens; zero if it is open.
func (l *lane) shut() time.Time { return l.lim.Status().Gate }

// name is how messages call the lane.
func (l *lane) name() string { return cmp.Or(l.model, l.target.Base.Host) }

// url joins the lane's base URL and a path, once for each path.
func (l *lane) url(path string) (*url.URL, error) {
	if u, ok := l.urls.Load(path); ok {
		return u.(*url.URL), nil
	}
	u, err := url.Parse(provider.JoinURL(l.target.Base, path))
	if err != nil {
		return nil, err
	}
	l.urls.Store(path, u)
	return u, nil
}

// closeLane lets nothing more be launched in a lane. It aborts the run where the
// lane is the only one, unless the lane only waits for too long.
func (r *Runner) closeLane(l *lane, e *provider.Error, message string, onlyWaits bool) {
	if r.c.Lanes == 1 && !onlyWaits {
		r.ending.halt(stop{reason: Aborted, message: message, hint: adviceOf(e)})
		return
	}
	l.mu.Lock()
	l.notice = cmp.Or(l.notice, message)
	l.mu.Unlock()
	if !l.closed.Swap(true) {
		r.c.Log.Warn(message, "model", l.model)
		l.lim.Close()
		r.intake.look()
		if r.c.OnLaneClosed != nil {
			r.c.OnLaneClosed(l.target.Defaults.Name, l.model, message)
		}
	}
}

// CloseLane closes the lanes that match, as an answer could have done. It may be
// called from anywhere.
func (r *Runner) CloseLane(match func(provider, model string) bool, message string) {
	for _, l := range r.lanes.all() {
		if match(l.target.Defaults.Name, l.model) {
			r.closeLane(l, nil, message, true)
		}
	}
}
