package runner

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"llmbatch/input"
	"llmbatch/input/jsonl"
	"llmbatch/output"
	"llmbatch/pacing"
	"llmbatch/retry"
	"llmbatch/runner/provider"
)

// Runner runs one input once.
type Runner struct {
	c         Config
	transport http.RoundTripper
	mostOpen  int
	group     errgroup.Group

	intake     context.Context // done: nothing more is launched
	stopIntake context.CancelFunc
	hard       context.Context // done: requests on the wire are cancelled
	cutHard    context.CancelCauseFunc

	woken chan struct{}
	shelf shelf
	relay relay

	launches chan launch // for goroutines whose item has ended

	lanesMu sync.Mutex
	lanes   map[laneKey]*lane
	order   []*lane
	direct  map[string]*conns // by address

	stopMu sync.Mutex
	stop   stop
	notice string // why the run did less than all, where no lane of its own says so
	drain  *time.Timer
	asked  bool // Stop was called

	guard    uniform
	endpoint endpoint
	money    money

	open, wired, peak, waiting atomic.Int64
	requests, throttled        atomic.Int64
	inTokens, outTokens        atomic.Int64
	unsent                     atomic.Int64
	firstDue                   atomic.Int64 // when the first item may leave that an earlier run left waiting, in Unix ns; 0: there is none
	readAll, cutByEnd          atomic.Bool

	reading sync.Mutex // held while an item is being opened

	countMu sync.Mutex
	rows    map[output.Status]int
	skipped map[output.Status]int
	cost    float64
}

var errCut = errors.New("the run was stopped")

// New returns a Runner. Its Run may be called once.
func New(c Config) *Runner {
	if c.Scrub == nil {
		c.Scrub = provider.NewScrubber()
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.Pacing.Max = cmp.Or(c.Pacing.Max, 256)
	c.Pacing.Seed = cmp.Or(c.Pacing.Seed, c.Seed)
	r := &Runner{
		c: c, transport: c.Transport, mostOpen: max(2*c.Pacing.Max, 16),
		woken: make(chan struct{}, 1), shelf: shelf{room: make(chan struct{}, 1)},
		launches: make(chan launch, 64),
		lanes:    map[laneKey]*lane{}, direct: map[string]*conns{},
		rows: map[output.Status]int{}, skipped: map[output.Status]int{},
	}
	if r.transport == nil {
		r.transport = NewTransport(c.Pacing.Max)
	}
	maps.Copy(r.skipped, c.Skipped)
	r.guard.off = c.NoFailFast
	r.money.settled = make(chan struct{})
	r.group.SetLimit(r.mostOpen)
	r.intake, r.stopIntake = context.WithCancel(context.Background())
	r.hard, r.cutHard = context.WithCancelCause(context.Background())
	return r
}

// Run runs the items and returns when no request is on the wire and every row is
// with the sink. Cancelling ctx is a Stop.
func (r *Runner) Run(ctx context.Context) Report {
	defer context.AfterFunc(ctx, func() { r.Stop(context.Cause(ctx)) })()
	if !r.c.End.IsZero() {
		end := stop{reason: BudgetEnded, message: "the run's time is over"}
		if until := time.Until(r.c.End); until > 0 {
			defer time.AfterFunc(until, func() { r.halt(end) }).Stop()
		} else {
			r.halt(end)
		}
	}
	if r.c.Elsewhere != nil {
		r.c.Elsewhere(Remote{r})
	} else {
		go r.read()
		r.dispatch()
		close(r.launches)
		_ = r.group.Wait() // items don't return errors: their failures are rows
	}
	r.settleRows(r.guard.rest(r.c.FinalOnly))
	r.stopTimers()
	r.reading.Lock() // the reader is between two items, and writes nothing any more
	defer r.reading.Unlock()
	if t, ok := r.transport.(*http.Transport); ok && r.c.Transport == nil {
		t.CloseIdleConnections()
	}
	for _, c := range r.direct {
		c.close()
	}
	return r.report()
}

// read opens items in order and hands those that need work to the dispatcher.
func (r *Runner) read() {
	defer r.handed()
	defer r.recovered()
	n := 0
	for it, err := range r.c.Items {
		if err != nil {
			r.inputFailed(err)
			return
		}
		t, did := r.opened(it)
		if r.intake.Err() != nil {
			if t != nil {
				r.unsent.Add(1)
			}
			return
		}
		if !did {
			continue
		}
		if t != nil && !r.offer(t) {
			r.unsent.Add(1)
			return
		}
		if n++; r.c.Limit > 0 && n >= r.c.Limit {
			break
		}
	}
	r.readAll.Store(true)
}

// opened prepares one item, and writes the row of one that can't be sent. did is
// false where there is nothing to do for it. Nothing is written once the run has
// ended: the input may be a pipe that keeps the reader longer than that.
func (r *Runner) opened(it *input.Item) (t *task, did bool) {
	r.reading.Lock()
	defer r.reading.Unlock()
	if r.intake.Err() != nil {
		return nil, false
	}
	t, row := r.prepareItem(it)
	if row != nil {
		r.emit(row)
	}
	return t, t != nil || row != nil
}

func (r *Runner) inputFailed(err error) {
	s := stop{reason: InputFailed, err: err, message: err.Error()}
	var le *input.LineError
	if errors.As(err, &le) {
		s.hint = le.Hint
	}
	r.halt(s)
}

// launch is a task with the permit for its first attempt.
type launch struct {
	*task
	permit *pacing.Permit
}

// start makes a task's first attempt. The goroutine of an item that has ended
// takes it where there is one: its stack has already grown to what an attempt
// needs, which is dear to do for each. It is called with the shelf locked.
func (r *Runner) start(t *task, p *pacing.Permit) {
	r.open.Add(1)
	next := launch{t, p}
	if r.shelf.idle > 0 {
		r.shelf.idle--
		r.launches <- next
		return
	}
	r.group.Go(func() error {
		s := sender{leash: leash{run: r.hard}}
		defer s.drop()
		for more := true; more; {
			r.live(next, &s)
			if s.owes {
				s.owes = false
				r.relay.owed.Add(-1)
			}
			var ok bool
			if next, ok = r.another(); !ok {
				s.exchange = exchange{} // a wait may be long
				next, more = <-r.launches
			}
		}
		return nil
	})
}

// live makes the attempts of one item.
func (r *Runner) live(first launch, s *sender) {
	defer r.recovered()
	l := &life{task: first.task, r: r, sender: s}
	l.run(first.permit)
}

// recovered turns a panic into the end of the run; the rows so far are kept.
func (r *Runner) recovered() {
	if v := recover(); v != nil {
		what := r.c.Scrub.String(fmt.Sprint(v))
		r.c.Log.Error("internal error", "panic", what, "stack", r.c.Scrub.String(string(debug.Stack())))
		r.halt(stop{reason: Internal, message: "internal error: " + what, hint: "please report this; run the same command again to continue"})
	}
}

// wake makes the dispatcher look again.
func (r *Runner) wake() {
	select {
	case r.woken <- struct{}{}:
	default:
	}
}

func (r *Runner) onWire(d int64) {
	n := r.wired.Add(d)
	for p := r.peak.Load(); n > p && !r.peak.CompareAndSwap(p, n); p = r.peak.Load() {
	}
}

func (r *Runner) capped() bool { return r.c.Retry.OnLongWait == retry.Cap && r.c.Retry.MaxWait > 0 }

// hintOf is the server's wait as pacing shall see it: with --on-long-wait cap no
// longer than --max-wait.
func (r *Runner) hintOf(x *exchange, v verdict) time.Duration {
	if v.act != again && v.act != giveUp {
		return 0
	}
	if r.capped() {
		return min(x.hint, r.c.Retry.MaxWait)
	}
	return x.hint
}

// emit takes an item's final row.
func (r *Runner) emit(res *output.Result) {
	if res.Status == output.OK || res.Response != nil {
		response := r.c.Scrub.Bytes(res.Response)
		if !bytes.Equal(response, res.Response) {
			res.Checked = false
			if res.Quoted != nil {
				res.Text, res.Quoted = jsonl.Text(res.Quoted), nil
			}
		}
		res.Response, res.Text = response, r.c.Scrub.String(res.Text)
	}
	r.settleRows(r.guard.finished(res, r.c.FinalOnly))
}

// settleRows does what the uniform-failure guard decided.
func (r *Runner) settleRows(due rowsDue) {
	for _, res := range due.write {
		r.write(res)
	}
	if due.undo > 0 {
		r.countMu.Lock()
		r.rows[output.Failed] -= due.undo
		r.countMu.Unlock()
	}
	for _, res := range due.tell {
		if r.c.OnRow != nil {
			r.c.OnRow(res)
		}
	}
	if due.trip != "" {
		r.halt(stop{
			reason: Aborted, message: due.trip,
			hint: "mend what the message says and run the same command again, or go on all the same with --no-fail-fast",
		})
	}
}

// write hands a row to the sink and counts it.
func (r *Runner) write(res *output.Result) {
	if err := r.c.Write(res); err != nil {
		r.halt(stop{reason: WriteFailed, err: err, message: err.Error()})
	}
	if res.Status == output.Waiting {
		return
	}
	r.countMu.Lock()
	r.rows[res.Status]++
	r.cost += res.Cost
	r.countMu.Unlock()
	r.inTokens.Add(res.Usage.InputTokens)
	r.outTokens.Add(res.Usage.OutputTokens)
}

func (r *Runner) skip(s output.Status) {
	r.countMu.Lock()
	r.skipped[s]++
	r.countMu.Unlock()
}

func (r *Runner) warn(msg string, args ...any) { r.c.Log.Warn(msg, args...) }

func (r *Runner) debugAttempt(t *task, a output.Attempt) {
	if !r.c.Log.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	r.c.Log.Debug("attempt", "id", t.item.Key, "attempt", a.Attempt, "status", a.Status, "outcome", a.Outcome,
		"ms", a.Duration.Milliseconds(), "limit", a.Concurrency, "retry_after", a.RetryAfter, "error", a.Error)
}
