package fleet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"llmbatch/output"
)

// nothing answers at once, in the process.
type nothing struct{}

func (nothing) RoundTrip(r *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, r.Body)
	const body = `{"id":"m","type":"message","role":"assistant","model":"claude-test","content":[{"type":"text","text":"OK"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":1}}`
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(body)),
		Body: io.NopCloser(strings.NewReader(body)), Request: r, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}, nil
}

// TestRate measures items a second with an API that costs nothing, all in one
// process: server, coordinator with its flushes to the disk, and two workers.
func TestRate(t *testing.T) {
	mode := os.Getenv("LLMBATCH_FLEET_PROOFS")
	if mode == "" {
		t.Skip("set LLMBATCH_FLEET_PROOFS to short or long")
	}
	n := 15_000
	if mode == "long" {
		n = 100_000
	}
	rate := measure(t, n, 256, ServeOptions{})
	fmt.Printf("fleet: %d items of an API that answers at once: %.0f items/s (want 3,000 on two free cores)\n", n, rate)
	if rate < 1000 {
		t.Errorf("got %.0f items/s", rate)
	}
	alone := 1000 / measure(t, n/60, 1, ServeOptions{})
	fmt.Printf("fleet: one item after the other: %.1f ms each (want 5 at most)\n", alone)
	if alone > 100 {
		t.Errorf("got %.1f ms", alone)
	}
	rate = measure(t, n/10, 256, ServeOptions{SyncAlways: true})
	fmt.Printf("fleet: %d items, each message flushed to the disk first: %.0f items/s (want 300)\n", n/10, rate)
	if rate < 100 {
		t.Errorf("got %.0f items/s with --sync always", rate)
	}
}

// measure returns how many items a second are done.
func measure(t *testing.T, n, limit int, o ServeOptions) float64 {
	t.Helper()
	b := newBench(t, n, kind)
	o.Store, o.Token = t.TempDir(), NewToken()
	b.serveWith(o)
	b.c.Transport = nothing{}
	b.o.Pacing.Fixed, b.o.Pacing.Max = true, limit
	b.start()
	file, err := os.Open(b.file.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	b.coord.o.Sync = file.Sync
	begun := time.Now()
	b.work(context.Background(), "w1", 128)
	b.work(context.Background(), "w2", 128)
	<-b.ended
	rate := float64(n) / time.Since(begun).Seconds()
	b.want(b.end(), output.OK, n)
	return rate
}
