package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"

	"llmbatch/output"
	"llmbatch/runner"
)

const (
	// batch is how many items are published before their acknowledgements are awaited.
	batch = 128
	// mostWaiting bounds the scheduled messages: an outage must not turn the whole
	// input into waiting items.
	mostWaiting = 100_000
	// mostAhead bounds what waits for a lane while another one could launch.
	mostAhead = 4096
)

// feeding is a batch on its way to the server.
type feeding struct {
	c     *Coordinator
	round int
	msgs  []*nats.Msg
	ids   []string
	acks  []<-chan error
}

// feed publishes the items that need work, as far as the queue has room.
func (c *Coordinator) feed(ctx context.Context) {
	f := &feeding{c: c}
	for o := range c.m.Items() {
		if !c.feedOne(ctx, f, o) {
			_ = f.flush(ctx)
			return
		}
	}
	if f.flush(ctx) != nil || ctx.Err() != nil {
		return
	}
	c.mu.Lock()
	c.fedAll = c.m.ReadAll()
	c.checkDone()
	c.mu.Unlock()
	c.storeCursor(ctx)
}

// feedOne publishes one item; false means that the feeding has ended.
func (c *Coordinator) feedOne(ctx context.Context, f *feeding, o *runner.Open) bool {
	line := o.Item.Index
	c.mu.Lock()
	c.looked = line + 1
	c.mu.Unlock()
	if c.finishedBefore(o) {
		return true
	}
	c.mu.Lock()
	if c.done.has(line) { // its result came before this look
		c.mu.Unlock()
		return true
	}
	if c.due.add(line) {
		c.missing++
	}
	c.wanted[line] = wanted{o.Item.Key, o.Hash}
	fed := line < c.stored
	c.mu.Unlock()
	if fed {
		return true
	}
	l, err := c.laneFor(ctx, o)
	for err != nil {
		c.log.Warn("opening a lane", "error", err)
		if sleep(ctx, time.Second) != nil {
			return false
		}
		l, err = c.laneFor(ctx, o)
	}
	if c.laneClosed(l) {
		c.forgetLine(line)
		c.m.Unsent(1)
		return true
	}
	if !c.await(ctx, f, l) || !c.reserve(ctx, f, o) {
		return false
	}
	return f.add(ctx, o, l)
}

func (c *Coordinator) laneClosed(l *lane) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return l.closed
}

// forgetLine says that a line gets no row in this run.
func (c *Coordinator) forgetLine(line int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.due.has(line) && c.done.add(line) {
		c.missing--
	}
	delete(c.wanted, line)
}

// await waits until the lane's queue has room.
func (c *Coordinator) await(ctx context.Context, f *feeding, l *lane) bool {
	for {
		c.mu.Lock()
		room, free := c.room, c.hasRoom(l)
		if free {
			l.queued++
		}
		c.mu.Unlock()
		if free {
			return true
		}
		if f.flush(ctx) != nil {
			return false
		}
		c.storeCursor(ctx)
		select {
		case <-room:
		case <-ctx.Done():
			return false
		}
	}
}

// hasRoom is called with c.mu held.
func (c *Coordinator) hasRoom(l *lane) bool {
	if c.waiting >= mostWaiting {
		return false
	}
	if l.queued < c.window(l) {
		return true
	}
	if l.queued >= mostAhead || len(c.lanes) < 2 {
		return false
	}
	for _, other := range c.lanes {
		if other != l && !other.closed && other.queued < c.window(other)/2 {
			return true
		}
	}
	return false
}

// window keeps the queue short, so that a retry that falls due waits for about
// two service times at most.
func (c *Coordinator) window(l *lane) int {
	if c.o.Window > 0 {
		return c.o.Window
	}
	return max(256, 2*l.limit)
}

// reserve sets aside what the item may cost, if there is a cap on money.
func (c *Coordinator) reserve(ctx context.Context, f *feeding, o *runner.Open) bool {
	if !c.o.Money {
		return true
	}
	for {
		ok, settled := c.m.Reserve(o)
		if ok {
			c.mu.Lock()
			c.open[o.Item.Index] = o
			c.mu.Unlock()
			return true
		}
		if f.flush(ctx) != nil {
			return false
		}
		select {
		case <-settled:
		case <-c.m.Stopped():
			return false
		case <-ctx.Done():
			return false
		}
	}
}

// message is an item's first message; nil if no message can hold it.
func (c *Coordinator) message(o *runner.Open, laneID string) (*nats.Msg, int) {
	rec := record{Item: toWire(o.Item), Lane: laneID, Hash: o.Hash, Key: o.Key, Epoch: c.config.Epoch}
	if o.Old != nil {
		rec.Old = &earlier{Attempts: o.Earlier, Usage: o.Old.Usage, Cost: o.Old.Cost, First: o.Old.FirstAttemptAt}
	}
	data, err := json.Marshal(rec)
	// Attempts are added on the way, and the answer has to fit as well.
	if most := int(c.nc.MaxPayload()); err != nil || len(data) > most-most/16-4096 {
		return nil, len(data)
	}
	line := o.Item.Index
	if o.NotBefore.After(time.Now()) {
		return schedule(c.waitSubject(laneID, line), c.workSubject(laneID, line), o.NotBefore.Add(c.offset), data), len(data)
	}
	m := nats.NewMsg(c.workSubject(laneID, line))
	m.Data = data
	return m, len(data)
}

// add publishes an item with its batch.
func (f *feeding) add(ctx context.Context, o *runner.Open, l *lane) bool {
	m, size := f.c.message(o, l.id)
	if m == nil {
		f.c.accept([]arrived{{row: tooLargeToFeed(o, size, int(f.c.nc.MaxPayload()))}})
		return true
	}
	id := fmt.Sprintf("f/%d/%d", f.round, o.Item.Index)
	m.Header.Set(nats.MsgIdHdr, id)
	if f.round > 0 {
		m.Header.Set(againHeader, "1")
	}
	ack := make(chan error, 1)
	future, err := f.c.js.PublishMsgAsync(m)
	if err != nil {
		ack <- err
	} else {
		go func() {
			select {
			case <-future.Ok():
				ack <- nil
			case err := <-future.Err():
				ack <- err
			case <-time.After(oneTry):
				ack <- context.DeadlineExceeded
			}
		}()
	}
	f.msgs, f.ids, f.acks = append(f.msgs, m), append(f.ids, id), append(f.acks, ack)
	if len(f.msgs) >= batch {
		return f.flush(ctx) == nil
	}
	return true
}

// flush waits until the batch is stored; what went wrong is published again with
// the same id.
func (f *feeding) flush(ctx context.Context) error {
	defer func() { f.msgs, f.ids, f.acks = f.msgs[:0], f.ids[:0], f.acks[:0] }()
	most := -1
	for i, ack := range f.acks {
		if err := <-ack; err != nil {
			f.msgs[i].Reply = ""
			if err := f.c.publish(ctx, f.msgs[i], f.ids[i]); err != nil {
				return err
			}
		}
		if line, err := strconv.Atoi(f.ids[i][len(fmt.Sprintf("f/%d/", f.round)):]); err == nil {
			most = max(most, line)
		}
	}
	f.c.mu.Lock()
	f.c.cursor = max(f.c.cursor, most+1)
	f.c.mu.Unlock()
	return nil
}

// storeCursor writes down how far the feeding is, for the next coordinator.
func (c *Coordinator) storeCursor(ctx context.Context) {
	c.mu.Lock()
	cursor := c.cursor
	same := cursor <= c.stored
	c.mu.Unlock()
	if same {
		return
	}
	try, cancel := context.WithTimeout(ctx, oneTry)
	defer cancel()
	if _, err := c.kv.PutString(try, "cursor", strconv.Itoa(cursor)); err == nil {
		c.mu.Lock()
		c.stored = cursor
		c.mu.Unlock()
	}
}

func tooLargeToFeed(o *runner.Open, size, most int) *output.Result {
	return &output.Result{
		ID: o.Item.ID, Key: o.Item.Key, Status: output.Failed, RequestHash: o.Hash, Index: o.Item.Index,
		Provider: o.Provider, Model: o.Model, Metadata: o.Item.Metadata, IdempotencyKey: o.Key, FinishedAt: time.Now(),
		Error: &output.Error{Class: "prompt_too_large_for_fleet",
			Message: fmt.Sprintf("the item has %d bytes as a message, and this NATS server takes %d at most: raise its max_payload, or run this item with llmbatch run", size, most)},
	}
}
