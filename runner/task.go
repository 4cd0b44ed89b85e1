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

// task is an item that needs work.
type task struct {
	item *input.Item
	lane *lane
	call *provider.Call
	hash string
	key  string // idempotency key
	part int    // how often the rest of a cut answer was asked for
	old  *output.Result
	// earlier is how many attempts earlier runs made.
	earlier int
	// notBefore is the next_attempt_at of an earlier run, zero if there is none.
	notBefore time.Time
	reserved  float64 // money set aside for the next request
}

// prepareItem decides whether an item needs work and prepares it. A nil task with a
// nil row means that there is nothing to do for it.
func (r *Runner) prepareItem(it *input.Item) (*task, *output.Result) {
	if it.Bad != nil {
		return nil, r.badLine(it, it.Bad)
	}
	row, had := output.Row{}, false
	if r.c.Old != nil {
		row, had = r.c.Old(it.Key)
	}
	done := had && (row.Status == output.OK || row.Status == output.Failed && !r.c.RetryFailed)
	if done && !r.c.Rerun {
		r.skip(row.Status)
		return nil, nil
	}
	t, err := r.prepare(it)
	if err != nil {
		if r.c.Reject != nil {
			r.c.Reject(it, err)
		}
		return nil, r.badLine(it, err)
	}
	if done && row.Hash == output.HashOf(t.hash) {
		r.skip(row.Status)
		return nil, nil
	}
	if had && !r.carry(t, row, done) {
		r.skip(row.Status)
		return nil, nil
	}
	if t.key == "" {
		salt := r.c.Salt
		if had && row.Status == output.Failed {
			salt = r.c.FreshSalt
		}
		t.key = idempotencyKey(salt, it.Key, t.hash)
	}
	return t, nil
}

func (r *Runner) prepare(it *input.Item) (*task, error) {
	target, err := r.c.Route(it)
	if err != nil {
		return nil, err
	}
	call, err := target.Provider.Encode(it, target.Defaults)
	if err != nil {
		return nil, err
	}
	return &task{item: it, call: call, hash: provider.Hash(call), lane: r.laneOf(target, call.Model)}, nil
}

// carry takes over what an earlier run knew of the item. It reports false where
// the row has to stay as it is, because the wait it names fits no budget.
func (r *Runner) carry(t *task, row output.Row, changed bool) bool {
	old, err := r.c.OldRow(row.Offset)
	if err != nil {
		r.halt(stop{reason: WriteFailed, err: err, message: "an earlier row could not be read again"})
		return false
	}
	t.old, t.earlier = old, countAttempts(old.History)
	if changed {
		return true
	}
	if old.RequestHash == t.hash && row.Status != output.Failed {
		t.key = old.IdempotencyKey
	}
	if row.Status == output.Failed {
		return true
	}
	return r.schedule(t, old.NextAttemptAt)
}

// schedule sets when a task may leave; false means that the wait does not fit.
func (r *Runner) schedule(t *task, at time.Time) bool {
	now := time.Now()
	wait := at.Sub(now)
	if at.IsZero() || wait <= 0 {
		return true
	}
	if r.c.Retry.MaxWait > 0 && wait > r.c.Retry.MaxWait {
		if !r.capped() {
			return false
		}
		wait = r.c.Retry.MaxWait
		at = now.Add(wait)
	}
	if wait > longest || r.c.ItemBudget > 0 && wait > r.c.ItemBudget {
		return false // it would not be begun for an item of this run either
	}
	if !r.c.End.IsZero() && at.After(r.c.End) {
		r.cutByEnd.Store(true)
		return false
	}
	t.notBefore = at
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
func (r *Runner) forget(t *task) {
	if r.c.Reload != nil {
		t.item.Forget()
		t.call.Body = nil
	}
}

var errChanged = errors.New("the line was changed while the run was going on")

// recall reads again what forget dropped.
func (r *Runner) recall(t *task) error {
	if r.c.Reload == nil || t.call.Body != nil {
		return nil
	}
	if err := r.c.Reload(t.item); err != nil {
		return err
	}
	call, err := t.lane.target.Provider.Encode(t.item, t.lane.target.Defaults)
	if err != nil {
		return err
	}
	if provider.Hash(call) != t.hash {
		return errChanged
	}
	t.call = call
	return nil
}

// bytes is about what the task holds in memory.
func (t *task) bytes() int {
	n := 512 + len(t.call.Body) + len(t.item.Body) + len(t.item.Prompt) + len(t.item.Metadata)
	if t.old != nil {
		n += len(t.old.History)
	}
	return n
}

// work tells pacing what is about to be sent.
func (t *task) work(notAfter time.Time) pacing.Work {
	return pacing.Work{
		Order:     int64(t.item.Index),
		Input:     float64(t.item.Size) / 4,
		MaxOutput: float64(t.call.MaxTokens),
		NotAfter:  notAfter,
	}
}
