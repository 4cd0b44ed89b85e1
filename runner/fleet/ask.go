package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/nats-io/nats.go"
)

// A message that comes again may be of an item that has its row: its worker died
// between the row and the acknowledgement. Only the coordinator knows what is on the
// disk, so the worker asks it before anything is paid for twice. While no
// coordinator lives the item waits, and others go on.

// question asks whether a line has its row.
type question struct {
	Epoch string
	Line  int
}

// The answers to a question.
const (
	answerDone = "done"
	answerOpen = "open"
)

// ask returns whether the line has its row. It waits for a coordinator until ctx
// ends.
func (c *Conn) ask(ctx context.Context, epoch string, line int) (bool, error) {
	data, err := json.Marshal(question{epoch, line})
	if err != nil {
		return false, err
	}
	for {
		try, cancel := context.WithTimeout(ctx, 5*oneTry)
		m, err := c.nc.RequestWithContext(try, c.subject("ask"), data)
		cancel()
		if err == nil {
			return string(m.Data) == answerDone, nil
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return false, err
		}
	}
}

// heardQuestion keeps a question for answerQuestions; one too many is asked again
// by its worker.
func (c *Coordinator) heardQuestion(m *nats.Msg) {
	select {
	case c.questions <- m:
	default:
	}
}

// answerQuestions answers all that was asked at once after every row that was
// published before is on the disk.
func (c *Coordinator) answerQuestions(ctx context.Context) {
	for {
		var asked []*nats.Msg
		select {
		case m := <-c.questions:
			asked = append(asked, m)
		case <-ctx.Done():
			return
		}
		for more := true; more; {
			select {
			case m := <-c.questions:
				asked = append(asked, m)
			default:
				more = false
			}
		}
		if err := c.caughtUp(ctx); err != nil {
			continue // the workers ask again
		}
		for _, m := range asked {
			var q question
			if json.Unmarshal(m.Data, &q) != nil || q.Epoch != c.config.Epoch {
				continue
			}
			if answer := c.answer(q.Line); answer != "" {
				_ = m.Respond([]byte(answer))
			}
		}
	}
}

// answer is what is known of a line; "" as long as the input was not read up to it.
func (c *Coordinator) answer(line int) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.done.has(line), line < c.looked && !c.due.has(line):
		return answerDone
	case line < c.looked || c.fedAll:
		return answerOpen
	}
	return ""
}

// caughtUp waits until the rows that are in the stream now were collected.
func (c *Coordinator) caughtUp(ctx context.Context) error {
	try, cancel := context.WithTimeout(ctx, 5*oneTry)
	defer cancel()
	s, err := c.js.Stream(try, c.resStream())
	if err != nil {
		return err
	}
	last := s.CachedInfo().State.LastSeq
	for c.upTo.Load() < last {
		if err := sleep(try, 5*time.Millisecond); err != nil {
			return err
		}
		if !c.fresh() {
			return errors.New("another coordinator may lead")
		}
	}
	return nil
}
