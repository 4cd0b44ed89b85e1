package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"llmbatch/output"
	"llmbatch/output/plain"
)

// Progress is how far a run is, as its coordinator writes it down each second.
type Progress struct {
	// Total is the number of items in the input, Done how many have a row that needs
	// no work, those of earlier runs included. OK and NotOK are this run's rows.
	Total int `json:"total"`
	Done  int `json:"done"`
	OK    int `json:"ok"`
	NotOK int `json:"not_ok"`
	// Rate is rows a second over the last ten, Left the seconds that the rest takes
	// at that rate; 0: not known.
	Rate float64 `json:"rate"`
	Left float64 `json:"eta_seconds,omitempty"`
	// Wanted is how many workers could be busy now.
	Wanted  int              `json:"wanted_workers"`
	Workers []WorkerProgress `json:"workers"`
	At      time.Time        `json:"at"`
}

// WorkerProgress is what one worker does. Answers and Errors count its attempts in
// the rows that came in.
type WorkerProgress struct {
	ID       string `json:"id"` // begins with the host's name, unless the user chose it
	InFlight int    `json:"in_flight"`
	Answers  int    `json:"answers"`
	Errors   int    `json:"errors"`
	Alive    bool   `json:"alive"`
}

// progressKey of an epoch.
func progressKey(epoch string) string { return "progress." + epoch }

// tally is what the coordinator counts of the rows that it takes. The zero value
// is ready.
type tally struct {
	ok, notOK int
	workers   map[string]*WorkerProgress
	recent    [11]struct {
		second int64
		rows   int
	}
}

// add counts a final row.
func (t *tally) add(r *output.Result, now time.Time) {
	if r.Status == output.OK {
		t.ok++
	} else {
		t.notOK++
	}
	at := &t.recent[now.Unix()%int64(len(t.recent))]
	if at.second != now.Unix() {
		at.second, at.rows = now.Unix(), 0
	}
	at.rows++
	if t.workers == nil {
		t.workers = map[string]*WorkerProgress{}
	}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		if a.Worker == "" {
			continue
		}
		w := t.workers[a.Worker]
		if w == nil {
			w = &WorkerProgress{ID: a.Worker}
			t.workers[a.Worker] = w
		}
		if a.Outcome == "ok" {
			w.Answers++
		} else {
			w.Errors++
		}
	}
}

// rate is rows a second over the last ten whole seconds.
func (t *tally) rate(now time.Time) float64 {
	n := 0
	for _, r := range t.recent {
		if age := now.Unix() - r.second; age >= 1 && age <= 10 {
			n += r.rows
		}
	}
	return float64(n) / 10
}

// progress is called with c.mu held.
func (c *Coordinator) progress(now time.Time) Progress {
	p := Progress{Total: c.o.Total, Done: c.o.Before + c.tally.ok + c.tally.notOK, OK: c.tally.ok, NotOK: c.tally.notOK,
		Rate: c.tally.rate(now), At: now.UTC(), Workers: []WorkerProgress{}}
	if rest := p.Total - p.Done; p.Rate > 0 && rest > 0 {
		p.Left = float64(rest) / p.Rate
	}
	all := map[string]WorkerProgress{}
	for id, w := range c.tally.workers {
		all[id] = *w
	}
	each := 0
	for id, live := range c.workers {
		w := all[id]
		w.ID, w.InFlight, w.Alive = id, live.inFlight, !live.stopped
		each = max(each, live.most)
		all[id] = w
	}
	for _, w := range all {
		p.Workers = append(p.Workers, w)
	}
	slices.SortFunc(p.Workers, func(a, b WorkerProgress) int { return strings.Compare(a.ID, b.ID) })
	if each == 0 {
		each = defaultConcurrency
	}
	limit := 0
	for _, l := range c.lanes {
		if !l.closed {
			limit += l.limit
		}
	}
	busy := max(min(limit, p.Total-p.Done), 0)
	p.Wanted = (busy + each - 1) / each
	return p
}

// tellProgress writes the progress down, for fleet status.
func (c *Coordinator) tellProgress(ctx context.Context) {
	c.mu.Lock()
	data, err := json.Marshal(c.progress(time.Now()))
	c.mu.Unlock()
	if err != nil {
		return
	}
	try, cancel := context.WithTimeout(ctx, oneTry)
	defer cancel()
	_, _ = c.kv.Put(try, progressKey(c.config.Epoch), data) // the next second tries again
}

// text is the progress in a line for people.
func (p *Progress) text() string {
	s := fmt.Sprintf("%s of %s done", plain.Count(p.Done), plain.Plural(p.Total, "item"))
	if share := plain.Percent(p.Done, p.Total); share != "" {
		s += " (" + share + ")"
	}
	s += fmt.Sprintf(", %s ok, %s not ok in this run", plain.Count(p.OK), plain.Count(p.NotOK))
	if p.Rate > 0 {
		s += fmt.Sprintf(", %.1f a second", p.Rate)
	}
	if p.Left > 0 {
		s += ", about " + plain.Span(time.Duration(p.Left*float64(time.Second))) + " left"
	}
	return s
}
