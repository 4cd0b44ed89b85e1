package fleet

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
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
)

// Coordination says how a run is fed, controlled and collected.
type Coordination struct {
	// Print identifies input, output and settings; see Config.
	Print string
	// Settings are for the workers' Build; no secrets.
	Settings json.RawMessage
	// Lease is how long a silent worker keeps its items; 0 means 30 s.
	Lease time.Duration
	// Window is how many items wait in the queue of a lane; 0: by its limit.
	Window int
	Lanes  int
	// End is the run's end, Drain how long what is on the wire may take when it stops.
	End   time.Time
	Drain time.Duration
	// Pacing holds the fleet's limit: Max, Start, Fixed, Increase, Decrease, Log.
	Pacing pacing.Config
	// Input yields the input again, for lines that the queue lost.
	Input func() iter.Seq2[*input.Item, error]
	// Sync flushes the rows that were written to the disk.
	Sync func() error
	// Retain is how long collected results stay with the server; 0 means 1 m.
	Retain time.Duration
	// Total is how many items the input has: a row of any other line is dropped.
	Total int
	// Before is how many of them had a row that needs no work when the run began.
	Before int
	// Money: rows settle what was reserved.
	Money bool
	// Idle is how long nothing happens before lost lines are fed again; 0 means 5 s.
	Idle time.Duration
	Log  *slog.Logger // nil: none
}

// Coordinator feeds, controls and collects one run.
type Coordinator struct {
	*Lead
	o      Coordination
	m      runner.Remote
	kv     jetstream.KeyValue
	config Config
	log    *slog.Logger
	took   bool // the run of an earlier coordinator goes on
	ctx    context.Context
	res    jetstream.Consumer // to look at

	results *results // of collect alone
	replay  atomic.Bool
	upTo    atomic.Uint64 // number in the stream up to which rows are on the disk

	questions chan *nats.Msg

	writing   sync.Mutex // one batch of rows at a time
	collected []collected

	mu      sync.Mutex
	lanes   map[string]*lane
	workers map[string]*workerStat
	due     bitmap // lines that need work
	done    bitmap // lines whose row is on the disk
	open    map[int]*runner.Open
	wanted  map[int]wanted // lines that were fed and have no row yet
	looked  int            // lines below it were looked at by the feeding
	missing int            // due and not done
	fedAll  bool
	cursor  int // lines below it were fed
	stored  int // the cursor as the bucket has it
	waiting int // scheduled messages, about
	moved   time.Time
	room    chan struct{} // closed when there may be room in the queue
	allDone chan struct{} // closed when every row is on the disk
	over    bool          // allDone is closed
	most    int           // a cap on every limit, set by hand; 0: none
	tally   tally

	round  int  // of feeding lost lines again
	reread bool // since the results were read again
}

// workerStat is what is known of a live worker.
type workerStat struct {
	held     int
	inFlight int
	most     int // its own ceiling
	deferred int64
	heard    time.Time
	stopped  bool
}

// lane is a provider and a model: one consumer, one limit.
type lane struct {
	id       string
	config   jetstream.ConsumerConfig
	consumer jetstream.Consumer
	mirror   *pacing.Mirror
	limit    int // MaxAckPending as the server has it
	most     int // what the limit may be by now
	looked   time.Time
	inFlight int
	queued   int // undelivered, about
	leased   int
	cool     time.Time
	reason   string
	closed   bool
}

// Coordinator returns what Run and Survey need. It does nothing yet.
func (l *Lead) Coordinator(o Coordination) *Coordinator {
	o.Lease = cmp.Or(o.Lease, 30*time.Second)
	o.Retain = cmp.Or(o.Retain, time.Minute)
	o.Idle = cmp.Or(o.Idle, 5*time.Second)
	c := &Coordinator{
		Lead: l, o: o, log: o.Log, lanes: map[string]*lane{}, workers: map[string]*workerStat{},
		open: map[int]*runner.Open{}, wanted: map[int]wanted{}, questions: make(chan *nats.Msg, 64*1024), room: make(chan struct{}), allDone: make(chan struct{}), moved: time.Now(),
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	return c
}

// Run is made for runner.Config.Elsewhere: it runs m's items in the fleet and
// returns when every row is in, or the run has stopped.
func (c *Coordinator) Run(m runner.Remote) {
	c.m = m
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	c.ctx = ctx
	if err := c.begin(ctx); err != nil {
		m.Halt(runner.Internal, "the run could not be set up in NATS: "+err.Error(), "is the server's JetStream full, or may this user not make streams?", err)
		return
	}
	c.run(ctx)
}

// run feeds, controls and collects until all is done or the run stops.
func (c *Coordinator) run(ctx context.Context) {
	work, stop := context.WithCancel(ctx)
	defer stop()
	stats, err := c.nc.Subscribe(c.subject("stat.*"), c.heardStat)
	if err == nil {
		defer func() { _ = stats.Unsubscribe() }()
	}
	var feeding, rest sync.WaitGroup
	feedCtx, stopFeed := context.WithCancel(work)
	feeding.Go(func() { c.feed(feedCtx) })
	rest.Go(func() { c.control(work) })
	rest.Go(func() { c.watchKeys(work) })
	rest.Go(func() { c.collect(work) })
	questions, err := c.nc.Subscribe(c.subject("ask"), c.heardQuestion)
	if err == nil {
		defer func() { _ = questions.Unsubscribe() }()
	}
	rest.Go(func() { c.answerQuestions(work) })
	select {
	case <-c.allDone:
		stopFeed()
		feeding.Wait()
		c.finish(ending{Reason: runner.Finished, Message: "all done", At: time.Now()})
	case <-c.m.Stopped():
		stopFeed()
		feeding.Wait()
		c.stop(ctx)
	case <-c.lost:
		stopFeed()
		feeding.Wait()
		c.m.Halt(runner.Internal, errLost.Error(), "", errLost)
	}
	stop()
	rest.Wait()
}

// begin takes over the run that is there, if it is this one and goes on, or makes
// a new one.
func (c *Coordinator) begin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if err := c.adopt(ctx); err != nil {
		return err
	}
	if !c.took {
		if err := c.remove(ctx); err != nil {
			return err
		}
		if err := c.create(ctx); err != nil {
			return err
		}
	}
	c.results = &results{Conn: c.Conn}
	if err := c.results.renew(ctx); err != nil {
		return err
	}
	c.res = c.results.consumer
	c.upTo.Store(c.results.floor)
	return nil
}

// adopt finds out whether the run in the bucket is this one.
func (c *Coordinator) adopt(ctx context.Context) error {
	kv, err := c.js.KeyValue(ctx, c.bucket())
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	e, err := kv.Get(ctx, "config")
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	var old Config
	if json.Unmarshal(e.Value(), &old) != nil || old.Print != c.o.Print {
		return nil
	}
	for _, key := range []string{abortKey(old.Epoch), doneKey(old.Epoch)} {
		if _, err := kv.Get(ctx, key); !missing(err) {
			return err
		}
	}
	if _, err := c.js.Stream(ctx, c.workStream()); err != nil {
		return nil
	}
	c.kv, c.config, c.took = kv, old, true
	return c.adoptKeys(ctx)
}

func (c *Coordinator) adoptKeys(ctx context.Context) error {
	keys, err := c.kv.ListKeys(ctx)
	if err != nil {
		return err
	}
	for key := range keys.Keys() {
		if len(key) > 5 && key[:5] == "lane." {
			if err := c.adoptLane(ctx, key[5:]); err != nil {
				return err
			}
		}
	}
	e, err := c.kv.Get(ctx, "cursor")
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = fmt.Sscan(string(e.Value()), &c.stored)
	return err
}

// create makes the run's objects. The config comes last: workers wait for it.
func (c *Coordinator) create(ctx context.Context) error {
	const window = time.Minute // in which a message id is known: a publish is tried again within seconds
	_, err := c.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: c.workStream(), Subjects: []string{c.subject("work.*.*"), c.subject("wait.*.*")},
		Retention: jetstream.WorkQueuePolicy, Storage: jetstream.FileStorage, Replicas: c.replicas,
		AllowMsgSchedules: true, AllowRollup: true, AllowDirect: true, Duplicates: window,
	})
	if err != nil {
		return err
	}
	_, err = c.js.CreateStream(ctx, jetstream.StreamConfig{
		Name: c.resStream(), Subjects: []string{c.subject("res.*"), c.subject("note.*")},
		Storage: jetstream.FileStorage, Replicas: c.replicas, AllowDirect: true, Duplicates: window,
	})
	if err != nil {
		return err
	}
	c.kv, err = c.js.CreateKeyValue(ctx, jetstream.KeyValueConfig{Bucket: c.bucket(), Storage: jetstream.FileStorage, Replicas: c.replicas})
	if err != nil {
		return err
	}
	c.config = Config{
		Epoch: newEpoch(time.Now()), Print: c.o.Print, Started: time.Now(), End: c.o.End,
		Lease: c.o.Lease, Lanes: c.o.Lanes, Settings: c.o.Settings,
	}
	data, err := json.Marshal(c.config)
	if err != nil {
		return err
	}
	_, err = c.kv.Put(ctx, "config", data)
	return err
}

// remove deletes a run's streams and bucket. What is not there is no error.
func (c *Conn) remove(ctx context.Context) error {
	var errs []error
	for _, s := range []string{c.workStream(), c.resStream()} {
		if err := c.js.DeleteStream(ctx, s); err != nil && !missing(err) {
			errs = append(errs, err)
		}
	}
	if err := c.js.DeleteKeyValue(ctx, c.bucket()); err != nil && !missing(err) {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// laneFor returns an item's lane, which it opens if it is the first in it.
func (c *Coordinator) laneFor(ctx context.Context, o *runner.Open) (*lane, error) {
	id := laneOf(o.Provider, o.Model)
	c.mu.Lock()
	l := c.lanes[id]
	c.mu.Unlock()
	if l != nil {
		return l, nil
	}
	limit := min(max(c.o.Pacing.Start, 1), max(c.o.Pacing.Max, 1))
	if c.o.Pacing.Fixed {
		limit = c.o.Pacing.Max
	}
	l = c.newLane(id, limit, false)
	var err error
	if l.consumer, err = c.js.CreateConsumer(ctx, c.workStream(), l.config); err != nil {
		return nil, err
	}
	name, err := json.Marshal(map[string]string{"provider": o.Provider, "model": o.Model})
	if err != nil {
		return nil, err
	}
	if _, err := c.kv.Put(ctx, "lane."+id, name); err != nil {
		return nil, err
	}
	c.mu.Lock()
	c.lanes[id] = l
	c.mu.Unlock()
	return l, nil
}

func (c *Coordinator) newLane(id string, limit int, learned bool) *lane {
	p := c.o.Pacing
	p.Start = limit
	return &lane{id: id, limit: limit, most: limit, looked: time.Now(), mirror: pacing.NewMirror(p, learned), config: jetstream.ConsumerConfig{
		Durable: consumerOf(id), FilterSubject: c.subject("work." + id + ".*"),
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: c.config.Lease, MaxDeliver: -1,
		MaxAckPending: limit, MaxWaiting: 4096, Replicas: c.replicas,
	}}
}

// adoptLane goes on with a lane and the limit that was learned.
func (c *Coordinator) adoptLane(ctx context.Context, id string) error {
	consumer, err := c.js.Consumer(ctx, c.workStream(), consumerOf(id))
	if err != nil {
		return err
	}
	limit := consumer.CachedInfo().Config.MaxAckPending
	l := c.newLane(id, limit, true)
	l.consumer = consumer
	c.mu.Lock()
	c.lanes[id] = l
	c.mu.Unlock()
	return nil
}

// finishedBefore says whether an earlier coordinator's row of the item is one of this run.
func (c *Coordinator) finishedBefore(o *runner.Open) bool {
	return c.took && o.Old != nil && o.Old.Status != output.Waiting && o.Old.FinishedAt.After(c.config.Started)
}
