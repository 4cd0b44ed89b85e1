package pacing

import (
	"cmp"
	"container/heap"
	"math"
	"math/rand/v2"
	"testing"
	"time"
)

// The simulator drives a lane event by event in virtual time: no goroutine, no
// clock, so a run of hours takes milliseconds, and the same seed gives the same
// run to the last bit.

type event struct {
	at time.Duration
	n  int
	do func()
}

type events []event

func (h events) Len() int { return len(h) }
func (h events) Less(i, j int) bool {
	return h[i].at < h[j].at || h[i].at == h[j].at && h[i].n < h[j].n
}
func (h events) Swap(i, j int) { h[i], h[j] = h[j], h[i] }
func (h *events) Push(x any)   { *h = append(*h, x.(event)) }
func (h *events) Pop() any {
	o := *h
	e := o[len(o)-1]
	*h = o[:len(o)-1]
	return e
}

type world struct {
	now time.Duration
	n   int
	h   events
}

func (w *world) at(t time.Duration, do func()) {
	w.n++
	heap.Push(&w.h, event{max(t, w.now), w.n, do})
}

func (w *world) after(s float64, do func()) { w.at(later(w.now, seconds(s)), do) }

// run ends when nothing is left, done says so, or the time is over.
func (w *world) run(most float64, done func() bool) {
	for len(w.h) > 0 && !done() {
		e := heap.Pop(&w.h).(event)
		if e.at > seconds(most) {
			return
		}
		w.now = e.at
		e.do()
	}
}

// client is a run: it reads jobs, offers them to the lane, sends what the lane
// lets go, and gives back what the server said.
type client struct {
	t     testing.TB
	w     *world
	lane  *lane
	srv   server
	work  work
	jobs  []*job
	rand  *rand.Rand
	armed time.Duration

	rides []*ride // by job

	next, open, fresh            int
	inFlight, waiting            int
	ok, lost, launches, refused  int
	counted                      int // failures that count for their items
	peak, peakWaiting, mostTries int
	taken, turned                []float64       // times of acceptance and refusal at the server
	last, others                 float64         // the last end, and of items that had no wait of their own
	seen                         func(c *client) // called after each event
}

// ride is a job on its way through lane and server.
type ride struct {
	*job
	flight flight
}

func (r *ride) demand() demand {
	return demand{order: int64(r.id), input: r.guess, output: r.maxOutput, notAfter: never}
}

func newClient(t testing.TB, w *world, m work, seed uint64, srv server) *client {
	c := &client{t: t, w: w, srv: srv, work: m, jobs: m.jobs(seed), armed: never,
		rand: rand.New(rand.NewPCG(seed, 77))}
	c.rides = make([]*ride, len(c.jobs))
	c.lane = newLane(Config{Max: cmp.Or(m.limit, 512), Start: m.start, Fixed: m.fixed, RPM: m.rpm, TPM: m.tpm, Burst: m.burst, Seed: seed})
	return c
}

func (c *client) finished() bool { return c.next >= len(c.jobs) && c.open == 0 }

func (c *client) seconds() float64 { return c.w.now.Seconds() }

// turn lets the lane launch what it will, and arms its timer. Fresh items stand in
// the queue behind those that were refused.
func (c *client) turn() {
	l := c.lane
	for {
		c.read()
		again := l.pump(c.w.now)
		if len(l.served) == 0 {
			c.arm(again)
			break
		}
		for _, w := range l.served {
			c.waiting--
			r := c.rides[w.order]
			if r.launches == 0 {
				c.fresh--
				r.first = c.seconds()
			}
			c.send(r)
		}
		l.served = l.served[:0]
	}
	c.check()
}

const readAhead = 4 // fresh items that wait

func (c *client) read() {
	for c.fresh < readAhead && c.next < len(c.jobs) {
		j := c.jobs[c.next]
		if j.from > c.seconds() {
			c.arm(seconds(j.from))
			return
		}
		r := &ride{job: j}
		c.rides[j.id] = r
		c.next++
		c.open++
		c.fresh++
		c.enqueue(r)
	}
}

func (c *client) arm(t time.Duration) {
	if t >= c.armed || t == never {
		return
	}
	c.armed = max(t, c.w.now)
	c.w.at(t, func() {
		if c.armed <= c.w.now {
			c.armed = never
		}
		c.turn()
	})
}

func (c *client) send(r *ride) {
	if until := c.lane.gate.until; c.w.now < until && c.lane.gate.test.flight != &r.flight {
		c.t.Fatalf("%v: launch at a gate that is shut until %v", c.w.now, until)
	}
	c.inFlight++
	if c.inFlight > c.lane.limit && (c.inFlight > c.lane.limit+1 || c.lane.gate.test.flight != &r.flight) {
		c.t.Fatalf("%v: launch number %d at a limit of %d", c.w.now, c.inFlight, c.lane.limit)
	}
	c.launches++
	r.launches++
	c.mostTries = max(c.mostTries, r.launches)
	c.peak = max(c.peak, c.inFlight)
	c.w.after(c.work.network, func() { c.arrive(r) })
}

func (c *client) arrive(r *ride) {
	t := c.seconds()
	v := c.srv.arrive(t, r.job)
	if v.status == 200 {
		c.taken = append(c.taken, t)
		c.w.after(v.service, func() {
			q := c.srv.finish(c.seconds(), r.job)
			c.w.after(c.work.network, func() { c.answered(r, q) })
		})
		return
	}
	c.turned = append(c.turned, t)
	c.w.after(c.work.refusal*math.Exp(0.3*c.rand.NormFloat64())+c.work.network, func() { c.refusedWith(r, v) })
}

func (c *client) answered(r *ride, q []Quota) {
	c.inFlight--
	c.lane.done(c.w.now, &r.flight, Outcome{Signal: Good, Quota: q, Input: r.in, Output: r.out})
	c.end(r)
	c.ok++
	c.turn()
}

// end: each item ends exactly once.
func (c *client) end(r *ride) {
	if r.ended {
		c.t.Fatalf("%v: job %d ended twice", c.w.now, r.id)
	}
	r.ended = true
	c.open--
	c.rides[r.id] = nil
	c.last = c.seconds()
	if !r.alone {
		c.others = c.last
	}
}

const (
	jobErrors  = 5   // errors that an item may have
	itemBudget = 600 // seconds that it may wait at a time
)

func (c *client) refusedWith(r *ride, v verdict) {
	c.inFlight--
	c.refused++
	o := Outcome{Signal: Throttled, Quota: v.quota, Hint: seconds(max(0, v.hint)), Concurrent: v.concurrent}
	switch v.status {
	case 500:
		o.Signal = Failed
	case 503, 529:
		o.Signal = Overloaded
	}
	outage, alone := c.give(&r.flight, o)
	own := max(0, v.hint)
	if p, ok := c.srv.(*picky); ok {
		_, r.alone = p.items[r.id]
	}
	r.alone = r.alone || o.Concurrent
	switch {
	case own > itemBudget || r.alone && c.seconds()-r.first > itemBudget:
		c.lost++
		c.end(r)
	case o.Signal == Failed && !outage, alone:
		c.counted++
		if r.errors++; r.errors >= jobErrors {
			c.lost++
			c.end(r)
			break
		}
		c.wait(r, max(own, 0.05, c.rand.Float64()*min(60, 0.5*math.Exp2(float64(r.errors-1)))))
	default:
		r.refusals++
		c.wait(r, own)
	}
	c.turn()
}

// give gives a refused flight back and holds the lane to its rules for cuts.
func (c *client) give(f *flight, o Outcome) (outage, alone bool) {
	l := c.lane
	limit, size, step, known := l.limit, l.window.size, l.gate.step, f.seq <= l.epoch
	outage, alone = l.done(c.w.now, f, o)
	if o.Signal == Failed && l.limit < limit {
		c.t.Fatalf("%v: a failure cut the limit from %d to %d", c.w.now, limit, l.limit)
	}
	if known && (l.gate.step > step || l.limit < limit-1) {
		c.t.Fatalf("%v: a refusal of a counted burst moved limit %d to %d, step %d to %d", c.w.now, limit, l.limit, step, l.gate.step)
	}
	if held := float64(c.inFlight); !known && o.Signal == Throttled && l.doubt.strikes == 0 && l.window.size < 0.95*min(size, held)-1e-9 && l.limit > 1 {
		c.t.Fatalf("%v: a ceiling's refusal cut the window to %.1f with %d held", c.w.now, l.window.size, c.inFlight)
	}
	return outage, alone
}

// wait waits by itself and then stands in the queue.
func (c *client) wait(r *ride, own float64) {
	if own <= 0 {
		c.enqueue(r)
		return
	}
	c.w.after(own, func() {
		c.enqueue(r)
		c.turn()
	})
}

func (c *client) enqueue(r *ride) {
	c.waiting++
	c.peakWaiting = max(c.peakWaiting, c.waiting)
	c.lane.enqueue(&waiter{demand: r.demand(), flight: &r.flight})
}

// check holds the lane to its invariants.
func (c *client) check() {
	l := c.lane
	p := &l.permits
	if p.taken != c.inFlight || l.queue.Len() > c.waiting {
		c.t.Fatalf("%v: %d permits for %d requests, %d in the queue for %d waiting", c.w.now, p.taken, c.inFlight, l.queue.Len(), c.waiting)
	}
	if l.limit < 1 || l.limit > p.max {
		c.t.Fatalf("%v: limit %d out of 1 to %d", c.w.now, l.limit, p.max)
	}
	free := int64(p.max - p.taken - p.parked)
	if free < 0 || !p.sem.TryAcquire(free) || p.sem.TryAcquire(1) {
		c.t.Fatalf("%v: free, %d taken and %d parked are not %d permits", c.w.now, p.taken, p.parked, p.max)
	}
	p.sem.Release(free)
	if p.taken+int(free) > max(l.limit, p.taken) {
		c.t.Fatalf("%v: %d free and %d taken pass the limit of %d", c.w.now, free, p.taken, l.limit)
	}
	if c.seen != nil {
		c.seen(c)
	}
}
