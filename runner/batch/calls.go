package batch

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"llmbatch/runner"
	"llmbatch/runner/provider"
)

// longestBackoff is the longest wait after a call that failed, throttleBackoff the
// first one after a creation that was refused for a rate limit.
const (
	longestBackoff  = 5 * time.Minute
	throttleBackoff = time.Minute
	longestThrottle = 30 * time.Minute
)

// upload sends a part's input. It buys nothing, so it may be tried again.
func (e *Engine) upload(ctx context.Context, p *part) {
	m := e.meta(p.number, p.endpoint, p.model, "")
	p.phase, p.name = uploading, m.Name
	if !e.record(record{Type: "upload", Part: p.number, Name: p.name}) {
		return
	}
	_, _, _, kind := e.api.Frame(m)
	got := e.http.call(ctx, *e.api.Upload(), &payload{kind: kind, from: io.NewSectionReader(p.spool, 0, p.bytes), size: p.bytes})
	if got.err == nil {
		if id, err := e.api.File(got.body); err == nil {
			e.haveFile(p, id)
			return
		}
	}
	p.failed(time.Now(), time.Second, longestBackoff, got.hint)
	switch {
	case got.err == nil:
	case got.unsent || passes(got.err):
		p.phase = planned
	case got.err.Status > 0:
		e.haltFor("the upload of a batch's input was refused", got.err)
	}
}

func (e *Engine) haveFile(p *part, id string) {
	if e.record(record{Type: "file", Part: p.number, ID: id}) {
		p.phase, p.file, p.tries, p.due = uploaded, id, 0, time.Time{}
	}
}

// passes says that a refusal is no decision: the call did nothing and may be made again.
func passes(e *provider.Error) bool {
	return e.Status > 0 && e.Scope == provider.Passing && !e.NoRetry
}

// findFile looks whether an upload without an answer arrived.
func (e *Engine) findFile(ctx context.Context, p *part) {
	after := ""
	for range 5 {
		got := e.http.call(ctx, e.api.Files(after), nil)
		if got.err != nil {
			e.pollFailed(p, got)
			return
		}
		ids, next, err := e.api.FilePage(got.body)
		if err != nil {
			break
		}
		if id := ids[p.name]; id != "" {
			e.haveFile(p, id)
			return
		}
		if after = next; next == "" {
			break
		}
	}
	p.phase = planned
}

// create makes the batch. This is the call that buys: it is made once, and again
// only where it is certain that nothing came of it.
func (e *Engine) create(ctx context.Context, p *part) {
	m := e.meta(p.number, p.endpoint, p.model, p.file)
	r := e.api.Create(m)
	body := &payload{kind: "application/json", from: bytes.NewReader(r.Body), size: int64(len(r.Body)), key: m.Tag}
	if r.Body == nil {
		_, _, _, kind := e.api.Frame(m)
		body = &payload{kind: kind, from: io.NewSectionReader(p.spool, 0, p.bytes), size: p.bytes, key: m.Tag}
	}
	before := p.phase
	p.phase, p.at = creating, time.Now().UTC()
	if e.c.Sync != nil && e.c.Sync() != nil {
		e.haltErr(runner.WriteFailed, errors.New("the results could not be written to the disk"))
		return
	}
	if !e.record(record{Type: "create", Part: p.number, At: &p.at}) {
		return
	}
	late, cancel := context.WithCancel(context.WithoutCancel(ctx)) // a stop lets it finish
	defer cancel()
	defer context.AfterFunc(ctx, func() { time.AfterFunc(e.c.Drain, cancel) })()
	got := e.http.call(late, r, body)
	if got.err == nil {
		if s, err := e.api.Batch(got.body); err == nil {
			e.opened(p, s, true)
			return
		}
	}
	now := time.Now()
	switch {
	case got.err == nil:
	case got.unsent:
		p.phase = before
		p.failed(now, time.Second, longestBackoff, got.hint)
		return
	case got.err.Status == http.StatusTooManyRequests && got.err.Class != provider.SpendCap:
		p.phase = before
		if got.hint > 0 {
			p.due = now.Add(got.hint)
		} else {
			p.failed(now, throttleBackoff, longestThrottle, 0)
		}
		return
	case got.err.Class == provider.SpendCap || refusal(got.err.Status):
		p.phase = before
		e.haltFor("the batch was refused", got.err)
		return
	}
	e.c.Log.Warn("the creation of a batch was not answered: it is looked for before anything is sent again", "part", p.number)
	p.due = now.Add(e.c.Poll)
}

// refusal says that an answer to a creation leaves no doubt that none was made.
func refusal(status int) bool {
	return status >= 300 && status < 500 && status != http.StatusRequestTimeout && status != http.StatusConflict
}

// opened takes a batch as the part's own.
func (e *Engine) opened(p *part, s provider.BatchState, proven bool) {
	p.id, p.unproven = s.ID, !proven
	p.expires = s.Expires
	if p.expires.IsZero() {
		p.expires = p.at.Add(24 * time.Hour)
	}
	if !e.record(record{Type: "batch", Part: p.number, ID: p.id, Expires: &p.expires, Unproven: p.unproven}) {
		return
	}
	p.phase, p.tries = open, 0
	if p.spool != nil && proven {
		p.spool.Close()
		p.spool = nil
	}
	e.taken[p.model]++
	p.state, p.status, p.since = s, s.Status, time.Now()
	p.looked(time.Now(), e.c.Poll, e.caps.Floor)
	e.c.Log.Info(fmt.Sprintf("batch %s: %d requests sent, expires %s", provider.Clean(p.id, 100), p.n, p.expires.Local().Format("15:04")))
}

// find looks for the batch that a creation without an answer made.
func (e *Engine) find(ctx context.Context, p *part) {
	taken := map[string]bool{}
	for _, q := range e.parts {
		if q != p && q.id != "" {
			taken[q.id] = true
		}
	}
	for _, id := range p.wrong {
		taken[id] = true
	}
	list, got := e.list(ctx, p.at.Add(-10*time.Minute))
	if got.err != nil {
		e.pollFailed(p, got)
		return
	}
	now := time.Now()
	tag := e.meta(p.number, "", "", "").Tag
	if s, proven, ok := p.candidate(list, tag, e.caps.Named, taken, now); ok {
		e.opened(p, s, proven)
		return
	}
	p.notFound(now, e.c.Poll)
}

// list is the account's batches, down to those made before a time.
func (e *Engine) list(ctx context.Context, since time.Time) (all []provider.BatchState, got reply) {
	after := ""
	for range 100 {
		got = e.http.call(ctx, e.api.List(after), nil)
		if got.err != nil {
			return nil, got
		}
		page, next, err := e.api.Page(got.body)
		if err != nil {
			got.err = &provider.Error{Class: provider.InvalidResponse, Message: err.Error()}
			return nil, got
		}
		all = append(all, page...)
		if next == "" || len(page) == 0 || page[len(page)-1].Created.Before(since) {
			return all, got
		}
		after = next
	}
	return all, got
}

// pollFailed waits after a call that failed and buys nothing. Only the key and the
// account end a run: the batch goes on whether it is looked at or not.
func (e *Engine) pollFailed(p *part, got reply) {
	if fatal(got.err) {
		e.haltFor("the Batch API refused", got.err)
		return
	}
	p.failed(time.Now(), e.c.Poll, max(longestBackoff, e.c.Poll), got.hint)
}

// look asks how a batch stands.
func (e *Engine) look(ctx context.Context, p *part) {
	got := e.http.call(ctx, e.api.Get(p.id), nil)
	now := time.Now()
	if got.err != nil && got.err.Status == http.StatusNotFound {
		if p.lost.IsZero() {
			p.lost = now
		}
		if p.passing(now) {
			p.failed(now, e.c.Poll, longestBackoff, got.hint)
			return
		}
		p.state = provider.BatchState{ID: p.id, Phase: provider.BatchEnded, Status: "unknown to the API"}
		p.phase = ended
		return
	}
	var s provider.BatchState
	var err error
	if got.err == nil {
		if s, err = e.api.Batch(got.body); err != nil {
			got.err = &provider.Error{Class: provider.InvalidResponse, Message: err.Error()}
		}
	}
	if got.err != nil {
		e.pollFailed(p, got)
		return
	}
	p.seen, p.lost, p.tries, p.state = true, time.Time{}, 0, s
	if !s.Expires.IsZero() {
		p.expires = s.Expires
	}
	if s.Status != p.status {
		p.status, p.since = s.Status, now.UTC()
		if !e.record(record{Type: "state", Part: p.number, State: provider.Clean(s.Status, 60), At: &p.since}) {
			return
		}
	}
	switch s.Phase {
	case provider.BatchEnded:
		p.phase, p.due, p.since = ended, now, now
	case provider.BatchRefused:
		p.phase, p.due = refused, now
	default:
		p.looked(now, e.c.Poll, max(e.caps.Floor, got.hint))
	}
}

// cancel asks for a batch's cancelling; how it ends is seen by looking.
func (e *Engine) cancel(ctx context.Context, p *part) {
	now := time.Now()
	r := e.api.Cancel(p.id)
	if r == nil {
		p.asked = now
		return
	}
	got := e.http.call(ctx, *r, nil)
	if got.err != nil && (got.err.Status == 0 || got.err.Status == http.StatusTooManyRequests || got.err.Status >= 500) {
		p.failed(now, e.c.Poll, longestBackoff, got.hint)
		return
	}
	if e.record(record{Type: "asked", Part: p.number, At: &now}) { // one that has ended meanwhile says so at the next look
		p.asked, p.interval, p.due = now, 0, now.Add(e.caps.Floor)
	}
}

// prove sees by a batch's first result whether it is ours.
func (e *Engine) prove(ctx context.Context, p *part) {
	files, ok := e.results(ctx, p)
	if !ok {
		return
	}
	defer closeAll(files)
	ours := false
	for _, f := range files {
		if line, _, err := f.next(); err == nil {
			l, err := e.api.Line(line)
			ours = err == nil && strings.HasPrefix(l.ID, e.meta(p.number, "", "", "").Tag+"-")
			break
		}
	}
	if ours {
		if e.record(record{Type: "proven", Part: p.number}) {
			p.unproven = false
		}
		return
	}
	if e.record(record{Type: "wrong", Part: p.number, ID: p.id}) {
		p.wrong, p.id, p.unproven, p.phase = append(p.wrong, p.id), "", false, creating
	}
}

// refused takes in that the API did not take a batch's input. None of its items was
// done.
func (e *Engine) refused(p *part) {
	s := p.state
	switch {
	case s.TokenLimit:
		e.limitQueue(p)
	case s.Err != nil && s.Err.Scope != provider.WholeRun && s.Line > 0 && s.Line <= p.n:
		members, err := e.j.members(p)
		if err != nil {
			e.haltErr(runner.WriteFailed, err)
			return
		}
		m := members[s.Line-1]
		e.finish(p, &m, nil, nil, outcome{err: &provider.Error{Class: provider.Rejected, Scope: provider.ItemOnly,
			Status: 400, Code: s.Err.Code, Type: s.Err.Type, Message: s.Err.Message}}, nil)
	default:
		e.haltFor("the API did not take batch "+p.id, cmp.Or(s.Err, &provider.Error{Class: provider.Rejected, Message: s.Status}))
	}
	e.free(p, "refused: "+provider.Clean(s.Status, 60))
}

// limitQueue learns how many tokens a model's open batches may have.
func (e *Engine) limitQueue(p *part) {
	others := e.openTokens(p.model)
	limit := cmp.Or(p.state.Queue, max(others, p.tokens/2))
	if others == 0 { // somebody else's batches are in the queue, or an estimate is wrong
		limit = min(limit, p.tokens/2)
		e.pause = time.Now().Add(min(10*time.Minute<<e.waits, time.Hour))
		e.waits = min(e.waits+1, 3)
	}
	e.queue[p.model] = max(limit, 1)
	e.c.Log.Info(fmt.Sprintf("too many tokens in open batches of %s: at most %d from now on", provider.Clean(p.model, 100), e.queue[p.model]))
}
