package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/runner"
)

// take puts a message into hand, unless somebody has already dealt with it.
func (w *worker) take(p *puller, m *nats.Msg) {
	meta, err := m.Metadata()
	if err != nil {
		return
	}
	h := &held{reply: m.Reply}
	err = json.Unmarshal(m.Data, &h.rec)
	if it := &h.rec.Item; err == nil && (it.Index < 0 || it.ID == "" || h.rec.Lane != p.lane) {
		err = fmt.Errorf("line %d with the id %q of lane %q", it.Line, it.ID, h.rec.Lane)
	}
	if err != nil {
		w.log.Error("a message that is no item was dropped", "subject", m.Subject, "error", err)
		go w.ack(w.hard, m.Reply)
		return
	}
	if h.rec.Epoch < w.config.Epoch { // put off by a worker of the run before
		go w.ack(w.hard, m.Reply)
		return
	}
	if h.rec.Epoch > w.config.Epoch {
		w.nak(m.Reply)
		w.fail(errStale)
		return
	}
	if err := p.verify(&h.rec); err != nil {
		w.nak(m.Reply)
		w.fail(err)
		return
	}
	line := h.rec.Item.Index
	w.mu.Lock()
	if mine := w.held[line]; mine != nil { // its lease had run out while the server was away
		mine.reply = m.Reply
		w.mu.Unlock()
		return
	}
	w.held[line], w.keys[h.rec.Item.Key] = h, h
	p.held++
	w.mu.Unlock()
	if meta.NumDelivered > 1 || m.Header.Get(againHeader) != "" {
		go w.look(h, meta.Sequence.Stream)
		return
	}
	w.items <- h
}

// look finds out whether a message that comes again was dealt with: its result
// is there, its next attempt is scheduled, or a later copy is queued. Without that
// look somebody would pay twice.
func (w *worker) look(h *held, seq uint64) {
	found, err := w.dealtWith(h, seq)
	if err != nil {
		w.log.Warn("looking for an earlier result", "line", h.rec.Item.Line, "error", err)
	}
	if found {
		w.ack(w.hard, w.drop(h))
		return
	}
	select {
	case w.items <- h:
	case <-w.hard.Done():
	}
}

func (w *worker) dealtWith(h *held, seq uint64) (bool, error) {
	line, lane := h.rec.Item.Index, h.rec.Lane
	looks := []struct {
		subject string
		after   uint64
	}{{w.waitSubject(lane, line), 0}, {w.workSubject(lane, line), seq}}
	for _, l := range looks {
		m, err := w.last(w.workStream(), l.subject)
		if err != nil {
			return false, err
		}
		if m != nil && m.Sequence > l.after {
			return true, nil
		}
	}
	return w.ask(w.hard, w.config.Epoch, line)
}

// last is the last message of a subject, nil if there is none.
func (c *Conn) last(stream, subject string) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*oneTry)
	defer cancel()
	for {
		m, err := c.lastOnce(ctx, stream, subject)
		if err == nil || ctx.Err() != nil {
			return m, err
		}
		if sleep(ctx, 100*time.Millisecond) != nil {
			return nil, err
		}
	}
}

// drop takes an item out of hand, which ends its lease, and returns where to
// acknowledge it.
func (w *worker) drop(h *held) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	line := h.rec.Item.Index
	if w.held[line] == h {
		delete(w.held, line)
		delete(w.keys, h.rec.Item.Key)
		if p := w.lanes[h.rec.Lane]; p != nil {
			p.held--
			p.wake()
		}
	}
	return h.reply
}

// write is the runner's sink: it returns when the server has the row. Only then
// is the message acknowledged.
func (w *worker) write(res *output.Result) error {
	h := w.byLine(res.Index)
	if h == nil || w.finished() {
		return nil
	}
	if res.Status == output.Aborted && w.leaving.Load() && w.handOver(h, res) {
		return nil
	}
	row := *res
	row.History = nil
	m := nats.NewMsg(w.resSubject(res.Index))
	m.Data = output.AppendRow(nil, &row)
	if len(m.Data) > w.most {
		m.Data = output.AppendRow(nil, tooLong(&row, len(m.Data), w.most))
	}
	if h.rec.Old != nil {
		m.Header.Set(earlierHeader, strconv.Itoa(h.rec.Old.Attempts))
	}
	m.Header.Set(epochHeader, w.config.Epoch)
	if res.Status == output.Waiting {
		m.Subject = w.subject("note." + strconv.Itoa(res.Index))
		return w.publish(w.hard, m, fmt.Sprintf("v/%d/%d", res.Index, len(res.Attempts)))
	}
	// The worker is in the id: another's row of the line, if there is one, is the
	// coordinator's to pass over.
	if err := w.publish(w.hard, m, fmt.Sprintf("r/%d/%s", res.Index, w.o.ID)); err != nil {
		return fmt.Errorf("publishing the result of line %d: %w", h.rec.Item.Line, err)
	}
	w.ack(w.hard, w.drop(h))
	return nil
}

// handOver gives an item that ends only because this worker does to the others, with
// the attempts that it had.
func (w *worker) handOver(h *held, res *output.Result) bool {
	p := runner.Progress{Attempts: res.Attempts, First: res.FirstAttemptAt}
	if old := h.rec.Progress; old != nil {
		p.Errors, p.First, p.End, p.Usage, p.Text, p.Next = old.Errors, old.First, old.End, old.Usage, old.Text, old.Next
	}
	return w.putOff(h.rec.Item.item(), p, time.Time{})
}

// tooLong is the row of an answer that no message can hold.
func tooLong(res *output.Result, size, most int) *output.Result {
	r := *res
	r.Status, r.Text, r.Response = output.Failed, "", nil
	r.Error = &output.Error{Class: "answer_too_large_for_fleet",
		Message: fmt.Sprintf("the row has %d bytes and a message of this NATS server at most %d: raise its max_payload, or run this item with llmbatch run", size, most)}
	return &r
}

// putOff is runner.Config.Defer: the item goes back to the queue, to be
// delivered at a time, and its slot is free at once.
func (w *worker) putOff(it *input.Item, p runner.Progress, at time.Time) bool {
	h := w.byLine(it.Index)
	if h == nil {
		return w.finished()
	}
	if at.IsZero() { // the runner stops
		if !w.leaving.Load() {
			return false
		}
		at = time.Now()
	}
	rec := h.rec
	rec.Progress = &p
	data, err := json.Marshal(rec)
	if err != nil || len(data) > w.most {
		return false
	}
	line := it.Index
	m := schedule(w.waitSubject(rec.Lane, line), w.workSubject(rec.Lane, line), at.Add(w.offset), data)
	if err := w.publish(w.hard, m, fmt.Sprintf("w/%d/%d", line, len(p.Attempts))); err != nil {
		return false
	}
	w.deferred.Add(1)
	w.ack(w.hard, w.drop(h))
	return true
}

// giveBack returns what was never begun, so that others get it at once.
func (w *worker) giveBack() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for line, h := range w.held {
		w.nak(h.reply)
		delete(w.held, line)
	}
}

// finished says that all rows are in, so that what is still in hand is of no use.
func (w *worker) finished() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ending != nil && w.ending.Reason == runner.Finished
}

// keepLeases renews the lease of everything in hand.
func (w *worker) keepLeases(ctx context.Context) {
	for sleep(ctx, w.config.Lease/3) == nil {
		w.mu.Lock()
		replies := make([]string, 0, len(w.held))
		for _, h := range w.held {
			replies = append(replies, h.reply)
		}
		w.mu.Unlock()
		for _, r := range replies {
			w.alive(r)
		}
	}
}
