package command_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// lines of a run that is killed again and again.
const crashLines = 3000

// TestCrash kills real processes at random moments of a 3,000-item run, tears the
// file's tail now and then, and resumes: no whole row is lost or bought again,
// there is one row an id at the end, and every line is valid JSON throughout.
// LLMBATCH_CRASHES says how often (default 5).
func TestCrash(t *testing.T) {
	t.Parallel()
	kills, _ := strconv.Atoi(os.Getenv("LLMBATCH_CRASHES"))
	if kills == 0 {
		kills = 5
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rnd := rand.New(rand.NewPCG(seed, 1))
	s := newStory(t, crashLines)
	torn := 0
	for i := range kills {
		whole := s.wholeRows()
		before, asked := s.mock.Stats().OK, s.mock.Stats().Count
		cmd, said := s.process("ok?latency=5ms", "--start-concurrency", "32", "--concurrency", "64", "--progress", "none")
		want := before + 1 + rnd.IntN(2*crashLines/kills+1)
		done := make(chan struct{})
		go func() { _ = cmd.Wait(); close(done) }()
		tick := time.NewTicker(time.Millisecond)
	wait:
		for s.mock.Stats().OK < want {
			select {
			case <-done:
				break wait
			case <-tick.C:
			}
		}
		tick.Stop()
		sig := syscall.SIGKILL
		if i%5 == 4 {
			sig = syscall.SIGTERM
		}
		_ = cmd.Process.Signal(sig)
		<-done
		if code := cmd.ProcessState.ExitCode(); code == 2 || code == 70 {
			t.Fatalf("kill %d: exit %d:\n%s", i, code, said)
		}
		now := s.wholeRows()
		for id := range whole {
			if !now[id] {
				t.Fatalf("kill %d: the whole row of %s is gone", i, id)
			}
		}
		s.notBought(whole, asked)
		if len(now) == crashLines {
			_ = os.Remove(s.out)
		} else if rnd.IntN(2) == 0 && s.tear(rnd) {
			torn++
		}
	}
	whole, asked := s.wholeRows(), s.mock.Stats().Count
	if code, said := s.run("ok?latency=1ms", "-q"); code != 0 {
		t.Fatalf("the last run: exit %d:\n%s", code, said)
	}
	s.notBought(whole, asked)
	final := s.wholeRows()
	data, _ := os.ReadFile(s.out)
	if n := bytes.Count(data, []byte{'\n'}); len(final) != crashLines || n != crashLines {
		t.Errorf("%d ids in %d lines, want %d", len(final), n, crashLines)
	}
	t.Logf("%d kills, %d torn tails, %d answers for %d items", kills, torn, s.mock.Stats().OK, crashLines)
}

// notBought asserts that no item of done was asked for after the first asked
// requests.
func (s *story) notBought(done map[string]bool, asked int) {
	s.Helper()
	for _, r := range s.mock.Log(s.mock.Stats().Count - asked) {
		n, _ := strings.CutPrefix(r.Prompt, "say ")
		if done[`"q`+n+`"`] {
			s.Fatalf("q%s had a whole row and was bought again", n)
		}
	}
}

// wholeRows returns the ids of the rows with status ok that are whole on the disk.
func (s *story) wholeRows() map[string]bool {
	s.Helper()
	data, err := os.ReadFile(s.out)
	if err != nil {
		return nil
	}
	m := map[string]bool{}
	for len(data) > 0 {
		line, rest, ended := bytes.Cut(data, []byte{'\n'})
		data = rest
		var r row
		if err := json.Unmarshal(line, &r); err != nil {
			if ended {
				s.Fatalf("a broken line in the middle: %q", line)
			}
			break
		}
		if r.Status == "ok" {
			m[string(r.ID)] = true
		}
	}
	return m
}

// tear cuts the file inside its last line: in a row, in a rune or just before
// the newline.
func (s *story) tear(rnd *rand.Rand) bool {
	data, err := os.ReadFile(s.out)
	if err != nil || len(data) < 2 {
		return false
	}
	last := len(data) - 1 - bytes.LastIndexByte(data[:len(data)-1], '\n')
	return os.Truncate(s.out, int64(len(data)-1-rnd.IntN(last-1))) == nil
}
