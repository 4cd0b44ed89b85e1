package runner_test

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// .ci/speed sets these.
var (
	speedOf     = flag.String("speed", "", "the llmbatch binary to measure beside a raw loop")
	speedItems  = flag.Int("items", 30_000, "items of each run")
	speedRounds = flag.Int("rounds", 5, "runs of each side, in turn")
)

// role is what a process of this test's binary is instead of a test.
const role = "LLMBATCH_TEST_ROLE"

// TestSpeed measures a binary beside a bare net/http loop that only passes bytes
// on: same input, same server in a third process, runs in turn. It asserts that every
// item has its row, and no ratio: machines are shared.
func TestSpeed(t *testing.T) {
	switch os.Getenv(role) {
	case "server":
		serveAnswers()
	case "loop":
		rawLoop(t)
		return
	}
	if *speedOf == "" {
		t.Skip("run by .ci/speed")
	}
	server := exec.Command(os.Args[0], "-test.run=^TestSpeed$")
	server.Env = append(os.Environ(), role+"=server")
	said, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	defer server.Process.Kill()
	base, err := bufio.NewReader(said).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	base = strings.TrimSpace(base)

	dir := t.TempDir()
	in, one := filepath.Join(dir, "in.jsonl"), filepath.Join(dir, "one.jsonl")
	writeLines(t, in, *speedItems)
	writeLines(t, one, 1)
	run := func(in, start string) []string {
		return []string{*speedOf, "run", in, "-o", "OUT", "-q", "--provider", "openai", "--base-url", base + "/v1", "--concurrency", "64", start}
	}
	sides := []*side{
		{name: "raw loop", args: []string{os.Args[0], "-test.run=^TestSpeed$"}, env: []string{role + "=loop", "IN=" + in, "BASE=" + base}, items: *speedItems},
		{name: "llmbatch --fixed", args: run(in, "--fixed"), items: *speedItems},
		{name: "llmbatch", args: run(in, "--seed=1"), items: *speedItems},
	}
	single := &side{name: "one item", args: run(one, "--fixed"), items: 1}
	for range *speedRounds {
		for _, s := range sides {
			s.run(t, dir)
		}
		single.run(t, dir)
	}
	fmt.Printf("%-20s %12s %8s %10s %8s\n", "", "CPU s/1,000", "x loop", "items/s", "x loop")
	for _, s := range sides {
		per, loop := float64(*speedItems)/1000, sides[0]
		fmt.Printf("%-20s %12.4f %8.2f %10.0f %8.2f\n", s.name,
			s.median(func(i int) float64 { return s.cpu[i] / per }),
			s.median(func(i int) float64 { return s.cpu[i] / loop.cpu[i] }),
			s.median(func(i int) float64 { return per * 1000 / s.wall[i] }),
			s.median(func(i int) float64 { return loop.wall[i] / s.wall[i] }))
	}
	fmt.Printf("one item, start to exit: %.0f ms, %.0f ms of CPU\n",
		1000*single.median(func(i int) float64 { return single.wall[i] }), 1000*single.median(func(i int) float64 { return single.cpu[i] }))
	load, _ := os.ReadFile("/proc/loadavg")
	fmt.Printf("%d items, medians of %d rounds in turn, %d CPUs, load %s\n", *speedItems, *speedRounds, runtime.NumCPU(), cmp.Or(strings.TrimSpace(string(load)), "unknown"))
}

// side is one of the programs compared, with what its runs took.
type side struct {
	name      string
	args, env []string
	items     int
	cpu, wall []float64 // seconds
}

func (s *side) run(t *testing.T, dir string) {
	t.Helper()
	out := filepath.Join(dir, "out.jsonl")
	os.Remove(out)
	args := slices.Clone(s.args)
	for i := range args {
		args[i] = strings.ReplaceAll(args[i], "OUT", out)
	}
	c := exec.Command(args[0], args[1:]...)
	c.Env = append(append(os.Environ(), "OPENAI_API_KEY=sk-0123456789", "OUT="+out), s.env...)
	began := time.Now()
	if said, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", s.name, err, said)
	}
	s.wall = append(s.wall, time.Since(began).Seconds())
	s.cpu = append(s.cpu, (c.ProcessState.UserTime() + c.ProcessState.SystemTime()).Seconds())
	got, err := countLines(out)
	if err != nil || got != s.items {
		t.Fatalf("%s: got %d rows, %v, want %d", s.name, got, err, s.items)
	}
}

func countLines(path string) (n int, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	buf := make([]byte, 64<<10)
	for {
		k, err := f.Read(buf)
		n += bytes.Count(buf[:k], []byte("\n"))
		if err == io.EOF {
			return n, nil
		}
		if err != nil {
			return n, err
		}
	}
}

func (s *side) median(of func(i int) float64) float64 {
	v := make([]float64, len(s.cpu))
	for i := range v {
		v[i] = of(i)
	}
	slices.Sort(v)
	return v[len(v)/2]
}

// serveAnswers is a server without any delay. It prints its address.
func serveAnswers() {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	fmt.Printf("http://%s\n", l.Addr())
	answer := fmt.Appendf(nil, answerText, strings.Repeat(words, 8))
	err = http.Serve(l, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		w.Header()["Content-Type"] = []string{"application/json"}
		_, _ = w.Write(answer)
	}))
	panic(err)
}

// rawLoop is what net/http costs: one reader, 64 senders, one buffered writer,
// nothing looked at.
func rawLoop(t *testing.T) {
	in, err := os.Open(os.Getenv("IN"))
	if err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(os.Getenv("OUT"))
	if err != nil {
		t.Fatal(err)
	}
	u, _ := url.Parse(os.Getenv("BASE") + "/v1/chat/completions")
	h := http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer sk-0123456789"}}
	tr := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	lines, rows := make(chan []byte, 64), make(chan []byte, 64)
	var wg sync.WaitGroup
	for range 64 {
		wg.Go(func() {
			for body := range lines {
				req := &http.Request{Method: "POST", URL: u, Host: u.Host, Header: h, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
					Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body))}
				resp, err := tr.RoundTrip(req)
				if err != nil {
					t.Error(err)
					return
				}
				answer, _ := io.ReadAll(resp.Body)
				resp.Body.Close()
				rows <- append(answer, '\n')
			}
		})
	}
	go func() {
		s := bufio.NewScanner(in)
		for s.Scan() {
			_, body, _ := bytes.Cut(s.Bytes(), []byte(`"body":`))
			lines <- bytes.Clone(body[:max(len(body)-1, 0)])
		}
		close(lines)
		wg.Wait()
		close(rows)
	}()
	w := bufio.NewWriterSize(out, 64<<10)
	for row := range rows {
		_, _ = w.Write(row)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
}

// writeLines writes n lines as BenchmarkItem reads them.
func writeLines(t testing.TB, path string, n int) {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	w := bufio.NewWriter(f)
	content, _ := json.Marshal(strings.Repeat(words, 3))
	for i := range n {
		fmt.Fprintf(w, `{"custom_id":"item-%d","method":"POST","url":"/v1/chat/completions","body":{"model":"mock-1","max_tokens":256,`+
			`"messages":[{"role":"user","content":%s}]}}`+"\n", i, content)
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
}
