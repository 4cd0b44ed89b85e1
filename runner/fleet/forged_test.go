package fleet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"llmbatch/output"
)

// Whoever reaches the server can publish rows and items. What is not of a line that
// was fed, under its id and for its request, is dropped; the run goes on.
func TestForgedRowsAreDropped(t *testing.T) {
	t.Parallel()
	b := newBench(t, 60, slowly(20*time.Millisecond))
	b.o.Pacing.Fixed, b.o.Pacing.Max = true, 4
	b.start()
	c := b.connect()
	b.work(context.Background(), "w1", 10)
	b.api.await(4)
	forge := func(subject string, row *output.Result, data []byte) {
		t.Helper()
		m := nats.NewMsg(c.subject(subject))
		m.Header.Set(epochHeader, b.coord.config.Epoch)
		if m.Data = data; row != nil {
			m.Data = output.AppendRow(nil, row)
		}
		if _, err := c.js.PublishMsg(context.Background(), m); err != nil {
			t.Fatal(err)
		}
	}
	row := func(index int, id, hash string) *output.Result {
		return &output.Result{ID: fmt.Appendf(nil, "%q", id), Key: id, Index: index, RequestHash: hash, Status: output.OK, Text: "forged"}
	}
	forge("res.1", row(-1, "q0", "sha256:00"), nil)
	forge("res.2", row(1<<40, "q0", "sha256:00"), nil)
	forge("res.3", row(59, "stranger", "sha256:00"), nil)
	forge("res.4", row(59, "q59", "sha256:00"), nil)
	forge("res.5", row(58, "q59", "sha256:00"), nil)
	forge("res.6", nil, []byte("no row"))
	lane := laneOf("anthropic", "claude-test")
	forge(strings.TrimPrefix(c.workSubject(lane, 7), c.subject("")), nil, []byte("no item"))
	poison, err := json.Marshal(record{Item: wireItem{Index: -5}, Lane: lane, Epoch: b.coord.config.Epoch})
	if err != nil {
		t.Fatal(err)
	}
	forge(strings.TrimPrefix(c.workSubject(lane, 8), c.subject("")), nil, poison)
	rows := b.end()
	b.want(rows, output.OK, 60)
	b.sent(rows)
	for id, r := range rows {
		if r.Text == "forged" {
			t.Errorf("%s has a forged row", id)
		}
	}
}

// A worker that waits for a run which never begins leaves, and says what it knows.
func TestAWorkerDoesNotWaitForEver(t *testing.T) {
	t.Parallel()
	b := &bench{t: t}
	b.serve()
	_, err := b.connect().Work(context.Background(), WorkerOptions{Wait: time.Millisecond})
	if err == nil || !strings.Contains(err.Error(), "no run called test began within 1ms") {
		t.Errorf("got %v, want that no such run began", err)
	}
}

// A coordinator whose clock is wrong would end the run at the wrong time.
func TestClockError(t *testing.T) {
	t.Parallel()
	err := error(&ClockError{Offset: -time.Hour})
	if _, ok := errors.AsType[*ClockError](err); !ok || !strings.Contains(err.Error(), "differs from the NATS server's by -1h0m0s") {
		t.Errorf("got %v", err)
	}
}
