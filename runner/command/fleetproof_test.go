package command_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// proofs says how long the proofs of the fleet may take: "" (not run), short or
// long. They run the program in processes of its own, and kill them.
func proofs(t *testing.T) (long bool) {
	t.Helper()
	mode := os.Getenv("LLMBATCH_FLEET_PROOFS")
	if mode == "" {
		t.Skip("set LLMBATCH_FLEET_PROOFS to short or long")
	}
	return mode == "long"
}

// fleetProof is a NATS server, an API and a run, each in processes that can be killed.
type fleetProof struct {
	t      *testing.T
	dir    string
	nats   string // URL
	serve  []string
	server *exec.Cmd
	api    *proofAPI
	web    *httptest.Server
	flags  []string // of fleet run
	beyond []string // flags with which the server listens to all
	exe    string
}

// proofAPI is an API that remembers what it was asked.
type proofAPI struct {
	play func(a *proofAPI, nth int, id string, w http.ResponseWriter, r *http.Request)

	mu    sync.Mutex
	asked sync.Cond // signals each request
	nth   map[string]int
	calls []proofCall
	wire  int
	peak  int
	waits bool // the first request of every fifth item is refused
}

type proofCall struct {
	id string
	at time.Time
}

func (a *proofAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	_, rest, _ := strings.Cut(string(body), "item-")
	id, _, _ := strings.Cut(rest, ".")
	a.mu.Lock()
	a.nth[id]++
	nth := a.nth[id]
	a.calls = append(a.calls, proofCall{id, time.Now()})
	a.wire++
	a.peak = max(a.peak, a.wire)
	a.asked.Broadcast()
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.wire--
		a.mu.Unlock()
	}()
	a.play(a, nth, id, w, r)
}

func (a *proofAPI) seen() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.calls)
}

// await returns when the API has seen n requests.
func (a *proofAPI) await(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.calls) < n {
		a.asked.Wait()
	}
}

// takePeak returns the most requests at once since the last call.
func (a *proofAPI) takePeak() (peak, now int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	peak, a.peak = a.peak, a.wire
	return peak, a.wire
}

func proofAnswer(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	io.WriteString(w, `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"OK"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":1}}`)
}

func proofRefuse(w http.ResponseWriter, status int, after, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	if after != "" {
		w.Header().Set("Retry-After", after)
	}
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"message":%q}}`, kind, message)
}

// after waits, or until the client goes.
func after(r *http.Request, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

func steady(d time.Duration) func(*proofAPI, int, string, http.ResponseWriter, *http.Request) {
	return func(_ *proofAPI, _ int, _ string, w http.ResponseWriter, r *http.Request) {
		if after(r, d) {
			proofAnswer(w)
		}
	}
}

// program is what the processes run: what is released, if it is named, or the
// tests in its place.
func program(t *testing.T) string {
	t.Helper()
	if exe := os.Getenv("LLMBATCH_FLEET_BINARY"); exe != "" {
		return exe
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return exe
}

func newProof(t *testing.T, items int, play func(*proofAPI, int, string, http.ResponseWriter, *http.Request)) *fleetProof {
	t.Helper()
	p := &fleetProof{t: t, dir: t.TempDir(), exe: program(t), api: &proofAPI{play: play, nth: map[string]int{}}}
	p.api.asked.L = &p.api.mu
	p.web = httptest.NewServer(p.api)
	t.Cleanup(p.web.Close)
	f, err := os.Create(p.path("p.jsonl"))
	if err != nil {
		t.Fatal(err)
	}
	w := bufio.NewWriter(f)
	for i := range items {
		fmt.Fprintf(w, "{\"id\":\"q%d\",\"prompt\":\"item-q%d. %s\"}\n", i, i, strings.Repeat("x", 200))
	}
	if w.Flush() != nil || f.Close() != nil {
		t.Fatal("the input could not be written")
	}
	p.flags = []string{"--lease", "3s"}
	return p
}

func (p *fleetProof) path(name string) string { return filepath.Join(p.dir, name) }

// command is the program with arguments; it dies with the test.
func (p *fleetProof) command(args ...string) *exec.Cmd {
	c := exec.Command(p.exe, args...)
	c.Env = append(os.Environ(), "LLMBATCH_TEST_AS_MAIN=1", "ANTHROPIC_API_KEY=sk-ant-proof-0123456789", "GORACE=")
	return c
}

func (p *fleetProof) start(args ...string) *exec.Cmd {
	p.t.Helper()
	c := p.command(args...)
	log, err := os.OpenFile(p.path("log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		p.t.Fatal(err)
	}
	defer log.Close()
	c.Stderr = log
	if err := c.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() { kill9(c) })
	return c
}

// kill9 ends a process the hard way; one that has ended already is left alone.
func kill9(c *exec.Cmd) {
	if c.ProcessState == nil {
		_ = c.Process.Signal(syscall.SIGKILL)
		_ = c.Wait()
	}
}

// serveNATS starts the server on a free port, or again on the same one.
func (p *fleetProof) serveNATS() {
	p.t.Helper()
	if p.nats == "" {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			p.t.Fatal(err)
		}
		addr := l.Addr().String()
		p.nats = "nats://" + addr
		if p.beyond != nil {
			p.nats = "tls://" + addr
			addr = strings.Replace(addr, "127.0.0.1", "0.0.0.0", 1)
		}
		p.serve = append([]string{"fleet", "serve", "--store", p.path("nats"), "--listen", addr}, p.beyond...)
		l.Close()
		if outside := os.Getenv("LLMBATCH_NATS_SERVER"); outside != "" {
			p.exe2(outside, l.Addr().String())
			return
		}
	}
	if outside := os.Getenv("LLMBATCH_NATS_SERVER"); outside != "" {
		p.exe2(outside, strings.TrimPrefix(p.nats, "nats://"))
		return
	}
	p.server = p.start(p.serve...)
	p.awaitPort()
}

// exe2 starts a stock nats-server instead.
func (p *fleetProof) exe2(program, addr string) {
	host, port, _ := net.SplitHostPort(addr)
	c := exec.Command(program, "-js", "-a", host, "-p", port, "-sd", p.path("nats"))
	if err := c.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.server = c
	p.t.Cleanup(func() { kill9(c) })
	p.awaitPort()
}

func (p *fleetProof) awaitPort() {
	p.t.Helper()
	for range 1000 {
		_, addr, _ := strings.Cut(p.nats, "://")
		c, err := net.Dial("tcp", addr)
		if err == nil {
			c.Close()
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	p.t.Fatal("the NATS server does not listen")
}

func (p *fleetProof) coordinator(extra ...string) *exec.Cmd {
	args := append([]string{"fleet", "run", p.path("p.jsonl"), "-o", p.path("out.jsonl"), "--nats", p.nats, "--run", "proof",
		"--provider", "anthropic", "--base-url", p.web.URL, "--model", "m", "--max-tokens", "9", "--progress", "none"}, p.flags...)
	return p.start(append(append(args, p.token()...), extra...)...)
}

func (p *fleetProof) worker(id string, extra ...string) *exec.Cmd {
	args := append([]string{"fleet", "worker", "--nats", p.nats, "--run", "proof", "--id", id, "--allow-base-url", p.web.URL}, p.token()...)
	return p.start(append(args, extra...)...)
}

// token are the flags for the token that fleet serve has made; none for a server that
// has another or none.
func (p *fleetProof) token() []string {
	if p.beyond != nil || os.Getenv("LLMBATCH_NATS_SERVER") != "" {
		return nil
	}
	return []string{"--nats-token-file", filepath.Join(p.path("nats"), "token")}
}

// admin runs a fleet command to its end.
func (p *fleetProof) admin(args ...string) string {
	p.t.Helper()
	c := p.command(append(append([]string{"fleet", args[0], "--nats", p.nats, "--run", "proof"}, p.token()...), args[1:]...)...)
	out, err := c.Output()
	if err != nil {
		p.t.Fatalf("fleet %v: %v\n%s", args, err, out)
	}
	return string(out)
}

// wait returns the exit code of a process, -1 if it was killed for being slow.
func (p *fleetProof) wait(c *exec.Cmd, most time.Duration) int {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), most)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { _ = c.Process.Signal(syscall.SIGQUIT) })
	_ = c.Wait()
	if !stop() {
		p.t.Errorf("still running after %v:\n%s", most, p.tail())
	}
	return c.ProcessState.ExitCode()
}

func (p *fleetProof) tail() string {
	data, _ := os.ReadFile(p.path("log"))
	if len(data) > 6000 {
		data = data[len(data)-6000:]
	}
	return string(data)
}

// rows counts the result rows by status, and checks that no id has two.
func (p *fleetProof) rows(name string) (byStatus map[string]int, list []proofRow) {
	p.t.Helper()
	data, err := os.ReadFile(p.path(name))
	if err != nil {
		p.t.Fatal(err)
	}
	byStatus = map[string]int{}
	seen := map[string]bool{}
	for line := range strings.Lines(string(data)) {
		var r proofRow
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			p.t.Fatalf("%s: %v", name, err)
		}
		if seen[r.ID] {
			p.t.Errorf("%s has two rows", r.ID)
		}
		seen[r.ID] = true
		byStatus[r.Status]++
		list = append(list, r)
	}
	return byStatus, list
}

type proofRow struct {
	ID, Status string
	Cost       float64
	Attempts   []struct {
		Attempt         int
		Outcome, Worker string
	}
}

// say prints a figure beside what it has to be. ok is a wider bound: on a machine
// that others use too, the figure is for the eye.
func (p *fleetProof) say(ok bool, format string, args ...any) {
	p.t.Helper()
	line := fmt.Sprintf(format, args...)
	fmt.Println("fleet: " + line)
	if !ok {
		p.t.Error(line)
	}
}
