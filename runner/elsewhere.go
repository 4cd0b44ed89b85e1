package runner

import (
	"bytes"
	"encoding/json"
	"iter"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/pacing"
	"llmbatch/runner/provider"
)

// DeferAfter is the least wait for which Config.Defer is asked.
const DeferAfter = 2 * time.Second

// Flight tells of one request at its launch and, with Landed set, at its end.
type Flight struct {
	At     time.Time
	Landed bool
	// Signal is what the request taught, Hint the wait that the server asked for;
	// Gate is when the lane opens again, zero if it is open.
	Signal pacing.Signal
	Hint   time.Duration
	Gate   time.Time
}

// Progress is what is known of an item between two attempts of one run: with it
// another process goes on where this one left off.
type Progress struct {
	Attempts []output.Attempt `json:",omitempty"`
	// Errors is how many of them count against --max-errors.
	Errors int `json:",omitempty"`
	// First is the first attempt's start, End the end of the item's budget.
	First, End time.Time
	Usage      provider.Usage
	Last       *provider.Error `json:",omitempty"`
	// Text is what cut streams brought, Next the body that asks for the rest, Part
	// how often that was asked for.
	Text string `json:",omitempty"`
	Next []byte `json:",omitempty"`
	Part int    `json:",omitempty"`
}

// resume takes over what another process did.
func (i *item) resume() {
	if i.r.c.Resume == nil {
		return
	}
	if p := i.r.c.Resume(i.line); p != nil {
		i.take(p)
	}
}

func (i *item) take(p *Progress) {
	i.attempts, i.errs, i.first, i.end = p.Attempts, p.Errors, p.First, p.End
	i.usage, i.last, i.text, i.next, i.part = p.Usage, p.Last, p.Text, p.Next, p.Part
}

// hand offers the item to Config.Defer; true means that somebody else has it.
func (i *item) hand(at time.Time) bool {
	if i.r.c.Defer == nil {
		return false
	}
	return i.r.c.Defer(i.line, Progress{
		Attempts: i.attempts, Errors: i.errs, First: i.first, End: i.end,
		Usage: i.usage, Last: i.last, Text: i.text, Next: i.next, Part: i.part,
	}, at)
}

// Remote is a run whose requests are made elsewhere (Config.Elsewhere): the run
// reads the input, decides what needs work, takes the rows that come back, and
// stops, as any run does. Its methods may be called by many goroutines, but for
// Items.
type Remote struct{ r *Runner }

// Open is an item that needs work.
type Open struct {
	Item *input.Item
	// Hash is its request_hash, Key its idempotency key.
	Hash, Key, Provider, Model string
	// Old is the row that an earlier run left, nil if there is none, and Earlier
	// how many attempts it has.
	Old     *output.Result
	Earlier int
	// NotBefore is before when it may not be sent; zero: at once.
	NotBefore time.Time

	item *item
}

// Items yields the items that need work, in order, and writes the rows of those
// that can't be sent. It ends with the input, or when the run stops.
func (m Remote) Items() iter.Seq[*Open] {
	return func(yield func(*Open) bool) {
		r, opened := m.r, 0
		for it, err := range r.c.Items {
			if err != nil {
				r.inputFailed(err)
				return
			}
			if r.ending.intake.Err() != nil {
				return
			}
			o, did := m.Open(it)
			if o != nil && !yield(o) {
				r.unsent.Add(1)
				return
			}
			if !did {
				continue
			}
			if opened++; r.c.Limit > 0 && opened >= r.c.Limit {
				break
			}
		}
		r.readAll.Store(true)
	}
}

// Open prepares an item. It returns nil where there is nothing to do; did says
// that the item has a row now or will have one.
func (m Remote) Open(it *input.Item) (o *Open, did bool) {
	t, row := m.r.prepareItem(it)
	if row != nil {
		m.r.emit(row)
		return nil, true
	}
	if t == nil {
		return nil, false
	}
	return &Open{Item: it, Hash: t.hash, Key: t.key, Provider: t.call.Provider, Model: t.call.Model,
		Old: t.old, Earlier: t.earlier, NotBefore: t.notBefore, item: t}, true
}

// Reserve sets money aside for the item's next request. Where that would pass
// the cap it returns false and a channel that is closed when a row has settled
// another item's; with nothing left to settle the run stops.
func (m Remote) Reserve(o *Open) (bool, <-chan struct{}) { return m.r.reserve(o.item) }

// Settle gives back what was set aside, for what the item's row says.
func (m Remote) Settle(o *Open, res *output.Result) {
	u := res.Usage
	if n := u.OutputTokens; n > o.item.lane.mostOutput.Load() {
		o.item.lane.mostOutput.Store(n) // what the next ones may cost
	}
	m.r.settle(o.item, provider.Usage{
		InputTokens: u.InputTokens, OutputTokens: u.OutputTokens,
		CacheReadTokens: u.CacheReadTokens, CacheWriteTokens: u.CacheWriteTokens, Known: true,
	}, u != output.Usage{} || len(res.Attempts) == 0 || res.Status == output.Failed)
}

// Accept takes a row made elsewhere: the guards see it, it is written and
// counted. Of the earlier runs' attempts it has the first earlier ones of the
// item's old row.
func (m Remote) Accept(res *output.Result, earlier int) {
	if earlier > 0 {
		res.History = m.history(res.Key, earlier)
	}
	if res.Status == output.Waiting {
		m.r.write(res)
		return
	}
	if res.GiveUpReason == "run_budget" {
		m.r.cutByEnd.Store(true)
	}
	m.r.emit(res)
}

// history is the first n attempts of an item's old row, as they were written.
func (m Remote) history(key string, n int) json.RawMessage {
	row, ok := m.r.c.Old(key)
	if !ok {
		return nil
	}
	old, err := m.r.c.OldRow(row.Offset)
	if err != nil {
		m.r.ending.halt(stop{reason: WriteFailed, err: err, message: "an earlier row could not be read again"})
		return nil
	}
	return FirstAttempts(old.History, n)
}

// FirstAttempts is the first n of the attempts in a Result's History, as they
// were written.
func FirstAttempts(history json.RawMessage, n int) json.RawMessage {
	d := jsontext.NewDecoder(bytes.NewReader(append(append([]byte{'['}, history...), ']')), jsontext.AllowDuplicateNames(true))
	if _, err := d.ReadToken(); err != nil {
		return nil
	}
	var first json.RawMessage
	for i := 0; i < n && d.PeekKind() == '{'; i++ {
		v, err := d.ReadValue()
		if err != nil {
			return nil
		}
		if i > 0 {
			first = append(first, ',')
		}
		first = append(first, v...)
	}
	return first
}

// Leave writes the row of an item that has had attempts and is open when the run
// has stopped.
// With laneClosed the item gives up because its lane is closed.
func (m Remote) Leave(line *input.Item, p Progress, laneClosed bool) {
	i, err := m.r.prepare(line)
	if err != nil {
		m.r.emit(m.r.badRow(line, err))
		return
	}
	if row, ok := m.oldRow(line.Key); ok {
		_ = m.r.carry(i, row, false)
	}
	if i.key == "" {
		i.key = idempotencyKey(m.r.c.Salt, line.Key, i.hash)
	}
	i.take(&p)
	if laneClosed {
		i.finish(output.GaveUp, i.last, "lane_closed")
		return
	}
	i.finish(m.r.ending.openStatus(), i.last, m.r.openReason())
}

func (m Remote) oldRow(key string) (output.Row, bool) {
	if m.r.c.Old == nil {
		return output.Row{}, false
	}
	return m.r.c.Old(key)
}

// Halt ends the run for the given reason, unless it has ended for a stronger one.
func (m Remote) Halt(reason Reason, message, hint string, err error) {
	m.r.Halt(reason, message, hint, err)
}

// Ending is why the run stops: the Report's first members.
func (m Remote) Ending() Report {
	m.r.ending.mu.Lock()
	defer m.r.ending.mu.Unlock()
	s := m.r.ending.stop
	return Report{Reason: s.reason, Message: s.message, Hint: s.hint, Err: s.err}
}

// Halt stops the run as if it had found the reason itself. It may be called from
// anywhere.
func (r *Runner) Halt(reason Reason, message, hint string, err error) {
	r.ending.halt(stop{reason: reason, message: message, hint: hint, err: err})
}

// Note makes the report say LaneClosed at the end, with this message.
func (m Remote) Note(message string) {
	m.r.ending.mu.Lock()
	if m.r.ending.notice == "" {
		m.r.ending.notice = message
	}
	m.r.ending.mu.Unlock()
}

// ReadAll says that the input was read to its end, or to Config.Limit.
func (m Remote) ReadAll() bool { return m.r.readAll.Load() }

// WriteFailed says that a row could not be written.
func (m Remote) WriteFailed() bool {
	m.r.ending.mu.Lock()
	defer m.r.ending.mu.Unlock()
	return m.r.ending.stop.reason == WriteFailed
}

// Unsent counts items that were read and are left without a row.
func (m Remote) Unsent(n int) { m.r.unsent.Add(int64(n)) }

// Stopped is done when nothing more may be launched, Cut when nothing more is
// waited for.
func (m Remote) Stopped() <-chan struct{} { return m.r.ending.intake.Done() }

// Cut is closed when requests on the wire are cancelled.
func (m Remote) Cut() <-chan struct{} { return m.r.ending.hard.Done() }

// Saw counts a request made elsewhere; inFlight is how many are on the wire.
func (m Remote) Saw(f Flight, inFlight int) {
	switch {
	case !f.Landed:
		m.r.requests.Add(1)
	case f.Signal == pacing.Throttled:
		m.r.throttled.Add(1)
	}
	for p, n := m.r.peak.Load(), int64(inFlight); n > p && !m.r.peak.CompareAndSwap(p, n); p = m.r.peak.Load() {
	}
}
