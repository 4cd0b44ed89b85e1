package fleet

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"llmbatch/output"
	"llmbatch/runner"
)

func kind(_ int, _ string, w http.ResponseWriter, _ *http.Request) { answer(w) }

// slowly answers after d, or when the caller goes away.
func slowly(d time.Duration) func(int, string, http.ResponseWriter, *http.Request) {
	return func(_ int, _ string, w http.ResponseWriter, r *http.Request) {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
			answer(w)
		case <-r.Context().Done():
		}
	}
}

func TestOneWorker(t *testing.T) {
	t.Parallel()
	b := newBench(t, 300, kind)
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
	if rep, err := wait(); err != nil || rep.Reason != runner.Finished {
		t.Errorf("the worker ended with %+v, %v", rep, err)
	}
}

func TestTheLimitHoldsForAllWorkersTogether(t *testing.T) {
	t.Parallel()
	b := newBench(t, 400, slowly(20*time.Millisecond))
	b.o.Pacing.Fixed, b.o.Pacing.Max = true, 12
	b.start()
	b.work(context.Background(), "w1", 50)
	b.work(context.Background(), "w2", 50)
	rows := b.end()
	b.want(rows, output.OK, 400)
	if b.api.peak > 12 || b.api.peak < 10 {
		t.Errorf("got %d requests at once, want 10 to 12", b.api.peak)
	}
	by := map[string]int{}
	for _, r := range rows {
		by[r.Attempts[0].Worker]++
	}
	if by["w1"] < 40 || by["w2"] < 40 {
		t.Errorf("got %v, want both to work", by)
	}
}

// A wait of 2 s and more holds no slot, is never cut short, and takes the attempts
// along.
func TestLongWaitsAreScheduled(t *testing.T) {
	t.Parallel()
	b := newBench(t, 60, func(nth int, id string, w http.ResponseWriter, _ *http.Request) {
		if nth == 1 && strings.HasSuffix(id, "5") {
			w.Header().Set("Retry-After", "2")
			refuse(w, 500, "api_error", "a passing fault")
			return
		}
		answer(w)
	})
	b.o.Pacing.Fixed, b.o.Pacing.Max = true, 2
	b.start()
	b.work(context.Background(), "w1", 10)
	rows := b.end()
	b.want(rows, output.OK, 60)
	b.sent(rows)
	for i := range 6 {
		r := rows[fmt.Sprintf("q%d5", i)]
		if i == 0 {
			r = rows["q5"]
		}
		if len(r.Attempts) != 2 {
			t.Fatalf("%s: got %d attempts, want 2", r.Key, len(r.Attempts))
		}
		first, second := r.Attempts[0], r.Attempts[1]
		if wait := second.StartedAt.Sub(first.StartedAt.Add(first.Duration)); wait < 1990*time.Millisecond {
			t.Errorf("%s was sent again after %v, want 2 s", r.Key, wait)
		}
		if second.Attempt != 2 || first.WaitReason != "retry_after" {
			t.Errorf("%s: got attempts %+v", r.Key, r.Attempts)
		}
	}
}

// An API that asks for a wait gets it from all workers.
func TestACooldownIsShared(t *testing.T) {
	t.Parallel()
	b := newBench(t, 200, func(nth int, id string, w http.ResponseWriter, _ *http.Request) {
		if id == "q50" && nth == 1 {
			w.Header().Set("Retry-After", "1")
			refuse(w, 429, "rate_limit_error", "slow down")
			return
		}
		slowly(5*time.Millisecond)(nth, id, w, &http.Request{})
	})
	b.o.Pacing.Fixed, b.o.Pacing.Max = true, 4
	b.start()
	b.work(context.Background(), "w1", 10)
	b.work(context.Background(), "w2", 10)
	rows := b.end()
	b.want(rows, output.OK, 200)
	refused := rows["q50"].Attempts[0]
	from := refused.StartedAt.Add(refused.Duration)
	inside := 0
	for _, c := range b.api.calls {
		if c.at.After(from.Add(150*time.Millisecond)) && c.at.Before(from.Add(time.Second)) {
			inside++
		}
	}
	// Without it all 150 that were left would be made inside.
	if inside > 30 {
		t.Errorf("%d requests were made inside the wait", inside)
	}
}

// A worker that is cut off: its items go to others when their lease ends.
func TestALostWorkersItemsGoToOthers(t *testing.T) {
	t.Parallel()
	stuck := make(chan struct{})
	b := newBench(t, 40, func(nth int, id string, w http.ResponseWriter, r *http.Request) {
		if nth == 1 && id < "q15" {
			select {
			case <-stuck:
			case <-r.Context().Done():
			}
			return
		}
		answer(w)
	})
	b.o.Lease, b.o.Pacing.Fixed, b.o.Pacing.Max = time.Second, true, 20
	b.start()
	c := b.connect()
	config := b.c
	config.Elsewhere, config.Survey = nil, nil
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = c.Work(ctx, WorkerOptions{ID: "lost", Concurrency: 20, Build: func(Config) (runner.Config, error) { return config, nil }})
	}()
	b.api.await(40) // else the other worker is the first to ask for one that is stuck
	c.nc.Close()
	b.work(context.Background(), "w2", 20)
	rows := b.end()
	b.want(rows, output.OK, 40)
	close(stuck)
}

// A worker that is told to stop finishes what is on the wire and gives the rest
// back; no row says aborted.
func TestAWorkerLeaves(t *testing.T) {
	t.Parallel()
	b := newBench(t, 300, slowly(10*time.Millisecond))
	b.o.Pacing.Fixed, b.o.Pacing.Max = true, 20
	b.start()
	ctx, cancel := context.WithCancelCause(context.Background())
	wait := b.work(ctx, "w1", 20)
	b.api.await(40)
	cancel(fmt.Errorf("stopped by the test"))
	if _, err := wait(); err != nil {
		t.Error(err)
	}
	b.work(context.Background(), "w2", 20)
	rows := b.end()
	b.want(rows, output.OK, 300)
	b.sent(rows)
}

func TestASpendCapStopsAll(t *testing.T) {
	t.Parallel()
	b := newBench(t, 500, nil)
	b.api.play = func(nth int, id string, w http.ResponseWriter, r *http.Request) {
		if b.api.seen() > 60 {
			refuse(w, 400, "invalid_request_error", "You have reached your specified API usage limits. You will regain access on 2026-12-01 at 00:00 UTC.")
			return
		}
		slowly(10*time.Millisecond)(nth, id, w, r)
	}
	b.o.Pacing.Fixed, b.o.Pacing.Max = true, 8
	b.start()
	b.work(context.Background(), "w1", 20)
	wait := b.work(context.Background(), "w2", 20)
	rows := b.end()
	if b.rep.Reason != runner.Aborted || !strings.Contains(b.rep.Message, "spend cap") {
		t.Errorf("got %v %q, want aborted for a spend cap", b.rep.Reason, b.rep.Message)
	}
	if rep, err := wait(); err != nil || rep.Reason != runner.Aborted {
		t.Errorf("the other worker ended with %+v, %v", rep, err)
	}
	b.sent(rows)
	if n := b.api.seen(); n > 60+2*8+4 { // each worker may have a limit's worth on the wire
		t.Errorf("%d requests, want 80 at most", n)
	}
	for key, r := range rows {
		if r.Status != output.OK && r.Status != output.Aborted {
			t.Errorf("%s is %s", key, r.Status)
		}
	}
	again := newBench(t, 500, kind)
	again.server, again.out = b.server, b.out
	again.start()
	again.work(context.Background(), "w3", 50)
	rows = again.end()
	if again.rep.Reason != runner.Finished {
		t.Errorf("the next run ended with %+v", again.rep)
	}
	again.want(rows, output.OK, 500)
	for _, r := range rows {
		for i, a := range r.Attempts {
			if a.Attempt != i+1 {
				t.Errorf("%s: attempt %d is numbered %d", r.Key, i+1, a.Attempt)
			}
		}
	}
}

// What the queue loses is fed again.
func TestAPurgedQueueIsFedAgain(t *testing.T) {
	t.Parallel()
	b := newBench(t, 400, slowly(5*time.Millisecond))
	b.o.Pacing.Fixed, b.o.Pacing.Max, b.o.Window = true, 10, 400
	b.start()
	b.work(context.Background(), "w1", 10)
	b.api.await(50)
	s, err := b.lead.js.Stream(context.Background(), b.lead.workStream())
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Purge(context.Background()); err != nil {
		t.Fatal(err)
	}
	rows := b.end()
	b.want(rows, output.OK, 400)
	b.sent(rows)
}

func TestAPromptThatNoMessageHolds(t *testing.T) {
	t.Parallel()
	b := newBench(t, 3, kind)
	b.c.Items = withPrompt(3, 1, "item q1 "+strings.Repeat("x", 9<<20))
	b.start()
	b.work(context.Background(), "w1", 10)
	rows := b.end()
	b.want(rows, output.OK, 2)
	if r := rows["q1"]; r.Status != output.Failed || r.Error.Class != "prompt_too_large_for_fleet" {
		t.Errorf("got %s %+v, want failed, prompt_too_large_for_fleet", r.Status, r.Error)
	}
}
