package fleet

import (
	"testing"
	"time"

	"llmbatch/output"
)

func TestProgress(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	c := &Coordinator{o: Coordination{Total: 1000, Before: 100}, lanes: map[string]*lane{"a": {limit: 300}, "b": {limit: 50, closed: true}},
		workers: map[string]*workerStat{"host-1": {inFlight: 7, most: 64}, "host-2": {stopped: true}}}
	for i := range 200 {
		r := &output.Result{Status: output.OK, Attempts: []output.Attempt{{Outcome: "rate_limited", Worker: "host-2"}, {Outcome: "ok", Worker: "host-1"}}}
		if i%10 == 0 {
			r.Status, r.Attempts = output.Failed, []output.Attempt{{Outcome: "rejected", Worker: "host-3"}}
		}
		c.tally.add(r, now.Add(time.Duration(i)*50*time.Millisecond))
	}
	p := c.progress(now.Add(10 * time.Second))
	if p.Done != 300 || p.OK != 180 || p.NotOK != 20 || p.Rate != 20 || p.Left != 35 || p.Wanted != 5 {
		t.Errorf("got %+v", p)
	}
	want := []WorkerProgress{{"host-1", 7, 180, 0, true}, {"host-2", 0, 0, 180, false}, {"host-3", 0, 0, 20, false}}
	for i, w := range want {
		if i >= len(p.Workers) || p.Workers[i] != w {
			t.Fatalf("got %+v, want %+v", p.Workers, want)
		}
	}
	if got, want := p.text(), "300 of 1,000 items done (30.0 %), 180 ok, 20 not ok in this run, 20.0 a second, about 35.0s left"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// Long after, nothing is recent.
	if p := c.progress(now.Add(time.Hour)); p.Rate != 0 || p.Left != 0 {
		t.Errorf("got %+v, want no rate", p)
	}
}
