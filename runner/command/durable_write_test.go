package command_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// rescued are the rows of the file that a message names.
func rescued(t *testing.T, said string) (name string, rows []line) {
	t.Helper()
	m := regexp.MustCompile(`(?:rows in hand|all its rows) are in (\S+)`).FindStringSubmatch(said)
	if m == nil {
		t.Fatalf("got %q, want it to name the file with the rows in hand", said)
	}
	if info, err := os.Stat(m[1]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want a file of mode 0600", info, err)
	}
	return m[1], lines(t, content(m[1]))
}

// afterWriteError asserts what holds when results could not be written: sending
// stopped within one window, each answer is in the file or in hand, and a second
// run with room completes the file.
func (s *story) afterWriteError(p *process, window, items int) {
	s.Helper()
	code := p.code()
	said := p.said.String()
	s.expect(code, said, 5, "sending stopped: can't write results to "+s.out, "hint: ")
	name, inHand := rescued(s.T, said)
	kept := lines(s.T, content(s.out))
	if n := s.mock.Stats().Count; n != len(kept)+len(inHand) || len(inHand) > 2*window || len(kept) == 0 {
		s.Errorf("got %d requests, %d rows, %d in hand; want each kept, at most %d in hand", n, len(kept), len(inHand), 2*window)
	}
	ids := map[string]bool{}
	for _, r := range slices.Concat(kept, inHand) {
		if id := string(r.ID); ids[id] || r.Status != "ok" {
			s.Errorf("got a second row or no answer: %s %s", id, r.Status)
		} else {
			ids[id] = true
		}
	}
	// The rows in hand come back, by themselves or as the hint says.
	if strings.Contains(said, "cat "+name+" >> "+s.out) {
		put(s.T, s.out, content(s.out)+content(name))
	} else if name != s.out+".rescue.jsonl" || !strings.Contains(said, "the next run takes the rows in hand back") {
		s.Errorf("got %q, want a hint about the rows in %s", said, name)
	}
	before := s.mock.Stats().Count
	code, said = s.run("ok?latency=1ms")
	s.expect(code, said, 0, fmt.Sprintf("%d ok", items-len(ids)))
	if n := s.mock.Stats().Count - before; n != items-len(ids) || len(lines(s.T, content(s.out))) != items {
		s.Errorf("got %d requests and %d rows, want %d and %d", n, len(lines(s.T, content(s.out))), items-len(ids), items)
	}
}

// A file that may not grow: the system's signal for it must not end the process.
func TestFileSizeLimit(t *testing.T) {
	t.Parallel()
	s := newStory(t, 300)
	p := s.launch(launch{shell: "ulimit -f 200"}, s.args("ok?latency=5ms&size=2000", "--concurrency", "8", "--fixed")...)
	s.afterWriteError(p, 8, 300)
}

// No room for the copy of the final rewrite: it is said, the file stays as it is,
// and the answers decide the exit code.
func TestNoRoomForTheRewrite(t *testing.T) {
	t.Parallel()
	s := newStory(t, 200)
	put(t, s.out, doneTwice(200))
	before := content(s.out)
	p := s.launch(launch{shell: "ulimit -f 200"}, s.args("ok")...)
	s.expect(p.code(), p.said.String(), 0, "no room for a copy without its 200 superseded rows", "the last row of an id counts")
	if content(s.out) != before {
		t.Error("the file was changed")
	}
	code, said := s.run("ok")
	s.expect(code, said, 0, "nothing to do")
	if n := len(lines(t, content(s.out))); n != 200 {
		t.Errorf("got %d rows when there is room, want 200", n)
	}
	if names, _ := filepath.Glob(s.out + "*"); len(names) != 1 {
		t.Errorf("got %v, want the results alone", names)
	}
}

// Where rows can be kept nowhere they are printed.
func TestRowsPrintedWhenNothingKeepsThem(t *testing.T) {
	t.Parallel()
	s := newStory(t, 50)
	none := filepath.Join(t.TempDir(), "none")
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	args := s.args("ok?latency=5ms", "--concurrency", "4", "--fixed", "-q")
	args[3] = "-"
	p := s.launch(launch{stdout: w, env: []string{"TMPDIR=" + none}}, args...)
	w.Close()
	code := p.code()
	s.expect(code, p.said.String(), 5, "can't write results to standard output", "broken pipe")
	var printed []line
	for l := range strings.Lines(p.said.String()) {
		if strings.HasPrefix(l, "{") {
			printed = append(printed, lines(t, l)...)
		}
	}
	if n := s.mock.Stats().Count; len(printed) != n || n > 8 {
		t.Errorf("got %d rows printed of %d answers, want all, at most 8:\n%s", len(printed), n, &p.said)
	}
}

// C67: `-o - | head -1` ends with the code for results that could not be written,
// not by the signal, wherever the messages go.
func TestClosedPipeOfAProcess(t *testing.T) {
	for _, both := range []bool{false, true} {
		t.Run(fmt.Sprintf("both %v", both), func(t *testing.T) {
			t.Parallel()
			s := newStory(t, 300)
			r, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			args := s.args("ok?latency=5ms&size=1000", "--concurrency", "4", "--fixed", "--progress", "none")
			args[3] = "-"
			l := launch{stdout: w, env: []string{"TMPDIR=" + t.TempDir()}}
			if both {
				l.shell = "exec 2>&1"
			}
			p := s.launch(l, args...)
			w.Close()
			head := bufio.NewReader(r)
			text, err := head.ReadString('\n')
			for err == nil && text[0] != '{' { // what is said to people before
				text, err = head.ReadString('\n')
			}
			if err != nil || len(lines(t, text)) != 1 {
				t.Errorf("got %q, %v, want a row", text, err)
			}
			var piped bytes.Buffer
			_, _ = head.WriteTo(&limited{&piped, 3000}) // as a reader that goes away
			r.Close()
			code := p.code()
			if both {
				if code != 5 {
					t.Errorf("got exit %d, want 5", code)
				}
				return
			}
			s.expect(code, p.said.String(), 5, "can't write results to standard output", "broken pipe")
			_, inHand := rescued(t, p.said.String())
			if n := len(inHand); n == 0 || n > 8 {
				t.Errorf("got %d rows in hand, want some, and at most those finished and those on the wire: 8", n)
			}
			if n := s.mock.Stats().Count; n == 300 {
				t.Error("sending went on to the end")
			}
		})
	}
}

// A standard error that nobody reads any more changes nothing: the results are in
// their file.
func TestNobodyReadsStandardError(t *testing.T) {
	t.Parallel()
	s := newStory(t, 10)
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	p := s.launch(launch{shell: "exec 2>&1", stdout: w}, s.args("ok?latency=1ms", "-v")...)
	w.Close()
	if code := p.code(); code != 0 || len(lines(t, content(s.out))) != 10 {
		t.Errorf("got exit %d and %d rows, want 0 and 10", code, len(lines(t, content(s.out))))
	}
}

// limited takes n bytes and then fails.
type limited struct {
	w io.Writer
	n int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.n -= len(p); l.n < 0 {
		return 0, io.ErrShortWrite
	}
	return l.w.Write(p)
}

// A hang-up is a drain, unless it is ignored, as under nohup.
func TestHangup(t *testing.T) {
	t.Parallel()
	s := newStory(t, 100)
	p := s.launch(launch{shell: "trap '' HUP"}, s.args("ok?latency=20ms", "--concurrency", "8", "--fixed")...)
	s.served(10)
	_ = p.Process.Signal(syscall.SIGHUP)
	s.served(30)
	s.expect(p.code(), p.said.String(), 0, "100 ok")
}
