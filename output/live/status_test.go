package live

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"llmbatch/output/plain"

	"github.com/rivo/uniseg"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// golden compares got with a file of testdata.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.MkdirAll("testdata", 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s differs (go test -update rewrites it); got:\n%s", name, got)
	}
}

var noon = time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)

// states are moments of a run, the one before each for its rates.
func states() []struct {
	name      string
	past, now Status
} {
	running := Status{Total: 1000, Done: 420, OK: 400, Failed: 15, GaveUp: 5, Waiting: 12, InFlight: 8, Limit: 16, Throttled: 37,
		Requests: 500, OutputTokens: 100_000, Cost: 1.234, HasCost: true, Lanes: 1, Elapsed: 10 * time.Minute}
	past := running
	past.Done, past.OK, past.OutputTokens, past.Elapsed = 380, 360, 90_000, 9*time.Minute
	gated := running
	gated.Gate, gated.GateReason = noon.Add(5*time.Minute+7*time.Second), "429: retry-after 307, and a\tlong \x1b[31mtale\x1b[0m of why"
	tomorrow := gated
	tomorrow.Gate, tomorrow.GateReason = noon.Add(21*time.Hour), "daily quota"
	big := running
	big.Total, big.Done, big.OK, big.Waiting, big.InFlight, big.Limit, big.Throttled = 1_000_000, 987_654, 980_000, 4096, 256, 256, 123_456
	big.OutputTokens, big.Cost, big.Lanes = 3_000_000, 12_345.678, 3
	bigPast := big
	bigPast.Done, bigPast.OK, bigPast.OutputTokens, bigPast.Elapsed = 986_000, 978_346, 1_000_000, big.Elapsed-time.Minute
	pipe := running
	pipe.Total = -1
	stopping := running
	stopping.Note = "stopping: 8 requests may finish"
	done := running
	done.Done, done.OK, done.Waiting, done.InFlight = 1000, 980, 0, 0
	return []struct {
		name      string
		past, now Status
	}{
		{"nothing yet", Status{}, Status{Total: 1000, Limit: 4}},
		{"nothing to do", Status{}, Status{}},
		{"running", past, running}, {"gate", past, gated}, {"gate until tomorrow", past, tomorrow}, {"a million", bigPast, big},
		{"pipe", past, pipe}, {"stopping", past, stopping}, {"done", past, done},
	}
}

func ratesOf(past, now Status) *rates {
	var r rates
	r.add(past, noon)
	r.add(now, noon)
	return &r
}

func TestLines(t *testing.T) {
	var b bytes.Buffer
	for _, width := range []int{120, 80, 40} {
		fmt.Fprintf(&b, "%d columns\n", width)
		for _, s := range states() {
			fmt.Fprintf(&b, "%-20s|%s\n", s.name, barLine(s.now, ratesOf(s.past, s.now), width, noon))
		}
	}
	fmt.Fprintln(&b, "log")
	for _, s := range states() {
		fmt.Fprintf(&b, "%-20s|%s\n", s.name, plain.Clean(plainLine(s.now, ratesOf(s.past, s.now), noon)))
	}
	golden(t, "lines.txt", b.Bytes())
}

// Whatever is to be said, the bar's line leaves the last column free and holds no
// control character.
func TestBarLineFits(t *testing.T) {
	list := states()
	wide := list[2]
	wide.now.Gate, wide.now.GateReason, wide.now.Note = noon.Add(time.Hour), "日本語の理由 👩‍👩‍👧 \u202e\x00", "ノート\r\n"
	list = append(list, wide)
	for width := range 200 {
		for _, s := range list {
			line := barLine(s.now, ratesOf(s.past, s.now), width, noon)
			if n := uniseg.StringWidth(line); n > max(width-1, 1) {
				t.Errorf("%s at %d columns: got %d: %q", s.name, width, n, line)
			}
			if line != plain.Clean(line) || !utf8.ValidString(line) || strings.ContainsAny(line, "\t") {
				t.Errorf("%s at %d columns: got %q, want only what can be printed", s.name, width, line)
			}
			if width >= 20 && s.now.Total > 0 && !strings.Contains(line, "/") {
				t.Errorf("%s at %d columns: got %q, want done/total in it", s.name, width, line)
			}
		}
	}
}

// Everything that is promised for 80 columns is there.
func TestEightyColumnsHoldAll(t *testing.T) {
	s := states()[2]
	line := barLine(s.now, ratesOf(s.past, s.now), 80, noon)
	for _, want := range []string{"420/1000", "ok 400", "fail 20", "wait 12", "now 8/16", "429s 37", "167 t/s", "1.23", "ETA 15m", "42%"} {
		if !strings.Contains(line, want) {
			t.Errorf("got %q, want %q in it", line, want)
		}
	}
}

func TestETA(t *testing.T) {
	at := func(min, done int) Status {
		return Status{Total: 100, Done: done, OK: done, Elapsed: time.Duration(min) * time.Minute}
	}
	gated := at(2, 20)
	gated.Gate = noon.Add(time.Hour)
	pipe := at(2, 20)
	pipe.Total = -1
	for _, c := range []struct {
		name string
		past []Status
		now  Status
		want time.Duration
		ok   bool
	}{
		{"one sample", nil, at(1, 10), 0, false},
		{"steady", []Status{at(0, 0), at(1, 10)}, at(2, 20), 8 * time.Minute, true},
		{"the last minute counts", []Status{at(0, 0), at(10, 0), at(11, 10)}, at(12, 30), 210 * time.Second, true},
		{"nothing finished", []Status{at(0, 10), at(1, 10)}, at(2, 10), 0, false},
		{"done", []Status{at(0, 0)}, at(1, 100), 0, false},
		{"unknown length", []Status{at(0, 0)}, pipe, 0, false},
		{"in a pause", []Status{at(1, 10)}, gated, 0, false},
		{"after a pause", []Status{at(0, 0), at(1, 10), gated, at(62, 20)}, at(63, 30), 7 * time.Minute, true},
		{"skipped at once", []Status{at(0, 0)}, Status{Total: 100, Done: 60, OK: 10, Elapsed: time.Minute}, 4 * time.Minute, true},
		{"a new run", []Status{at(9, 90)}, at(1, 10), 0, false},
	} {
		var r rates
		for _, s := range c.past {
			r.add(s, noon)
		}
		r.add(c.now, noon)
		if got, ok := r.eta(c.now, noon); got != c.want || ok != c.ok {
			t.Errorf("%s: got %v, %t, want %v, %t", c.name, got, ok, c.want, c.ok)
		}
	}
}

// Rates hold a minute of samples however often they are asked for.
func TestRatesAreBounded(t *testing.T) {
	var r rates
	for i := range 100_000 {
		r.add(Status{Elapsed: time.Duration(i) * 50 * time.Millisecond, Done: i, OutputTokens: int64(i)}, noon)
	}
	if len(r.past) > 70 {
		t.Errorf("got %d samples, want at most 70", len(r.past))
	}
	if got := r.tokens(); got != 20 {
		t.Errorf("got %d tokens a second, want 20", got)
	}
}

func TestNumbers(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{number(0), "0"}, {number(9999), "9999"}, {number(10_000), "10.0k"}, {number(99_999), "99.9k"}, {number(999_999), "999k"},
		{number(1_000_000), "1.0M"}, {number(12_345_678_901), "12.3G"}, {brief(999), "999"}, {brief(8524), "8.5k"},
		{money(0), "0.0000"}, {money(0.00123), "0.0012"}, {money(12.345), "12.35"},
		{duration(0), "0s"}, {duration(59*time.Second + 500*time.Millisecond), "1m00s"}, {duration(time.Hour - 1), "1h00m"}, {duration(100 * time.Hour), "4d04h"},
		{coarse(90 * time.Second), "2m"}, {coarse(5*time.Hour + 30*time.Minute), "5h30"}, {coarse(300 * time.Hour), "12d"},
		{plain.Clip("abc", 3), "abc"}, {plain.Clip("abcd", 3), "ab…"}, {plain.Clip("abc", 1), "…"}, {plain.Clip("abc", 0), ""}, {plain.Clip("日本語", 4), "日…"},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
}
