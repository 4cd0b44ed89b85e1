package command_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// othersLines of a run whose file others spoil.
const othersLines = 400

// TestOthersSpoilTheFile has somebody else remove the results' folder, delete the file
// where its copy has no room, empty it, or append half a line, at random moments of a
// run: exit 0 only with every row in the file, else 5 with each answer that the server
// gave in a place that is named, but for those that somebody emptied away.
// LLMBATCH_CRASHES says how many rounds (default 8).
func TestOthersSpoilTheFile(t *testing.T) {
	t.Parallel()
	rounds, _ := strconv.Atoi(os.Getenv("LLMBATCH_CRASHES"))
	if rounds == 0 {
		rounds = 8
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	kinds := []func(t *testing.T, rnd *rand.Rand){folderRemoved, deletedWithoutRoom, emptied, halfALine}
	names := []string{"folder removed", "deleted without room", "emptied", "half a line"}
	for i := range rounds {
		kind := i % len(kinds)
		own := rand.New(rand.NewPCG(seed, uint64(i)+3))
		t.Run(fmt.Sprintf("%d %s", i, names[kind]), func(t *testing.T) { kinds[kind](t, own) })
	}
}

// spoiled runs a story as nobody while spoil happens at a random moment, and returns
// the exit code and what was said.
func spoiled(t *testing.T, s *story, rnd *rand.Rand, latency int, spoil func(*process)) (int, string) {
	t.Helper()
	p := s.launch(launch{nobody: true}, s.args(fmt.Sprintf("ok?latency=%dms&size=300", latency), "--concurrency", "16", "--fixed", "--progress", "none")...)
	s.served(1 + rnd.IntN(othersLines*9/10))
	spoil(p)
	code := p.code()
	t.Logf("exit %d: %s", code, p.said.String())
	return code, p.said.String()
}

// others is a story in folders that anybody may use.
func others(t *testing.T) (s *story, folder string) {
	s = newStory(t, othersLines)
	top := openFolder(t)
	prompts := filepath.Join(top, "p.jsonl")
	put(t, prompts, content(s.in))
	folder = filepath.Join(top, "results")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{top, prompts, folder} {
		if os.Getuid() == 0 {
			if err := os.Chown(path, 65534, 65534); err != nil {
				t.Fatal(err)
			}
		}
	}
	s.in, s.out = prompts, filepath.Join(folder, "out.jsonl")
	return s, folder
}

// answers counts the ids that are ok among the whole lines of text.
func answers(text string) map[string]bool {
	ids := map[string]bool{}
	for _, line := range bytes.Split([]byte(text), []byte{'\n'}) {
		var r row
		if json.Unmarshal(line, &r) == nil && r.Status == "ok" {
			ids[string(r.ID)] = true
		}
	}
	return ids
}

// kept asserts that each answer of the server is in the file, in one that was named, or
// on standard error.
func (s *story) kept(code int, said string) {
	s.Helper()
	text := content(s.out) + "\n" + said
	if code == 5 {
		if strings.Contains(said, " are in ") {
			name, _ := rescued(s.T, said)
			text += "\n" + content(name)
		}
	} else if code != 0 {
		s.Fatalf("got exit %d, want 0 or 5:\n%s", code, said)
	}
	got := answers(text)
	if n := s.mock.Stats().OK; len(got) != n {
		s.Errorf("exit %d: got %d answers kept, the server gave %d:\n%s", code, len(got), n, said)
	}
	if whole := answers(content(s.out)); code == 0 && len(whole) != othersLines {
		s.Errorf("exit 0 with %d rows, want %d", len(whole), othersLines)
	}
}

func folderRemoved(t *testing.T, rnd *rand.Rand) {
	s, folder := others(t)
	code, said := spoiled(t, s, rnd, 3, func(*process) {
		for os.RemoveAll(folder) != nil { // a run may make a file meanwhile
		}
	})
	s.kept(code, said)
	if code != 5 || !strings.Contains(said, "all its rows are in "+filepath.Dir(s.in)) {
		t.Errorf("got exit %d, want 5 and the rows beside the input:\n%s", code, said)
	}
}

func deletedWithoutRoom(t *testing.T, rnd *rand.Rand) {
	s, folder := others(t)
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=900k,mode=777"); err != nil {
		t.Skip("can't mount a small tmpfs here: ", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(folder, 0) })
	code, said := spoiled(t, s, rnd, 3, func(*process) {
		_ = os.Remove(s.out)
		_ = os.WriteFile(filepath.Join(folder, "fill"), make([]byte, 640<<10), 0o600)
	})
	s.kept(code, said)
}

func emptied(t *testing.T, rnd *rand.Rand) {
	s, _ := others(t)
	var gone map[string]bool
	code, said := spoiled(t, s, rnd, 3+rnd.IntN(80), func(p *process) {
		_ = p.Process.Signal(syscall.SIGSTOP) // no row comes between the look at the file and its end
		stopped(t, p.Process.Pid)
		gone = answers(content(s.out))
		if err := os.Truncate(s.out, 0); err != nil {
			t.Error(err)
		}
		_ = p.Process.Signal(syscall.SIGCONT)
	})
	whole := answers(content(s.out))
	switch {
	case code == 0 && len(whole) == othersLines:
		return
	case code != 5 || !strings.Contains(said, "another process cut it"):
		t.Fatalf("got exit %d with %d rows, want 5:\n%s", code, len(whole), said)
	}
	for id := range answers(content(s.out + ".rescue.jsonl")) {
		whole[id] = true
	}
	for id := range gone {
		whole[id] = true
	}
	// What was on the wire may have been cut at the end.
	if n := s.mock.Stats().OK; len(whole) < n-16 {
		t.Errorf("got %d answers kept or emptied away, the server gave %d", len(whole), n)
	}
	if code, said := s.run("ok?latency=1ms", "-q"); code != 0 || len(answers(content(s.out))) != othersLines {
		t.Errorf("the next run: exit %d with %d rows:\n%s", code, len(answers(content(s.out))), said)
	}
}

// stopped waits until the kernel has stopped a process.
func stopped(t *testing.T, pid int) {
	t.Helper()
	for range 1000 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			return // it has ended
		}
		if _, state, ok := strings.Cut(string(stat), ") "); ok && strings.HasPrefix(state, "T") {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Error("the process does not stop")
}

func halfALine(t *testing.T, rnd *rand.Rand) {
	s, _ := others(t)
	code, said := spoiled(t, s, rnd, 3, func(*process) {
		f, err := os.OpenFile(s.out, os.O_WRONLY|os.O_APPEND, 0)
		if err == nil {
			_, err = f.WriteString(`{"id":"half","sta`)
			_ = f.Close()
		}
		if err != nil {
			t.Error(err)
		}
	})
	s.kept(code, said)
	if code != 0 || strings.Contains(content(s.out), "half") {
		t.Errorf("got exit %d, want 0 and no half line:\n%s", code, said)
	}
}
