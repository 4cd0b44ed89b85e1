package live

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode"

	"llmbatch/output/plain"
)

// buffer is a bytes.Buffer for a writer and a reader.
type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func (b *buffer) Len() int { return len(b.String()) }

// screen is a terminal of one kind: it wraps, and knows \r, \n and "erase to
// the end of the line".
type screen struct {
	mu    sync.Mutex
	width int
	rows  [][]rune
	col   int
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.rows) == 0 {
		s.rows = [][]rune{nil}
	}
	text := string(p)
	for text != "" {
		if rest, ok := strings.CutPrefix(text, "\x1b[K"); ok {
			row := &s.rows[len(s.rows)-1]
			*row = (*row)[:min(s.col, len(*row))]
			text = rest
			continue
		}
		r := []rune(text)[0]
		text = text[len(string(r)):]
		s.put(r)
	}
	return len(p), nil
}

func (s *screen) put(r rune) {
	switch r {
	case '\n':
		s.rows, s.col = append(s.rows, nil), 0
		return
	case '\r':
		s.col = 0
		return
	}
	if s.col == s.width {
		s.rows, s.col = append(s.rows, nil), 0
	}
	row := &s.rows[len(s.rows)-1]
	for len(*row) <= s.col {
		*row = append(*row, ' ')
	}
	(*row)[s.col] = r
	s.col++
}

func (s *screen) text() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	var lines []string
	for _, row := range s.rows {
		lines = append(lines, strings.TrimRight(string(row), " "))
	}
	return strings.Join(lines, "\n")
}

// clock is a run that finishes ten items a second.
func clock() func() Status {
	start := time.Now()
	return func() Status {
		elapsed := time.Since(start)
		done := int(elapsed / (100 * time.Millisecond))
		return Status{Total: 1200, Done: done, OK: done, InFlight: 4, Limit: 8, Requests: int64(done), OutputTokens: int64(done) * 7, Elapsed: elapsed}
	}
}

// C47: off a terminal there is a plain line each half minute and nothing else.
func TestLogModeIsALineEachInterval(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out buffer // Auto: a buffer is no terminal
		d := Start(Options{Out: &out, Snapshot: clock()})
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if out.Len() > 0 {
			t.Errorf("got %q within 29 s, want nothing", out.String())
		}
		time.Sleep(62 * time.Second)
		synctest.Wait()
		d.Stop()
		d.Stop()
		lines := strings.Split(out.String(), "\n")
		for i, want := range []string{
			"progress: 300/1200 done, 300 ok, 0 failed, 0 gave up, 0 waiting, 4 at once (limit 8), 429s 0, 70 tokens/s, ETA 1m30s",
			"progress: 600/1200 done,", "progress: 900/1200 done,", "progress: 910/1200 done,", "",
		} {
			if i >= len(lines) || !strings.Contains(lines[i], want) {
				t.Fatalf("got %q, want %q in line %d", lines, want, i)
			}
		}
		if len(lines) != 5 {
			t.Errorf("got %d lines, want 4 and the end", len(lines))
		}
		for _, r := range out.String() {
			if unicode.IsControl(r) && r != '\n' {
				t.Errorf("got %U, want no control character", r)
			}
		}
	})
}

// The state is not told twice in the end.
func TestStopTellsOnlyWhatIsNew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out buffer
		d := Start(Options{Mode: Log, Out: &out, Interval: time.Second, Snapshot: func() Status { return Status{Total: 3, Done: 3} }})
		time.Sleep(1500 * time.Millisecond)
		synctest.Wait()
		d.Stop()
		if n := strings.Count(out.String(), "\n"); n != 1 {
			t.Errorf("got %d lines, want 1: %q", n, out.String())
		}
	})
}

func TestMessagesStandAboveTheBar(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screen{width: 80}
		d := Start(Options{Mode: Bar, Out: s, Snapshot: clock(), Width: func() int { return 80 }})
		synctest.Wait()
		w := d.Writer()
		fmt.Fprint(w, "one\ntwo, be")
		time.Sleep(time.Second)
		fmt.Fprint(w, "gun before\n")
		fmt.Fprint(w, "server said \x1b[2J\rgone\n")
		time.Sleep(time.Second)
		synctest.Wait()
		got := strings.Split(s.text(), "\n")
		want := []string{"one", "two, begun before", `server said \x1b[2J\rgone`}
		if len(got) != 4 || strings.Join(got[:3], "\n") != strings.Join(want, "\n") || !strings.Contains(got[3], "20/1200 ok 20") {
			t.Errorf("got %q, want %q and the bar", got, want)
		}
		d.Print()
		fmt.Fprint(w, "an end that never came")
		d.Stop()
		got = strings.Split(s.text(), "\n")
		if len(got) != 7 || !strings.Contains(got[3]+got[4], "progress: 20/1200 done") || got[5] != "an end that never came" || got[6] != "" {
			t.Errorf("got %q, want the status in two rows, the message and an empty line", got)
		}
		fmt.Fprintln(w, "after the end")
		if !strings.HasSuffix(s.text(), "\nafter the end\n") {
			t.Errorf("got %q, want the message after the end", s.text())
		}
	})
}

// A terminal that shrinks gets a shorter line at the next drawing.
func TestBarFollowsTheWidth(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &screen{width: 80}
		width := make(chan int, 1)
		width <- 80
		d := Start(Options{Mode: Bar, Out: s, Snapshot: clock(), Width: func() int { n := <-width; width <- n; return n }})
		time.Sleep(time.Second)
		<-width
		width <- 40
		time.Sleep(time.Second)
		synctest.Wait()
		if got := s.text(); len([]rune(got)) >= 40 || strings.Contains(got, "\n") {
			t.Errorf("got %q, want one line of at most 39 columns", got)
		}
		d.Stop()
		if got := s.text(); got != "" {
			t.Errorf("got %q left on the screen, want nothing", got)
		}
	})
}

// -q: nothing, but messages still come.
func TestNoneShowsOnlyMessages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out buffer
		d := Start(Options{Mode: None, Out: &out, Snapshot: clock()})
		time.Sleep(time.Hour)
		if out.Len() > 0 {
			t.Errorf("got %q, want nothing", out.String())
		}
		fmt.Fprintln(d.Writer(), "disk full")
		d.Stop()
		if out.String() != "disk full\n" {
			t.Errorf("got %q, want the message alone", out.String())
		}
	})
}

func TestJSONLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out buffer
		d := Start(Options{Mode: Log, Out: &out, JSON: true, Snapshot: func() Status {
			s := Status{Total: 10, Done: 2, HasCost: true, Gate: time.Now().Add(time.Minute), GateReason: "429 \x1b \u202e"}
			s.Cost /= s.Cost // not a number
			return s
		}})
		log := slog.New(Handler(d.Writer(), "json", nil))
		log.Info("limit changed", "why", "a \x7f\x1b[31m\u202e\U000e0001 word", "to", 7)
		log.Debug("not asked for")
		time.Sleep(31 * time.Second)
		synctest.Wait()
		d.Stop()
		var seen []map[string]any
		for line := range strings.Lines(out.String()) {
			var v map[string]any
			if err := json.Unmarshal([]byte(line), &v); err != nil {
				t.Fatalf("got %q: %v", line, err)
			}
			if line != plain.Clean(strings.TrimSuffix(line, "\n"))+"\n" {
				t.Errorf("got %q, want only what can be printed", line)
			}
			seen = append(seen, v)
		}
		if len(seen) != 2 || seen[0]["why"] != "a \x7f\x1b[31m\u202e\U000e0001 word" || seen[0]["level"] != "INFO" ||
			seen[1]["msg"] != "progress" || seen[1]["done"] != 2.0 || seen[1]["gate_reason"] != "429 \x1b \u202e" {
			t.Errorf("got %v, want a log record and a progress record", seen)
		}
	})
}

func TestTextHandler(t *testing.T) {
	var out buffer
	log := slog.New(Handler(&out, "text", slog.LevelDebug))
	log.Debug("attempt failed", "err", "a\n\x1b[31m\u202e")
	got := out.String()
	if !strings.Contains(got, `level=DEBUG msg="attempt failed" err="a\n\x1b[31m\u202e"`) || strings.Count(got, "\n") != 1 || strings.Contains(got, ".") {
		t.Errorf("got %q, want one plain line without fractions of a second", got)
	}
}

// Many writers at once: whole lines, none lost.
func TestWriterIsSafe(t *testing.T) {
	s := &screen{width: 200}
	d := Start(Options{Mode: Bar, Out: s, Snapshot: clock(), Width: func() int { return 80 }})
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 50 {
				fmt.Fprintf(d.Writer(), "line %d.%d\n", i, j)
				d.draw()
			}
		})
	}
	wg.Wait()
	d.Stop()
	lines := strings.Split(s.text(), "\n")
	seen := map[string]bool{}
	for _, l := range lines {
		seen[l] = true
	}
	if len(lines) != 401 || len(seen) != 401 {
		t.Errorf("got %d lines, %d of them different, want 400 and an empty one", len(lines), len(seen))
	}
}

// C47: TERM unset or dumb means no cursor to move.
func TestCanMove(t *testing.T) {
	for kind, want := range map[string]bool{"": false, "dumb": false, "xterm-256color": true, "linux": true} {
		if got := canMove(kind); got != want {
			t.Errorf("TERM=%q: got %t, want %t", kind, got, want)
		}
	}
	if IsTerminal(new(bytes.Buffer)) {
		t.Error("got true for a buffer, want false")
	}
}
