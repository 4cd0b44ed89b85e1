package command_test

import (
	"fmt"
	"math/rand/v2"
	"net/http"
	"os/exec"
	"sort"
	"syscall"
	"testing"
	"time"
)

// TestFleetKilled kills workers, the server and the coordinator at random, again
// and again: one row an item, few requests repeated.
func TestFleetKilled(t *testing.T) {
	rounds, items, kills := 1, 2500, [3]int{4, 2, 2}
	if proofs(t) {
		rounds, items, kills = 5, 7000, [3]int{12, 6, 5}
	}
	for round := range rounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) { killedRound(t, uint64(round), items, kills) })
	}
}

func killedRound(t *testing.T, seed uint64, items int, kills [3]int) {
	p := newProof(t, items, steady(100*time.Millisecond))
	p.flags = append(p.flags, "--start-concurrency", "20", "--concurrency", "40")
	p.serveNATS()
	coordinator := p.coordinator()
	workers := map[int]*exec.Cmd{}
	for i := range 3 {
		workers[i] = p.worker(fmt.Sprintf("w%d", i))
	}
	var plan []int
	for what, n := range kills {
		for range n {
			plan = append(plan, what)
		}
	}
	rnd := rand.New(rand.NewPCG(seed, 9))
	rnd.Shuffle(len(plan), func(i, j int) { plan[i], plan[j] = plan[j], plan[i] })
	each := items / (len(plan) + 1)
	begun := time.Now()
	for k, what := range plan {
		for p.api.seen() < each*(k+1) && time.Since(begun) < 3*time.Minute {
			time.Sleep(5 * time.Millisecond)
		}
		switch what {
		case 0:
			i := rnd.IntN(len(workers))
			kill9(workers[i])
			workers[i] = p.worker(fmt.Sprintf("w%d-%d", i, k))
		case 1:
			kill9(p.server)
			p.serveNATS()
		case 2:
			kill9(coordinator)
			coordinator = p.coordinator()
		}
	}
	code := p.wait(coordinator, 3*time.Minute)
	status, rows := p.rows("out.jsonl")
	repeated := p.api.seen() - items
	p.say(code == 0 && status["ok"] == items && len(rows) == items && float64(repeated) <= 0.15*float64(items),
		"kill -9 of %d workers, %d servers, %d coordinators: exit %d, %d rows of %d items, %d ok, %d requests repeated (%.1f %%, want at most 5 %%), %.0f s",
		kills[0], kills[1], kills[2], code, len(rows), items, status["ok"], repeated, 100*float64(repeated)/float64(items), time.Since(begun).Seconds())
	if t.Failed() {
		t.Log(p.tail())
	}
}

// TestFleetTakeover kills a worker and measures when its items begin again; calls
// of three leases are not repeated.
func TestFleetTakeover(t *testing.T) {
	proofs(t)
	const items = 60
	p := newProof(t, items, func(a *proofAPI, nth int, _ string, w http.ResponseWriter, r *http.Request) {
		if after(r, 9*time.Second) { // three leases
			proofAnswer(w)
		}
	})
	p.flags = append(p.flags, "--fixed", "--concurrency", "60")
	p.serveNATS()
	coordinator := p.coordinator()
	lost := p.worker("lost", "--concurrency", "30")
	for p.api.seen() < 30 {
		time.Sleep(5 * time.Millisecond)
	}
	p.worker("w2", "--concurrency", "60")
	for p.api.seen() < items {
		time.Sleep(5 * time.Millisecond)
	}
	killed := time.Now()
	kill9(lost)
	code := p.wait(coordinator, time.Minute)
	p.api.mu.Lock()
	var again []time.Duration
	for _, c := range p.api.calls {
		if c.at.After(killed) {
			again = append(again, c.at.Sub(killed))
		}
	}
	p.api.mu.Unlock()
	sort.Slice(again, func(i, j int) bool { return again[i] < again[j] })
	last := time.Duration(0)
	if len(again) > 0 {
		last = again[len(again)-1]
	}
	status, _ := p.rows("out.jsonl")
	p.say(code == 0 && len(again) == 30 && last <= 10*time.Second && status["ok"] == items,
		"takeover of %d items of a killed worker (30) within %v, lease 3 s (want lease + 1 s); %d of 30 calls of three leases repeated (want 0)", len(again), last.Round(time.Millisecond), max(0, len(again)-30))
	if t.Failed() {
		t.Log(p.tail())
	}
}

// TestFleetSpendCap counts what is sent after the first spend-cap answer.
func TestFleetSpendCap(t *testing.T) {
	proofs(t)
	const items, workers = 6000, 4
	var first time.Time
	p := newProof(t, items, nil)
	p.api.play = func(a *proofAPI, _ int, _ string, w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		capped := len(a.calls) > 2000
		a.mu.Unlock()
		if capped && !after(r, 30*time.Millisecond) || !capped && !after(r, 100*time.Millisecond) {
			return
		}
		if capped {
			proofRefuse(w, 400, "", "invalid_request_error", "You have reached your specified API usage limits. You will regain access on 2099-01-01 at 00:00 UTC.")
			a.mu.Lock()
			if first.IsZero() {
				first = time.Now()
			}
			a.mu.Unlock()
			return
		}
		proofAnswer(w)
	}
	p.flags = append(p.flags, "--fixed", "--concurrency", "20")
	p.serveNATS()
	coordinator := p.coordinator()
	for i := range workers {
		p.worker(fmt.Sprintf("w%d", i), "--concurrency", "20")
	}
	code := p.wait(coordinator, time.Minute)
	p.api.mu.Lock()
	late, last := 0, time.Duration(0)
	for _, c := range p.api.calls {
		if d := c.at.Sub(first); d > 0 {
			late, last = late+1, max(last, d)
		}
	}
	seen := len(p.api.calls)
	p.api.mu.Unlock()
	status, rows := p.rows("out.jsonl")
	logged := 0
	for _, r := range rows {
		logged += len(r.Attempts)
	}
	p.say(code == 3 && late <= 2*workers && last <= 2*time.Second && logged == seen,
		"spend cap: exit %d (want 3), %d requests begun after the first answer (want at most %d), the last %v after it; %d requests, %d in rows; %v",
		code, late, 2*workers, last.Round(time.Millisecond), seen, logged, status)
	p.api.play = steady(time.Millisecond)
	next := p.coordinator()
	p.worker("w9") // waits for the stopped run to go on
	code = p.wait(next, time.Minute)
	status, _ = p.rows("out.jsonl")
	p.say(code == 0 && status["ok"] == items, "the next run: exit %d, %v", code, status)
	if t.Failed() {
		t.Log(p.tail())
	}
}

// TestFleetFrozen stops a worker for longer than its lease: its late rows are
// dropped.
func TestFleetFrozen(t *testing.T) {
	if !proofs(t) {
		t.Skip("in the long form")
	}
	const items = 50
	p := newProof(t, items, steady(2*time.Second))
	p.flags = append(p.flags, "--fixed", "--concurrency", "50")
	p.serveNATS()
	coordinator := p.coordinator()
	frozen := p.worker("frozen")
	for p.api.seen() < items {
		time.Sleep(5 * time.Millisecond)
	}
	_ = frozen.Process.Signal(syscall.SIGSTOP)
	p.worker("w2")
	time.Sleep(5 * time.Second)
	_ = frozen.Process.Signal(syscall.SIGCONT)
	code := p.wait(coordinator, time.Minute)
	status, rows := p.rows("out.jsonl")
	p.say(code == 0 && len(rows) == items && status["ok"] == items, "a worker frozen past its lease: %d rows of %d items from %d requests", len(rows), items, p.api.seen())
}
