package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"llmbatch/pacing"
	"llmbatch/runner"
)

// control moves each lane's limit, looks at the queue, and notices lines that
// were lost, until ctx ends.
func (c *Coordinator) control(ctx context.Context) {
	pause, told, written := statPeriod/4, time.Time{}, time.Time{}
	for sleep(ctx, pause) == nil {
		changed := false
		for _, l := range c.allLanes() {
			if c.controlLane(ctx, l) {
				changed = true
			}
		}
		c.countWaiting(ctx)
		c.mu.Lock()
		close(c.room)
		c.room = make(chan struct{})
		hungry := !c.fedAll
		c.mu.Unlock()
		if changed || time.Since(told) > time.Second {
			told = time.Now()
			c.tellLimits()
		}
		if time.Since(written) > time.Second {
			written = time.Now()
			c.tellProgress(ctx)
		}
		c.dropSilent()
		c.endIfAllLate()
		c.refeed(ctx)
		if pause = statPeriod; hungry {
			pause = statPeriod / 4
		}
	}
}

func (c *Coordinator) allLanes() []*lane {
	c.mu.Lock()
	defer c.mu.Unlock()
	lanes := make([]*lane, 0, len(c.lanes))
	for _, l := range c.lanes {
		lanes = append(lanes, l)
	}
	return lanes
}

// controlLane looks at the consumer and sets its limit. It reports whether the
// limit has changed.
func (c *Coordinator) controlLane(ctx context.Context, l *lane) bool {
	try, cancel := context.WithTimeout(ctx, oneTry)
	defer cancel()
	c.mu.Lock()
	before := l.queued
	c.mu.Unlock()
	info, err := l.consumer.Info(try)
	if err != nil {
		return false
	}
	c.mu.Lock()
	// What was published while the server answered is not in its count.
	l.queued = int(info.NumPending) + max(0, l.queued-before)
	l.leased = info.NumAckPending
	limit, closed, most := l.limit, l.closed, c.most
	c.mu.Unlock()
	hungry := !info.Paused && info.NumPending > 0 && (info.NumWaiting > 0 || info.NumAckPending >= limit)
	s := l.mirror.Look(hungry)
	want := l.within(s.Limit, time.Now())
	if most > 0 {
		want = min(want, most)
	}
	if s.Gate.After(time.Now().Add(50 * time.Millisecond)) {
		if err := c.coolDown(try, c.kv, l.id, s.Gate.Add(c.offset)); err != nil {
			c.log.Debug("cooldown", "lane", l.id, "error", err)
		}
	}
	changed := false
	if want != limit && !closed {
		config := l.config
		config.MaxAckPending = want
		if _, err := c.js.UpdateConsumer(try, c.workStream(), config); err == nil {
			changed = true
		}
	}
	c.mu.Lock()
	if changed {
		l.limit = want
	}
	l.inFlight, l.cool, l.reason = s.InFlight, time.Time{}, s.Reason
	if info.Paused {
		l.cool = time.Now().Add(info.PauseRemaining)
	}
	c.mu.Unlock()
	return changed
}

// doubling is the least time in which a limit grows to its double. Word of a
// refusal takes a while to reach everybody; where answers are quick, slow start
// would have gone far beyond what the API takes by then.
const doubling = 500 * time.Millisecond

// within bounds how fast a lane's limit grows beyond what it ever was.
func (l *lane) within(want int, now time.Time) int {
	if want > l.most {
		share := min(now.Sub(l.looked), statPeriod).Seconds() / doubling.Seconds()
		l.most = min(want, l.most+max(1, int(float64(l.most)*(math.Exp2(share)-1))))
	}
	l.looked = now
	return min(want, l.most)
}

// countWaiting finds how many messages are scheduled: what is neither queued nor
// leased.
func (c *Coordinator) countWaiting(ctx context.Context) {
	try, cancel := context.WithTimeout(ctx, oneTry)
	defer cancel()
	s, err := c.js.Stream(try, c.workStream())
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := int(s.CachedInfo().State.Msgs)
	for _, l := range c.lanes {
		n -= l.queued + l.leased
	}
	c.waiting = max(0, n)
}

func (c *Coordinator) tellLimits() {
	c.mu.Lock()
	limits := map[string]int{}
	for id, l := range c.lanes {
		limits[id] = l.limit
	}
	c.mu.Unlock()
	if data, err := json.Marshal(limits); err == nil {
		_ = c.nc.Publish(c.subject("limit"), data)
	}
}

// flightKey names a request on the wire.
type flightKey struct {
	worker string
	line   int
}

// heardStat takes in what a worker saw.
func (c *Coordinator) heardStat(m *nats.Msg) {
	var s stat
	if json.Unmarshal(m.Data, &s) != nil {
		return
	}
	c.mu.Lock()
	w := c.workers[s.Worker]
	if w == nil {
		w = &workerStat{}
		c.workers[s.Worker] = w
	}
	w.held, w.deferred, w.heard, w.stopped = s.Held, s.Deferred, time.Now(), s.Stopped
	w.inFlight, w.most = s.InFlight, s.Most
	if len(s.Seen) > 0 {
		c.moved = time.Now()
	}
	c.mu.Unlock()
	for _, f := range s.Seen {
		c.saw(s.Worker, f)
	}
}

func (c *Coordinator) saw(worker string, s seen) {
	at := time.UnixMicro(s.At).Add(-c.offset)
	f := runner.Flight{At: at, Landed: s.Sig > 0}
	c.mu.Lock()
	l := c.lanes[s.Lane]
	inFlight := 0
	for _, l := range c.lanes {
		inFlight += l.inFlight
	}
	c.mu.Unlock()
	if f.Landed {
		f.Signal, f.Hint = pacing.Signal(s.Sig-1), time.Duration(s.Hint)*time.Millisecond
	}
	c.m.Saw(f, inFlight)
	if l == nil {
		return
	}
	key := flightKey{worker, s.Line}
	if !f.Landed {
		l.mirror.Launched(key, at)
		return
	}
	l.mirror.Landed(key, at, pacing.Outcome{Signal: f.Signal, Hint: f.Hint})
}

// dropSilent forgets workers that have not been heard for a lease: their items go
// to others.
func (c *Coordinator) dropSilent() {
	c.mu.Lock()
	gone := map[string]bool{}
	for id, w := range c.workers {
		if time.Since(w.heard) > max(c.config.Lease, time.Second) || w.stopped {
			gone[id] = true
			delete(c.workers, id)
		}
	}
	c.mu.Unlock()
	if len(gone) == 0 {
		return
	}
	for _, l := range c.allLanes() {
		l.mirror.Forget(func(key any) bool {
			k, ok := key.(flightKey)
			return ok && gone[k.worker]
		})
	}
}

// endIfAllLate ends a run of which every lane is shut until after its end.
func (c *Coordinator) endIfAllLate() {
	if c.o.End.IsZero() {
		return
	}
	c.mu.Lock()
	late := len(c.lanes) > 0
	for _, l := range c.lanes {
		if !l.closed && !l.cool.After(c.o.End) {
			late = false
		}
	}
	c.mu.Unlock()
	if late {
		c.m.Halt(runner.BudgetEnded, "every lane is shut until after the run's end", "", nil)
	}
}

// refeed publishes lines again that are neither done nor anywhere in the queue.
// It heals any loss there.
func (c *Coordinator) refeed(ctx context.Context) {
	c.mu.Lock()
	held, live, paused := 0, 0, false
	for _, w := range c.workers {
		if time.Since(w.heard) < time.Second && !w.stopped {
			held += w.held
			live++
		}
	}
	for _, l := range c.lanes {
		paused = paused || !l.closed && l.cool.After(time.Now())
	}
	lost := c.fedAll && c.missing > 0 && live > 0 && held == 0 && !paused && time.Since(c.moved) > c.o.Idle
	missing := c.missing
	c.mu.Unlock()
	if !lost || !c.fresh() || c.scheduled(ctx) {
		return
	}
	c.mu.Lock()
	c.moved = time.Now()
	c.mu.Unlock()
	if c.reread = !c.reread; c.reread { // first: is any result in the stream that we don't have?
		c.replay.Store(true)
		return
	}
	c.round++
	c.log.Warn("lines that the queue has lost are fed again", "lines", missing, "round", c.round)
	f := &feeding{c: c, round: c.round}
	for it, err := range c.o.Input() {
		if err != nil || ctx.Err() != nil {
			return
		}
		c.mu.Lock()
		again := c.due.has(it.Index) && !c.done.has(it.Index)
		c.mu.Unlock()
		if !again {
			continue
		}
		o, _ := c.m.Open(it)
		if o == nil {
			continue
		}
		if l, err := c.laneFor(ctx, o); err != nil || !f.add(ctx, o, l) {
			return
		}
	}
	_ = f.flush(ctx)
}

// scheduled says whether any message waits for its time; unknown counts as yes.
func (c *Coordinator) scheduled(ctx context.Context) bool {
	try, cancel := context.WithTimeout(ctx, oneTry)
	defer cancel()
	s, err := c.js.Stream(try, c.workStream())
	if err != nil {
		return true
	}
	info, err := s.Info(try, jetstream.WithSubjectFilter(c.subject("wait.>")))
	return err != nil || len(info.State.Subjects) > 0
}

// watchKeys follows what others write: an abort, a cap set by hand, a closed
// lane.
func (c *Coordinator) watchKeys(ctx context.Context) {
	for ctx.Err() == nil {
		w, err := c.kv.WatchAll(ctx)
		if err != nil {
			_ = sleep(ctx, 200*time.Millisecond)
			continue
		}
		for e := range w.Updates() {
			if e != nil {
				c.keyChanged(e)
			}
		}
		_ = w.Stop()
	}
}

func (c *Coordinator) keyChanged(e jetstream.KeyValueEntry) {
	put := e.Operation() == jetstream.KeyValuePut
	switch key := e.Key(); {
	case key == "cap":
		most := 0
		if put {
			if _, err := fmt.Sscan(string(e.Value()), &most); err != nil {
				return
			}
		}
		c.mu.Lock()
		c.most = most
		c.mu.Unlock()
	case key == abortKey(c.config.Epoch) && put:
		var end ending
		if json.Unmarshal(e.Value(), &end) == nil && end.By != coordinatorName {
			c.m.Halt(end.Reason, end.Message, end.Hint, nil)
		}
	case strings.HasPrefix(key, faultKey(c.config.Epoch, "")) && put:
		var end ending
		if json.Unmarshal(e.Value(), &end) == nil {
			c.workerFailed(strings.TrimPrefix(key, faultKey(c.config.Epoch, "")), end)
		}
	case strings.HasPrefix(key, closedKey(c.config.Epoch, "")) && put:
		c.closeLane(strings.TrimPrefix(key, closedKey(c.config.Epoch, "")), string(e.Value()))
	}
}

// coordinatorName is who says that the run ends when the coordinator does.
const coordinatorName = "coordinator"

// Survey is runner.Config.Survey: it adds what only the fleet knows.
func (c *Coordinator) Survey(s *runner.Status) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Limit, s.InFlight, s.Lanes, s.Waiting = 0, 0, len(c.lanes), c.waiting
	shut := len(c.lanes) > 0
	for _, l := range c.lanes {
		s.Limit += l.limit
		s.InFlight += l.inFlight
		if !l.cool.After(time.Now()) {
			shut = false
		} else if s.Gate.IsZero() || l.cool.Before(s.Gate) {
			s.Gate, s.GateReason = l.cool, l.reason
		}
	}
	if !shut {
		s.Gate, s.GateReason = time.Time{}, ""
	}
	s.Open = c.missing
}
