package fleet

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"llmbatch/runner"
)

// join waits for the run's config and registers.
func (c *Conn) join(ctx context.Context, o WorkerOptions) (*worker, error) {
	w := &worker{
		Conn: c, o: o, log: o.Log, held: map[int]*held{}, keys: map[string]*held{},
		lanes: map[string]*puller{}, cool: map[string]time.Time{}, limits: map[string]int{},
	}
	if w.log == nil {
		w.log = slog.New(slog.DiscardHandler)
	}
	if w.o.Concurrency == 0 {
		w.o.Concurrency = defaultConcurrency
	}
	if w.o.ID == "" {
		w.o.ID = workerID()
	}
	w.items = make(chan *held, 64*1024)
	w.most = int(c.nc.MaxPayload()) - 1024
	for said, begun := false, time.Now(); ; {
		err := w.readConfig(ctx)
		if err == nil && !w.waits(ctx, time.Since(begun)) {
			break
		}
		if err != nil && !missing(err) {
			return nil, err
		}
		if o.Wait > 0 && time.Since(begun) > o.Wait {
			return nil, w.nothingToDo(ctx, o.Wait)
		}
		if !said {
			said = true
			defer time.AfterFunc(time.Second, func() { w.log.Info("waiting for the run to begin", "run", c.run) }).Stop()
		}
		if err := sleep(ctx, 200*time.Millisecond); err != nil {
			return nil, err
		}
	}
	return w, w.checkClock(ctx)
}

// nothingToDo says what the server knows of the run that was waited for.
func (w *worker) nothingToDo(ctx context.Context, waited time.Duration) error {
	s, err := w.Status(ctx)
	switch {
	case errors.Is(err, ErrNoRun):
		return fmt.Errorf("no run called %s began within %v", w.run, waited)
	case err != nil:
		return fmt.Errorf("the run %s did not begin within %v: %w", w.run, waited, err)
	case s.Message != "":
		return fmt.Errorf("the run %s is %s (%s), and no other began within %v", w.run, s.State, s.Message, waited)
	}
	return fmt.Errorf("the run %s is %s, and no other began within %v", w.run, s.State, waited)
}

// missing says that a bucket, stream or key is not there (yet).
func missing(err error) bool {
	return errors.Is(err, jetstream.ErrBucketNotFound) || errors.Is(err, jetstream.ErrKeyNotFound) ||
		errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, nats.ErrNoResponders) // a direct get while the stream is deleted, or the server starts
}

func (w *worker) readConfig(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, oneTry)
	defer cancel()
	var err error
	if w.kv, err = w.js.KeyValue(ctx, w.bucket()); err != nil {
		return err
	}
	if w.lead, err = w.js.KeyValue(ctx, w.leadBucket()); err != nil {
		return err
	}
	e, err := w.kv.Get(ctx, "config")
	if err != nil {
		return err
	}
	return json.Unmarshal(e.Value(), &w.config)
}

// nextRun is how long a worker waits for the next coordinator where the run is
// over: often the two are started together.
const nextRun = 10 * time.Second

// waits says that the config is of a run that has ended, and that another is to
// come: it was stopped before its end, or a coordinator is there to begin anew, or
// may be soon.
func (w *worker) waits(ctx context.Context, waited time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, oneTry)
	defer cancel()
	var end ending
	if err := readKey(ctx, w.kv, abortKey(w.config.Epoch), &end); !errors.Is(err, jetstream.ErrKeyNotFound) {
		return true
	}
	switch err := readKey(ctx, w.kv, doneKey(w.config.Epoch), &end); {
	case errors.Is(err, jetstream.ErrKeyNotFound):
		return false
	case err != nil || end.Reason != runner.Finished:
		return true
	}
	_, err := w.lead.Get(ctx, "leader")
	return err == nil || waited < nextRun
}

func workerID() string {
	host, err := os.Hostname()
	if err != nil {
		host = "worker"
	}
	host, _, _ = strings.Cut(host, ".")
	safe := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, host)
	var b [3]byte
	rand.Read(b[:]) // never fails
	return safe + "-" + hex.EncodeToString(b[:])
}

// checkClock registers the worker and compares clocks with what the server
// stamped on that.
func (w *worker) checkClock(ctx context.Context) error {
	off, err := clockOffset(ctx, w.lead, "worker."+w.o.ID)
	if err != nil {
		return err
	}
	if off.Abs() > mostSkew {
		return &ClockError{Offset: off}
	}
	w.offset = off
	return nil
}

// clockOffset is the server's clock minus ours, never too small, so that what is
// due by the server's clock is never early, and too great by one trip to the server
// at most: the quickest of a few, where the first is slow.
func clockOffset(ctx context.Context, kv jetstream.KeyValue, key string) (offset time.Duration, err error) {
	const tries, quick = 8, 5 * time.Millisecond
	best := time.Duration(-1)
	for n := 0; n < tries || best < 0; n++ {
		before := time.Now()
		revision, err := kv.Put(ctx, key, []byte(before.UTC().Format(time.RFC3339Nano)))
		if err != nil {
			return 0, err
		}
		took := time.Since(before)
		e, err := kv.Get(ctx, key)
		if err != nil && !errors.Is(err, jetstream.ErrKeyNotFound) {
			return 0, err
		}
		if err != nil || e.Revision() != revision { // from a copy that is behind
			if err := sleep(ctx, 50*time.Millisecond); err != nil {
				return 0, err
			}
			continue
		}
		if best < 0 || took < best {
			best, offset = took, e.Created().Sub(before)
		}
		if best < quick {
			break
		}
	}
	return offset, nil
}
