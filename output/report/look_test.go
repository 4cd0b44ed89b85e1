package report

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestLook(t *testing.T) {
	dir := os.Getenv("LOOK")
	if dir == "" {
		t.Skip()
	}
	for name, n := range map[string]int{"big": 20000, "small": 60} {
		f, _ := os.Create(filepath.Join(dir, name+".html"))
		l := 3 * time.Hour
		if n == 60 {
			l = 12 * time.Second
		}
		if err := HTML(f, night(n, l), PageOptions{Name: "prompts.results.jsonl", Location: time.UTC, Now: time.Date(2026, 12, 1, 6, 0, 0, 0, time.UTC)}); err != nil {
			t.Fatal(err)
		}
		f.Close()
		s := NewStats()
		for r := range night(n, l) {
			s.Add(r)
		}
		sum := s.Summary()
		sum.WriteText(os.Stdout, TextOptions{Detail: true})
		sum.Run = &RunFacts{ExitCode: 1, Reason: "finished: some items are not ok", Items: n, PeakInFlight: 48, WallMS: 10800000, Next: "llmbatch run --retry-failed prompts.jsonl", Output: "prompts.results.jsonl"}
		println("-----")
		sum.WriteText(os.Stdout, TextOptions{})
	}
}
