package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// oneTry is how long one publish may take. A longer one would still wait for an
// answer that died with the server; with the same id a second try can't double
// the message.
const oneTry = 2 * time.Second

// publish stores a message: tries with one id until it is in, or ctx ends.
func (c *Conn) publish(ctx context.Context, m *nats.Msg, id string) error {
	if m.Header == nil {
		m.Header = nats.Header{}
	}
	m.Header.Set(nats.MsgIdHdr, id)
	for {
		try, cancel := context.WithTimeout(ctx, oneTry)
		_, err := c.js.PublishMsg(try, m)
		cancel()
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.Is(err, nats.ErrMaxPayload), errors.Is(err, nats.ErrConnectionClosed):
			return err
		}
		if err := sleep(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// ack acknowledges a message and waits for the server's word. A lost one is no
// harm: whoever gets the message again looks first.
func (c *Conn) ack(ctx context.Context, reply string) {
	for range 3 {
		try, cancel := context.WithTimeout(ctx, oneTry)
		_, err := c.nc.RequestWithContext(try, reply, []byte("+ACK"))
		cancel()
		if err == nil || ctx.Err() != nil {
			return
		}
	}
}

func (c *Conn) nak(reply string)   { _ = c.nc.Publish(reply, []byte("-NAK")) }
func (c *Conn) alive(reply string) { _ = c.nc.Publish(reply, []byte("+WPI")) }

// schedule is the message that the server delivers to subject at a time. The
// header is set by hand: nats.go's own option cuts to whole seconds.
func schedule(wait, subject string, at time.Time, data []byte) *nats.Msg {
	m := nats.NewMsg(wait)
	m.Data = data
	m.Header.Set("Nats-Schedule", "@at "+at.UTC().Format(time.RFC3339Nano))
	m.Header.Set("Nats-Schedule-Target", subject)
	return m
}

// coolLeast is by how much a cooldown has to move to be worth a request.
const coolLeast = 200 * time.Millisecond

// coolDown shuts a lane for the whole fleet until then, by the server's clock;
// never back. Whoever moves the key pauses the consumer, so it needs no leader.
func (c *Conn) coolDown(ctx context.Context, kv jetstream.KeyValue, lane string, until time.Time) error {
	key := "cool." + lane
	for {
		known, revision, err := readTime(ctx, kv, key)
		if err != nil {
			return err
		}
		if until.Sub(known) <= coolLeast {
			return nil
		}
		text := []byte(until.UTC().Format(time.RFC3339Nano))
		if revision == 0 {
			_, err = kv.Create(ctx, key, text)
		} else {
			_, err = kv.Update(ctx, key, text, revision)
		}
		if err == nil {
			break
		}
		if !lostRace(err) {
			return err
		}
	}
	return c.pauseLane(ctx, kv, lane, until)
}

// pauseLane pauses the consumer, and again if the key has moved on meanwhile: the
// pause of an earlier winner must not overwrite a later one.
func (c *Conn) pauseLane(ctx context.Context, kv jetstream.KeyValue, lane string, until time.Time) error {
	for {
		if _, err := c.js.PauseConsumer(ctx, c.workStream(), consumerOf(lane), until.UTC()); err != nil {
			return fmt.Errorf("pausing: %w", err)
		}
		known, _, err := readTime(ctx, kv, "cool."+lane)
		if err != nil || !known.After(until) {
			return err
		}
		until = known
	}
}

// readTime reads a key that holds a time; a missing one is the zero time.
func readTime(ctx context.Context, kv jetstream.KeyValue, key string) (time.Time, uint64, error) {
	e, err := kv.Get(ctx, key)
	if errors.Is(err, jetstream.ErrKeyNotFound) {
		return time.Time{}, 0, nil
	}
	if err != nil {
		return time.Time{}, 0, err
	}
	t, err := time.Parse(time.RFC3339Nano, string(e.Value()))
	return t, e.Revision(), err
}

// lostRace says that somebody else has written the key first.
func lostRace(err error) bool {
	if errors.Is(err, jetstream.ErrKeyExists) {
		return true
	}
	e, ok := errors.AsType[*jetstream.APIError](err)
	return ok && e.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence
}
