package command_test

import (
	"path/filepath"
	"syscall"
	"testing"
)

// A disk of 256 KB fills up while the run goes: what is in hand is kept on
// another one, and the next run completes the file when there is room.
func TestFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip("can't mount a small tmpfs here: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(disk, 0) })
	s := newStory(t, 300)
	s.out = filepath.Join(disk, "out.jsonl")
	elsewhere := t.TempDir()
	p := s.launch(launch{env: []string{"TMPDIR=" + elsewhere}}, s.args("ok?latency=5ms&size=2000", "--concurrency", "8", "--fixed")...)
	code := p.code()
	said := p.said.String()
	s.expect(code, said, 5, "no space left on device", "hint: make room")
	name, inHand := rescued(t, said)
	kept := lines(t, content(s.out))
	if n := s.mock.Stats().Count; n != len(kept)+len(inHand) || len(inHand) > 64 { // a slow machine notices late
		t.Errorf("got %d requests, %d rows, %d in hand in %s; want each kept", n, len(kept), len(inHand), name)
	}
	// Still no room: the rows in hand can't come back, or nothing is sent beyond the
	// window.
	before := s.mock.Stats().Count
	beside := name == s.out+".rescue.jsonl"
	p = s.launch(launch{env: []string{"TMPDIR=" + elsewhere}}, s.args("ok?latency=5ms&size=2000", "--concurrency", "8", "--fixed")...)
	code = p.code()
	again := 0
	if beside {
		s.expect(code, p.said.String(), 2, "can't be taken back into it", "no space left on device")
	} else {
		s.expect(code, p.said.String(), 5, "no space left on device")
		_, rows := rescued(t, p.said.String())
		again = len(rows)
	}
	fitted := len(lines(t, content(s.out))) - len(kept) // where a batch had not
	if n := s.mock.Stats().Count - before; n != again+fitted || n > 64 {
		t.Errorf("got %d requests without room, %d and %d kept; want each kept, at most 64", n, again, fitted)
	}
	if err := syscall.Mount("tmpfs", disk, "tmpfs", syscall.MS_REMOUNT, "size=8m"); err != nil {
		t.Fatal(err)
	}
	if !beside {
		put(t, s.out, content(s.out)+content(name)) // as the hint says
	}
	code, said = s.run("ok?latency=1ms")
	s.expect(code, said, 0)
	rows := lines(t, content(s.out))
	// The second run knew nothing of the rows in hand, so it asked for their items
	// again.
	if n := s.mock.Stats().Count; len(rows) != 300 || n != 300+again+fitted {
		t.Errorf("got %d rows after %d requests, want 300 after %d", len(rows), n, 300+again+fitted)
	}
}
