package input

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// cpu is the processor time the process has taken, in nanoseconds: on a shared
// machine it says more than the clock.
func cpu(b *testing.B) int64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return u.Utime.Nano() + u.Stime.Nano()
}

// chatLine is a message line of about 360 bytes.
func chatLine(i int) string {
	return fmt.Sprintf(`{"id":"item-%07d","model":"gpt-4o-mini","messages":[{"role":"system","content":"You are a terse assistant."},`+
		`{"role":"user","content":"Classify the sentiment of review %d: %s"}],"max_tokens":16,"temperature":0}`, i, i, strings.Repeat("the room was fine, ", 8))
}

func promptLine(i int) string {
	return fmt.Sprintf(`{"id":"item-%07d","prompt":"Classify the sentiment of review %d:\n%s","max_tokens":16}`, i, i, strings.Repeat("the room was fine, ", 14))
}

// lines writes n lines to a file and opens it.
func lines(b testing.TB, n int, line func(int) string) *File {
	b.Helper()
	path := filepath.Join(b.TempDir(), "p.jsonl")
	var buf bytes.Buffer
	for i := range n {
		buf.WriteString(line(i))
		buf.WriteByte('\n')
	}
	if err := os.WriteFile(path, buf.Bytes(), 0o600); err != nil {
		b.Fatal(err)
	}
	f, err := Open(path, Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	return f
}

func BenchmarkParse(b *testing.B) {
	for _, c := range []struct{ name, line string }{
		{"messages", chatLine(1)}, {"prompt", promptLine(1)},
		{"anonymous", strings.Replace(chatLine(1), `"id":"item-0000001",`, "", 1)},
		{"1MB", `{"id":"a","messages":["` + strings.Repeat("all work and no play\\n", 50_000) + `"]}`},
	} {
		b.Run(c.name, func(b *testing.B) {
			p, line := &parser{f: &File{}}, []byte(c.line)
			work := make([]byte, len(line))
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for b.Loop() {
				copy(work, line)
				var it Item
				if bad := p.parse(record{line: 1, b: work}, &it); bad != nil {
					b.Fatal(bad)
				}
			}
		})
	}
}

func BenchmarkItems(b *testing.B) {
	const n = 50_000
	f := lines(b, n, chatLine)
	b.ReportAllocs()
	began := cpu(b)
	for b.Loop() {
		count := 0
		for _, err := range f.Items() {
			if err != nil {
				b.Fatal(err)
			}
			count++
		}
		if count != n {
			b.Fatalf("got %d items, want %d", count, n)
		}
	}
	b.ReportMetric(float64(cpu(b)-began)/float64(b.N)/n, "cpu-ns/line")
}

// BenchmarkCheck checks files with a Prepare that costs about what hashing a
// line costs.
func BenchmarkCheck(b *testing.B) {
	seed := maphash.MakeSeed()
	prepare := func(it *Item) (uint64, error) {
		h := maphash.Bytes(seed, it.Body) + maphash.String(seed, it.Prompt)
		return h ^ contentSum(it.Body), nil
	}
	for _, c := range []struct {
		name string
		n    int
		line func(int) string
	}{
		{"messages", 100_000, chatLine}, {"prompts", 100_000, promptLine},
		{"5MB", 20, func(i int) string {
			return fmt.Sprintf(`{"id":%d,"messages":["%s"]}`, i, strings.Repeat("all work and no play ", 250_000))
		}},
	} {
		b.Run(c.name, func(b *testing.B) {
			f := lines(b, c.n, c.line)
			b.ReportAllocs()
			began := cpu(b)
			for b.Loop() {
				count := 0
				each := func(*Item, uint64) error { count++; return nil }
				if err := f.Check(b.Context(), CheckFuncs{Prepare: prepare, Each: each}); err != nil || count != c.n {
					b.Fatalf("got %d items and error %v, want %d", count, err, c.n)
				}
			}
			b.ReportMetric(float64(cpu(b)-began)/float64(b.N)/float64(c.n), "cpu-ns/line")
		})
	}
}
