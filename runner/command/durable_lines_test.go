package command_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// badLines are faults that a whole-file check refuses, one of each kind, between
// two good lines.
const badLines = `{"id":"a","prompt":"good 1"}
{"id":"b","prompt":"x"
["c"]
{"id":"d"}
{"id":"e","prompt":5}
{"id":"f","prompt":"` + "\xff" + `"}
{"id":"a","prompt":"again"}
{"id":true,"prompt":"x"}
{"id":"h","prompt":"x","max_tokens":"many"}
{"custom_id":"i","method":"POST","url":"https://evil.example/v1/messages","body":{"messages":[]}}
{"id":"","prompt":"x"}
{"id":"k","messages":"x"}
{"id":"z","prompt":"good 2"}
`

const badCount = 11

// C53: bad lines are all found before the first request, with their places.
func TestBadLinesOfAFile(t *testing.T) {
	t.Parallel()
	s := newStory(t, 0)
	put(t, s.in, badLines)
	code, said := s.run("ok")
	s.expect(code, said, 2, fmt.Sprintf("%d bad lines; nothing was sent", badCount), "hint: mend them, or run the others with --skip-invalid")
	named := 0
	for line := 2; line < 13; line++ {
		if strings.Contains(said, fmt.Sprintf("\n%s:%d:", s.in, line)) {
			named++
		}
	}
	if named != 10 || !strings.Contains(said, "1 more") {
		t.Errorf("got %d lines named, want the first ten and how many more:\n%s", named, said)
	}
	if _, err := os.Stat(s.out); err == nil || s.mock.Stats().Count != 0 {
		t.Errorf("got results or %d requests, want neither", s.mock.Stats().Count)
	}
}

// With --skip-invalid, and always from a pipe, each bad line becomes a failed row
// under its content id, never under an id that it repeats, and a second run does
// nothing at all.
func TestBadLinesBecomeRows(t *testing.T) {
	for _, pipe := range []bool{false, true} {
		t.Run(fmt.Sprintf("pipe %v", pipe), func(t *testing.T) {
			t.Parallel()
			s := newStory(t, 0)
			put(t, s.in, badLines)
			args := s.args("ok?latency=1ms", "--skip-invalid")
			if pipe {
				args = s.args("ok?latency=1ms")
				args[1] = "-"
			}
			was := ""
			for n := range 3 {
				p := s.launch(launch{stdin: strings.NewReader(badLines)}, args...)
				s.expect(p.code(), p.said.String(), 1, fmt.Sprintf("%d items have no answer", badCount), "--retry-failed")
				if n == 0 {
					was = content(s.out)
				} else if content(s.out) != was {
					t.Fatalf("run %d: got other bytes, want the same", n)
				}
			}
			seen := map[string]bool{}
			for _, r := range lines(t, was) {
				id := string(r.ID)
				if seen[id] {
					t.Errorf("got a second row of %s", id)
				}
				seen[id] = true
				good := id == `"a"` || id == `"z"`
				if good != (r.Status == "ok") || !good && (!strings.HasPrefix(id, `"sha256:`) || r.Error.Class != "invalid_input" || r.Error.Message == "" || len(r.Attempts) != 0) {
					t.Errorf("got %+v, want an answer for a and z, a failed row under its content id for the others", r)
				}
			}
			if n := s.mock.Stats().Count; n != 2 || len(seen) != badCount+2 {
				t.Errorf("got %d requests and %d rows, want 2 and %d", n, len(seen), badCount+2)
			}
			// Mended, the line is a new item; the rows of what it was stay.
			mended := strings.Replace(badLines, `{"id":"d"}`, `{"id":"d","prompt":"x"}`, 1)
			put(t, s.in, mended)
			p := s.launch(launch{stdin: strings.NewReader(mended)}, args...)
			if code := p.code(); code != 1 || s.mock.Stats().Count != 3 {
				t.Errorf("got exit %d after %d requests, want 1 after 3:\n%s", code, s.mock.Stats().Count, &p.said)
			}
		})
	}
}

// An archive is read as one, and one that was cut is found out before anything is
// sent.
func TestArchives(t *testing.T) {
	t.Parallel()
	var text bytes.Buffer
	for i := range 2000 {
		fmt.Fprintf(&text, "{\"id\":\"q%d\",\"prompt\":\"say %d\"}\n", i, i*7919%10007)
	}
	var gz, zs bytes.Buffer
	g := gzip.NewWriter(&gz)
	g.Write(text.Bytes())
	g.Close()
	z, err := zstd.NewWriter(&zs)
	if err != nil {
		t.Fatal(err)
	}
	z.Write(text.Bytes())
	z.Close()
	for _, c := range []struct {
		ext  string
		data []byte
	}{{".gz", gz.Bytes()}, {".zst", zs.Bytes()}} {
		s := newStory(t, 0)
		s.in += c.ext
		put(t, s.in, string(c.data[:len(c.data)*2/3]))
		code, said := s.run("ok")
		s.expect(code, said, 2, "p.jsonl"+c.ext)
		if n := s.mock.Stats().Count; n != 0 {
			t.Errorf("%s: got %d requests of a cut archive, want none", c.ext, n)
		}
		put(t, s.in, string(c.data))
		code, said = s.run("ok?latency=1ms", "--limit", "20", "--start-concurrency", "20")
		s.expect(code, said, 0, "20 ok")
		// The same as plain text: nothing to do for what is done.
		plain := strings.TrimSuffix(s.in, c.ext)
		put(t, plain, text.String())
		s.in = plain
		code, said = s.run("ok?latency=1ms", "--limit", "10")
		s.expect(code, said, 0, "10 ok")
		if n := s.mock.Stats().Count; n != 30 {
			t.Errorf("%s: got %d requests, want 30", c.ext, n)
		}
		// From a pipe what came before the cut is sent, and the end is told.
		args := s.args("ok?latency=1ms", "--only-ids", filepath.Join(t.TempDir(), "ids"))
		put(t, args[len(args)-1], "q0\nq1\nq40\n")
		args[1] = "-"
		p := s.launch(launch{stdin: bytes.NewReader(c.data[:len(c.data)*2/3])}, args...)
		s.expect(p.code(), p.said.String(), 2, "reading stdin: the ", "data is cut off")
		if n := len(lines(t, content(s.out))); n > 31 || n < 30 {
			t.Errorf("%s: got %d rows, want those of before", c.ext, n)
		}
	}
}

// -o - writes one final row an item as it finishes, never one that says waiting,
// and has nothing to continue from.
func TestRowsToStandardOutput(t *testing.T) {
	t.Parallel()
	s := newStory(t, 6)
	args := s.args("ok?latency=1ms")
	args[3] = "-"
	for range 2 {
		p := s.launch(launch{}, args...)
		s.expect(p.code(), p.said.String(), 0, "6 ok")
		if n := len(lines(t, p.out.String())); n != 6 {
			t.Errorf("got %d rows, want 6", n)
		}
	}
	if n := s.mock.Stats().Count; n != 12 {
		t.Errorf("got %d requests, want all of them twice", n)
	}
	args = s.args("429-retry-after-120", "--limit", "1")
	args[3] = "-"
	p := s.launch(launch{}, args...)
	until(t, "the refusal", func() bool { return s.mock.Stats().Count == 13 && s.mock.Stats().InFlight == 0 })
	_ = p.Process.Signal(syscall.SIGTERM)
	s.expect(p.code(), p.said.String(), 143, "interrupted", "can't be continued")
	if rows := lines(t, p.out.String()); len(rows) != 1 || rows[0].Status != "aborted" {
		t.Errorf("got %+v, want one row: aborted", rows)
	}
}

// --ordered leaves the rows in the order of the input, also those of earlier runs.
func TestOrderedRows(t *testing.T) {
	t.Parallel()
	s := newStory(t, 30)
	ids := filepath.Join(t.TempDir(), "ids")
	put(t, ids, "q29\nq3\nq17\n")
	code, said := s.run("ok?latency=1ms", "--only-ids", ids)
	s.expect(code, said, 0, "3 ok")
	code, said = s.run("ok?latency=5ms&spread=1", "--ordered", "--start-concurrency", "8")
	s.expect(code, said, 0, "27 ok", "3 done before")
	for i, r := range lines(t, content(s.out)) {
		if r.Index != i || string(r.ID) != fmt.Sprintf("\"q%d\"", i) {
			t.Fatalf("got %s at %d, want the order of the input", r.ID, i)
		}
	}
}

// --limit counts items that need work, and is exact over runs.
func TestLimitOverRuns(t *testing.T) {
	t.Parallel()
	s := newStory(t, 10)
	for want := 4; want <= 12; want += 4 {
		code, said := s.run("ok?latency=1ms", "--limit", "4")
		s.expect(code, said, 0)
		if n := len(lines(t, content(s.out))); n != min(want, 10) || s.mock.Stats().Count != n {
			t.Errorf("got %d rows after %d requests, want %d", n, s.mock.Stats().Count, min(want, 10))
		}
	}
}

// C31: failed items are left alone; --retry-failed runs them again under a new
// idempotency key, so that no stored answer is replayed, and keeps their log.
func TestRetryFailed(t *testing.T) {
	t.Parallel()
	s := newStory(t, 4)
	code, said := s.run("400")
	s.expect(code, said, 1, "4 items have no answer", "--retry-failed")
	was := content(s.out)
	code, said = s.run("ok")
	s.expect(code, said, 1, "4 items have no answer", "--retry-failed")
	if s.mock.Stats().Count != 4 || content(s.out) != was {
		t.Errorf("got %d requests, want 4, and the same bytes", s.mock.Stats().Count)
	}
	for n, scenario := range []string{"400", "ok?latency=1ms"} {
		code, said = s.run(scenario, "--retry-failed")
		s.expect(code, said, []int{1, 0}[n])
	}
	keys := map[string]bool{}
	for _, r := range s.mock.Log(s.mock.Stats().Count) {
		keys[r.Key] = true
	}
	if len(keys) != 12 {
		t.Errorf("got %d idempotency keys for 4 items asked 3 times, want 12", len(keys))
	}
	for _, r := range lines(t, content(s.out)) {
		if r.Status != "ok" || len(r.Attempts) != 3 || !keys[r.IdempotencyKey] {
			t.Errorf("got %+v, want an answer and 3 attempts", r)
		}
	}
	// An interrupted or given up item keeps its key over runs.
	again := newStory(t, 1)
	for range 3 {
		again.run("drop", "--max-errors", "1")
	}
	var same []string
	for _, r := range again.mock.Log(3) {
		same = append(same, r.Key)
	}
	if same = slices.Compact(same); len(same) != 1 || same[0] == "" {
		t.Errorf("got keys %q over three runs, want one", same)
	}
}
