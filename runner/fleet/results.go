package fleet

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"llmbatch/output"
)

const (
	// collectBatch is how many rows share one flush to the disk, collectFor how long
	// a request for them stays with the server.
	collectBatch = 1000
	collectFor   = time.Second
)

// results reads the stream of results in order and without a gap. To acknowledge
// a message acknowledges all before it, so one that was delivered and got lost on
// the way, or was not wanted, must come again before any later one is taken.
type results struct {
	*Conn
	consumer jetstream.Consumer
	next     uint64 // the number of the delivery that comes next; 0: read anew
	all      bool   // from the first that is there
	floor    uint64 // number in the stream up to which all was acknowledged when it was renewed
}

// refuse gives back what fetch returned last and is not acknowledged.
func (r *results) refuse() { r.next = 0 }

// again reads all that the stream still has once more.
func (r *results) again() { r.next, r.all = 0, true }

// fetch returns what there is, at most a batch, as soon as there is something.
func (r *results) fetch(ctx context.Context) ([]jetstream.Msg, error) {
	if r.next == 0 {
		if err := r.renew(ctx); err != nil {
			return nil, err
		}
	}
	msgs, err := fetch(ctx, r.consumer)
	n := 0
	for n < len(msgs) && deliveryOf(msgs[n]) == r.next {
		n++
		r.next++
	}
	if n < len(msgs) && n == 0 {
		r.next = 0
	}
	if n > 0 {
		err = nil // those that came are good
	}
	return msgs[:n], err
}

// deliveryOf numbers the deliveries of a consumer from 1, repeated ones too; 0: it
// can't be told.
func deliveryOf(m jetstream.Msg) uint64 {
	meta, err := m.Metadata()
	if err != nil {
		return 0
	}
	return meta.Sequence.Consumer
}

func fetch(ctx context.Context, consumer jetstream.Consumer) ([]jetstream.Msg, error) {
	var msgs []jetstream.Msg
	take := func(b jetstream.MessageBatch, err error) error {
		if err != nil {
			return err
		}
		for m := range b.Messages() {
			msgs = append(msgs, m)
		}
		if err := b.Error(); err != nil && !errors.Is(err, nats.ErrTimeout) && !errors.Is(err, jetstream.ErrNoMessages) {
			return err
		}
		return nil
	}
	if err := take(consumer.FetchNoWait(collectBatch)); err != nil || len(msgs) > 0 {
		return msgs, err
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return msgs, take(consumer.Fetch(1, jetstream.FetchMaxWait(collectFor)))
}

// renew makes the consumer anew where the last one had acknowledged: what was
// delivered to a coordinator that died, or got lost on the way, comes at once.
func (r *results) renew(ctx context.Context) error {
	config := jetstream.ConsumerConfig{
		Durable: "collect", AckPolicy: jetstream.AckAllPolicy, AckWait: 30 * time.Second, MaxAckPending: 100_000,
	}
	old, err := r.js.Consumer(ctx, r.resStream(), "collect")
	switch {
	case errors.Is(err, jetstream.ErrConsumerNotFound): // a renewal that broke off: all that is there comes again
	case err != nil:
		return err
	default:
		if !r.all {
			r.floor = old.CachedInfo().AckFloor.Stream
			config.DeliverPolicy, config.OptStartSeq = jetstream.DeliverByStartSequencePolicy, r.floor+1
		}
		if err := r.js.DeleteConsumer(ctx, r.resStream(), "collect"); err != nil {
			return err
		}
	}
	if r.consumer, err = r.js.CreateConsumer(ctx, r.resStream(), config); err != nil {
		return err
	}
	r.next, r.all = 1, false
	return nil
}

// Recover writes the rows that a coordinator which died had not collected: they
// are paid for. It calls accept for each, with how many attempts of earlier runs
// the row lacks, then sync; without such rows it calls neither.
func (l *Lead) Recover(ctx context.Context, accept func(*output.Result, int) error, sync func() error) (int, error) {
	r, n := &results{Conn: l.Conn}, 0
	if err := r.renew(ctx); missing(err) {
		return 0, nil
	} else if err != nil {
		return 0, err
	}
	for {
		info, err := r.consumer.Info(ctx)
		if err != nil {
			return n, fmt.Errorf("asking for results: %w", err)
		}
		if info.NumPending == 0 && info.NumAckPending == 0 {
			return n, nil
		}
		msgs, err := r.fetch(ctx)
		if err != nil {
			return n, err
		}
		if len(msgs) == 0 {
			continue
		}
		for _, m := range msgs {
			a, err := parseRow(m)
			if err != nil {
				continue
			}
			if err := accept(a.row, a.earlier); err != nil {
				return n, err
			}
			n++
		}
		if err := sync(); err != nil {
			return n, err
		}
		if err := msgs[len(msgs)-1].DoubleAck(ctx); err != nil {
			return n, err
		}
	}
}
