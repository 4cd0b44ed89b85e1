package runner

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"llmbatch/output"
	"llmbatch/pacing"
	"llmbatch/runner/provider"
)

// Runner runs one input once.
type Runner struct {
	c      Config
	wire   *wire
	lanes  lanes
	intake intake
	ending *ending
	ledger ledger
	money  money

	guard    uniform
	weighing weighing
	endpoint endpoint
	group    errgroup.Group // one goroutine an item that was read and has no row yet

	open, waiting       atomic.Int64 // items that were sent and have no row; that wait
	wired, peak         atomic.Int64 // requests on the wire
	requests, throttled atomic.Int64
	unsent              atomic.Int64
	readAll, cutByEnd   atomic.Bool
}

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
	c.Pacing.Ceiling = pacing.NewCeiling(c.Pacing.Max)
	c.MaxAnswer = cmp.Or(c.MaxAnswer, 64<<20)
	r := &Runner{
		c: c, wire: newWire(&c), lanes: lanes{known: map[laneKey]*lane{}},
		intake: intake{changed: make(chan struct{}, 1), ahead: max(c.ReadAhead, leastAhead)},
		ending: newEnding(&c),
		ledger: ledger{rows: map[output.Status]int{}, skipped: map[output.Status]int{}},
		money:  money{spend: c.Spend, price: c.Price, settled: make(chan struct{})},
		guard:  uniform{off: c.NoFailFast},
	}
	r.wire.connected = r.endpoint.connect
	maps.Copy(r.ledger.skipped, c.Skipped)
	return r
}

// Run runs the items and returns when no request is on the wire and every row is
// with the sink. Cancelling ctx is a Stop.
func (r *Runner) Run(ctx context.Context) Report {
	defer context.AfterFunc(ctx, func() { r.Stop(context.Cause(ctx)) })()
	if !r.c.End.IsZero() {
		end := stop{reason: BudgetEnded, message: "the run's time is over"}
		if until := time.Until(r.c.End); until > 0 {
			defer time.AfterFunc(until, func() { r.ending.halt(end) }).Stop()
		} else {
			r.ending.halt(end)
		}
	}
	if r.c.Elsewhere != nil {
		r.elsewhere()
	} else {
		r.here()
	}
	r.settleVerdicts()
	r.settleRows(r.guard.rest(r.c.FinalOnly))
	r.endpoint.close()
	r.ending.close()
	for _, l := range r.lanes.all() {
		l.lim.Close()
	}
	r.intake.reading.Lock() // the reader is between two items, and writes nothing any more
	defer r.intake.reading.Unlock()
	if t, ok := r.wire.transport.(*http.Transport); ok && r.c.Transport == nil {
		t.CloseIdleConnections()
	}
	return r.report()
}

// here reads the input and runs its items. The reader may be held by a pipe for
// longer than the run lasts: then it is left behind.
func (r *Runner) here() {
	read := make(chan struct{})
	go func() {
		defer close(read)
		defer r.recovered()
		r.read()
	}()
	select {
	case <-read:
	case <-r.ending.intake.Done():
		r.intake.close()
	}
	_ = r.group.Wait() // items don't return errors: their failures are rows
}

func (r *Runner) elsewhere() {
	defer r.recovered()
	r.c.Elsewhere(Remote{r})
}

// recovered turns a panic into the end of the run; the rows so far are kept.
func (r *Runner) recovered() {
	if v := recover(); v != nil {
		what := r.c.Scrub.String(fmt.Sprint(v))
		r.c.Log.Error("internal error", "panic", what, "stack", r.c.Scrub.String(string(debug.Stack())))
		r.ending.halt(stop{reason: Internal, message: "internal error: " + what, hint: "please report this; run the same command again to continue"})
	}
}

func (r *Runner) onWire(d int64) {
	n := r.wired.Add(d)
	for p := r.peak.Load(); n > p && !r.peak.CompareAndSwap(p, n); p = r.peak.Load() {
	}
}

// report sums the run up.
func (r *Runner) report() Report {
	s := r.ending.why()
	rep := Report{
		Reason: s.reason, Message: s.message, Hint: s.hint, Err: s.err,
		Rows: r.ledger.rows, Skipped: r.ledger.skipped,
		Unread: !r.readAll.Load(), Unsent: int(r.unsent.Load()),
		Requests: r.requests.Load(), Throttled: r.throttled.Load(), Peak: int(r.peak.Load()),
	}
	cut := rep.Unread || rep.Unsent > 0 || r.cutByEnd.Load()
	switch {
	case s.reason == BudgetEnded && !cut:
		rep.Reason, rep.Message = Finished, ""
	case s.reason != Finished:
		return rep
	case r.cutByEnd.Load():
		rep.Reason, rep.Message = BudgetEnded, "some items have to wait longer than the run's time"
		return rep
	}
	if notice := cmp.Or(r.lanes.notice(), r.ending.note()); notice != "" {
		rep.Reason, rep.Message, rep.Hint = LaneClosed, notice, "run the same command again when it can succeed"
	}
	return rep
}

// Status tells how the run stands. It may be called from anywhere.
func (r *Runner) Status() Status {
	s := Status{
		Open: int(r.open.Load()), InFlight: int(r.wired.Load()), Waiting: int(r.waiting.Load()),
		Requests: r.requests.Load(), Throttled: r.throttled.Load(),
		Stopping: r.ending.intake.Err() != nil,
	}
	r.ledger.status(&s)
	r.lanes.status(&s)
	s.Limit = min(s.Limit, r.c.Pacing.Max)
	if due := r.intake.firstDue(); !due.IsZero() && s.Open == 0 && s.Gate.IsZero() {
		s.Gate, s.GateReason = due, "an earlier run was told to wait until then"
	}
	if r.c.Survey != nil {
		r.c.Survey(&s)
	}
	return s
}

// ledger counts rows, tokens and money.
type ledger struct {
	mu            sync.Mutex
	rows, skipped map[output.Status]int
	usage         output.Usage
	cost          float64
}

// count adds a final row, or takes it back if times is -1.
func (l *ledger) count(res *output.Result, times int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.rows[res.Status] += times
	l.cost += float64(times) * res.Cost
	l.usage.InputTokens += int64(times) * res.Usage.InputTokens
	l.usage.OutputTokens += int64(times) * res.Usage.OutputTokens
}

func (l *ledger) skip(s output.Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.skipped[s]++
}

func (l *ledger) status(s *Status) {
	l.mu.Lock()
	defer l.mu.Unlock()
	s.Rows = maps.Clone(l.rows)
	for _, n := range l.skipped {
		s.Skipped += n
	}
	s.Cost, s.Input, s.Output = l.cost, l.usage.InputTokens, l.usage.OutputTokens
}
