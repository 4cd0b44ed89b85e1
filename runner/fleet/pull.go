package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// pullFor is how long a request for items stays with the server, which says at
	// each heartbeat that it still has it. Without one the server is gone, or another
	// one leads, and the items are asked for anew.
	pullFor   = 5 * time.Second
	heartbeat = time.Second
	// gather is how long freed slots are collected into one request.
	gather = time.Millisecond
)

// puller fetches the items of one lane: never more than there are free slots,
// because what is fetched holds a slot of the fleet and its lease runs.
type puller struct {
	w     *worker
	lane  string
	freed chan struct{}

	stop context.CancelFunc

	held int // guarded by worker.mu

	// of run alone
	verified bool
	inbox    string
	sub      *nats.Subscription
	ch       chan *nats.Msg
	asked    int       // items requested that have not come
	heard    time.Time // of the server, last
}

func (p *puller) wake() {
	select {
	case p.freed <- struct{}{}:
	default:
	}
}

// run fetches until ctx ends.
func (p *puller) run(ctx context.Context) {
	defer p.unsubscribe()
	connected := p.w.nc.StatusChanged(nats.CONNECTED, nats.RECONNECTING)
	defer p.w.nc.RemoveStatusListener(connected)
	check := time.NewTicker(time.Second)
	defer check.Stop()
	for ctx.Err() == nil {
		if err := p.ask(); err != nil {
			if sleep(ctx, 100*time.Millisecond) != nil {
				return
			}
			continue
		}
		select {
		case m := <-p.ch:
			p.take(m)
			for more := true; more; {
				select {
				case m := <-p.ch:
					p.take(m)
				default:
					more = false
				}
			}
		case <-p.freed:
			_ = sleep(ctx, gather)
		case <-connected:
			p.unsubscribe() // what was asked for is gone with the connection
		case <-check.C:
			if p.asked > 0 && time.Since(p.heard) > 5*heartbeat/2 {
				p.unsubscribe() // the server has forgotten
			}
		case <-ctx.Done():
		}
	}
}

func (p *puller) unsubscribe() {
	if p.sub != nil {
		_ = p.sub.Unsubscribe()
		for len(p.ch) > 0 {
			p.take(<-p.ch)
		}
		p.sub, p.asked = nil, 0
	}
}

// ask requests as many items as there are free slots.
func (p *puller) ask() error {
	if p.sub == nil {
		p.inbox = nats.NewInbox()
		p.ch = make(chan *nats.Msg, 64*1024)
		sub, err := p.w.nc.ChanSubscribe(p.inbox, p.ch)
		if err != nil {
			return err
		}
		p.sub, p.asked = sub, 0
	}
	p.w.mu.Lock()
	free := p.w.o.Concurrency - p.held - p.asked
	p.w.mu.Unlock()
	if free <= 0 {
		return nil
	}
	request, err := json.Marshal(map[string]int64{"batch": int64(free), "expires": int64(pullFor), "idle_heartbeat": int64(heartbeat)})
	if err != nil {
		return err
	}
	api := fmt.Sprintf("$JS.API.CONSUMER.MSG.NEXT.%s.%s", p.w.workStream(), consumerOf(p.lane))
	if err := p.w.nc.PublishRequest(api, p.inbox, request); err != nil {
		return err
	}
	p.asked += free
	p.heard = time.Now()
	return nil
}

// take handles an item, or a word of the server about a request.
func (p *puller) take(m *nats.Msg) {
	p.heard = time.Now()
	status := m.Header.Get("Status")
	if status == "" || len(m.Data) > 0 {
		p.asked--
		p.w.take(p, m)
		return
	}
	if status == "100" {
		return
	}
	left, err := strconv.Atoi(m.Header.Get("Nats-Pending-Messages"))
	if err != nil { // the whole request was refused: ask again, in a while
		time.AfterFunc(200*time.Millisecond, p.wake)
		left = p.asked
	}
	p.asked = max(0, p.asked-left)
}

// lastOnce is the last message of a subject, nil if there is none.
func (c *Conn) lastOnce(ctx context.Context, stream, subject string) (*jetstream.RawStreamMsg, error) {
	ctx, cancel := context.WithTimeout(ctx, oneTry)
	defer cancel()
	m, err := c.nc.RequestWithContext(ctx, fmt.Sprintf("$JS.API.DIRECT.GET.%s.%s", stream, subject), nil)
	if err != nil {
		return nil, err
	}
	switch status := m.Header.Get("Status"); {
	case status == "404":
		return nil, nil
	case status != "":
		return nil, fmt.Errorf("getting %s: %s %s", subject, status, m.Header.Get("Description"))
	}
	seq, err := strconv.ParseUint(m.Header.Get("Nats-Sequence"), 10, 64)
	if err != nil {
		return nil, err
	}
	return &jetstream.RawStreamMsg{Subject: subject, Sequence: seq, Header: m.Header, Data: m.Data}, nil
}
