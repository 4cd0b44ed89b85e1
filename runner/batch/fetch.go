package batch

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"time"

	"llmbatch/input"
	"llmbatch/runner"
	"llmbatch/runner/provider"
)

const (
	// lateResults is how long a batch that has ended may be without its results.
	lateResults = 10 * time.Minute
	// mostTries of fetching results that come cut short.
	mostTries = 10
)

// results are a batch's lines, in a file without a name.
type resultFile struct {
	file *os.File
	r    *bufio.Reader
	at   int64
}

// next is the next line that is not blank, and where it begins.
func (f *resultFile) next() (line []byte, at int64, err error) {
	for {
		line, err = f.r.ReadBytes('\n')
		at = f.at
		f.at += int64(len(line))
		if line = bytes.TrimSpace(line); len(line) > 0 {
			return line, at, nil
		}
		if err != nil {
			return nil, at, err
		}
	}
}

func closeAll(files []*resultFile) {
	for _, f := range files {
		f.file.Close()
	}
}

// results downloads all of a batch's results. ok is false where they are not there
// yet; a time for the next try is then set.
func (e *Engine) results(ctx context.Context, p *part) (files []*resultFile, ok bool) {
	now := time.Now()
	if p.since.IsZero() {
		p.since = now
	}
	requests := e.api.Results(p.state)
	if p.state.Status == "unknown to the API" {
		return nil, true
	}
	if len(p.state.Results) > 0 {
		return e.inline(p)
	}
	if len(requests) == 0 && p.state.Phase == provider.BatchEnded && now.Sub(p.since) < lateResults && p.state.Total != p.state.Failed {
		switch p.state.Status { // these may well have none
		case "expired", "cancelled", "failed", "timeout_exceeded":
		default:
			p.phase, p.due = open, now.Add(e.c.Poll) // a gateway may be late
			return nil, false
		}
	}
	for _, r := range requests {
		f, got := e.http.save(ctx, r, dirOf(e.c.Journal))
		if got.err == nil && !whole(f) {
			f.Close()
			got.err = &provider.Error{Class: provider.Truncated, Message: "the results were cut short"}
		}
		switch {
		case got.err == nil:
			_, _ = f.Seek(0, io.SeekStart)
			files = append(files, &resultFile{file: f, r: bufio.NewReaderSize(f, 1<<16)})
			continue
		case got.err.Local:
			e.haltErr(runner.WriteFailed, errors.New(got.err.Message))
		case got.err.Status == http.StatusNotFound || got.err.Status == http.StatusGone:
			if now.Sub(p.since) > lateResults {
				continue // they are gone for good
			}
			p.failed(now, e.c.Poll, longestBackoff, got.hint)
		case p.tries >= mostTries && got.err.Status == 0:
			e.halt(Report{Reason: runner.Aborted, Message: "the results of batch " + p.id + " could not be fetched: " + describe(got.err),
				Hint: "they stay at the provider: run the same command again"})
		default:
			e.pollFailed(p, got)
		}
		closeAll(files)
		return nil, false
	}
	return files, true
}

// inline writes results that came with the batch into a file, as if they had been
// downloaded.
func (e *Engine) inline(p *part) ([]*resultFile, bool) {
	f, err := spool(dirOf(e.c.Journal))
	if err != nil {
		e.haltErr(runner.WriteFailed, err)
		return nil, false
	}
	for _, line := range p.state.Results {
		var b bytes.Buffer
		if json.Compact(&b, line) == nil {
			b.WriteByte('\n')
			if _, err := f.Write(b.Bytes()); err != nil {
				f.Close()
				e.haltErr(runner.WriteFailed, err)
				return nil, false
			}
		}
	}
	_, _ = f.Seek(0, io.SeekStart)
	return []*resultFile{{file: f, r: bufio.NewReader(f)}}, true
}

// whole says that a file of lines ends with the end of a line, or with a line that
// lacks only that.
func whole(f *os.File) bool {
	info, err := f.Stat()
	if err != nil || info.Size() == 0 {
		return err == nil
	}
	for n := int64(4 << 10); ; n *= 8 {
		from := max(0, info.Size()-n)
		tail := make([]byte, info.Size()-from)
		if _, err := f.ReadAt(tail, from); err != nil {
			return false
		}
		if tail[len(tail)-1] == '\n' {
			return true
		}
		if i := bytes.LastIndexByte(tail, '\n'); i >= 0 || from == 0 {
			return json.Valid(tail[i+1:])
		}
	}
}

// spot is where an item's line is.
type spot struct {
	file *resultFile
	at   int64
	ok   bool // it is an answer
}

// fetch makes rows of a batch's results. Each of its items is accounted for: one
// without a line was not answered.
func (e *Engine) fetch(ctx context.Context, p *part) {
	files, ok := e.results(ctx, p)
	if !ok {
		return
	}
	defer closeAll(files)
	members, err := e.j.members(p)
	if err != nil {
		e.haltErr(runner.WriteFailed, fmt.Errorf("the journal: %w", err))
		return
	}
	byKey := make(map[string]*member, len(members))
	spots := make(map[string]spot, len(members))
	for i := range members {
		byKey[members[i].key()] = &members[i]
		spots[members[i].custom] = spot{}
	}
	t := &tally{Ended: Ended{ID: p.id, Model: p.model, N: p.n}}
	for _, f := range files {
		e.sort(f, spots, t)
	}
	last := 0
	for i := range members {
		last = max(last, members[i].index)
	}
	for it, err := range e.c.Items() {
		if err != nil {
			e.haltErr(runner.InputFailed, err)
			return
		}
		m := byKey[it.Key]
		if m == nil {
			if it.Index > last+len(members) && len(byKey) == 0 {
				break
			}
			continue
		}
		delete(byKey, it.Key)
		if !e.settle(ctx, p, m, it, spots[m.custom], t) {
			return
		}
		if len(byKey) == 0 {
			break
		}
	}
	for i := range members { // lines that are no longer in the input
		if m := &members[i]; byKey[m.key()] == m && !e.settle(ctx, p, m, nil, spots[m.custom], t) {
			return
		}
	}
	e.finished(ctx, p, t)
}

// sort finds each item's line. Of two for one item the first counts, unless only
// the second is an answer.
func (e *Engine) sort(f *resultFile, spots map[string]spot, t *tally) {
	for {
		line, at, err := f.next()
		if err != nil {
			return
		}
		l, err := e.api.Line(line)
		have, ours := spots[l.ID]
		if err != nil || !ours {
			t.Unknown++
			continue
		}
		good := l.Err == nil && l.Answer.Status/100 == 2
		if have.file == nil || good && !have.ok {
			spots[l.ID] = spot{file: f, at: at, ok: good}
		}
	}
}

// settle writes the row of one item. It reports false where the run has to stop.
func (e *Engine) settle(ctx context.Context, p *part, m *member, it *input.Item, s spot, t *tally) bool {
	if ctx.Err() != nil {
		return false
	}
	var call *provider.Call
	if it != nil {
		call, _ = e.c.Encode(it) // one that can't be encoded any more is known by the journal
	}
	if call == nil {
		call = &provider.Call{Provider: e.c.Target.Defaults.Name, Path: p.endpoint, Model: p.model}
	}
	o := outcome{err: &provider.Error{Class: provider.InvalidResponse, Message: "no line in the batch's results"}}
	missing := true
	if s.file != nil {
		line, err := (&resultFile{file: s.file.file, r: bufio.NewReader(io.NewSectionReader(s.file.file, s.at, 1<<62))}).line()
		if err != nil {
			e.haltErr(runner.WriteFailed, err)
			return false
		}
		l, err := e.api.Line(line)
		switch {
		case err != nil:
			o.err = &provider.Error{Class: provider.InvalidResponse, Message: err.Error()}
		case l.Err != nil:
			o.err, missing = l.Err, false
		default:
			l.Answer.At = time.Now()
			o.status, missing = l.Answer.Status, false
			o.reply, o.err = e.c.Target.Provider.Decode(call, l.Answer)
		}
	}
	if missing {
		t.Missing++
	}
	return e.finish(p, m, it, call, o, t)
}

func (f *resultFile) line() ([]byte, error) {
	line, _, err := f.next()
	return line, err
}

// finished ends a part whose rows are written. They are on the disk before the
// journal forgets it.
func (e *Engine) finished(ctx context.Context, p *part, t *tally) {
	for _, r := range e.guard.held { // the journal forgets them; they are counted when it is clear what they are
		if err := e.c.Write(r); err != nil {
			e.haltErr(runner.WriteFailed, err)
			return
		}
	}
	if e.c.Sync != nil {
		if err := e.c.Sync(); err != nil {
			e.haltErr(runner.WriteFailed, err)
			return
		}
	}
	if !e.record(record{Type: "fetched", Part: p.number, Tally: t.Tally}) || !e.record(record{Type: "end", Part: p.number, State: p.status}) {
		return
	}
	t.Took = p.ended().Sub(p.created())
	e.done = append(e.done, t.Ended)
	if e.c.Spend != nil {
		e.c.Spend.Settle(p.reserve, t.Cost, true)
	}
	if e.c.Delete {
		for _, r := range e.api.Delete(p.state) {
			e.http.call(ctx, r, nil) // else they expire
		}
	}
	e.drop(p)
	e.waits = 0
	e.c.Log.Info(fmt.Sprintf("batch %s: %s after %s: %d ok, %d failed, %d to be tried again", provider.Clean(p.id, 100), p.status,
		t.Took.Round(time.Second), t.OK, t.Failed, t.Again))
}

func (p *part) created() time.Time {
	if !p.state.Created.IsZero() {
		return p.state.Created
	}
	return p.at
}

func (p *part) ended() time.Time {
	if !p.state.Ended.IsZero() && !p.state.Ended.Before(p.created()) {
		return p.state.Ended
	}
	return time.Now()
}
