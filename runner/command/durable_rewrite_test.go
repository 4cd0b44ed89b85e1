package command_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// doneTwice is a results file of n items with two rows each, so that the final
// rewrite of about n kilobytes begins at once.
func doneTwice(n int) string {
	var b strings.Builder
	text := strings.Repeat("x", 900)
	for _, status := range []string{"waiting", "ok"} {
		for i := range n {
			fmt.Fprintf(&b, `{"id":"q%d","status":"%s","index":%d,"text":"%s"}`+"\n", i, status, i, text)
		}
	}
	return b.String()
}

// rewriting starts a run whose final rewrite is long and holds it there.
func (s *story) rewriting(n int) *process {
	s.Helper()
	before := doneTwice(n)
	for range 5 {
		put(s.T, s.out, before)
		p := s.launch(launch{}, s.args("ok")...)
		until(s.T, "the rewrite", func() bool {
			info, err := os.Stat(s.out + ".rewrite")
			if err == nil && info.Size() > 0 {
				return true
			}
			now, err := os.Stat(s.out)
			return err == nil && now.Size() < int64(len(before))
		})
		_ = p.Process.Signal(syscall.SIGSTOP)
		if content(s.out) == before && content(s.out+".rewrite") != "" {
			return p
		}
		_ = p.Process.Kill() // it was over before it could be held
		p.code()
	}
	s.Fatal("no rewrite could be held")
	return nil
}

// C67: kill -9 during the final rewrite leaves the file as it was, and what the
// rewrite left is harmless. C32: a run that starts meanwhile is refused.
func TestKillDuringTheRewrite(t *testing.T) {
	t.Parallel()
	const items = 8_000
	s := newStory(t, 5)
	p := s.rewriting(items)
	before := content(s.out)
	code, said := s.run("ok")
	s.expect(code, said, 2, "another run is writing this file")
	if content(s.out) != before {
		t.Error("the refused run changed the file")
	}
	_ = p.Process.Kill()
	p.code()
	if content(s.out) != before {
		t.Error("the killed rewrite changed the file")
	}
	if content(s.out+".rewrite") == "" {
		t.Error("got no leftover, want one: the test is void")
	}
	code, said = s.run("ok")
	s.expect(code, said, 0, "nothing to do")
	if got, want := content(s.out), before[len(before)/2:]; len(got) > len(want) || strings.Count(got, "\n") != items || strings.Contains(got, "waiting") {
		t.Errorf("got %d bytes and %d lines, want the last row of each item", len(got), strings.Count(got, "\n"))
	}
	if names, _ := filepath.Glob(s.out + "*"); len(names) != 1 {
		t.Errorf("got %v, want the results alone", names)
	}
	if n := s.mock.Stats().Count; n != 0 {
		t.Errorf("got %d requests, want none", n)
	}
}

// A first ctrl-C during the rewrite lets it end; the rewrite is never seen half.
func TestSignalDuringTheRewrite(t *testing.T) {
	t.Parallel()
	const items = 8_000
	s := newStory(t, 5)
	p := s.rewriting(items)
	_ = p.Process.Signal(os.Interrupt)
	_ = p.Process.Signal(syscall.SIGCONT)
	if code := p.code(); code != 130 && code != 0 {
		t.Errorf("got exit %d, want 130:\n%s", code, &p.said)
	}
	if n := strings.Count(content(s.out), "\n"); n != items && n != 2*items {
		t.Errorf("got %d lines, want the file before or after the rewrite", n)
	}
}

// A second one ends the rewrite: what it would have removed stays.
func TestTwoSignalsDuringTheRewrite(t *testing.T) {
	t.Parallel()
	const items = 8_000
	s := newStory(t, 5)
	p := s.rewriting(items)
	before := content(s.out)
	_ = p.Process.Signal(os.Interrupt) // both wait for the process to go on
	_ = p.Process.Signal(syscall.SIGTERM)
	_ = p.Process.Signal(syscall.SIGCONT)
	if code := p.code(); code != 130 && code != 143 {
		t.Errorf("got exit %d, want that of the first signal:\n%s", code, &p.said)
	}
	if now := content(s.out); now != before && strings.Count(now, "\n") != items {
		t.Errorf("got %d bytes, want the file before or after the rewrite", len(now))
	} else if now == before && !strings.Contains(p.said.String(), "interrupted") {
		t.Errorf("got %q, want it to say why", &p.said)
	}
	if names, _ := filepath.Glob(s.out + "*"); len(names) != 1 {
		t.Errorf("got %v, want the results alone", names)
	}
}
