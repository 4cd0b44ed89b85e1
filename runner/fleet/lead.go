package fleet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

// leadTTL is how long a coordinator leads without a word of it. The bucket has
// it: nats.go's Update can't set one for a key.
const leadTTL = 3 * time.Second

// LedError says that another coordinator leads the run.
type LedError struct{ Run, By string }

func (e *LedError) Error() string {
	return fmt.Sprintf("the run %s has a coordinator already: %s", e.Run, e.By)
}

// Lead is the right to coordinate a run. It is renewed until Close, or until
// another coordinator has it.
type Lead struct {
	*Conn
	kv   jetstream.KeyValue
	id   string
	stop context.CancelFunc
	done sync.WaitGroup
	lost chan struct{}
	// offset is the server's clock minus ours.
	offset time.Duration

	mu       sync.Mutex
	revision uint64
	good     time.Time // of the last renewal
}

// Lead takes the lead of the run. A coordinator that died keeps it for 3 s; of
// one that lives, the error is a *LedError, unless standby waits for its end.
func (c *Conn) Lead(ctx context.Context, standby bool) (*Lead, error) {
	kv, err := c.js.CreateOrUpdateKeyValue(ctx, jetstream.KeyValueConfig{
		Bucket: c.leadBucket(), TTL: leadTTL, Storage: jetstream.FileStorage, Replicas: c.replicas,
	})
	if err != nil {
		return nil, err
	}
	l := &Lead{Conn: c, kv: kv, id: workerID(), lost: make(chan struct{})}
	end := time.Now().Add(leadTTL + time.Second)
	for {
		err := l.take(ctx)
		_, skewed := errors.AsType[*ClockError](err)
		switch {
		case err == nil:
		case skewed, !standby && !lostRace(err):
			return nil, err
		case !standby && time.Now().After(end):
			return nil, &LedError{Run: c.run, By: l.holder(ctx)}
		}
		if err == nil {
			break
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
	renewals, stop := context.WithCancel(context.WithoutCancel(ctx))
	l.stop = stop
	l.done.Go(func() { l.renew(renewals) })
	return l, nil
}

// take tries to take the lead once. Without a clock to compare with it is given up
// again at once, so that a standby which stumbles does not keep others out.
func (l *Lead) take(ctx context.Context) error {
	l.good = time.Now()
	revision, err := l.kv.Create(ctx, "leader", []byte(l.id))
	if err != nil {
		return err
	}
	l.revision = revision
	l.offset, err = clockOffset(ctx, l.kv, "clock")
	if err == nil && l.offset.Abs() > mostSkew {
		err = &ClockError{Offset: l.offset}
	}
	if err != nil {
		l.giveUp()
	}
	return err
}

// giveUp leaves the lead to others. If it fails, the lead runs out by itself.
func (l *Lead) giveUp() {
	ctx, cancel := context.WithTimeout(context.Background(), oneTry)
	defer cancel()
	_ = l.kv.Delete(ctx, "leader", jetstream.LastRevision(l.revision))
}

// ClockError says that this host's clock is not the server's: times of a run's end
// and of retries would be wrong by as much.
type ClockError struct{ Offset time.Duration }

func (e *ClockError) Error() string {
	return fmt.Sprintf("the clock here differs from the NATS server's by %v; a fleet needs %v or less: set it by NTP", e.Offset.Round(time.Millisecond), mostSkew)
}

func (l *Lead) holder(ctx context.Context) string {
	e, err := l.kv.Get(ctx, "leader")
	if err != nil {
		return "unknown"
	}
	return string(e.Value())
}

// renew keeps the lead until ctx ends or it is lost.
func (l *Lead) renew(ctx context.Context) {
	pause := leadTTL / 6
	for sleep(ctx, pause) == nil {
		at := time.Now()
		try, cancel := context.WithTimeout(ctx, leadTTL/3)
		err := l.renewOnce(try)
		cancel()
		switch {
		case err == nil:
			l.mu.Lock()
			l.good = at
			l.mu.Unlock()
			pause = leadTTL / 6
		case errors.Is(err, errLost):
			close(l.lost)
			return
		default:
			pause = 100 * time.Millisecond
		}
	}
}

var errLost = errors.New("another coordinator has taken over")

func (l *Lead) renewOnce(ctx context.Context) error {
	rev, err := l.kv.Update(ctx, "leader", []byte(l.id), l.revision)
	if err == nil {
		l.revision = rev
		return nil
	}
	if !lostRace(err) {
		return err
	}
	// An update whose answer was lost, or a lead that ran out while the server was away.
	e, err := l.kv.Get(ctx, "leader")
	switch {
	case err == nil && string(e.Value()) == l.id:
		l.revision = e.Revision()
		return l.renewOnce(ctx)
	case err == nil:
		return errLost
	case !errors.Is(err, jetstream.ErrKeyNotFound):
		return err
	}
	rev, err = l.kv.Create(ctx, "leader", []byte(l.id))
	if err == nil {
		l.revision = rev
	}
	return err
}

// fresh says that nobody else can lead now.
func (l *Lead) fresh() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.good) < leadTTL-leadTTL/6
}

// Close gives the lead up at once.
func (l *Lead) Close() {
	l.stop()
	l.done.Wait()
	l.giveUp()
}
