package command_test

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestFleetReady measures from the start of fleet serve to its word that it
// serves.
func TestFleetReady(t *testing.T) {
	proofs(t)
	p := &fleetProof{t: t, dir: t.TempDir(), exe: program(t)}
	best := time.Minute
	for i := range 5 {
		c := p.command("fleet", "serve", "--store", p.path(fmt.Sprint(i)), "--listen", "127.0.0.1:0")
		said, err := c.StderrPipe()
		if err != nil {
			t.Fatal(err)
		}
		begun := time.Now()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		line, err := bufio.NewReader(said).ReadString('\n')
		took := time.Since(begun)
		kill9(c)
		if err != nil || !strings.Contains(line, "NATS is served") {
			t.Fatalf("got %q, %v", line, err)
		}
		best = min(best, took)
	}
	p.say(best <= 2*time.Second, "fleet serve with an empty store: ready after %v, best of 5 (want 500ms at most)", best.Round(time.Millisecond))
}

// TestFleetTenThousand has 10,000 requests on the wire: the bound holds, no lease
// runs out, the server stays small.
func TestFleetTenThousand(t *testing.T) {
	if !proofs(t) {
		t.Skip("in the long form")
	}
	var files syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &files); err != nil || files.Max < 15_000 {
		t.Skipf("needs 15,000 open files, may have %d", files.Max)
	}
	const items, limit = 20_000, 10_000
	p := newProof(t, items, steady(20*time.Second))
	p.flags = []string{"--lease", "6s", "--fixed", "--concurrency", fmt.Sprint(limit)}
	p.serveNATS()
	coordinator := p.coordinator()
	for i := range 4 {
		p.worker(fmt.Sprintf("w%d", i), "--concurrency", "2500")
	}
	begun := time.Now()
	code := p.wait(coordinator, 5*time.Minute)
	status, _ := p.rows("out.jsonl")
	peak, _ := p.api.takePeak()
	most := peakRSS(p.server.Process.Pid)
	p.say(code == 0 && status["ok"] == items && peak <= limit && peak >= limit*9/10 && p.api.seen() == items && most <= 256,
		"%d items of 20 s, limit %d, lease 6 s: at most %d on the wire, %d requests repeated, server %d MB (want 256 at most), %.0f s",
		items, limit, peak, p.api.seen()-items, most, time.Since(begun).Seconds())
	if t.Failed() {
		t.Log(p.tail())
	}
}

// TestFleetCluster runs over three stock servers with three copies of everything,
// one of which is killed for good.
func TestFleetCluster(t *testing.T) {
	proofs(t)
	stock := os.Getenv("LLMBATCH_NATS_SERVER")
	if stock == "" {
		t.Skip("needs a nats-server: set LLMBATCH_NATS_SERVER")
	}
	const items, nodes = 2000, 3
	p := newProof(t, items, steady(20*time.Millisecond))
	t.Cleanup(func() {
		if t.Failed() {
			t.Log(p.tail())
		}
	})
	var clients, routes []string
	for range nodes {
		clients, routes = append(clients, freeAddr(t)), append(routes, freeAddr(t))
	}
	var servers []*exec.Cmd
	for i := range nodes {
		host, port, _ := net.SplitHostPort(clients[i])
		c := exec.Command(stock, "-js", "-n", fmt.Sprint("n", i), "-a", host, "-p", port, "-sd", p.path(fmt.Sprint("store", i)),
			"--cluster_name", "c", "--cluster", "nats://"+routes[i], "--routes", "nats://"+strings.Join(routes, ",nats://"))
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { kill9(c) })
		servers = append(servers, c)
	}
	p.nats = "nats://" + strings.Join(clients, ",nats://")
	p.flags = append(p.flags, "--fixed", "--concurrency", "20", "--replicas", "3")
	begun := time.Now()
	coordinator := p.coordinator()
	p.worker("w0")
	p.worker("w1")
	for p.api.seen() < items/3 && time.Since(begun) < time.Minute {
		time.Sleep(5 * time.Millisecond)
	}
	kill9(servers[0])
	code := p.wait(coordinator, 2*time.Minute)
	status, rows := p.rows("out.jsonl")
	p.say(code == 0 && len(rows) == items && status["ok"] == items, "three servers, three copies, one killed for good: exit %d, %d rows of %d items, %d ok, %d requests repeated, %.0f s",
		code, len(rows), items, status["ok"], p.api.seen()-items, time.Since(begun).Seconds())
}

func freeAddr(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}
