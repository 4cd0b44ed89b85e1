package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/pacing"
	"llmbatch/runner"
	"llmbatch/runner/provider"
)

// WorkerOptions of Work.
type WorkerOptions struct {
	// ID names the worker in rows; "" means the host's name and a random end.
	ID string
	// Concurrency is its own ceiling of requests on the wire in each lane; 0 means 256.
	Concurrency int
	// Build makes a runner's config of the run's settings: routes, policies and
	// budgets. Items, rows and pacing are the worker's.
	Build func(Config) (runner.Config, error)
	// Wait bounds how long a run that has not begun is waited for; 0: no bound.
	Wait time.Duration
	// Attach, if not nil, is given the runner before it runs.
	Attach func(*runner.Runner)
	Log    *slog.Logger // nil: none
}

// defaultConcurrency is a worker's ceiling of requests on the wire.
const defaultConcurrency = 256

// statPeriod is how often a worker tells what it saw.
const statPeriod = 100 * time.Millisecond

// mostSkew is by how much a worker's clock may differ from the server's.
const mostSkew = 2 * time.Second

// Reasons for which a worker's runner is stopped from outside.
var (
	errOver    = errors.New("the run is over")
	errAborted = errors.New("the run was stopped")
	errRemoved = errors.New("the run was removed")
	errStale   = errors.New("the run was begun anew")
)

// worker takes items from the queue, and gives rows and waiting items back.
type worker struct {
	*Conn
	o      WorkerOptions
	config Config
	kv     jetstream.KeyValue
	lead   jetstream.KeyValue
	offset time.Duration // the server's clock minus ours
	log    *slog.Logger
	runner *runner.Runner
	items  chan *held
	hard   context.Context // done: nothing more is published
	most   int             // the longest message
	route  func(*input.Item) (*runner.Target, error)

	mu     sync.Mutex
	held   map[int]*held
	keys   map[string]*held
	lanes  map[string]*puller
	cool   map[string]time.Time
	limits map[string]int
	seen   []seen
	ending *ending // why the run stopped, nil as long as it goes on
	fault  error   // why this worker can't go on

	pulls    sync.WaitGroup
	deferred atomic.Int64
	leaving  atomic.Bool // this worker stops and the run goes on
}

// held is an item in hand: its lease runs as long as it is in worker.held.
type held struct {
	rec   record
	reply string
}

// Work takes part in a run until it ends, ctx ends, or something is wrong here.
// The config may come later than the worker: it waits for it.
func (c *Conn) Work(ctx context.Context, o WorkerOptions) (runner.Report, error) {
	for {
		rep, err := c.workOnce(ctx, o)
		if !errors.Is(err, errStale) || ctx.Err() != nil {
			return rep, err
		}
	}
}

func (c *Conn) workOnce(ctx context.Context, o WorkerOptions) (runner.Report, error) {
	w, err := c.join(ctx, o)
	if err != nil {
		return runner.Report{}, err
	}
	rc, err := o.Build(w.config)
	if err != nil {
		return runner.Report{}, err
	}
	w.prepare(&rc)
	w.runner = runner.New(rc)
	if o.Attach != nil {
		o.Attach(w.runner)
	}
	// What is published when the run ends must still go out: its context is not ctx.
	hard, cut := context.WithCancelCause(context.WithoutCancel(ctx))
	defer cut(nil)
	w.hard = hard
	side, stop := context.WithCancel(hard)
	var group sync.WaitGroup
	watcher, err := w.kv.WatchAll(side)
	if err != nil {
		stop()
		return runner.Report{}, err
	}
	group.Go(func() { w.watch(side, watcher) })
	group.Go(func() { w.keepLeases(side) })
	group.Go(func() { w.tell(side) })
	group.Go(func() { w.register(side) })
	limits, err := w.nc.Subscribe(w.subject("limit"), w.newLimits)
	defer context.AfterFunc(ctx, func() { w.leave(context.Cause(ctx)) })()
	rep := w.runner.Run(context.WithoutCancel(ctx))
	if err == nil {
		_ = limits.Unsubscribe()
	}
	stop()
	group.Wait()
	w.pulls.Wait()
	w.giveBack()
	w.tellOnce(true)
	_ = w.lead.Delete(context.WithoutCancel(ctx), "worker."+w.o.ID)
	_ = w.nc.FlushTimeout(oneTry)
	return w.conclude(rep)
}

// conclude says how the run ended for this worker.
func (w *worker) conclude(rep runner.Report) (runner.Report, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.fault != nil {
		return rep, w.fault
	}
	e := w.ending
	if e != nil {
		rep.Reason, rep.Message, rep.Hint = e.Reason, e.Message, e.Hint
	}
	if errors.Is(rep.Err, errRemoved) {
		return rep, errRemoved
	}
	return rep, nil
}

// now is the server's clock.
func (w *worker) now() time.Time { return time.Now().Add(w.offset) }

// prepare makes the queue the runner's source and sink.
func (w *worker) prepare(c *runner.Config) {
	c.Items, c.Reload, c.Limit = w.source, nil, 0
	c.Lanes, w.route = w.config.Lanes, c.Route
	c.Old, c.OldRow = w.old, w.oldRow
	c.Write, c.FinalOnly, c.OnRow = w.write, false, nil
	c.NoFailFast = true // the coordinator's guard sees all rows
	c.RetryFailed, c.Rerun, c.Spend = true, true, nil
	c.Pacing = pacing.Config{Max: w.o.Concurrency, Fixed: true, Seed: c.Seed, RPM: c.Pacing.RPM, TPM: c.Pacing.TPM}
	c.End = w.config.End
	if !c.End.IsZero() {
		c.End = c.End.Add(-w.offset)
	}
	c.Worker, c.LimitOf = w.o.ID, w.limitOf
	c.Resume, c.Defer, c.OnFlight = w.resume, w.putOff, w.flight
	c.OnStop, c.OnLaneClosed = w.stopped, w.laneClosed
}

// source yields the items as they arrive.
func (w *worker) source(yield func(*input.Item, error) bool) {
	for {
		select {
		case h := <-w.items:
			if !yield(h.rec.Item.item(), nil) {
				return
			}
		case <-w.hard.Done():
			return
		}
		if w.over() {
			return
		}
	}
}

func (w *worker) over() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ending != nil
}

func (w *worker) byLine(line int) *held {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.held[line]
}

// old says that every item has an earlier row that asks for work: the key of its
// requests comes with it.
func (w *worker) old(key string) (output.Row, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	h := w.keys[key]
	if h == nil {
		return output.Row{}, false
	}
	return output.Row{Status: output.GaveUp, Offset: int64(h.rec.Item.Index)}, true
}

func (w *worker) oldRow(offset int64) (*output.Result, error) {
	h := w.byLine(int(offset))
	if h == nil {
		return nil, errors.New("the item is no longer held")
	}
	return h.rec.old(), nil
}

func (w *worker) resume(it *input.Item) *runner.Progress {
	if h := w.byLine(it.Index); h != nil {
		return h.rec.Progress
	}
	return nil
}

func (w *worker) limitOf(it *input.Item) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if h := w.held[it.Index]; h != nil {
		return w.limits[h.rec.Lane]
	}
	return 0
}

func (w *worker) newLimits(m *nats.Msg) {
	var limits map[string]int
	if json.Unmarshal(m.Data, &limits) != nil {
		return
	}
	w.mu.Lock()
	w.limits = limits
	w.mu.Unlock()
}

// fail ends this worker alone.
func (w *worker) fail(err error) {
	w.mu.Lock()
	if w.fault == nil {
		w.fault = err
	}
	w.mu.Unlock()
	go w.leave(err)
}

// verify makes sure that this machine would send a lane's first item as the
// coordinator checked it.
func (p *puller) verify(rec *record) error {
	if p.verified {
		return nil
	}
	it := rec.Item.item()
	t, err := p.w.route(it)
	if err != nil {
		return err
	}
	call, err := t.Provider.Encode(it, t.Defaults)
	if err != nil {
		return err
	}
	p.verified = true
	if got := provider.Hash(call); got != rec.Hash {
		return fmt.Errorf("line %d would be sent as another request here (%s) than where the run was started (%s): is this the same version of llmbatch?", rec.Item.Line, got, rec.Hash)
	}
	return nil
}
