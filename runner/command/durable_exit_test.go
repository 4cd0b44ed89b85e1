package command_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// lines of prompts for a model each, "good" but for the named ones.
func models(n int, other string, at ...int) string {
	var b strings.Builder
	for i := range n {
		model := "good"
		for _, j := range at {
			if i == j {
				model = other
			}
		}
		fmt.Fprintf(&b, "{\"id\":\"q%d\",\"prompt\":\"say %d\",\"model\":\"%s\"}\n", i, i, model)
	}
	return b.String()
}

// C48: one of ten fails: the run ends with 1, and so does every later one that
// leaves the row alone, without a request; ok elsewhere changes nothing.
func TestFailedRowsOfEarlierRuns(t *testing.T) {
	t.Parallel()
	s := newStory(t, 0)
	put(t, s.in, models(10, "bad", 3))
	code, said := s.run("400?only=bad&latency=1ms", "--limit", "5")
	s.expect(code, said, 1, "1 item has no answer", "--retry-failed")
	code, said = s.run("ok?latency=1ms")
	s.expect(code, said, 1, "5 ok", "1 item has no answer")
	was := s.same()
	for range 2 {
		code, said = s.run("ok")
		s.expect(code, said, 1, "1 item has no answer")
	}
	s.still(was)
	if n := s.mock.Stats().Count; n != 10 {
		t.Errorf("got %d requests, want 10", n)
	}
	// 3 and 4 come before 1.
	put(t, s.in, content(s.in)+models(12, "good")[len(models(10, "good")):])
	code, said = s.run("spend-cap", "--limit", "1")
	s.expect(code, said, 3, "stopped: spend cap")
	code, said = s.run("slow", "--budget", "200ms", "--drain", "50ms", "--limit", "1")
	s.expect(code, said, 4, "the run's time ended first")
	code, said = s.run("ok?latency=1ms", "--retry-failed")
	s.expect(code, said, 0, "3 ok", "9 done before")
}

// snapshot is a file as it stands.
type snapshot struct {
	text string
	time time.Time
}

func (s *story) same() snapshot {
	s.Helper()
	info, err := os.Stat(s.out)
	if err != nil {
		s.Fatal(err)
	}
	return snapshot{content(s.out), info.ModTime()}
}

func (s *story) still(was snapshot) {
	s.Helper()
	if now := s.same(); now != was {
		s.Errorf("got a file of %d bytes of %s, want the %d bytes of %s", len(now.text), now.time, len(was.text), was.time)
	}
}

// A complete file costs nothing and is not touched, with any flag that asks for
// no more than is there.
func TestCompleteFileIsNotTouched(t *testing.T) {
	t.Parallel()
	s := newStory(t, 20)
	code, said := s.run("ok?latency=1ms", "--ordered")
	s.expect(code, said, 0)
	was := s.same()
	for _, flags := range []string{"", "--ordered", "--retry-failed", "--on-changed rerun", "--limit 5", "--stream", "--budget 1h", "--temperature 0.5 --on-changed error"} {
		code, said = s.run("ok", strings.Fields(flags)...)
		if strings.Contains(flags, "temperature") {
			s.expect(code, said, 2, "20 lines have changed")
		} else {
			s.expect(code, said, 0)
		}
	}
	s.still(was)
	p := s.launch(launch{stdin: strings.NewReader(content(s.in))}, append([]string{"run", "-"}, s.args("ok")[2:]...)...)
	s.expect(p.code(), p.said.String(), 0)
	s.still(was)
	if n := s.mock.Stats().Count; n != 20 {
		t.Errorf("got %d requests, want 20", n)
	}
}

// C58: one of four is refused again and again: it has its row, and the summary
// and the exit code say so.
func TestRefusedItemIsNotDropped(t *testing.T) {
	t.Parallel()
	s := newStory(t, 0)
	put(t, s.in, models(4, "busy", 2))
	summary := filepath.Join(t.TempDir(), "s.json")
	code, said := s.run("429-always?only=busy&latency=1ms", "--max-attempts", "3", "--summary", summary)
	s.expect(code, said, 1, "3 ok", "1 gave up", "1 item has no answer")
	m := s.rows()
	if r := m[`"q2"`]; len(m) != 4 || count(m, "ok") != 3 || r.Status != "gave_up" || len(r.Attempts) != 3 {
		t.Errorf("got %+v, want a row for each of four, q2 given up after 3 attempts", m)
	}
	if text := content(summary); !strings.Contains(text, `"gave_up": 1`) || !strings.Contains(text, `"exit_code": 1`) {
		t.Errorf("got %s, want the item in the summary", text)
	}
}

// C33: rows are in the file while the run goes, not only at its end.
func TestRowsLandAsTheyCome(t *testing.T) {
	t.Parallel()
	s := newStory(t, 400)
	p := s.launch(launch{}, s.args("ok?latency=20ms", "--concurrency", "8", "--fixed")...)
	s.served(60)
	until(t, "the rows", func() bool { return strings.Count(content(s.out), "\n") >= 50 })
	if n := s.mock.Stats().OK; n > 300 {
		t.Errorf("the run had %d of 400 answers when 50 rows were there", n)
	}
	_ = p.Process.Kill()
	if code := p.code(); code != -1 {
		t.Errorf("got exit %d, want it killed", code)
	}
	if n := len(lines(t, content(s.out))); n < 50 {
		t.Errorf("got %d rows after the kill, want what was there", n)
	}
}

// A write that fails while an interrupted run drains: 5 comes before 143.
func TestWriteErrorBeforeSignal(t *testing.T) {
	t.Parallel()
	s := newStory(t, 8)
	p := s.launch(launch{shell: "ulimit -f 1"}, s.args("ok?latency=500ms&size=2000", "--concurrency", "4", "--fixed")...)
	until(t, "four requests", func() bool { return s.mock.Stats().InFlight == 4 })
	_ = p.Process.Signal(syscall.SIGTERM)
	s.expect(p.code(), p.said.String(), 5, "file too large")
	if n := strings.Count(p.said.String(), "a row that could be kept nowhere"); n != 4 || s.mock.Stats().Count != 4 {
		t.Errorf("got %d rows printed after %d requests, want 4 and 4", n, s.mock.Stats().Count)
	}
}

// Two ctrl-C: the second one cancels what is on the wire, the file stays valid,
// and the next run does the rest with the log of the first.
func TestTwoInterruptsThenTheRest(t *testing.T) {
	t.Parallel()
	s := newStory(t, 6)
	p := s.launch(launch{}, s.args("slow", "--concurrency", "3", "--fixed")...)
	until(t, "three requests", func() bool { return s.mock.Stats().InFlight == 3 })
	stop := insist(p.Process)
	code := p.code()
	stop()
	s.expect(code, p.said.String(), 130, "stopping now", "interrupted; 0 of 6 items")
	if m := s.rows(); len(m) != 3 || count(m, "aborted") != 3 {
		t.Errorf("got %+v, want the three open items aborted", m)
	}
	code, said := s.run("ok?latency=1ms")
	s.expect(code, said, 0, "6 ok")
	for id, r := range s.rows() {
		if n := len(r.Attempts); n != 1 && n != 2 || r.Status != "ok" {
			t.Errorf("got %s with %d attempts, want 1, or 2 for the aborted", id, n)
		}
	}
}

// Faults of a bad night, with defaults: no item is lost, none is answered twice,
// and no more is asked than the faults make necessary. Which requests are hit
// follows from their bodies, so the figure is the same each time.
// LLMBATCH_FAULT_ITEMS says how many items (default 600).
func TestFaultMix(t *testing.T) {
	t.Parallel()
	items, _ := strconv.Atoi(os.Getenv("LLMBATCH_FAULT_ITEMS"))
	items = cmp.Or(items, 600)
	s := newStory(t, items)
	code, said := s.run("ok?latency=5ms&p500=3&p529=1&p503=1&drop=1&cut=1&html=1", "--progress", "none")
	s.expect(code, said, 0)
	stats := s.mock.Stats()
	if m := s.rows(); count(m, "ok") != items || len(m) != items {
		t.Errorf("got %d rows, want %d", len(m), items)
	}
	most := 110
	if items < 3000 {
		most = 113 // 8 % faults make 1.087; three standard deviations more
	}
	if stats.OK != items || stats.Count > items*most/100 {
		t.Errorf("got %d answers and %d requests, want %d and at most %d", stats.OK, stats.Count, items, items*most/100)
	}
	t.Logf("%.3f requests an item", float64(stats.Count)/float64(items))
}
