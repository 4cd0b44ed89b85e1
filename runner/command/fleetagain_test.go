package command_test

import (
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// --retry-failed runs failed items again, and their rows keep what was tried
// before, whoever tries now.
func TestFleetRetryFailed(t *testing.T) {
	t.Parallel()
	const items = 24
	var mended atomic.Bool
	p := newProof(t, items, func(_ *proofAPI, _ int, id string, w http.ResponseWriter, _ *http.Request) {
		if !mended.Load() && number(id)%3 == 0 {
			proofRefuse(w, 400, "", "invalid_request_error", "no such thing")
			return
		}
		proofAnswer(w)
	})
	p.serveNATS()
	for run, want := range []struct {
		flags            []string
		code, ok, failed int
		requests         int
	}{
		{nil, 1, 16, 8, 24},
		{nil, 1, 16, 8, 24}, // nothing to do
		{[]string{"--retry-failed"}, 1, 16, 8, 32},
		{[]string{"--retry-failed"}, 0, 24, 0, 40},
	} {
		mended.Store(run == 3)
		coordinator := p.coordinator(want.flags...)
		worker := p.worker([]string{"a", "b", "c", "d"}[run])
		if code := p.wait(coordinator, time.Minute); code != want.code {
			t.Errorf("run %d: exit %d, want %d\n%s", run+1, code, want.code, p.tail())
		}
		kill9(worker)
		status, _ := p.rows("out.jsonl")
		if status["ok"] != want.ok || status["failed"] != want.failed || p.api.seen() != want.requests {
			t.Errorf("run %d: got %v after %d requests, want %+v", run+1, status, p.api.seen(), want)
		}
	}
	_, rows := p.rows("out.jsonl")
	for _, r := range rows {
		got := ""
		for i, a := range r.Attempts {
			if a.Attempt != i+1 {
				t.Errorf("%s: attempt %d is numbered %d", r.ID, i+1, a.Attempt)
			}
			got += a.Worker + a.Outcome + " "
		}
		want := "aok "
		if number(r.ID)%3 == 0 {
			want = "arejected crejected dok "
		}
		if got != want {
			t.Errorf("%s: got the attempts %q, want %q", r.ID, got, want)
		}
	}
}

// A second coordinator waits, and goes on when the first is killed: the workers
// stay, no row is lost, none is double.
func TestFleetStandby(t *testing.T) {
	t.Parallel()
	const items = 400
	p := newProof(t, items, steady(20*time.Millisecond))
	// A short queue, so that the API sees when nobody feeds it.
	p.flags = append(p.flags, "--fixed", "--concurrency", "4", "--window", "4")
	p.serveNATS()
	first := p.coordinator()
	worker := p.worker("w0")
	p.api.await(20)
	second := p.coordinator("--standby")
	p.api.await(100)
	kill9(first)
	killed := time.Now()
	if code := p.wait(second, time.Minute); code != 0 {
		t.Errorf("exit %d, want 0\n%s", code, p.tail())
	}
	if code := p.wait(worker, time.Minute); code != 0 {
		t.Errorf("the worker's exit: got %d, want 0", code)
	}
	status, rows := p.rows("out.jsonl")
	if status["ok"] != items || len(rows) != items || p.api.seen() > items+4 {
		t.Errorf("got %v from %d requests, want %d ok from as many, and 4 repeated at most", status, p.api.seen(), items)
	}
	p.api.mu.Lock()
	defer p.api.mu.Unlock()
	gap, last := time.Duration(0), killed
	for _, c := range p.api.calls {
		if c.at.After(killed) {
			gap, last = max(gap, c.at.Sub(last)), c.at
		}
	}
	// Its lease of 3 s ends, at most 1 s later the next one feeds; more under load.
	if gap > 20*time.Second || gap < 500*time.Millisecond {
		t.Errorf("the API was asked nothing for %v, want about the coordinator's lease of 3s and at most 1s more", gap)
	}
	if os.Getenv("LLMBATCH_FLEET_PROOFS") != "" {
		(&fleetProof{t: t}).say(true, "coordinator killed, the next one feeds after %v (want 4s at most)", gap.Round(10*time.Millisecond))
	}
}

// Without --standby a second coordinator is refused while the first one lives.
func TestFleetTwoCoordinators(t *testing.T) {
	t.Parallel()
	p := newProof(t, 200, steady(20*time.Millisecond))
	p.flags = append(p.flags, "--fixed", "--concurrency", "1")
	p.serveNATS()
	p.coordinator()
	p.worker("w0")
	p.api.await(1)
	args := []string{"fleet", "run", p.path("p.jsonl"), "-o", p.path("other.jsonl"), "--nats", p.nats, "--run", "proof",
		"--provider", "anthropic", "--base-url", p.web.URL, "--model", "m", "--max-tokens", "9", "--progress", "none"}
	c := p.command(append(args, p.token()...)...)
	said, _ := c.CombinedOutput()
	if code := c.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(said), "has a coordinator already") || !strings.Contains(string(said), "--standby") {
		t.Errorf("exit %d, want 2 and who leads\n%s", code, said)
	}
}

// Each command that changes a run says what it did, and status --watch ends with it.
func TestFleetSaysWhatItDid(t *testing.T) {
	t.Parallel()
	p := newProof(t, 500, steady(20*time.Millisecond))
	p.flags = append(p.flags, "--fixed", "--concurrency", "2")
	p.serveNATS()
	p.coordinator()
	p.worker("host-a")
	p.api.await(10)
	where := append([]string{"--nats", p.nats, "--run", "proof"}, p.token()...)
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"limit", "1"}, "at most 1 request on the wire for each model"},
		{[]string{"limit", "0"}, "no cap set by hand"},
		{[]string{"pause"}, "launches nothing more"},
		{[]string{"unpause"}, "launches again"},
		{[]string{"status"}, "of 500 items done"},
		{[]string{"status"}, "host-a: "},
		{[]string{"abort"}, "is stopped for all workers"},
		{[]string{"status", "--watch", "--json"}, `"state":"stopped"`},
		{[]string{"rm"}, "is removed from the NATS server"},
	} {
		if code, said := p.says(append(c.args, where...)...); code != 0 || !strings.Contains(said, c.want) {
			t.Errorf("fleet %v: exit %d, want 0 and %q in\n%s", c.args, code, c.want, said)
		}
	}
}
