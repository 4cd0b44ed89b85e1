package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"llmbatch/output/plain"
	"llmbatch/runner"
)

// stop ends a run before it is done: nothing more is launched, what is on the
// wire may finish, its rows are kept, and what is open gets its row.
func (c *Coordinator) stop(ctx context.Context) {
	e := c.m.Ending()
	end := ending{Reason: e.Reason, Message: e.Message, Hint: e.Hint, By: coordinatorName, At: time.Now()}
	deadline, cancel := context.WithTimeout(ctx, c.o.Drain+2*time.Second)
	defer cancel()
	defer context.AfterFunc(cutContext(ctx, c.m.Cut()), cancel)()
	for c.abort(deadline, c.kv, c.config.Epoch, end) != nil {
		if sleep(deadline, 100*time.Millisecond) != nil {
			break
		}
	}
	c.awaitWorkers(deadline)
	c.awaitRows(ctx)
	if !c.m.WriteFailed() {
		c.sweep(ctx, "")
	}
	c.mu.Lock()
	c.m.Unsent(c.missing)
	c.mu.Unlock()
	c.finish(end)
}

// cutContext is done when cut is closed.
func cutContext(ctx context.Context, cut <-chan struct{}) context.Context {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-cut:
		case <-ctx.Done():
		}
		cancel()
	}()
	return ctx
}

// awaitWorkers waits until every worker that lives has said its last word.
func (c *Coordinator) awaitWorkers(ctx context.Context) {
	for {
		c.mu.Lock()
		busy := false
		for _, w := range c.workers {
			busy = busy || !w.stopped && time.Since(w.heard) < 10*statPeriod
		}
		c.mu.Unlock()
		if !busy || sleep(ctx, statPeriod/4) != nil {
			return
		}
	}
}

// awaitRows waits until what the workers published is collected.
func (c *Coordinator) awaitRows(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for !c.m.WriteFailed() {
		info, err := c.res.Info(ctx)
		if err == nil && info.NumPending == 0 && info.NumAckPending == 0 {
			return
		}
		if sleep(ctx, statPeriod/4) != nil {
			return
		}
	}
}

// sweep reads what is left in the queue of a lane, or of all: an item that has
// had attempts gets its row.
func (c *Coordinator) sweep(ctx context.Context, laneID string) {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	s, err := c.js.Stream(ctx, c.workStream())
	if err != nil {
		c.log.Warn("what waits in the queue could not be read; its attempts are not in the results", "error", err)
		return
	}
	state := s.CachedInfo().State
	last := map[int]*record{}
	for seq := state.FirstSeq; seq <= state.LastSeq && seq > 0; {
		m, err := s.GetMsg(ctx, seq, jetstream.WithGetMsgSubject(c.subject(">")))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break // no message from here on
		}
		if err != nil {
			if sleep(ctx, 200*time.Millisecond) != nil {
				c.log.Warn("what waits in the queue could not be read to its end; some attempts are not in the results", "error", err)
				break
			}
			continue
		}
		seq = m.Sequence + 1
		var rec record
		if json.Unmarshal(m.Data, &rec) == nil && rec.Epoch == c.config.Epoch && rec.attempts() > 0 && (laneID == "" || rec.Lane == laneID) {
			if known := last[rec.Item.Index]; known == nil || known.attempts() <= rec.attempts() {
				last[rec.Item.Index] = &rec
			}
		}
	}
	for line, rec := range last {
		c.mu.Lock()
		done := c.done.has(line)
		c.mu.Unlock()
		if !done {
			c.m.Leave(rec.Item.item(), *rec.Progress, laneID != "")
			c.forgetLine(line)
		}
	}
	if err := c.o.Sync(); err != nil {
		c.m.Halt(runner.WriteFailed, err.Error(), "", err)
	}
}

// closeLane feeds nothing more to a lane; what waits for it gets its row, the
// rest of the run goes on.
func (c *Coordinator) closeLane(id, message string) {
	c.mu.Lock()
	l := c.lanes[id]
	first := l != nil && !l.closed
	if first {
		l.closed = true
	}
	c.mu.Unlock()
	if !first {
		return
	}
	c.m.Note(message)
	go func() {
		ctx, cancel := context.WithTimeout(c.ctx, time.Minute)
		defer cancel()
		if _, err := c.js.PauseConsumer(ctx, c.workStream(), consumerOf(id), time.Now().Add(stopFor)); err != nil {
			c.log.Warn("pausing a closed lane", "error", err)
		}
		c.awaitLane(ctx, l)
		c.awaitRows(ctx)
		c.sweep(ctx, id)
		c.forgetLane(ctx, id)
	}()
}

// awaitLane waits until nothing of a lane is on the wire.
func (c *Coordinator) awaitLane(ctx context.Context, l *lane) {
	ctx, cancel := context.WithTimeout(ctx, c.o.Drain+2*time.Second)
	defer cancel()
	for quiet := 0; quiet < 5 && sleep(ctx, statPeriod) == nil; quiet++ {
		c.mu.Lock()
		if l.inFlight > 0 {
			quiet = 0
		}
		c.mu.Unlock()
	}
}

// forgetLane drops the lines of a closed lane that were never sent.
func (c *Coordinator) forgetLane(ctx context.Context, id string) {
	s, err := c.js.Stream(ctx, c.workStream())
	if err != nil {
		return
	}
	info, err := s.Info(ctx, jetstream.WithSubjectFilter(c.subject("work."+id+".*")))
	if err != nil {
		return
	}
	n := 0
	for subject := range info.State.Subjects {
		var line int
		if _, err := fmt.Sscan(subject[strings.LastIndexByte(subject, '.')+1:], &line); err == nil {
			c.forgetLine(line)
			n++
		}
	}
	c.m.Unsent(n)
	c.mu.Lock()
	c.checkDone()
	c.mu.Unlock()
}

// workerFailed takes word of a worker that ended alone. The run ends with it only if
// no other lives: with no worker nobody gets an answer.
func (c *Coordinator) workerFailed(id string, e ending) {
	c.mu.Lock()
	delete(c.workers, id)
	live := 0
	for _, w := range c.workers {
		if !w.stopped && time.Since(w.heard) < 2*time.Second {
			live++
		}
	}
	c.mu.Unlock()
	if live == 0 {
		c.m.Halt(e.Reason, e.Message, e.Hint, nil)
		return
	}
	c.log.Warn("a worker has ended, the others go on", "worker", plain.Line(id), "because", plain.Line(e.Message))
}
