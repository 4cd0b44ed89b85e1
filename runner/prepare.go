package runner

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/pacing"
	"llmbatch/runner/provider"
)

// prepareItem decides whether an item needs work and prepares it. A nil item with a
// nil row means that there is nothing to do for it.
func (r *Runner) prepareItem(line *input.Item) (*item, *output.Result) {
	if line.Bad != nil {
		return nil, r.badLine(line, line.Bad)
	}
	row, had := output.Row{}, false
	if r.c.Old != nil {
		row, had = r.c.Old(line.Key)
	}
	done := had && (row.Status == output.OK || row.Status == output.Failed && !r.c.RetryFailed)
	if done && !r.c.Rerun {
		r.ledger.skip(row.Status)
		return nil, nil
	}
	i, err := r.prepare(line)
	if err != nil {
		if r.c.Reject != nil {
			r.c.Reject(line, err)
		}
		return nil, r.badLine(line, err)
	}
	if done && row.Hash == output.HashOf(i.hash) {
		r.ledger.skip(row.Status)
		return nil, nil
	}
	if had && !r.carry(i, row, done) {
		r.ledger.skip(row.Status)
		return nil, nil
	}
	if i.key == "" {
		salt := r.c.Salt
		if had && row.Status == output.Failed {
			salt = r.c.FreshSalt
		}
		i.key = idempotencyKey(salt, line.Key, i.hash)
	}
	return i, nil
}

func (r *Runner) prepare(line *input.Item) (*item, error) {
	target, err := r.c.Route(line)
	if err != nil {
		return nil, err
	}
	call, err := target.Provider.Encode(line, target.Defaults)
	if err != nil {
		return nil, err
	}
	return &item{r: r, line: line, call: call, hash: provider.Hash(call), lane: r.laneOf(target, call.Model)}, nil
}

// carry takes over what an earlier run knew of the item. It reports false where
// the row has to stay as it is, because the wait it names fits no budget.
func (r *Runner) carry(i *item, row output.Row, changed bool) bool {
	old, err := r.c.OldRow(row.Offset)
	if err != nil {
		r.ending.halt(stop{reason: WriteFailed, err: err, message: "an earlier row could not be read again"})
		return false
	}
	i.old, i.earlier = old, countAttempts(old.History)
	if changed {
		return true
	}
	if old.RequestHash == i.hash && row.Status != output.Failed {
		i.key = old.IdempotencyKey
	}
	if row.Status == output.Failed {
		return true
	}
	return r.schedule(i, old.NextAttemptAt)
}

// schedule sets when an item may leave; false means that the wait does not fit.
func (r *Runner) schedule(i *item, at time.Time) bool {
	now := time.Now()
	wait := at.Sub(now)
	if at.IsZero() || wait <= 0 {
		return true
	}
	p, budget := i.policy(), i.budget()
	if p.MaxWait > 0 && wait > p.MaxWait {
		if !capped(p) {
			return false
		}
		wait = p.MaxWait
		at = now.Add(wait)
	}
	if wait > longest || budget > 0 && wait > budget {
		return false // it would not be begun for an item of this run either
	}
	if !r.c.End.IsZero() && at.After(r.c.End) {
		r.cutByEnd.Store(true)
		return false
	}
	i.notBefore = at
	return true
}

// longest is the longest wait that fits any budget.
const longest = 24 * time.Hour

func idempotencyKey(salt, id, hash string) string {
	b := make([]byte, 0, 128) // most ids and their hash fit: nothing is allocated
	b = append(append(strconv.AppendInt(b, int64(len(id)), 10), ':'), id...)
	sum := sha256.Sum256(append(b, hash...))
	b = append(append(b[:0], salt...), '-')
	return string(hex.AppendEncode(b, sum[:16]))
}

// countAttempts counts the objects of a row's earlier attempts.
func countAttempts(history []byte) int {
	if len(history) == 0 {
		return 0
	}
	d := jsontext.NewDecoder(bytes.NewReader(append(append([]byte{'['}, history...), ']')))
	if _, err := d.ReadToken(); err != nil {
		return 0
	}
	n := 0
	for d.PeekKind() == '{' && d.SkipValue() == nil {
		n++
	}
	return n
}

// forget drops what can be read again, for the time of a wait.
func (r *Runner) forget(i *item) {
	if r.c.Reload != nil {
		i.line.Forget()
		i.call.Body = nil
	}
}

var errChanged = errors.New("the line was changed while the run was going on")

// recall reads again what forget dropped.
func (r *Runner) recall(i *item) error {
	if r.c.Reload == nil || i.call.Body != nil {
		return nil
	}
	if err := r.c.Reload(i.line); err != nil {
		return err
	}
	call, err := i.lane.target.Provider.Encode(i.line, i.lane.target.Defaults)
	if err != nil {
		return err
	}
	if provider.Hash(call) != i.hash {
		return errChanged
	}
	i.call = call
	return nil
}

// bytes is about what the item holds in memory.
func (i *item) bytes() int {
	n := 512 + len(i.call.Body) + len(i.line.Body) + len(i.line.Prompt) + len(i.line.Metadata) + len(i.line.Input)
	if i.old != nil {
		n += len(i.old.History)
	}
	return n
}

// work tells pacing what is about to be sent.
func (i *item) work(notAfter time.Time) pacing.Work {
	return pacing.Work{
		Order:     int64(i.line.Index),
		Input:     float64(i.line.Size) / 4,
		MaxOutput: float64(i.call.MaxTokens),
		NotAfter:  notAfter,
	}
}
