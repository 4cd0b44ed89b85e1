package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"llmbatch/output/plain"
	"llmbatch/runner"
)

// ErrNoRun says that the server has no run of that name.
var ErrNoRun = errors.New("there is no such run on the NATS server")

// Status is a run as its objects in NATS show it. Counts are of items.
type Status struct {
	Run         string       `json:"run"`
	Started     time.Time    `json:"started_at"`
	State       string       `json:"state"` // running, paused, stopped, done
	Message     string       `json:"message,omitempty"`
	Coordinator string       `json:"coordinator,omitempty"` // "" if none lives
	Cap         int          `json:"cap,omitempty"`
	Queued      int          `json:"queued"`
	InFlight    int          `json:"in_flight"`
	Waiting     int          `json:"waiting"`
	Uncollected int          `json:"uncollected"`
	Throttled   float64      `json:"throttled_share"` // of the answers in the last second
	Lanes       []LaneStatus `json:"lanes"`
	Workers     []string     `json:"workers"`
	// Progress is what the coordinator wrote last; nil before its first second.
	Progress *Progress `json:"progress,omitempty"`
	// Wanted is how many workers could be busy now, for an autoscaler.
	Wanted int `json:"wanted_workers"`
}

// LaneStatus is one provider and model.
type LaneStatus struct {
	Provider string     `json:"provider"`
	Model    string     `json:"model"`
	Limit    int        `json:"limit"`
	InFlight int        `json:"in_flight"`
	Queued   int        `json:"queued"`
	Cooling  *time.Time `json:"cooling_until,omitempty"`
	Closed   string     `json:"closed,omitempty"`
}

// opened returns the run's bucket.
func (c *Conn) opened(ctx context.Context) (jetstream.KeyValue, error) {
	kv, err := c.js.KeyValue(ctx, c.bucket())
	if errors.Is(err, jetstream.ErrBucketNotFound) {
		return nil, ErrNoRun
	}
	return kv, err
}

// Status looks at the run. It listens to the workers for a second.
func (c *Conn) Status(ctx context.Context) (Status, error) {
	s := Status{Run: c.run, State: "running", Workers: []string{}, Lanes: []LaneStatus{}}
	kv, err := c.opened(ctx)
	if err != nil {
		return s, err
	}
	var config Config
	if err := readKey(ctx, kv, "config", &config); err != nil {
		return s, err
	}
	s.Started = config.Started
	if err := c.statusEnd(ctx, kv, config.Epoch, &s); err != nil {
		return s, err
	}
	if err := c.statusLanes(ctx, kv, config.Epoch, &s); err != nil {
		return s, err
	}
	if err := c.statusPeople(ctx, &s); err != nil {
		return s, err
	}
	var p Progress
	switch err := readKey(ctx, kv, progressKey(config.Epoch), &p); {
	case err == nil:
		s.Progress = &p
		if s.State == "running" {
			s.Wanted = p.Wanted
		}
	case !missing(err):
		return s, err
	}
	switch {
	case s.State == "done": // what is left there, of workers that were killed, has its row
		s.InFlight, s.Queued, s.Waiting = 0, 0, 0
		for i := range s.Lanes {
			s.Lanes[i].InFlight, s.Lanes[i].Queued = 0, 0
		}
	case len(s.Workers) > 0:
		s.Throttled = c.throttledShare(ctx)
	}
	return s, nil
}

func readKey(ctx context.Context, kv jetstream.KeyValue, key string, v any) error {
	e, err := kv.Get(ctx, key)
	if err != nil {
		return err
	}
	return json.Unmarshal(e.Value(), v)
}

func (c *Conn) statusEnd(ctx context.Context, kv jetstream.KeyValue, epoch string, s *Status) error {
	var end ending
	for _, key := range []string{abortKey(epoch), doneKey(epoch)} {
		switch err := readKey(ctx, kv, key, &end); {
		case err == nil:
			s.Message, s.State = end.Message, "stopped"
			if end.Reason == runner.Finished {
				s.State = "done"
			}
		case !missing(err):
			return err
		}
	}
	if err := readKey(ctx, kv, "cap", &s.Cap); err != nil && !missing(err) {
		return err
	}
	if _, err := kv.Get(ctx, "hold"); err == nil && s.State == "running" {
		s.State = "paused"
	}
	return nil
}

func (c *Conn) statusLanes(ctx context.Context, kv jetstream.KeyValue, epoch string, s *Status) error {
	stream, err := c.js.Stream(ctx, c.workStream())
	if err != nil {
		return err
	}
	s.Waiting = int(stream.CachedInfo().State.Msgs)
	err = c.eachLane(ctx, func(name string) error {
		consumer, err := stream.Consumer(ctx, name)
		if err != nil {
			return err
		}
		info := consumer.CachedInfo()
		id := strings.TrimPrefix(name, "work-")
		l := LaneStatus{Limit: info.Config.MaxAckPending, InFlight: info.NumAckPending, Queued: int(info.NumPending)}
		_ = readKey(ctx, kv, "lane."+id, &l) // written just after the consumer
		if e, err := kv.Get(ctx, closedKey(epoch, id)); err == nil {
			l.Closed = string(e.Value())
		}
		if info.Paused {
			until := time.Now().Add(info.PauseRemaining).UTC().Truncate(time.Second)
			l.Cooling = &until
		}
		s.InFlight += l.InFlight
		s.Queued += l.Queued
		s.Lanes = append(s.Lanes, l)
		return nil
	})
	s.Waiting = max(0, s.Waiting-s.InFlight-s.Queued)
	if err != nil {
		return err
	}
	res, err := c.js.Consumer(ctx, c.resStream(), "collect")
	if err == nil {
		s.Uncollected = int(res.CachedInfo().NumPending) + res.CachedInfo().NumAckPending
	}
	return err
}

func (c *Conn) statusPeople(ctx context.Context, s *Status) error {
	lead, err := c.js.KeyValue(ctx, c.leadBucket())
	if missing(err) {
		return nil
	}
	if err != nil {
		return err
	}
	keys, err := lead.ListKeys(ctx)
	if err != nil {
		return err
	}
	for key := range keys.Keys() {
		if id, ok := strings.CutPrefix(key, "worker."); ok {
			s.Workers = append(s.Workers, id)
		}
	}
	if e, err := lead.Get(ctx, "leader"); err == nil {
		s.Coordinator = string(e.Value())
	}
	return nil
}

// throttledShare listens for a second to what the workers tell.
func (c *Conn) throttledShare(ctx context.Context) float64 {
	ch := make(chan *nats.Msg, 1024)
	sub, err := c.nc.ChanSubscribe(c.subject("stat.*"), ch)
	if err != nil {
		return 0
	}
	_ = sleep(ctx, time.Second)
	_ = sub.Unsubscribe()
	answers, refused := 0, 0
	for len(ch) > 0 {
		var s stat
		if json.Unmarshal((<-ch).Data, &s) != nil {
			continue
		}
		for _, f := range s.Seen {
			if f.Sig > 0 {
				answers++
			}
			if f.throttled() {
				refused++
			}
		}
	}
	if answers == 0 {
		return 0
	}
	return float64(refused) / float64(answers)
}

// Ended says that nothing more will happen in the run.
func (s Status) Ended() bool { return s.State == "done" || s.State == "stopped" }

// WriteJSON writes the status as one line.
func (s Status) WriteJSON(w io.Writer) error { return json.NewEncoder(w).Encode(s) }

// WriteText writes the status for people.
func (s Status) WriteText(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	state := s.State
	if s.Message != "" {
		state += ": " + plain.Line(s.Message)
	}
	coordinator := plain.Line(s.Coordinator)
	if coordinator == "" {
		coordinator = "none lives"
	}
	fmt.Fprintf(t, "run\t%s, started %s\nstate\t%s\ncoordinator\t%s\n", s.Run, s.Started.Local().Format(time.DateTime), state, coordinator)
	if s.Progress != nil {
		fmt.Fprintf(t, "progress\t%s\n", s.Progress.text())
	}
	s.writeWorkers(t)
	fmt.Fprintf(t, "items\t%d in flight, %d queued, %d waiting for their time, %d results to collect\n", s.InFlight, s.Queued, s.Waiting, s.Uncollected)
	if s.Cap > 0 {
		fmt.Fprintf(t, "cap\t%d, set by hand\n", s.Cap)
	}
	fmt.Fprintf(t, "429s\t%.1f %% of the answers\n", 100*s.Throttled)
	for _, l := range s.Lanes {
		line := fmt.Sprintf("%d of %d in flight, %d queued", l.InFlight, l.Limit, l.Queued)
		if l.Cooling != nil {
			line += ", shut until " + l.Cooling.Local().Format(time.DateTime)
		}
		if l.Closed != "" {
			line += ", closed: " + plain.Line(l.Closed)
		}
		fmt.Fprintf(t, "%s %s\t%s\n", plain.Line(l.Provider), plain.Line(l.Model), line)
	}
	return t.Flush()
}

// writeWorkers is a line for each worker that lives or has answered.
func (s Status) writeWorkers(w io.Writer) {
	known := map[string]bool{}
	var lines []string
	if s.Progress != nil {
		for _, p := range s.Progress.Workers {
			known[p.ID] = true
			state := fmt.Sprintf("%d in flight", p.InFlight)
			if !p.Alive {
				state = "gone"
			}
			lines = append(lines, fmt.Sprintf("%s: %s, %s, %s", p.ID, state, plain.Plural(p.Answers, "answer"), plain.Plural(p.Errors, "error")))
		}
	}
	for _, id := range s.Workers {
		if !known[id] {
			lines = append(lines, id+": nothing yet")
		}
	}
	if len(lines) == 0 {
		lines = []string{"none"}
	}
	for i, l := range lines {
		label := ""
		if i == 0 {
			label = "workers"
		}
		fmt.Fprintf(w, "%s\t%s\n", label, plain.Line(l))
	}
}

// SetLimit caps the limit of each lane by hand; 0 lifts the cap. The coordinator
// heeds it at its next look, a tenth of a second later.
func (c *Conn) SetLimit(ctx context.Context, n int) error {
	kv, err := c.opened(ctx)
	if err != nil {
		return err
	}
	_, err = kv.PutString(ctx, "cap", strconv.Itoa(n))
	return err
}

// Pause lets nothing more be launched until Unpause.
func (c *Conn) Pause(ctx context.Context) error {
	kv, err := c.opened(ctx)
	if err != nil {
		return err
	}
	if _, err := kv.PutString(ctx, "hold", "by hand"); err != nil {
		return err
	}
	return c.eachLane(ctx, func(consumer string) error {
		return c.coolDown(ctx, kv, strings.TrimPrefix(consumer, "work-"), time.Now().Add(stopFor))
	})
}

// Unpause opens every lane, also one that waits because an API asked for it.
func (c *Conn) Unpause(ctx context.Context) error {
	kv, err := c.opened(ctx)
	if err != nil {
		return err
	}
	if err := kv.Purge(ctx, "hold"); err != nil {
		return err
	}
	return c.eachLane(ctx, func(consumer string) error {
		if err := kv.Purge(ctx, "cool."+strings.TrimPrefix(consumer, "work-")); err != nil {
			return err
		}
		_, err := c.js.ResumeConsumer(ctx, c.workStream(), consumer)
		return err
	})
}

// Abort stops the run for everybody. What is on the wire may finish.
func (c *Conn) Abort(ctx context.Context) error {
	kv, err := c.opened(ctx)
	if err != nil {
		return err
	}
	var config Config
	if err := readKey(ctx, kv, "config", &config); err != nil {
		return err
	}
	return c.abort(ctx, kv, config.Epoch, ending{Reason: runner.Aborted, Message: "fleet abort was called", By: "hand", At: time.Now(),
		Hint: "run the same command again to continue"})
}

// Remove deletes the run's streams and buckets.
func (c *Conn) Remove(ctx context.Context) error {
	if _, err := c.opened(ctx); err != nil {
		return err
	}
	err := c.remove(ctx)
	if e := c.js.DeleteKeyValue(ctx, c.leadBucket()); e != nil && !missing(e) {
		err = errors.Join(err, e)
	}
	return err
}
