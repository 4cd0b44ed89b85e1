package runner

import (
	"cmp"
	"math/rand/v2"
	"net/http"
	"time"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/pacing"
	"llmbatch/retry"
	"llmbatch/runner/provider"
)

// item is a line that needs work, and what its attempts have brought. Once started
// it belongs to its own goroutine.
type item struct {
	r    *Runner
	line *input.Item
	lane *lane
	call *provider.Call
	hash string
	key  string // idempotency key
	old  *output.Result
	// earlier is how many attempts earlier runs made.
	earlier int
	// notBefore is the next_attempt_at of an earlier run, zero if there is none.
	notBefore time.Time

	ticket   *pacing.Ticket // its place in the lane's queue; nil: it has none
	held     int            // bytes that the intake counts for it
	reserved *float64       // money set aside for the next request; nil: none

	attempts []output.Attempt
	errs     int       // attempts that count against --max-errors
	stale    int       // attempts on a connection that was going away
	first    time.Time // the first attempt's start
	end      time.Time // the item's budget ends; zero: never
	usage    provider.Usage
	last     *provider.Error
	rnd      *rand.Rand // nil until it is needed
	until    time.Time  // the wait that it is in ends; zero: none that the server or a gate named

	text    string // what cut streams brought, to be continued
	next    []byte // the body that asks for the rest
	part    int    // how often the rest was asked for
	wrong   *wrong // the last answer that was not as expected; nil: none
	reasked int    // requests that told what was wrong

	header http.Header // with a key that renews itself; nil: the lane's
	turn   int         // of that key

	unpieced bool // a request for the rest was refused: the answer is asked for whole
}

// run waits for the first permit and makes attempts until the item has its final
// row. An item that gets no permit was never sent and has no row.
func (i *item) run() {
	p := i.firstPermit()
	i.r.intake.remove(i)
	if p == nil {
		i.r.settleNothing(i)
		i.r.unsent.Add(1)
		return
	}
	i.r.open.Add(1)
	defer i.r.intake.look()
	defer i.r.open.Add(-1)
	i.resume()
	if i.old != nil && i.old.PartialText != "" && i.old.RequestHash == i.hash && i.r.wire.keepCut && i.text == "" {
		i.keepPartial(i.old.PartialText)
	}
	if !i.end.IsZero() && !time.Now().Before(i.end) {
		p.Done(pacing.Outcome{})
		i.r.settleNothing(i)
		i.giveUp(retry.Decision{GiveUp: "item_budget"})
		return
	}
	for p != nil {
		p = i.attempt(p)
	}
}

// attempt makes one attempt and returns the permit for the next; nil after the
// final row.
func (i *item) attempt(p *pacing.Permit) *pacing.Permit {
	returned := false
	defer func() { // a panic must not keep a place on the wire from the others
		if !returned {
			p.Done(pacing.Outcome{})
		}
	}()
	body, err := i.body()
	if err != nil {
		i.r.settle(i, provider.Usage{}, true)
		i.finish(output.Failed, &provider.Error{Class: provider.Rejected, Message: err.Error()}, "")
		return nil
	}
	i.tell(Flight{At: time.Now()})
	x := i.send(body)
	i.expected(x)
	v := judge(x.err)
	i.log(p, x)
	if i.rekeyed(x) {
		v, x.stale = verdict{act: again, signal: pacing.Nothing}, true
	}
	if x.err != nil && (x.err.Class != provider.Canceled || i.last == nil) {
		i.last = x.err
	}
	i.r.settle(i, x.usage, x.unsent || x.usage.Known || x.refused())
	hint := i.r.hintOf(x, v)
	switch v.act { // before the permit is free: nothing more may be launched
	case keep:
		i.r.acquit(i.r.weighing.answered(i, x.started))
	case shutLane, abortRun:
		if weighs(x.err) {
			v.act = weigh
		} else {
			i.r.convict([]*accused{{item: i, err: x.err}})
		}
	}
	if v.act == weigh {
		i.r.weigh(i, x)
	}
	returned = true
	fb := p.Done(i.outcome(x, v, hint))
	i.tell(Flight{At: time.Now(), Landed: true, Signal: v.signal, Hint: hint, Gate: fb.Gate})
	i.r.intake.look() // a gate that has shut lets the reader go on to other lanes
	i.r.observe(i.lane, x, v, fb.Alone)
	if (v.counts || fb.Alone) && !fb.Outage && !x.stale {
		i.errs++
	}
	return i.conclude(x, v, fb, hint)
}

// conclude does what the verdict says.
func (i *item) conclude(x *exchange, v verdict, fb pacing.Feedback, hint time.Duration) *pacing.Permit {
	switch v.act {
	case keep:
		i.answer(x)
	case fail:
		if i.next != nil { // what was refused is the request for the rest: the whole one may pass
			i.text, i.next, i.part, i.unpieced = "", nil, 0, true
			return i.again(x, v, fb, hint)
		}
		i.finish(output.Failed, x.err, "")
	case giveUp:
		res := i.row(output.GaveUp, x.err, "server_said_no", time.Time{})
		if x.hint > 0 {
			res.NextAttemptAt = time.Now().Add(x.hint)
		}
		i.r.emit(res)
	case cancel:
		i.stopped()
	case again:
		return i.again(x, v, fb, hint)
	}
	return nil
}

func (i *item) tell(f Flight) {
	if i.r.c.OnFlight != nil {
		i.r.c.OnFlight(i.line, f)
	}
}

// send sends the body within the attempt's deadline: the earliest of its own
// timeout, the item's budget and the run's end with its drain.
func (i *item) send(body []byte) *exchange {
	now := time.Now()
	if i.first.IsZero() {
		i.first = now
		if b := i.budget(); b > 0 {
			i.end = now.Add(b)
		}
	} else if n := len(i.attempts); n > 0 && i.attempts[n-1].WaitReason != "" {
		a := &i.attempts[n-1]
		a.Wait = now.Sub(a.StartedAt.Add(a.Duration))
	}
	ctx, cut, stop := withDeadline(i.r.ending.hard, i.deadline(now))
	defer stop()
	i.r.onWire(+1)
	defer i.r.onWire(-1)
	if e := i.signed(ctx); e != nil {
		return &exchange{started: now, err: e, unsent: true}
	}
	return i.r.wire.send(ctx, cut, i, body)
}

func (i *item) deadline(now time.Time) (d time.Time) {
	if t := i.attemptTimeout(); t > 0 {
		d = now.Add(t)
	}
	d = sooner(d, i.end)
	if !i.r.c.End.IsZero() {
		d = sooner(d, i.r.c.End.Add(i.r.c.Drain))
	}
	return d
}

// sooner is the earlier of two times of which zero means never.
func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// body is what the next attempt sends.
func (i *item) body() ([]byte, error) {
	if err := i.r.recall(i); err != nil {
		return nil, err
	}
	c := *i.call
	if i.next != nil {
		c.Body = i.next
	}
	if i.r.c.Stream && !c.Stream {
		c.Body = provider.WithStream(&c)
	}
	return provider.WithFiles(c.Body, c.Files)
}

// outcome tells pacing what the attempt taught.
func (i *item) outcome(x *exchange, v verdict, hint time.Duration) pacing.Outcome {
	o := pacing.Outcome{Signal: v.signal, Hint: hint, Quota: x.quotas}
	if x.err != nil {
		o.Alone, o.Concurrent = x.err.Content, x.err.Concurrent
	}
	if x.stale {
		o.Signal = pacing.Nothing
	}
	if x.usage.Known {
		o.Input = float64(x.usage.InputTokens + x.usage.CacheWriteTokens)
		o.Output = float64(x.usage.OutputTokens)
	}
	return o
}

// hintOf is the server's wait as pacing shall see it: with --on-long-wait cap no
// longer than --max-wait.
func (r *Runner) hintOf(x *exchange, v verdict) time.Duration {
	if v.act != again && v.act != giveUp {
		return 0
	}
	if capped(r.c.Retry) {
		return min(x.hint, r.c.Retry.MaxWait)
	}
	return x.hint
}

// random is the item's own source: a seed repeats a run.
func (i *item) random() float64 {
	if i.rnd == nil {
		i.rnd = rand.New(rand.NewPCG(i.r.c.Seed, uint64(i.line.Index)))
	}
	return i.rnd.Float64()
}

// answer writes the row of an item that has its answer.
func (i *item) answer(x *exchange) {
	res := i.row(output.OK, nil, "", time.Time{})
	res.Text = joined(i.text, x.reply.Text)
	res.StopReason = x.reply.StopReason
	res.Model = cmp.Or(x.reply.Model, res.Model)
	res.Response = x.reply.Response
	if n := x.reply.Usage.OutputTokens; n > i.lane.mostOutput.Load() {
		i.lane.mostOutput.Store(n)
	}
	i.r.emit(res)
}

// finish writes the row of an item that has no answer.
func (i *item) finish(s output.Status, e *provider.Error, reason string) {
	i.r.emit(i.row(s, e, reason, time.Time{}))
}
