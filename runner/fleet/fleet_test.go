package fleet

import (
	"context"
	"net/http"
	"testing"

	"llmbatch/output"
	"llmbatch/runner"
)

func TestOneWorker(t *testing.T) {
	b := newBench(t, 300, func(_ int, _ string, w http.ResponseWriter, _ *http.Request) { answer(w) })
	b.start()
	wait := b.work(context.Background(), "w1", 50)
	rows := b.end()
	if b.rep.Reason != runner.Finished {
		t.Errorf("got %+v, want finished", b.rep)
	}
	b.want(rows, output.OK, 300)
	b.sent(rows)
	if w := rows["q7"].Attempts[0].Worker; w != "w1" {
		t.Errorf("got worker %q, want w1", w)
	}
	if _, err := wait(); err != nil {
		t.Error(err)
	}
}
