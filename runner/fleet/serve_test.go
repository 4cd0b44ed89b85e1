//go:build !noserver

package fleet

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/pacing"
	"llmbatch/runner"
)

func TestServeBeyondLoopbackNeedsATokenAndTLS(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o    ServeOptions
		want string
	}{
		{ServeOptions{Listen: "127.0.0.1:0"}, ""},
		{ServeOptions{Listen: "localhost:0"}, ""},
		{ServeOptions{Listen: "[::1]:0"}, ""},
		{ServeOptions{}, ""},
		{ServeOptions{Listen: "0.0.0.0:4222"}, "needs a token"},
		{ServeOptions{Listen: ":4222"}, "needs a token"},
		{ServeOptions{Listen: "10.0.0.1:4222", Cert: "c", Key: "k"}, "needs a token"},
		{ServeOptions{Listen: "10.0.0.1:4222", Token: "secret"}, "needs TLS"},
		{ServeOptions{Listen: "10.0.0.1:4222", Insecure: true}, ""},
		{ServeOptions{Listen: "nowhere"}, "the address"},
		{ServeOptions{Listen: "127.0.0.1:x"}, "not a number"},
	} {
		_, err := c.o.server()
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%+v: got %v, want %q", c.o, err, c.want)
		}
	}
}

func TestWhenTheStoreIsFlushed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		o        ServeOptions
		interval time.Duration
		always   bool
	}{
		{ServeOptions{}, 2 * time.Minute, false},
		{ServeOptions{Sync: time.Second}, time.Second, false},
		{ServeOptions{SyncAlways: true}, 2 * time.Minute, true},
	} {
		c.o.Store = t.TempDir()
		s, err := Serve(c.o)
		if err != nil {
			t.Fatal(err)
		}
		got := s.current().JetStreamConfig()
		if got.SyncInterval != c.interval || got.SyncAlways != c.always {
			t.Errorf("%+v: got each %v, always %v", c.o, got.SyncInterval, got.SyncAlways)
		}
		s.Stop()
	}
}

func TestATokenIsAsked(t *testing.T) {
	t.Parallel()
	b := &bench{t: t}
	b.serve()
	_, err := Connect(context.Background(), Options{URL: "nats://" + b.server.Addr(), Run: "test", Wait: time.Millisecond})
	if !errors.Is(err, nats.ErrAuthorization) {
		t.Errorf("without the token: got %v, want %v", err, nats.ErrAuthorization)
	}
	if err != nil && strings.Contains(err.Error(), b.server.o.Token) {
		t.Errorf("the error holds the token: %v", err)
	}
	c, err := Connect(context.Background(), Options{URL: b.server.URL(), Run: "test"})
	if err != nil {
		t.Fatal(err)
	}
	c.Close()
}

func TestConnectRefuses(t *testing.T) {
	t.Parallel()
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoSigs: true, NoLog: true})
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	defer s.Shutdown()
	if !s.ReadyForConnections(10 * time.Second) {
		t.Fatal("not ready")
	}
	_, err = Connect(context.Background(), Options{URL: s.ClientURL(), Run: "test"})
	if err == nil || !strings.Contains(err.Error(), "no JetStream") {
		t.Errorf("a server without JetStream: got %v", err)
	}
	// An old server says level 1, or none.
	nc, err := nats.Connect(s.ClientURL())
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if _, err := nc.Subscribe("$JS.API.INFO", func(m *nats.Msg) { _ = m.Respond([]byte(`{"api":{"level":1}}`)) }); err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	_, err = Connect(context.Background(), Options{URL: s.ClientURL(), Run: "test"})
	if err == nil || !strings.Contains(err.Error(), "2.12 or newer") {
		t.Errorf("an old server: got %v", err)
	}
	for _, run := range []string{"", "a.b", "a b", strings.Repeat("x", 65), "*"} {
		if _, err := Connect(context.Background(), Options{URL: s.ClientURL(), Run: run}); err == nil || !strings.Contains(err.Error(), "name") {
			t.Errorf("run %q: got %v", run, err)
		}
	}
}

func TestTwoCoordinators(t *testing.T) {
	t.Parallel()
	b := &bench{t: t}
	b.serve()
	first, err := b.connect().Lead(context.Background(), false)
	if err != nil {
		t.Fatal(err)
	}
	second := make(chan *Lead, 1)
	go func() {
		l, err := b.connect().Lead(context.Background(), true)
		if err != nil {
			t.Error(err)
		}
		second <- l
	}()
	select {
	case <-second:
		t.Fatal("two lead")
	case <-time.After(300 * time.Millisecond):
	}
	first.Close()
	l := <-second
	if !l.fresh() {
		t.Error("the new lead is not fresh")
	}
	l.Close()
}

// A coordinator that died left rows with the server, a limit that was learned, and
// items in the queue: the next one goes on with all three.
func TestTheNextCoordinatorGoesOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, 200, kind)
	b.o.Pacing = pacing.Config{Max: 100, Start: 33}
	b.start()
	b.awaitQueue()
	b.crash()

	next := newBench(t, 200, kind)
	next.server, next.out, next.o.Pacing = b.server, b.out, b.o.Pacing
	next.o.Pacing.Start = 5
	next.start()
	next.awaitQueue()
	var s runner.Status
	if next.coord.Survey(&s); s.Limit != 33 {
		t.Errorf("got limit %d, want 33 as it was", s.Limit)
	}
	next.work(context.Background(), "w1", 50)
	rows := next.end()
	if !next.coord.took {
		t.Error("the run was begun anew")
	}
	next.want(rows, output.OK, 200)
	next.sent(rows)
}

// awaitQueue waits until the first items are stored.
func (b *bench) awaitQueue() {
	b.t.Helper()
	ticks := time.NewTicker(5 * time.Millisecond)
	defer ticks.Stop()
	for range 2000 {
		s, err := b.lead.js.Stream(context.Background(), b.lead.workStream())
		if err == nil && s.CachedInfo().State.Msgs > 100 && len(b.coord.allLanes()) > 0 {
			return
		}
		<-ticks.C
	}
	b.t.Fatal("nothing was fed")
}

// crash ends the coordinator without a word to anybody.
func (b *bench) crash() {
	b.lead.stop()
	b.lead.nc.Close()
	if err := b.file.Close(output.CloseOptions{}); err != nil {
		b.t.Fatal(err)
	}
}

func TestRecordKeepsEveryByte(t *testing.T) {
	t.Parallel()
	for it := range withPrompt(3, 1, "<&>\u2028 \"é\"") {
		it.Body, it.Metadata, it.Params = []byte(`{"a" : 1.50,  "b":"<x>"}`), []byte(`{"m": [1, 2]}`), []byte(`{"p":1e3}`)
		sum := fmt.Sprintf("%x", sha256.Sum256([]byte("\x00content")))
		it.Input, it.Files = []byte(`{"k": "<v>"}`), []input.FileRef{input.HeldFile("a.png", "image/png", sum, []byte("\x00content"))}
		it.Bounds = &input.Bounds{MaxErrors: new(3)}
		data, err := json.Marshal(record{Item: toWire(it)})
		if err != nil {
			t.Fatal(err)
		}
		var back record
		if err := json.Unmarshal(data, &back); err != nil {
			t.Fatal(err)
		}
		got := back.Item.item()
		if string(got.Body) != string(it.Body) || string(got.Metadata) != string(it.Metadata) || string(got.Params) != string(it.Params) ||
			got.Prompt != it.Prompt || got.Key != it.Key || string(got.ID) != string(it.ID) || got.Index != it.Index {
			t.Errorf("got %+v, want %+v", got, it)
		}
		content, err := got.Files[0].Read()
		if err != nil || string(content) != "\x00content" || string(got.Input) != string(it.Input) || *got.Bounds.MaxErrors != 3 || got.Bounds.MaxWait != nil {
			t.Errorf("got file %q, error %v, input %s, bounds %+v", content, err, got.Input, got.Bounds)
		}
	}
}

func TestStatusAndHand(t *testing.T) {
	t.Parallel()
	b := newBench(t, 2000, slowly(5*time.Millisecond))
	b.o.Pacing.Fixed, b.o.Pacing.Max = true, 4
	b.start()
	b.work(context.Background(), "w1", 10)
	ctx, c := context.Background(), b.connect()
	b.api.await(20)
	if err := c.Pause(ctx); err != nil {
		t.Fatal(err)
	}
	s, err := c.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if s.State != "paused" || len(s.Lanes) != 1 || s.Lanes[0].Model != "claude-test" || s.Lanes[0].Limit != 4 || s.Queued == 0 || s.Coordinator == "" || len(s.Workers) != 1 {
		t.Errorf("got %+v", s)
	}
	seen := b.api.seen()
	var text strings.Builder
	if err := s.WriteText(&text); err != nil {
		t.Error(err)
	}
	if !strings.Contains(text.String(), "w1: ") {
		t.Errorf("got %s, want a line for the worker", text.String())
	}
	if n := b.api.seen(); n != seen {
		t.Errorf("%d requests while paused", n-seen)
	}
	if err := c.Unpause(ctx); err != nil {
		t.Fatal(err)
	}
	b.api.await(seen + 20)
	if err := c.Abort(ctx); err != nil {
		t.Fatal(err)
	}
	b.end()
	if b.rep.Reason != runner.Aborted || b.rep.Message != "fleet abort was called" {
		t.Errorf("got %v %q", b.rep.Reason, b.rep.Message)
	}
	if s, err = c.Status(ctx); err != nil || s.State != "stopped" {
		t.Errorf("got %+v, %v", s, err)
	}
	if err := c.Remove(ctx); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Status(ctx); !errors.Is(err, ErrNoRun) {
		t.Errorf("got %v, want %v", err, ErrNoRun)
	}
}
