package command_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"sort"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestFleetBound watches at the API that the limit holds while it is changed.
func TestFleetBound(t *testing.T) {
	long := proofs(t)
	hold := 1500 * time.Millisecond
	if long {
		hold = 10 * time.Second
	}
	p := newProof(t, 100_000, steady(100*time.Millisecond))
	p.flags = append(p.flags, "--fixed", "--concurrency", "300")
	p.serveNATS()
	p.coordinator()
	for i := range 2 {
		p.worker(fmt.Sprintf("w%d", i), "--concurrency", "300")
	}
	for p.api.seen() < 300 {
		time.Sleep(5 * time.Millisecond)
	}
	for _, limit := range []int{40, 120, 10, 100, 60, 1} {
		p.admin("limit", strconv.Itoa(limit))
		set := time.Now()
		reached := time.Duration(0)
		for time.Since(set) < 3*time.Second {
			p.api.takePeak()
			time.Sleep(20 * time.Millisecond)
			if peak, _ := p.api.takePeak(); peak <= limit && float64(peak) >= 0.95*float64(limit) {
				reached = time.Since(set)
				break
			}
		}
		p.api.takePeak()
		time.Sleep(hold)
		peak, _ := p.api.takePeak()
		p.say(peak <= limit && reached > 0 && reached < 5*time.Second, "limit %d set by hand: reached after %v, then at most %d requests at once in %v", limit, reached.Round(time.Millisecond), peak, hold)
	}
}

// TestFleetWaiters compares the throughput with and without waiting items.
func TestFleetWaiters(t *testing.T) {
	items := 4000
	if proofs(t) {
		items = 15_000
	}
	rate := func(share int) float64 {
		p := newProof(t, items, func(_ *proofAPI, nth int, id string, w http.ResponseWriter, r *http.Request) {
			n, _ := strconv.Atoi(strings.TrimPrefix(id, "q"))
			if share > 0 && nth == 1 && n%share == 0 { // a conflict: no outage, whatever comes in a row
				proofRefuse(w, 409, "10", "api_error", "a passing fault")
				return
			}
			if after(r, 100*time.Millisecond) {
				proofAnswer(w)
			}
		})
		p.api.waits = share > 0
		p.flags = append(p.flags, "--fixed", "--concurrency", "50")
		p.serveNATS()
		coordinator := p.coordinator()
		p.worker("w0")
		p.worker("w1")
		for p.api.seen() < 200 {
			time.Sleep(time.Millisecond)
		}
		begun, from := time.Now(), p.answers()
		for p.api.seen() < items-200 {
			time.Sleep(5 * time.Millisecond)
		}
		r := float64(p.answers()-from) / time.Since(begun).Seconds()
		kill9(coordinator)
		return r
	}
	without, with := rate(0), rate(5)
	p := &fleetProof{t: t}
	p.say(with >= 0.6*without, "limit 50, 20 %% of the items wait 10 s: %.0f answers/s, %.0f %% of the %.0f without (want 80 %%)", with, 100*with/without, without)
}

// answers counts the requests that were not refused, of a proof where the first
// of every fifth item is.
func (p *fleetProof) answers() int {
	p.api.mu.Lock()
	defer p.api.mu.Unlock()
	refused := 0
	for id, n := range p.api.nth {
		if k, _ := strconv.Atoi(strings.TrimPrefix(id, "q")); k%5 == 0 && n > 0 && p.api.waits {
			refused++
		}
	}
	return len(p.api.calls) - refused
}

// bucketAPI refuses beyond a rate, with Retry-After: 1.
type bucketAPI struct {
	mu       sync.Mutex
	level    float64
	at       time.Time
	rate     float64
	until    time.Time // the last wait that was asked for ends
	refused  int
	inside   int // requests that came inside a wait
	accepted int
}

func (b *bucketAPI) play(_ *proofAPI, _ int, _ string, w http.ResponseWriter, r *http.Request) {
	b.mu.Lock()
	now := time.Now()
	if b.at.IsZero() {
		b.at, b.level = now, b.rate/10
	}
	b.level = min(b.rate/10, b.level+b.rate*now.Sub(b.at).Seconds())
	b.at = now
	if now.Before(b.until) && now.After(b.until.Add(-950*time.Millisecond)) {
		b.inside++
	}
	ok := b.level >= 1
	if ok {
		b.level--
		b.accepted++
	} else {
		b.refused++
		b.until = now.Add(time.Second)
	}
	b.mu.Unlock()
	if !ok {
		proofRefuse(w, 429, "1", "rate_limit_error", "too many requests")
		return
	}
	if after(r, 100*time.Millisecond) {
		proofAnswer(w)
	}
}

// TestFleetCooldown runs four workers against one rate limit, and four shards.
func TestFleetCooldown(t *testing.T) {
	items := 2500
	if proofs(t) {
		items = 9000
	}
	fleet := &bucketAPI{rate: 300}
	p := newProof(t, items, fleet.play)
	p.serveNATS()
	coordinator := p.coordinator("--concurrency", "200")
	for i := range 4 {
		p.worker(fmt.Sprintf("w%d", i), "--concurrency", "200")
	}
	begun := time.Now()
	code := p.wait(coordinator, 3*time.Minute)
	took := time.Since(begun)
	share := float64(fleet.refused) / float64(fleet.refused+fleet.accepted)
	inside := float64(fleet.inside) / float64(fleet.refused+fleet.accepted)

	shards := &bucketAPI{rate: 300}
	s := newProof(t, items, shards.play)
	begun = time.Now()
	var running []*exec.Cmd
	for i := range 4 {
		running = append(running, s.start("run", s.path("p.jsonl"), "-o", s.path(fmt.Sprintf("out.%d.jsonl", i)), "--shard", fmt.Sprintf("%d/4", i),
			"--provider", "anthropic", "--base-url", s.web.URL, "--model", "m", "--max-tokens", "9", "--progress", "none", "--concurrency", "50"))
	}
	for _, c := range running {
		s.wait(c, 3*time.Minute)
	}
	p.say(code == 0 && share <= 0.03 && inside <= 0.03, "one bucket of 300/s, 4 workers, %d items: %d 429s (%.2f %%, want at most 1 %%), %d requests inside a wait (%.2f %%, want at most 1 %%), %.0f items/s",
		items, fleet.refused, 100*share, fleet.inside, 100*inside, float64(items)/took.Seconds())
	// A shard of run that holds a learned pace is refused rarely too, and is slow: only the order is held to.
	p.say(fleet.refused <= 2*shards.refused, "4 shards: %d 429s, %d requests inside a wait, %.0f items/s; the fleet has %.0f %% of their 429s (want at most 20 %%)",
		shards.refused, shards.inside, float64(items)/time.Since(begun).Seconds(), 100*float64(fleet.refused)/float64(max(1, shards.refused)))
	if t.Failed() {
		t.Log(p.tail())
	}
}

// TestFleetScheduled kills the server while thousands of items wait: none is
// early, none is lost.
func TestFleetScheduled(t *testing.T) {
	items, hint := 6000, 20*time.Second
	if proofs(t) {
		items, hint = 100_000, 150*time.Second
	}
	var mu sync.Mutex
	due := map[string]time.Time{}
	early, late := 0, []time.Duration{}
	p := newProof(t, items, func(_ *proofAPI, nth int, id string, w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if nth == 1 {
			due[id] = time.Now().Add(hint)
		} else {
			d := time.Since(due[id])
			if d < 0 {
				early++
			}
			late = append(late, d)
		}
		mu.Unlock()
		if nth == 1 {
			proofRefuse(w, 409, strconv.Itoa(int(hint.Seconds())), "api_error", "a conflict, which is no outage")
			return
		}
		proofAnswer(w)
	})
	p.flags = append(p.flags, "--fixed", "--concurrency", "256", "--item-budget", "1h")
	p.serveNATS()
	coordinator := p.coordinator()
	p.worker("w0")
	p.worker("w1")
	for p.api.seen() < items {
		time.Sleep(10 * time.Millisecond)
	}
	most := peakRSS(p.server.Process.Pid)
	p.say(most < 256, "server with %d items waiting: %d MB (want 256 at most)", items, most)
	for p.api.seen() < items+items/10 {
		time.Sleep(10 * time.Millisecond)
	}
	kill9(p.server)
	p.serveNATS()
	code := p.wait(coordinator, 10*time.Minute)
	status, rows := p.rows("out.jsonl")
	sort.Slice(late, func(i, j int) bool { return late[i] < late[j] })
	p.say(code == 0 && status["ok"] == items && early == 0, "%d items waiting %v, kill -9 of the server while they fall due: %d lost, %d early, late p50 %v p99 %v max %v; %d requests repeated",
		items, hint, items-len(rows), early, late[len(late)/2].Round(10*time.Millisecond), late[len(late)*99/100].Round(10*time.Millisecond), late[len(late)-1].Round(10*time.Millisecond), p.api.seen()-2*items)
	if t.Failed() {
		t.Log(p.tail())
	}
}

// peakRSS is a process's most resident memory in MB, where /proc has it.
func peakRSS(pid int) int {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kb, _ := strconv.Atoi(strings.Fields(rest)[0])
			return kb / 1024
		}
	}
	return 0
}

// TestFleetSameRows runs one input through run and through fleet run.
func TestFleetSameRows(t *testing.T) {
	proofs(t)
	script := func(a *proofAPI, nth int, id string, w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(strings.TrimPrefix(id, "q"))
		switch {
		case n%10 == 1 && nth == 1:
			proofRefuse(w, 500, "", "api_error", "a passing fault")
		case n%10 == 2:
			proofRefuse(w, 400, "", "invalid_request_error", "no such thing")
		case n%10 == 3 && nth == 1:
			proofRefuse(w, 500, "3", "api_error", "a passing fault")
		case n%10 == 4 && nth <= 2:
			proofRefuse(w, 503, "", "overloaded_error", "busy")
		default:
			proofAnswer(w)
		}
	}
	var texts [2][]string
	for i, command := range [][]string{{"run"}, {"fleet", "run"}} {
		p := newProof(t, 300, script)
		c := p.start(append(command, p.path("p.jsonl"), "-o", p.path("out.jsonl"), "--provider", "anthropic", "--base-url", p.web.URL,
			"--model", "m", "--max-tokens", "9", "--progress", "none", "--fixed", "--concurrency", "20")...)
		if code := p.wait(c, time.Minute); code != 1 {
			t.Errorf("%v: exit %d, want 1\n%s", command, code, p.tail())
		}
		data, err := os.ReadFile(p.path("out.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		for line := range bytes.Lines(data) {
			texts[i] = append(texts[i], withoutTimes(t, line))
		}
		sort.Strings(texts[i])
	}
	p := &fleetProof{t: t}
	same := len(texts[0]) == len(texts[1])
	for i := range texts[0] {
		if i < len(texts[1]) && texts[0][i] != texts[1][i] {
			same = false
			t.Errorf("run:       %s\nfleet run: %s", texts[0][i], texts[1][i])
			break
		}
	}
	p.say(same, "300 items through run and fleet run: the same rows but for times, order and worker: %v", same)
}

// withoutTimes is a row without what may differ from run to run.
func withoutTimes(t *testing.T, line []byte) string {
	t.Helper()
	var row map[string]any
	if err := json.Unmarshal(line, &row); err != nil {
		t.Fatal(err)
	}
	for _, k := range []string{"idempotency_key", "first_attempt_at", "finished_at"} {
		delete(row, k)
	}
	attempts, _ := row["attempts"].([]any)
	for _, a := range attempts {
		m := a.(map[string]any)
		for _, k := range []string{"started_at", "duration_ms", "worker", "wait_ms", "concurrency"} {
			delete(m, k)
		}
	}
	out, err := json.Marshal(row)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}
