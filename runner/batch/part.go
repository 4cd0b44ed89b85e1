package batch

import (
	"os"
	"time"

	"llmbatch/runner/provider"
)

// phase is how far a part is.
type phase uint8

const (
	planned   phase = iota
	uploading       // an upload has begun, and how it ended is not known
	uploaded
	creating // a creation has begun, and how it ended is not known
	open
	ended // nothing more will come
	refused
	over
)

// part is one batch, before, while and after it exists at the provider.
type part struct {
	number          int
	line            int64 // in the journal
	model, endpoint string
	n               int
	bytes, tokens   int64
	reserve         float64

	phase    phase
	name     string // the input file's
	file     string // its id at the provider
	at       time.Time
	id       string
	unproven bool
	wrong    []string // ids of batches that were taken for this one, and are not
	expires  time.Time
	status   string
	since    time.Time // it has had this status since then
	cancel   bool      // shall be cancelled
	byUser   bool      // the user cancelled it
	asked    time.Time // when the cancelling was asked for

	spool    *os.File // the input, nil after a restart
	state    provider.BatchState
	seen     bool      // the API has answered for it
	due      time.Time // nothing is done before
	tries    int       // that failed in a row
	interval time.Duration
	lost     time.Time // the first of the looks that found nothing
}

// replay takes a line of the journal in.
func (p *part) replay(r *record) {
	switch r.Type {
	case "part":
		p.model, p.endpoint, p.n, p.bytes, p.tokens, p.reserve = r.Model, r.Endpoint, r.N, r.Bytes, r.Tokens, r.Reserve
	case "upload":
		p.phase, p.name = uploading, r.Name
	case "file":
		p.phase, p.file = uploaded, r.ID
	case "create":
		p.phase = creating
		if r.At != nil {
			p.at = *r.At
		}
	case "batch":
		p.phase, p.id, p.unproven = open, r.ID, r.Unproven
		if r.Expires != nil {
			p.expires = *r.Expires
		}
	case "proven":
		p.unproven = false
	case "wrong":
		p.phase, p.wrong, p.id, p.unproven = creating, append(p.wrong, r.ID), "", false
	case "state":
		p.status = r.State
		if r.At != nil {
			p.since = *r.At
		}
	case "cancel":
		p.cancel, p.byUser = true, r.State == "user"
	case "asked":
		if r.At != nil {
			p.asked = *r.At
		}
	case "end":
		p.phase = over
	}
}

// action is what is to be done for a part next.
type action uint8

const (
	rest     action = iota // until due
	upload                 // send the input
	findFile               // look whether an upload arrived
	create                 // make the batch
	find                   // look whether a creation arrived
	look                   // ask how the batch stands
	stopIt                 // ask for its cancelling
	prove                  // see whether its results are ours
	fetch                  // take its results
	free                   // its items are to be sent anew
)

// next is what a part needs at a time. It decides alone what may be sent, and so
// what may be bought: a batch is created only in the phases planned and uploaded,
// which a part is in before its first creation and after it was made certain that
// the last one made none.
func (p *part) next(now time.Time, uploads bool) action {
	if now.Before(p.due) {
		return rest
	}
	switch p.phase {
	case planned:
		switch {
		case p.spool == nil:
			return free
		case uploads:
			return upload
		default:
			return create
		}
	case uploading:
		return findFile
	case uploaded:
		return create
	case creating:
		return find
	case open:
		if p.cancel && p.asked.IsZero() {
			return stopIt
		}
		return look
	case ended:
		if p.unproven {
			return prove
		}
		return fetch
	default:
		return free
	}
}

// holds says that the part's items may be at the provider.
func (p *part) holds() bool { return p.phase >= creating && p.phase < over }

// notFound takes a look that did not find the batch of a creation. The looks are
// one, two and four times the interval after the creation; only when the last has
// found nothing is it certain that there is none.
func (p *part) notFound(now time.Time, every time.Duration) {
	for _, n := range []time.Duration{1, 2, 4} {
		if at := p.at.Add(n * every); now.Before(at) {
			p.due = at
			return
		}
	}
	p.due = time.Time{}
	p.phase = planned
	if p.file != "" {
		p.phase = uploaded
	}
}

// candidate is the batch of the list that a creation without an answer made, if
// one is there. proven says that it is ours for certain.
func (p *part) candidate(list []provider.BatchState, tag string, named bool, taken map[string]bool, now time.Time) (s provider.BatchState, proven, ok bool) {
	for _, b := range list {
		if b.Tag != "" && b.Tag == tag || named && p.file != "" && b.File == p.file {
			return b, true, true
		}
	}
	if named {
		return s, false, false
	}
	for _, b := range list { // the newest first: the first creation is the last
		if b.Total == p.n && !taken[b.ID] && !b.Created.Before(p.at.Add(-time.Minute)) && !b.Created.After(now.Add(time.Minute)) && b.Tag == "" {
			s, ok = b, true
		}
	}
	return s, false, ok
}

// looked sets the next look at a batch: after the first interval, then half as
// long again each time, up to five minutes.
func (p *part) looked(now time.Time, first, floor time.Duration) {
	switch {
	case p.interval == 0:
		p.interval = first
	default:
		p.interval = min(p.interval*3/2, max(5*time.Minute, first))
	}
	p.due = now.Add(max(p.interval, floor))
}

// failed sets the time of the next try after one that failed.
func (p *part) failed(now time.Time, first, most, hint time.Duration) {
	wait := first << min(p.tries, 10)
	p.tries++
	p.due = now.Add(max(min(wait, most), hint))
}

// stuck says in words why a batch seems not to go on; "" if it does.
func (p *part) stuck(now time.Time) string {
	for _, r := range []struct {
		word string
		most time.Duration
	}{{"validating", time.Hour}, {"finalizing", 2 * time.Hour}, {"cancelling", 2 * time.Hour}, {"canceling", 2 * time.Hour}} {
		if p.status == r.word && now.Sub(p.since) > r.most {
			return r.word + " since " + p.since.Local().Format("15:04")
		}
	}
	if !p.expires.IsZero() && now.After(p.expires.Add(2*time.Hour)) {
		return "past its end, " + p.expires.Local().Format("15:04")
	}
	return ""
}

// passing says that a 404 for the batch is not its end: APIs answer so for minutes
// after a creation.
func (p *part) passing(now time.Time) bool {
	if p.seen {
		return p.expires.IsZero() || now.Before(p.expires.Add(time.Hour))
	}
	return now.Sub(p.lost) < 10*time.Minute
}
