package output

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// The file of the proof is made with: go test -run '^$' -bench Resume -rows 1000000 ./output/
var benchRows = flag.Int("rows", 50_000, "rows of the file that BenchmarkResume reads")

// typicalRow is about as long as the rows of a run with answers of a paragraph: 869 bytes.
func typicalRow(rng *rand.Rand, i int) *Result {
	text := strings.Repeat("summarise the “following” text\nin one sentence ", 6)[:220]
	id := fmt.Sprintf("item-%d", i)
	quoted, _ := json.Marshal(text)
	r := &Result{ID: json.RawMessage(`"` + id + `"`), Key: id, Status: OK, Index: i, Provider: "openai", Model: "mock-1",
		RequestHash: fmt.Sprintf("sha256:%016x%016x%016x%016x", rng.Uint64(), rng.Uint64(), rng.Uint64(), rng.Uint64()),
		StopReason:  "stop", Usage: Usage{InputTokens: 50, OutputTokens: 60},
		Response: json.RawMessage(fmt.Sprintf(`{"id":"chatcmpl-%016x","object":"chat.completion","created":1790000000,"model":"mock-1",`+
			`"choices":[{"index":0,"message":{"role":"assistant","content":%s},"finish_reason":"stop"}],`+
			`"usage":{"prompt_tokens":50,"completion_tokens":60,"total_tokens":110}}`, rng.Uint64(), quoted)),
		FinishedAt: time.Unix(1790000000, 0),
		Attempts:   []Attempt{{Attempt: 1, StartedAt: time.Unix(1790000000, 0), Duration: time.Second, Status: 200, Outcome: "ok", Concurrency: 64}},
	}
	if rng.IntN(100) < 3 {
		r.Status, r.Error = Failed, &Error{Class: "rejected", Status: 400, Message: "no"}
	}
	return r
}

// benchFile writes rows.
func benchFile(b *testing.B, n int) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "done.results.jsonl")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	w := bufio.NewWriterSize(f, 1<<20)
	rng := rand.New(rand.NewPCG(1, 2))
	var line []byte
	for i := range n {
		line = AppendRow(line[:0], typicalRow(rng, i))
		w.Write(line)
	}
	if err := w.Flush(); err != nil {
		b.Fatal(err)
	}
	f.Close()
	return path
}

// The time from Open to an index, as a multiple of that of wc -l, best of each.
// 2026-11-30, two cores shared with other builds, 1,000,000 rows (912 MB): 0.70 s,
// 4.6 to 7 times wc -l, 6 times its CPU time (spread over the cores), 33 bytes an
// id; the process peaks at 42 MB.
func BenchmarkResume(b *testing.B) {
	path := benchFile(b, *benchRows)
	info, _ := os.Stat(path)
	b.SetBytes(info.Size())
	best, wc := time.Hour, time.Hour
	cpu, wcCPU := time.Hour, time.Hour
	var rows int
	var held uint64
	for b.Loop() {
		start := time.Now()
		count := exec.Command("wc", "-l", path)
		if err := count.Run(); err != nil {
			b.Skip("no wc: ", err)
		}
		wc = min(wc, time.Since(start))
		wcCPU = min(wcCPU, count.ProcessState.UserTime()+count.ProcessState.SystemTime())
		start = time.Now()
		used := cpuTime()
		f, err := Open(path, Options{ReadOnly: true})
		if err != nil {
			b.Fatal(err)
		}
		best = min(best, time.Since(start))
		cpu = min(cpu, cpuTime()-used)
		rows = f.Index().Len()
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		f.Close(CloseOptions{})
		f.index = nil
		runtime.GC()
		runtime.ReadMemStats(&after)
		held = before.HeapAlloc - after.HeapAlloc
	}
	b.ReportMetric(float64(best)/float64(wc), "x-wc")
	b.ReportMetric(best.Seconds(), "s-best")
	b.ReportMetric(float64(cpu)/float64(wcCPU), "cpu-x-wc")
	b.ReportMetric(float64(cpu)/float64(rows), "cpu-ns/row")
	b.ReportMetric(float64(held)/float64(rows), "B/id")
}

// cpuTime is that of this process so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func BenchmarkAppendRow(b *testing.B) {
	r := typicalRow(rand.New(rand.NewPCG(1, 2)), 1)
	line := AppendRow(nil, r)
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		line = AppendRow(line[:0], r)
	}
}

func BenchmarkParseRow(b *testing.B) {
	line := AppendRow(nil, typicalRow(rand.New(rand.NewPCG(1, 2)), 1))
	b.SetBytes(int64(len(line)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := ParseRow(line); err != nil {
			b.Fatal(err)
		}
	}
}

// What the group commit costs: rows a second with it and, as good as, without.
// 2026-11-30: no difference within the noise (7 µs a row each); the slowest of
// 300,000 writes waited 40 ms for an fsync, 12 ms without one.
func BenchmarkWrite(b *testing.B) {
	for _, flush := range []time.Duration{time.Second, 100 * time.Millisecond, time.Hour} {
		b.Run("flush="+flush.String(), func(b *testing.B) {
			f, err := Open(filepath.Join(b.TempDir(), "r.jsonl"), Options{Flush: flush})
			if err != nil {
				b.Fatal(err)
			}
			r := typicalRow(rand.New(rand.NewPCG(1, 2)), 1)
			b.SetBytes(int64(len(AppendRow(nil, r))))
			b.ReportAllocs()
			var slowest atomic.Int64
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					start := time.Now()
					if err := f.Write(r); err != nil {
						b.Error(err)
					}
					if took := int64(time.Since(start)); took > slowest.Load() {
						slowest.Store(took)
					}
				}
			})
			b.ReportMetric(float64(slowest.Load())/1e6, "ms-slowest")
			f.Close(CloseOptions{})
		})
	}
}
