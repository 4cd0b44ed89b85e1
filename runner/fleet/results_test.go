package fleet

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"llmbatch/output"
)

// Results come in order, and again where they were refused or got lost on the way:
// to acknowledge one acknowledges all before it.
func TestResultsHaveNoGap(t *testing.T) {
	t.Parallel()
	b, ctx := &bench{t: t}, context.Background()
	b.serve()
	c := b.connect()
	if _, err := c.js.CreateStream(ctx, jetstream.StreamConfig{Name: c.resStream(), Subjects: []string{c.subject("res.*")}}); err != nil {
		t.Fatal(err)
	}
	publish := func(from, to int) {
		for i := from; i < to; i++ {
			if _, err := c.js.Publish(ctx, c.resSubject(i), []byte(fmt.Sprint(i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	r := &results{Conn: c}
	fetched := func() (got string, last jetstream.Msg) {
		t.Helper()
		for range 3 { // a gap is noticed by a fetch that brings nothing
			msgs, err := r.fetch(ctx)
			if err != nil {
				t.Fatal(err)
			}
			for _, m := range msgs {
				got, last = got+string(m.Data())+" ", m
			}
			if len(msgs) > 0 {
				return got, last
			}
		}
		return got, last
	}
	publish(0, 3)
	if got, _ := fetched(); got != "0 1 2 " {
		t.Errorf("got %q, want 0 1 2", got)
	}
	r.refuse()
	publish(3, 5)
	got, last := fetched()
	if got != "0 1 2 3 4 " {
		t.Errorf("refused: got %q, want 0 to 4", got)
	}
	if err := last.DoubleAck(ctx); err != nil {
		t.Fatal(err)
	}
	publish(5, 7)
	stolen, err := fetch(ctx, r.consumer) // delivered, and lost on the way
	if err != nil || len(stolen) != 2 {
		t.Fatalf("got %d messages, %v, want 2", len(stolen), err)
	}
	publish(7, 9)
	if got, last = fetched(); got != "5 6 7 8 " {
		t.Errorf("with two lost: got %q, want 5 to 8", got)
	}
	if err := last.DoubleAck(ctx); err != nil {
		t.Fatal(err)
	}
	r.again()
	if got, _ = fetched(); got != "0 1 2 3 4 5 6 7 8 " {
		t.Errorf("again: got %q, want 0 to 8", got)
	}
}

// A result that got lost on its way to the coordinator is neither forgotten nor
// paid for again.
func TestALostResultComesAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, 300, slowly(10*time.Millisecond))
	b.o.Pacing.Fixed, b.o.Pacing.Max = true, 10
	b.start()
	b.work(context.Background(), "w1", 10)
	b.api.await(20)
	thief, err := b.connect().js.Consumer(context.Background(), b.lead.resStream(), "collect")
	if err != nil {
		t.Fatal(err)
	}
	for stolen := 0; stolen < 3 && b.api.seen() < 200; {
		batch, err := thief.Fetch(1, jetstream.FetchMaxWait(100*time.Millisecond))
		if err != nil {
			continue // the consumer is being made anew
		}
		for range batch.Messages() {
			stolen++
		}
	}
	rows := b.end()
	b.want(rows, output.OK, 300)
	b.sent(rows)
	if n := b.api.seen(); n != 300 {
		t.Errorf("got %d requests, want 300", n)
	}
}

// What the collector has passed over is found in the stream when nothing else
// moves, before anything is paid for again.
func TestAResultPassedOverIsFound(t *testing.T) {
	t.Parallel()
	b := newBench(t, 100, func(nth int, id string, w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(id, "9") {
			slowly(300*time.Millisecond)(nth, id, w, r)
			return
		}
		answer(w)
	})
	b.o.Pacing.Fixed, b.o.Pacing.Max = true, 10
	b.start()
	skipped := make(chan struct{})
	go func() { // acknowledges results in the coordinator's place
		defer close(skipped)
		b.api.await(10)
		for n := 0; n == 0 && b.api.seen() < 100; {
			c, err := b.lead.js.Consumer(context.Background(), b.lead.resStream(), "collect")
			if err != nil {
				continue
			}
			batch, err := c.Fetch(1, jetstream.FetchMaxWait(100*time.Millisecond))
			if err != nil {
				continue
			}
			for m := range batch.Messages() {
				n++
				_ = m.DoubleAck(context.Background())
			}
		}
	}()
	b.work(context.Background(), "w1", 10)
	rows := b.end()
	<-skipped
	b.want(rows, output.OK, 100)
	if n := b.api.seen(); n != 100 {
		t.Errorf("got %d requests, want 100", n)
	}
}
