package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"llmbatch/output"
	"llmbatch/runner"
)

// arrived is a row that came in.
type arrived struct {
	row     *output.Result
	earlier int
	note    bool // a waiting row: the item is still open
}

// collect takes rows until ctx ends: writes them, flushes, counts, and only then
// acknowledges.
func (c *Coordinator) collect(ctx context.Context) {
	purged, failing, told := time.Now(), time.Time{}, false
	for ctx.Err() == nil {
		if !c.fresh() { // somebody else may lead
			if sleep(ctx, 50*time.Millisecond) != nil {
				return
			}
			continue
		}
		if c.replay.Swap(false) {
			c.results.again()
		}
		msgs, err := c.results.fetch(ctx)
		if err == nil {
			failing, told = time.Time{}, false
		} else if failing.IsZero() {
			failing = time.Now()
		} else if !told && time.Since(failing) > 5*time.Second {
			told = true
			c.log.Warn("the NATS server gives no results; the run stands still until it does", "error", err)
		}
		if err != nil {
			if sleep(ctx, 200*time.Millisecond) != nil {
				return
			}
			continue
		}
		if len(msgs) == 0 {
			continue
		}
		if !c.fresh() || !c.accept(c.parse(msgs)) {
			if c.m.WriteFailed() {
				return // what is not written stays in NATS, for the next run
			}
			c.results.refuse() // they come again, to whoever leads
			continue
		}
		last := msgs[len(msgs)-1]
		_ = last.Ack()
		if meta, err := last.Metadata(); err == nil {
			c.upTo.Store(max(c.upTo.Load(), meta.Sequence.Stream))
		}
		if time.Since(purged) > time.Minute {
			purged = time.Now()
			c.purgeOld(ctx)
		}
	}
}

// parse reads rows. Those of another epoch, and what is no row, are passed over.
func (c *Coordinator) parse(msgs []jetstream.Msg) []arrived {
	var rows []arrived
	for _, m := range msgs {
		if m.Headers().Get(epochHeader) != c.config.Epoch {
			continue
		}
		a, err := parseRow(m)
		if err != nil {
			c.log.Error("a result that is no row was dropped", "subject", m.Subject(), "error", err)
			continue
		}
		a.note = a.row.Status == output.Waiting
		rows = append(rows, a)
	}
	return rows
}

func parseRow(m jetstream.Msg) (arrived, error) {
	row, err := output.ParseRow(m.Data())
	if err != nil {
		return arrived{}, err
	}
	a := arrived{row: row}
	if n := m.Headers().Get(earlierHeader); n != "" {
		if a.earlier, err = strconv.Atoi(n); err != nil {
			return a, fmt.Errorf("header %s: %w", earlierHeader, err)
		}
	}
	return a, nil
}

// accept writes rows whose line has none yet, flushes, and counts. False means
// that something could not be written: the run has stopped.
func (c *Coordinator) accept(rows []arrived) bool {
	c.writing.Lock()
	defer c.writing.Unlock()
	var lines []int
	now := bitmap{}
	for _, a := range rows {
		line := a.row.Index
		if err := c.check(a.row); err != nil {
			c.log.Error("a result that no worker can have made was dropped", "line", line+1, "error", err)
			continue
		}
		c.mu.Lock()
		known := c.done.has(line)
		o := c.open[line]
		c.mu.Unlock()
		if known || now.has(line) {
			continue
		}
		c.m.Accept(a.row, a.earlier)
		if c.m.WriteFailed() {
			return false
		}
		if a.note {
			continue
		}
		now.add(line)
		lines = append(lines, line)
		c.mu.Lock()
		c.tally.add(a.row, time.Now())
		c.mu.Unlock()
		if o != nil {
			c.m.Settle(o, a.row)
		}
	}
	if err := c.o.Sync(); err != nil {
		c.m.Halt(runner.WriteFailed, err.Error(), "", err)
		return false
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, line := range lines {
		if c.done.add(line) && c.due.has(line) {
			c.missing--
		}
		delete(c.open, line)
		delete(c.wanted, line)
	}
	if len(lines) > 0 {
		c.moved = time.Now()
	}
	c.checkDone()
	return true
}

// wanted is what the row of a line must say to be taken.
type wanted struct{ key, hash string }

// check refuses a row that is not of a line that was fed, under that line's id and
// for its request: whoever reaches the server can publish rows.
func (c *Coordinator) check(row *output.Result) error {
	line := row.Index
	if line < 0 || line >= c.o.Total {
		return fmt.Errorf("the input has %d items", c.o.Total)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w, fed := c.wanted[line]
	switch {
	case c.done.has(line):
		return nil // it is passed over in any case
	case !fed && c.took && line >= c.looked:
		return nil // an earlier coordinator fed it, and the input is being read up to it
	case !fed:
		return errors.New("the item was not asked for")
	case row.Key != w.key:
		return fmt.Errorf("it is under the id %q", row.Key)
	case row.RequestHash != w.hash:
		return fmt.Errorf("it is for another request, %q", row.RequestHash)
	}
	return nil
}

// checkDone is called with c.mu held.
func (c *Coordinator) checkDone() {
	if c.fedAll && c.missing == 0 && !c.over {
		c.over = true
		close(c.allDone)
	}
}

// purgeOld drops results that were collected a while ago: a worker that gets an
// old message again still has to find its result.
func (c *Coordinator) purgeOld(ctx context.Context) {
	info, err := c.res.Info(ctx)
	if err != nil {
		return
	}
	now := time.Now()
	c.collected = append(c.collected, collected{now, info.AckFloor.Stream})
	upTo := uint64(0)
	for len(c.collected) > 0 && now.Sub(c.collected[0].at) > c.o.Retain {
		upTo = c.collected[0].seq
		c.collected = c.collected[1:]
	}
	if upTo == 0 {
		return
	}
	if s, err := c.js.Stream(ctx, c.resStream()); err == nil {
		_ = s.Purge(ctx, jetstream.WithPurgeSequence(upTo+1))
	}
}

// collected is how far the rows were on the disk at a time.
type collected struct {
	at  time.Time
	seq uint64
}

// finish writes down that the run is over, for the workers and for fleet status.
func (c *Coordinator) finish(e ending) {
	data, err := json.Marshal(e)
	if err != nil {
		return
	}
	ctx, cancel := context.WithTimeout(c.ctx, 5*oneTry)
	defer cancel()
	c.tellProgress(ctx)
	for {
		try, stop := context.WithTimeout(ctx, oneTry)
		_, err := c.kv.Put(try, doneKey(c.config.Epoch), data)
		stop()
		if err == nil || ctx.Err() != nil {
			return
		}
		if sleep(ctx, 100*time.Millisecond) != nil {
			return
		}
	}
}
