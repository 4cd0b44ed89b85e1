package command_test

import (
	"os"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFleetDiskFull fills the disk under the server's store in mid-run. What was
// paid for is kept by the workers, nothing is lost, and the run goes on when there
// is room again.
func TestFleetDiskFull(t *testing.T) {
	proofs(t)
	const items = 3000
	p := newProof(t, items, steady(20*time.Millisecond))
	if err := os.Mkdir(p.path("nats"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("none", p.path("nats"), "tmpfs", 0, "size=32m"); err != nil {
		t.Skipf("a small disk can be made by root only: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(p.path("nats"), syscall.MNT_DETACH) })
	p.flags = append(p.flags, "--fixed", "--concurrency", "20")
	p.serveNATS()
	coordinator := p.coordinator()
	p.worker("w0")
	p.worker("w1")
	p.api.await(500)
	filler, err := os.Create(p.path("nats/filler"))
	if err != nil {
		t.Fatal(err)
	}
	defer filler.Close()
	for _, err = filler.Write(make([]byte, 4096)); err == nil; _, err = filler.Write(make([]byte, 4096)) {
	}
	full := p.api.seen()
	time.Sleep(3 * time.Second)
	stalled := p.api.seen()
	time.Sleep(2 * time.Second)
	still := p.api.seen() - stalled
	if err := filler.Truncate(0); err != nil {
		t.Fatal(err)
	}
	code := p.wait(coordinator, time.Minute)
	status, rows := p.rows("out.jsonl")
	p.say(code == 0 && len(rows) == items && status["ok"] == items,
		"disk full after %d requests, %d more in 3 s, then %d in 2 s; with room again: exit %d, %d rows of %d items, %d ok, %d requests repeated",
		full, stalled-full, still, code, len(rows), items, status["ok"], p.api.seen()-items)
	if said := p.tail(); os.Getenv("LLMBATCH_NATS_SERVER") == "" && !strings.Contains(said, "NATS stores nothing any more") {
		t.Error("the server did not say that its disk is full")
	}
	if t.Failed() {
		t.Log(p.tail())
	}
}
