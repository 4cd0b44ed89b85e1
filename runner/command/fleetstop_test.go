package command_test

import (
	"bufio"
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// number is the n of the id "qn".
func number(id string) int {
	n, _ := strconv.Atoi(strings.TrimPrefix(id, "q"))
	return n
}

// models gives the items two models by turns: even and odd.
func (p *fleetProof) models(items int) {
	p.t.Helper()
	f, err := os.Create(p.path("p.jsonl"))
	if err != nil {
		p.t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	for i := range items {
		fmt.Fprintf(w, "{\"id\":\"q%d\",\"prompt\":\"item-q%d.\",\"model\":%q}\n", i, i, []string{"even", "odd"}[i%2])
	}
	if w.Flush() != nil || f.Close() != nil {
		p.t.Fatal("the input could not be written")
	}
}

// logged is how many attempts the rows hold.
func logged(rows []proofRow) (n int) {
	for _, r := range rows {
		n += len(r.Attempts)
	}
	return n
}

// A model that is not there closes its lane on every worker: nothing more of it is
// sent, the other model's items are all done, and the run says so.
func TestFleetClosedLane(t *testing.T) {
	t.Parallel()
	const items, limit = 400, 4
	p := newProof(t, items, func(_ *proofAPI, _ int, id string, w http.ResponseWriter, _ *http.Request) {
		if number(id)%2 == 1 && number(id) > 40 {
			proofRefuse(w, 404, "", "not_found_error", "model: odd")
			return
		}
		proofAnswer(w)
	})
	p.models(items)
	p.flags = append(p.flags, "--fixed", "--concurrency", strconv.Itoa(limit))
	p.serveNATS()
	coordinator := p.coordinator()
	w0, w1 := p.worker("w0"), p.worker("w1")
	if code := p.wait(coordinator, time.Minute); code != 3 {
		t.Errorf("exit %d, want 3\n%s", code, p.tail())
	}
	p.wait(w0, time.Minute)
	p.wait(w1, time.Minute)
	status, rows := p.rows("out.jsonl")
	refused := 0
	for _, r := range rows {
		odd := number(r.ID)%2 == 1 && number(r.ID) > 40
		if odd != (r.Status != "ok") || odd && r.Status != "gave_up" && r.Status != "failed" {
			t.Errorf("%s is %s", r.ID, r.Status)
		}
		if odd {
			refused++
		}
	}
	// Each worker learns it by itself, or from the other within moments.
	if status["ok"] != items/2+20 || refused < 1 || refused > 10*limit {
		t.Errorf("got %v, want %d ok and 1 to %d that gave up", status, items/2+20, 10*limit)
	}
	if n := logged(rows); n != p.api.seen() {
		t.Errorf("the API saw %d requests, the rows log %d", p.api.seen(), n)
	}
	if said := p.tail(); !strings.Contains(said, "odd") {
		t.Errorf("nobody said which model\n%s", said)
	}
}

// A cap on money holds for all workers together, and a higher one goes on.
func TestFleetMaxCost(t *testing.T) {
	t.Parallel()
	const items = 300
	p := newProof(t, items, steady(time.Millisecond))
	// An answer costs 6; what is reserved for a request is its body's bytes and more.
	p.flags = append(p.flags, "--fixed", "--concurrency", "4", "--price-input", "1000000", "--price-output", "1000000")
	p.serveNATS()
	coordinator := p.coordinator("--max-cost", "1500")
	p.worker("w0")
	p.worker("w1")
	if code := p.wait(coordinator, time.Minute); code != 3 {
		t.Errorf("exit %d, want 3\n%s", code, p.tail())
	}
	status, rows := p.rows("out.jsonl")
	cost := 0.0
	for _, r := range rows {
		cost += r.Cost
	}
	if n := status["ok"]; n < 20 || n >= items || len(rows) != n || cost > 1500 || cost < 6*float64(n) {
		t.Errorf("got %v at a cost of %v, want part of the items, all ok, for 1500 at most", status, cost)
	}
	if n := logged(rows); n != p.api.seen() {
		t.Errorf("the API saw %d requests, the rows log %d", p.api.seen(), n)
	}
	coordinator = p.coordinator("--max-cost", "100000")
	p.worker("w2")
	if code := p.wait(coordinator, time.Minute); code != 0 {
		t.Errorf("with a higher cap: exit %d, want 0\n%s", code, p.tail())
	}
	if status, _ = p.rows("out.jsonl"); status["ok"] != items || p.api.seen() != items {
		t.Errorf("got %v from %d requests, want %d ok from as many", status, p.api.seen(), items)
	}
}

// When the run's time is over nothing more is launched anywhere; the same command
// does the rest.
func TestFleetBudget(t *testing.T) {
	t.Parallel()
	const items = 60
	slow := make(chan struct{})
	p := newProof(t, items, func(_ *proofAPI, _ int, _ string, w http.ResponseWriter, r *http.Request) {
		select {
		case <-slow:
			proofAnswer(w)
		default:
			if after(r, 500*time.Millisecond) {
				proofAnswer(w)
			}
		}
	})
	p.flags = append(p.flags, "--fixed", "--concurrency", "2")
	p.serveNATS()
	w0, w1 := p.worker("w0"), p.worker("w1")
	coordinator := p.coordinator("--budget", "8s")
	if code := p.wait(coordinator, time.Minute); code != 4 {
		t.Errorf("exit %d, want 4\n%s", code, p.tail())
	}
	seen := p.api.seen()
	for _, w := range []int{p.wait(w0, time.Minute), p.wait(w1, time.Minute)} {
		if w != 4 {
			t.Errorf("a worker's exit: got %d, want 4", w)
		}
	}
	status, rows := p.rows("out.jsonl")
	if n := status["ok"]; n == items || n != len(rows) || logged(rows) != seen || p.api.seen() != seen {
		t.Errorf("got %v from %d requests, %d of them later: want part of the items, all ok, one request each", status, p.api.seen(), p.api.seen()-seen)
	}
	close(slow)
	coordinator = p.coordinator()
	p.worker("w2")
	if code := p.wait(coordinator, time.Minute); code != 0 {
		t.Errorf("again: exit %d, want 0\n%s", code, p.tail())
	}
	if status, _ = p.rows("out.jsonl"); status["ok"] != items || p.api.seen() != items {
		t.Errorf("got %v from %d requests, want %d ok from as many", status, p.api.seen(), items)
	}
}

// faults-14: a worker with a key that the API refuses ends alone, named; the others do
// its items.
func TestFleetBadWorker(t *testing.T) {
	t.Parallel()
	var met atomic.Bool // the bad worker had an item
	p := newProof(t, 160, func(_ *proofAPI, _ int, _ string, w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Api-Key") == "sk-ant-refused-0123456789" {
			met.Store(true)
			proofRefuse(w, 401, "", "authentication_error", "invalid x-api-key")
			return
		}
		if !met.Load() {
			time.Sleep(300 * time.Millisecond) // the run lasts until then
		}
		proofAnswer(w)
	})
	p.flags = append(p.flags, "--fixed", "--concurrency", "4")
	bad := p.write("bad", []byte("sk-ant-refused-0123456789\n"))
	p.serveNATS()
	coordinator := p.coordinator()
	good := p.worker("good")
	p.api.await(4)
	worker := p.worker("bad-host", "--api-key-file", bad)
	if code := p.wait(coordinator, time.Minute); code != 0 {
		t.Errorf("exit %d, want 0\n%s", code, p.tail())
	}
	p.wait(good, time.Minute)
	if code := p.wait(worker, time.Minute); code != 3 {
		t.Errorf("the bad worker: exit %d, want 3\n%s", code, p.tail())
	}
	status, rows := p.rows("out.jsonl")
	if status["ok"] != 160 {
		t.Errorf("got %v, want 160 ok\n%s", status, p.tail())
	}
	if n := logged(rows); n != p.api.seen() {
		t.Errorf("the API saw %d requests, the rows log %d", p.api.seen(), n)
	}
}
