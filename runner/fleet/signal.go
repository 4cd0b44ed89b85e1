package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"llmbatch/input"
	"llmbatch/pacing"
	"llmbatch/runner"
)

// flight is runner.Config.OnFlight: it is told to the coordinator, and a wait
// that the API asked for shuts the lane for all workers at once.
func (w *worker) flight(it *input.Item, f runner.Flight) {
	at := f.At.Add(w.offset)
	s := seen{Line: it.Index, At: at.UnixMicro()}
	if f.Landed {
		s.Sig, s.Hint = int(f.Signal)+1, f.Hint.Milliseconds()
	}
	w.mu.Lock()
	if h := w.held[it.Index]; h != nil {
		s.Lane = h.rec.Lane
	}
	w.seen = append(w.seen, s)
	until := at.Add(f.Hint)
	if g := f.Gate.Add(w.offset); f.Hint > 0 && !f.Gate.IsZero() && g.After(until) {
		until = g
	}
	cool := f.Landed && f.Hint > 0 && (f.Signal == pacing.Throttled || f.Signal == pacing.Overloaded) &&
		until.Sub(w.cool[s.Lane]) > coolLeast
	if cool {
		w.cool[s.Lane] = until
	}
	w.mu.Unlock()
	if cool {
		go w.shut(s.Lane, until)
	}
}

// shut moves the lane's cooldown, and tries again as long as it matters.
func (w *worker) shut(lane string, until time.Time) {
	for w.now().Before(until) {
		ctx, cancel := context.WithTimeout(w.hard, oneTry)
		err := w.coolDown(ctx, w.kv, lane, until)
		cancel()
		if err == nil || w.hard.Err() != nil {
			return
		}
		w.log.Debug("cooldown", "lane", lane, "error", err)
		if sleep(w.hard, 50*time.Millisecond) != nil {
			return
		}
	}
}

// tell sends what was seen, each 100 ms.
func (w *worker) tell(ctx context.Context) {
	for sleep(ctx, statPeriod) == nil {
		w.tellOnce(false)
	}
}

func (w *worker) tellOnce(stopped bool) {
	w.mu.Lock()
	s := stat{Worker: w.o.ID, Held: len(w.held), InFlight: w.runner.Status().InFlight, Most: w.o.Concurrency, Deferred: w.deferred.Load(), Seen: w.seen, Sent: w.now(), Stopped: stopped}
	w.seen = nil
	w.mu.Unlock()
	data, err := json.Marshal(s)
	if err == nil {
		_ = w.nc.Publish(w.subject("stat."+w.o.ID), data)
	}
}

// register shows each second that the worker lives, and notices when its run
// was removed.
func (w *worker) register(ctx context.Context) {
	gone := 0
	for sleep(ctx, time.Second) == nil {
		try, cancel := context.WithTimeout(ctx, oneTry)
		_, err := w.lead.Put(try, "worker."+w.o.ID, []byte(w.now().UTC().Format(time.RFC3339Nano)))
		if err == nil {
			gone = 0
		} else if _, err = w.js.KeyValue(try, w.bucket()); errors.Is(err, jetstream.ErrBucketNotFound) {
			gone++
		}
		cancel()
		if gone >= 5 {
			w.runner.Stop(errRemoved)
			return
		}
	}
}

// watch follows the run's keys: its lanes, and how it ends.
func (w *worker) watch(ctx context.Context, in jetstream.KeyWatcher) {
	defer func() { _ = in.Stop() }()
	for {
		select {
		case <-ctx.Done():
			return
		case e, ok := <-in.Updates():
			if !ok {
				return
			}
			if e != nil && e.Operation() == jetstream.KeyValuePut {
				w.keyChanged(ctx, e)
			}
		}
	}
}

func (w *worker) keyChanged(ctx context.Context, e jetstream.KeyValueEntry) {
	switch key := e.Key(); {
	case strings.HasPrefix(key, "lane."):
		w.openLane(ctx, strings.TrimPrefix(key, "lane."))
	case strings.HasPrefix(key, closedKey(w.config.Epoch, "")):
		lane := strings.TrimPrefix(key, closedKey(w.config.Epoch, ""))
		w.runner.CloseLane(func(p, m string) bool { return laneOf(p, m) == lane }, string(e.Value()))
	case strings.HasPrefix(key, "cool."):
		if t, err := time.Parse(time.RFC3339Nano, string(e.Value())); err == nil {
			w.mu.Lock()
			w.cool[strings.TrimPrefix(key, "cool.")] = t
			w.mu.Unlock()
		}
	case key == abortKey(w.config.Epoch), key == doneKey(w.config.Epoch):
		var end ending
		if json.Unmarshal(e.Value(), &end) == nil {
			w.end(end)
		}
	}
}

// openLane begins to fetch from a lane.
func (w *worker) openLane(ctx context.Context, lane string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.lanes[lane] != nil || w.ending != nil {
		return
	}
	p := &puller{w: w, lane: lane, freed: make(chan struct{}, 1)}
	w.lanes[lane] = p
	pulls, stop := context.WithCancel(ctx)
	context.AfterFunc(w.hard, stop)
	p.stop = stop
	w.pulls.Go(func() {
		w.firstLimit(pulls, lane)
		p.run(pulls)
	})
}

// firstLimit asks for the lane's limit, which is told only now and then.
func (w *worker) firstLimit(ctx context.Context, lane string) {
	ctx, cancel := context.WithTimeout(ctx, oneTry)
	defer cancel()
	c, err := w.js.Consumer(ctx, w.workStream(), consumerOf(lane))
	if err != nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.limits[lane] == 0 {
		w.limits[lane] = c.CachedInfo().Config.MaxAckPending
	}
}

// stopPulls fetches nothing more.
func (w *worker) stopPulls() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.lanes {
		p.stop()
	}
}

// end stops the runner because the run has ended: at once if all is done, else
// what is on the wire may finish.
func (w *worker) end(e ending) {
	w.mu.Lock()
	first := w.ending == nil
	if first || e.Reason == runner.Finished {
		w.ending = &e
	}
	w.mu.Unlock()
	w.stopPulls()
	if e.Reason == runner.Finished {
		w.runner.Stop(errOver)
		w.runner.Stop(errOver) // nothing on the wire is of use any more
	} else if first {
		w.runner.Halt(e.Reason, e.Message, e.Hint, errAborted)
	}
}

// leave stops this worker alone: what it holds goes to others. A run that is
// aborted meanwhile changes nothing of that.
func (w *worker) leave(cause error) {
	w.leaving.Store(!w.over())
	w.stopPulls()
	w.runner.Stop(cause)
}

// stopped is runner.Config.OnStop: what ends the run here ends it everywhere.
func (w *worker) stopped(reason runner.Reason, message, hint string, here bool) {
	w.stopPulls()
	if here && reason == runner.Aborted {
		w.leaving.Store(!w.over())
		w.tellFault(ending{Reason: reason, Message: message, Hint: hint, By: w.o.ID, At: w.now()})
		return
	}
	switch reason {
	case runner.Aborted, runner.CostCap, runner.Internal:
	default: // the coordinator knows the run's end itself, and others go on
		return
	}
	e := ending{Reason: reason, Message: message, Hint: hint, By: w.o.ID, At: w.now()}
	w.mu.Lock()
	if w.ending == nil {
		w.ending = &e
	}
	w.mu.Unlock()
	go w.abort(e)
}

// tellFault says why this worker ends while the others go on: its key is refused, or
// it can't reach the API. What it holds goes to others.
func (w *worker) tellFault(e ending) {
	data, err := json.Marshal(e)
	if err != nil {
		return
	}
	for range 3 { // a coordinator that hears nothing goes on without this worker all the same
		ctx, cancel := context.WithTimeout(w.hard, oneTry)
		_, err := w.kv.Put(ctx, faultKey(w.config.Epoch, w.o.ID), data)
		cancel()
		if err == nil || sleep(w.hard, 100*time.Millisecond) != nil {
			return
		}
	}
}

// abort tells all others. The first reason stays.
func (w *worker) abort(e ending) {
	for {
		ctx, cancel := context.WithTimeout(w.hard, oneTry)
		err := w.Conn.abort(ctx, w.kv, w.config.Epoch, e)
		cancel()
		if err == nil || w.hard.Err() != nil {
			return
		}
		if sleep(w.hard, 100*time.Millisecond) != nil {
			return
		}
	}
}

// laneClosed is runner.Config.OnLaneClosed.
func (w *worker) laneClosed(provider, model, message string) {
	lane := laneOf(provider, model)
	go func() {
		ctx, cancel := context.WithTimeout(w.hard, 5*oneTry)
		defer cancel()
		if _, err := w.kv.Create(ctx, closedKey(w.config.Epoch, lane), []byte(message)); err != nil && !lostRace(err) {
			w.log.Warn("telling that a lane is closed", "error", err)
		}
	}()
}

// stopFor is how long a stopped run's consumers stay paused: even a worker that
// hears nothing gets nothing.
const stopFor = 24 * time.Hour

// abort stops a run: the key for those who listen, the pause for those who
// don't. An earlier reason stays.
func (c *Conn) abort(ctx context.Context, kv jetstream.KeyValue, epoch string, e ending) error {
	data, err := json.Marshal(e)
	if err != nil {
		return err
	}
	if _, err := kv.Create(ctx, abortKey(epoch), data); err != nil && !lostRace(err) {
		return err
	}
	return c.eachLane(ctx, func(consumer string) error {
		_, err := c.js.PauseConsumer(ctx, c.workStream(), consumer, time.Now().Add(stopFor))
		return err
	})
}

// eachLane calls f with the name of each lane's consumer.
func (c *Conn) eachLane(ctx context.Context, f func(consumer string) error) error {
	s, err := c.js.Stream(ctx, c.workStream())
	if err != nil {
		return err
	}
	names := s.ConsumerNames(ctx)
	for name := range names.Name() {
		if strings.HasPrefix(name, "work-") {
			if err := f(name); err != nil {
				return err
			}
		}
	}
	return names.Err()
}
