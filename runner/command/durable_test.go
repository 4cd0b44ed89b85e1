package command_test

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// launch is how the command is started as a process of its own.
type launch struct {
	// shell runs before the command, in the same process: it sets limits or ignores
	// signals.
	shell  string
	stdin  io.Reader
	stdout io.Writer // nil: the process's own buffer
	env    []string
	// nobody takes root's rights away, which pass every test of permissions.
	nobody bool
}

// process is a command that was started.
type process struct {
	*exec.Cmd
	out, said bytes.Buffer // to be read after wait
	t         *testing.T
}

func (s *story) launch(l launch, args ...string) *process {
	s.Helper()
	exe, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	p := &process{t: s.T}
	if l.shell != "" {
		p.Cmd = exec.Command("/bin/sh", append([]string{"-c", l.shell + `; exec "$0" "$@"`, exe}, args...)...)
	} else {
		p.Cmd = exec.Command(exe, args...)
	}
	if l.nobody && os.Getuid() == 0 {
		p.Path = s.openBinary(exe)
		p.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	p.Env = append(append(os.Environ(), "LLMBATCH_TEST_AS_MAIN=1"), l.env...)
	p.Stdin, p.Stdout, p.Stderr = l.stdin, l.stdout, &p.said
	if l.stdout == nil {
		p.Stdout = &p.out
	}
	if err := p.Start(); err != nil {
		s.Fatal(err)
	}
	s.Cleanup(func() {
		if p.ProcessState == nil {
			_ = p.Process.Kill()
			_ = p.Wait()
		}
	})
	return p
}

// openBinary is a name for the test binary under which anybody may run it.
func (s *story) openBinary(exe string) string {
	s.Helper()
	dir := openFolder(s.T)
	name := filepath.Join(dir, "llmbatch.test")
	if os.Link(exe, name) == nil {
		return name
	}
	data, err := os.ReadFile(exe)
	if err == nil {
		err = os.WriteFile(name, data, 0o755)
	}
	if err != nil {
		s.Fatal(err)
	}
	return name
}

// openFolder is a folder that anybody may enter: t.TempDir is closed to others.
func openFolder(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "durable")
	if err == nil {
		t.Cleanup(func() { os.RemoveAll(dir) })
		err = os.Chmod(dir, 0o755)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// code waits for the end: the exit code, -1 if a signal ended the process.
func (p *process) code() int {
	_ = p.Wait()
	return p.ProcessState.ExitCode()
}

// until polls for what happens in another process.
func until(t *testing.T, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(500 * time.Microsecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); !ok(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("waited 30 s for %s", what)
		}
	}
}

// expect asserts an exit code and what was said.
func (s *story) expect(code int, said string, want int, says ...string) {
	s.Helper()
	if code != want {
		s.Errorf("got exit %d, want %d:\n%s", code, want, said)
	}
	said = strings.Join(strings.Fields(said), " ") // tables wrap
	for _, phrase := range says {
		if !strings.Contains(said, phrase) {
			s.Errorf("got %q, want %q in it", said, phrase)
		}
	}
}

// content of a file, "" if there is none.
func content(path string) string {
	data, _ := os.ReadFile(path)
	return string(data)
}

// put writes a file.
func put(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// line is what the tests look at of one row of any file.
type line struct {
	row
	IdempotencyKey string    `json:"idempotency_key"`
	FirstAttemptAt time.Time `json:"first_attempt_at"`
	RequestHash    string    `json:"request_hash"`
	Index          int
}

// lines reads whole rows in the order of the text.
func lines(t *testing.T, text string) (all []line) {
	t.Helper()
	for l := range strings.Lines(text) {
		var r line
		if err := json.Unmarshal([]byte(l), &r); err != nil {
			t.Fatalf("%v in %q", err, l)
		}
		all = append(all, r)
	}
	return all
}

// C27: a last line that was cut is repaired and told, and only an item whose row
// is gone is asked for again.
func TestTornTail(t *testing.T) {
	for name, c := range map[string]struct {
		keep func(last string) int // bytes of the last row
		asks int
		says string
	}{
		"in the row":         {func(last string) int { return len(last) / 2 }, 1, "a torn last line of"},
		"in a rune":          {func(last string) int { return strings.Index(last, "é") + 1 }, 1, "a torn last line of"},
		"before the newline": {func(last string) int { return len(last) - 1 }, 0, "lacked its newline, which was added"},
		"after the first":    {func(string) int { return 1 }, 1, "a torn last line of"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t, 0)
			put(t, s.in, `{"id":"a","prompt":"x"}`+"\n"+`{"id":"b","prompt":"été"}`+"\n")
			code, said := s.run("ok?echo=yes&latency=1ms", "--ordered")
			s.expect(code, said, 0)
			all := strings.SplitAfter(content(s.out), "\n")
			put(t, s.out, all[0]+all[1][:c.keep(all[1])])
			code, said = s.run("ok?echo=yes&latency=1ms", "--ordered")
			s.expect(code, said, 0, c.says)
			got := lines(t, content(s.out))
			if n := s.mock.Stats().Count; n != 2+c.asks || len(got) != 2 || got[1].Text != "été" {
				t.Errorf("got %d requests and rows %+v, want %d and both answers", n, got, 2+c.asks)
			}
		})
	}
}

// Results that are removed or replaced while the run goes are not lost with their
// name.
func TestResultsRemovedWhileTheRunGoes(t *testing.T) {
	for name, other := range map[string]string{"removed": "", "replaced": "mine\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t, 60)
			p := s.launch(launch{}, s.args("ok?latency=20ms", "--concurrency", "4", "--fixed")...)
			s.served(20)
			if err := os.Remove(s.out); err != nil {
				t.Fatal(err)
			}
			if other == "" {
				s.expect(p.code(), p.said.String(), 0, "60 ok")
				if n := len(lines(t, content(s.out))); n != 60 {
					t.Errorf("got %d rows, want 60", n)
				}
				return
			}
			put(t, s.out, other)
			code := p.code()
			s.expect(code, p.said.String(), 5, "another file has taken its name", "all its rows are in")
			if _, rows := rescued(t, p.said.String()); len(rows) != 60 || content(s.out) != other {
				t.Errorf("got %d rows kept and %q, want 60 and %q untouched", len(rows), content(s.out), other)
			}
		})
	}
}

// The attempt log, the first attempt's time and the idempotency key are carried
// over any number of runs, and each run has budgets of its own.
func TestHistoryOverRuns(t *testing.T) {
	t.Parallel()
	s := newStory(t, 2)
	var first []line
	for n := range 4 {
		code, said := s.run("drop", "--max-errors", "1", "--max-attempts", "1")
		s.expect(code, said, 1)
		got := lines(t, content(s.out))
		if len(got) != 2 {
			t.Fatalf("run %d: got %d rows, want 2", n, len(got))
		}
		if n == 0 {
			first = got
		}
		for i, r := range got {
			if r.Status != "gave_up" || len(r.Attempts) != n+1 || !r.FirstAttemptAt.Equal(first[0].FirstAttemptAt) && !r.FirstAttemptAt.Equal(first[1].FirstAttemptAt) {
				t.Errorf("run %d: got %+v, want %d attempts since %s", n, r, n+1, first[i].FirstAttemptAt)
			}
			if k := r.IdempotencyKey; k == "" || k != first[0].IdempotencyKey && k != first[1].IdempotencyKey {
				t.Errorf("run %d: got key %q, want that of the first run", n, k)
			}
		}
	}
	// Killed while the item waits: the log is that of the last row written.
	p := s.launch(launch{}, s.args("429-always")...)
	before := s.mock.Stats().Count
	until(t, "two more requests", func() bool { return s.mock.Stats().Count >= before+2 })
	_ = p.Process.Kill()
	p.code()
	for _, r := range lines(t, content(s.out)) {
		if len(r.Attempts) != 4 {
			t.Errorf("got %d attempts after kill -9, want the 4 of the last row", len(r.Attempts))
		}
	}
	code, said := s.run("ok?latency=1ms")
	s.expect(code, said, 0, "2 ok")
	for _, r := range lines(t, content(s.out)) {
		if r.Status != "ok" || len(r.Attempts) != 5 || r.FirstAttemptAt.After(first[0].FirstAttemptAt) && r.FirstAttemptAt.After(first[1].FirstAttemptAt) {
			t.Errorf("got %+v, want ok with 5 attempts", r)
		}
		for i, a := range r.Attempts {
			if i > 0 && a.StartedAt.Before(r.Attempts[i-1].StartedAt) {
				t.Errorf("got %+v, want attempts in order", r.Attempts)
			}
		}
	}
}

// A wait that an earlier run began holds in the next, also after kill -9, and
// where it fits no budget the row stays as it is.
func TestNextAttemptAtOverRuns(t *testing.T) {
	t.Parallel()
	s := newStory(t, 2)
	p := s.launch(launch{}, s.args("429-retry-after-120", "--limit", "1")...)
	until(t, "the waiting row", func() bool { return strings.Contains(content(s.out), `"waiting"`) })
	_ = p.Process.Kill()
	p.code()
	before := content(s.out)
	at := lines(t, before)[0].NextAttemptAt
	if d := time.Until(at); d < 100*time.Second || d > 121*time.Second {
		t.Errorf("got the next attempt in %s, want 120 s", d)
	}
	stays := func(flag, value string, want int, says string) {
		t.Helper()
		code, said := s.run("ok", "--limit", "1", flag, value)
		s.expect(code, said, want, says, "run the same command again")
		if content(s.out) != before || s.mock.Stats().Count != 1 {
			t.Errorf("got %q after %d requests, want the row as it was after 1", content(s.out), s.mock.Stats().Count)
		}
	}
	put(t, s.in, strings.SplitAfter(content(s.in), "\n")[0])
	stays("--budget", "3s", 4, "the run's time ended first")
	stays("--max-wait", "2s", 1, "1 item has no answer")

	// Interrupted while it waits again: nothing of it is forgotten.
	put(t, s.in, `{"id":"q1","prompt":"another"}`+"\n"+content(s.in))
	p = s.launch(launch{}, s.args("ok")...)
	s.served(1)
	_ = p.Process.Signal(syscall.SIGTERM)
	s.expect(p.code(), p.said.String(), 143, "interrupted")
	got := lines(t, content(s.out))
	if len(got) != 2 || !got[0].NextAttemptAt.Equal(at) || len(got[0].Attempts) != 1 || got[1].Status != "ok" {
		t.Errorf("got %+v, want a row with its wait and its attempt, and an answer", got)
	}
	if s.mock.Stats().Count != 2 {
		t.Errorf("got %d requests, want 2", s.mock.Stats().Count)
	}
}
