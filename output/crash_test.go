package output

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
)

var crashes = flag.Int("crashes", 20, "how often TestKilledRuns kills a run")

// childEnv makes the test binary one of the processes below instead of a test.
const childEnv = "OUTPUT_TEST_CHILD"

func TestMain(m *testing.M) {
	children := map[string]func(path string) error{
		"run":    runAll,
		"nobody": writeAsNobody,
		"limit":  writeUnderLimit,
	}
	if child, ok := children[os.Getenv(childEnv)]; ok {
		if err := child(os.Args[1]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func child(t *testing.T, name, path string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, path)
	cmd.Env = append(os.Environ(), childEnv+"="+name)
	cmd.Stderr = os.Stderr
	return cmd
}

const (
	crashItems   = 400
	crashWriters = 4
)

// crashRow is small or, now and then, of a size that a kill can cut.
func crashRow(i int, s Status) *Result {
	r := row("item-"+strconv.Itoa(i), s, i)
	if i%40 == 7 {
		r.Text = strings.Repeat("日本語", 40_000)
	}
	return r
}

// runAll is a run: it writes a row for each item that has no answer yet, for some
// a waiting one first, and prints each id when its row is safe from a kill.
func runAll(path string) error {
	f, err := Open(path, Options{})
	if err != nil {
		return err
	}
	var wg sync.WaitGroup
	for w := range crashWriters {
		wg.Go(func() {
			for i := w; i < crashItems; i += crashWriters {
				if at, ok := f.Index().Lookup("item-" + strconv.Itoa(i)); ok && at.Status == OK {
					continue
				}
				if i%3 == 0 && f.Write(crashRow(i, Waiting)) != nil {
					os.Exit(3)
				}
				if f.Write(crashRow(i, OK)) != nil {
					os.Exit(3)
				}
				fmt.Println("item-" + strconv.Itoa(i))
			}
		})
	}
	wg.Wait()
	fmt.Println("closing")
	return f.Close(CloseOptions{})
}

// C27, C67: kill -9 at any moment, the final rewrite included, loses no row that
// Write has returned for, and the next run goes on from there.
func TestKilledRuns(t *testing.T) {
	path := tempFile(t, nil)
	safe := map[string]bool{}
	rng := rand.New(rand.NewPCG(3, uint64(os.Getpid())))
	torn := 0
	for round := range *crashes {
		if round%8 == 7 { // begin again, so that all kinds of moments come
			if err := os.Remove(path); err != nil {
				t.Fatal(err)
			}
			clear(safe)
		}
		killAfter(t, path, rng.IntN(crashItems/3), safe)
		if round%2 == 1 {
			tear(t, path, rng, safe)
		}
		f, err := Open(path, Options{})
		if err != nil {
			t.Fatalf("round %d: got %v, want a file that can be continued", round, err)
		}
		if f.Repaired() != "" {
			torn++
		}
		for id := range safe {
			if at, ok := f.Index().Lookup(id); !ok || at.Status != OK {
				t.Fatalf("round %d: got %+v, %v for %s, want its row", round, at, ok, id)
			}
		}
		// As the end of a killed process: no rewrite.
		f.index.superseded = nil
		mustClose(t, f, CloseOptions{})
	}
	t.Logf("%d kills, %d torn tails", *crashes, torn)
	if out, err := child(t, "run", path).Output(); err != nil || !strings.HasSuffix(string(out), "closing\n") {
		t.Fatalf("got %v, want the last run to complete", err)
	}
	count := map[string]int{}
	for r, err := range Rows(path) {
		if err != nil || r.Status != OK {
			t.Fatalf("got %+v, %v, want answers only", r, err)
		}
		count[r.Key]++
	}
	for i := range crashItems {
		if n := count["item-"+strconv.Itoa(i)]; n != 1 {
			t.Errorf("got %d rows of item-%d, want 1", n, i)
		}
	}
}

// tear cuts the last row somewhere, as the end of a machine would.
func tear(t *testing.T, path string, rng *rand.Rand, safe map[string]bool) {
	t.Helper()
	content := read(t, path)
	if !strings.HasSuffix(content, "\n") {
		return
	}
	start := strings.LastIndexByte(content[:len(content)-1], '\n') + 1
	r, err := ParseRow([]byte(content[start:]))
	if err != nil {
		t.Fatal(err)
	}
	if r.Status == OK {
		delete(safe, r.Key)
	}
	if err := os.Truncate(path, int64(start+1+rng.IntN(len(content)-1-start))); err != nil {
		t.Fatal(err)
	}
}

// killAfter runs a child until it has said n lines more, or says that it closes.
func killAfter(t *testing.T, path string, n int, safe map[string]bool) {
	t.Helper()
	cmd := child(t, "run", path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	said := bufio.NewScanner(out)
	for i := 0; said.Scan(); i++ {
		if said.Text() == "closing" || i == n {
			cmd.Process.Kill() // the rest of what it said is still in the pipe
		}
		if said.Text() != "closing" {
			safe[said.Text()] = true
		}
	}
	cmd.Wait()
}

// dropRoot makes this process that of an unprivileged user: root passes every
// test of permissions.
func dropRoot() error {
	if os.Getuid() != 0 {
		return nil
	}
	const nobody = 65534
	return errors.Join(syscall.Setgroups(nil), syscall.Setgid(nobody), syscall.Setuid(nobody))
}

// writeAsNobody prints what Open says.
func writeAsNobody(path string) error {
	if err := dropRoot(); err != nil {
		return err
	}
	f, err := Open(path, Options{})
	if err == nil {
		err = errors.Join(f.Write(row("a", OK, 0)), f.Close(CloseOptions{}))
	}
	fmt.Println(err)
	return nil
}

func TestPermissions(t *testing.T) {
	root, err := os.MkdirTemp("", "output") // t.TempDir is closed to others
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(root)
	content := lines(row("a", GaveUp, 0))
	tests := []struct {
		name         string
		folder, file os.FileMode // 0: there is no file
		want         string
	}{
		{"open", 0o777, 0o666, "can't make its copy"}, // if it is root's file, else <nil>
		{"no file", 0o777, 0, "<nil>"},
		{"read-only folder", 0o555, 0, "can't be written to"},
		{"read-only folder, file there", 0o555, 0o666, "can't be written to"},
		{"read-only file", 0o777, 0o444, "permission denied"},
		{"closed folder", 0o000, 0o666, "can't be written to"},
	}
	if err := os.Chmod(root, 0o755); err != nil {
		t.Fatal(err)
	}
	for i, tt := range tests {
		dir := filepath.Join(root, strconv.Itoa(i))
		path := filepath.Join(dir, "r.jsonl")
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if tt.file != 0 {
			if err := errors.Join(os.WriteFile(path, content, 0o600), os.Chmod(path, tt.file)); err != nil {
				t.Fatal(err)
			}
		}
		if err := os.Chmod(dir, tt.folder); err != nil {
			t.Fatal(err)
		}
		want := tt.want
		if tt.name == "open" && os.Getuid() != 0 {
			want = "<nil>"
		}
		out, err := child(t, "nobody", path).Output()
		if err != nil || !strings.Contains(string(out), want) {
			t.Errorf("%s: got %q, %v, want %q", tt.name, out, err, want)
		}
		if err := os.Chmod(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if tt.file == 0 || want == "<nil>" {
			continue
		}
		if got := read(t, path); !strings.HasPrefix(got, string(content)) {
			t.Errorf("%s: got %q, want the old row kept", tt.name, got)
		}
	}
}

// writeUnderLimit writes rows into a file that may not grow beyond 64 KiB, and
// prints the ids of those that are safe, then each error's Rescue.
func writeUnderLimit(path string) error {
	signal.Ignore(syscall.SIGXFSZ)
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 64 << 10, Max: 64 << 10}); err != nil {
		return err
	}
	f, err := Open(path, Options{})
	if err != nil {
		return err
	}
	for i := range 100 {
		r := row("item-"+strconv.Itoa(i), OK, i)
		r.Text = strings.Repeat("x", 1000)
		err := f.Write(r)
		failed, ok := errors.AsType[*WriteError](err)
		switch {
		case err == nil:
			fmt.Println(r.Key)
		case ok && errors.Is(err, syscall.EFBIG) && failed.Rescue != "":
			fmt.Println(failed.Rescue)
			if i%2 == 1 { // a few more in hand, as when calls on the wire drain
				last, ok := errors.AsType[*WriteError](f.Close(CloseOptions{}))
				if !ok || last.Rescue != failed.Rescue {
					return errors.New("Close says nothing of the failed write")
				}
				return nil
			}
		default:
			return fmt.Errorf("%s: %w", r.Key, err)
		}
	}
	return errors.New("no limit was met")
}

// A file that can't grow holds whole rows only; what was in hand is beside it.
func TestFileSizeLimit(t *testing.T) {
	path := tempFile(t, nil)
	out, err := child(t, "limit", path).Output()
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	rescue := ""
	for line := range strings.Lines(string(out)) {
		if line = strings.TrimSpace(line); filepath.IsAbs(line) {
			rescue = line
			continue
		}
		want[line] = true
	}
	if got := strings.Fields(ids(t, path)); len(got) != len(want) || len(got) < 50 {
		t.Errorf("got %d rows, want the %d that were written", len(got), len(want))
	}
	if !strings.HasSuffix(read(t, path), "}\n") {
		t.Error("got a torn last line, want it cut")
	}
	kept := strings.Fields(ids(t, rescue))
	if len(kept) == 0 || want[strings.TrimSuffix(kept[0], ":ok")] {
		t.Errorf("got %q in %s, want the rows that failed", kept, rescue)
	}
	info, err := os.Stat(rescue)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}
	// The next run completes it, with what was kept.
	merged := filepath.Join(t.TempDir(), "all.jsonl")
	if n, err := Merge(merged, []string{path, rescue}); err != nil || n != len(want)+len(kept) {
		t.Errorf("got %d, %v, want %d rows", n, err, len(want)+len(kept))
	}
}

func TestStreamToAClosedPipe(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	r.Close()
	s := NewStream(w)
	err = s.Write(row("a", OK, 0))
	failed, ok := errors.AsType[*WriteError](err)
	if !ok || !errors.Is(err, syscall.EPIPE) {
		t.Fatalf("got %v, want EPIPE", err)
	}
	if got := ids(t, failed.Rescue); got != "a:ok" {
		t.Errorf("got %q in %s, want the row", got, failed.Rescue)
	}
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "none"))
	s = NewStream(w)
	err = s.Write(row("a", OK, 0))
	if failed, ok := errors.AsType[*WriteError](err); !ok || failed.Rescue != "" || !json.Valid(failed.Unsaved) {
		t.Errorf("got %v, want the row in the error", err)
	}
	if err := s.Close(); !errors.Is(err, syscall.EPIPE) {
		t.Errorf("got %v of Close, want EPIPE", err)
	}
}
