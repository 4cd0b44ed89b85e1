package output

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// appendTo writes text at the end of a file, as another process would.
func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err == nil {
		_, err = f.WriteString(text)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// Another process appends to the file while it is held: half a line goes, a whole row
// stays, and ours are all there.
func TestOthersAppend(t *testing.T) {
	for name, text := range map[string]string{"half": `{"id":"x","sta`, "whole": string(lines(row("z", OK, 9))), "blank": "\n \n", "half and whole": "garbage\n" + string(lines(row("z", OK, 9))) + "[1,"} {
		for _, at := range []int{1, 2, 3} {
			path := tempFile(t, lines(row("0", GaveUp, 0)))
			f := mustOpen(t, path, Options{Flush: time.Hour})
			for i := 1; i <= 3; i++ {
				mustWrite(t, f, row(strconv.Itoa(i), OK, i))
				if i == at {
					appendTo(t, path, text)
				}
			}
			mustWrite(t, f, row("0", OK, 0))
			if at == 2 {
				appendTo(t, path, text)
			}
			mustClose(t, f, CloseOptions{})
			got := " " + ids(t, path) + " "
			for _, want := range []string{"0:ok", "1:ok", "2:ok", "3:ok"} {
				if strings.Count(got, " "+want+" ") != 1 {
					t.Errorf("%s after %d: got %q, want %s once", name, at, got, want)
				}
			}
			if strings.Contains(text, `"z"`) != strings.Contains(got, "z:ok") || f.Mended() == "" {
				t.Errorf("%s after %d: got %q, %q", name, at, got, f.Mended())
			}
		}
	}
}

// Another process cuts the file: rows since the last sync are written again; where
// earlier ones are gone, every write and Close say so.
func TestOthersCut(t *testing.T) {
	for _, synced := range []bool{false, true} {
		path := tempFile(t, nil)
		f := mustOpen(t, path, Options{Flush: time.Hour})
		mustWrite(t, f, row("a", OK, 0), row("b", OK, 1))
		if synced {
			if err := f.checkSynced(f.file); err != nil {
				t.Fatal(err)
			}
		}
		mustWrite(t, f, row("c", OK, 2))
		if err := os.Truncate(path, 0); err != nil {
			t.Fatal(err)
		}
		if !synced {
			mustWrite(t, f, row("d", OK, 3))
			mustClose(t, f, CloseOptions{})
			if got := ids(t, path); got != "a:ok b:ok c:ok d:ok" {
				t.Errorf("got %q, want all four", got)
			}
			continue
		}
		err := f.Write(row("d", OK, 3))
		lost, ok := errors.AsType[*WriteError](err)
		if !ok || !strings.Contains(err.Error(), "another process cut it") || !lost.TakenBack() {
			t.Errorf("got %v, want the file cut and the row in hand beside it", err)
		}
		if err := f.Close(CloseOptions{}); !errors.Is(err, lost.Err) {
			t.Errorf("got %v of Close, want the same", err)
		}
		mustClose(t, mustOpen(t, path, Options{}), CloseOptions{})
		if got := ids(t, path); got != "c:ok d:ok" {
			t.Errorf("got %q, want what could be kept", got)
		}
	}
}

// At the end only: the last rows were written, then the file was cut.
func TestCutBeforeClose(t *testing.T) {
	path := tempFile(t, lines(row("a", OK, 0)))
	f := mustOpen(t, path, Options{Flush: time.Hour})
	mustWrite(t, f, row("b", OK, 1))
	if err := os.Truncate(path, 3); err != nil {
		t.Fatal(err)
	}
	if _, ok := errors.AsType[*WriteError](f.Close(CloseOptions{})); !ok || ids(t, path) != "b:ok" {
		t.Errorf("got %v and %q, want an error and the row that is known", ok, ids(t, path))
	}
}

// The file is cut while the flusher waits: the sync finds it.
func TestSyncFindsACut(t *testing.T) {
	path := tempFile(t, lines(row("a", OK, 0)))
	f := mustOpen(t, path, Options{Flush: time.Hour})
	mustWrite(t, f, row("b", OK, 1))
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.checkSynced(f.file); err == nil || !strings.Contains(err.Error(), "another process cut it") {
		t.Errorf("got %v, want it found", err)
	}
	if err := f.Write(row("c", OK, 2)); err == nil {
		t.Error("got nil, want the next write to fail")
	}
	_ = f.Close(CloseOptions{})
}

// A broken row that the final rewrite meets is an error of writing, and the file
// stays as it is.
func TestRewriteMeetsABrokenRow(t *testing.T) {
	for _, o := range []CloseOptions{{}, {Ordered: true}} {
		path := tempFile(t, lines(row("a", GaveUp, 1), row("b", OK, 0)))
		f := mustOpen(t, path, Options{Flush: time.Hour})
		mustWrite(t, f, row("a", OK, 1))
		other, err := os.OpenFile(path, os.O_WRONLY, 0)
		if err == nil {
			_, err = other.WriteAt([]byte("xxx"), int64(len(lines(row("a", GaveUp, 1))))+5)
			err = errors.Join(err, other.Close())
		}
		if err != nil {
			t.Fatal(err)
		}
		was := read(t, path)
		err = f.Close(o)
		_, write := errors.AsType[*WriteError](err)
		if _, broken := errors.AsType[*BrokenRowError](err); !write || !broken || read(t, path) != was {
			t.Errorf("got %v, want an error that names the row, and the file untouched", err)
		}
	}
}

// The results' folder goes while the run does.
func TestFolderVanishes(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "nowhere")
	for _, c := range []struct {
		name      string
		elsewhere bool
		temp      bool
		printed   bool
	}{{"beside the input", true, true, false}, {"temp folder", false, true, false}, {"standard error", false, false, true}} {
		folder, beside, temp := filepath.Join(t.TempDir(), "results"), nowhere, nowhere
		if c.elsewhere {
			beside = t.TempDir()
		}
		if c.temp {
			temp = t.TempDir()
		}
		t.Setenv("TMPDIR", temp)
		if err := os.Mkdir(folder, 0o700); err != nil {
			t.Fatal(err)
		}
		f := mustOpen(t, filepath.Join(folder, "r.jsonl"), Options{Elsewhere: []string{beside}})
		mustWrite(t, f, row("a", GaveUp, 0), row("b", OK, 1))
		if err := os.RemoveAll(folder); err != nil {
			t.Fatal(err)
		}
		mustWrite(t, f, row("a", OK, 0))
		var last []string
		err := f.Close(CloseOptions{LastResort: func(line []byte) { last = append(last, string(line)) }})
		lost, ok := errors.AsType[*WriteError](err)
		if !ok || !lost.Whole || lost.Printed != c.printed || c.printed != (len(last) == 3) {
			t.Fatalf("%s: got %v, %+v and %d rows printed", c.name, err, lost, len(last))
		}
		if c.printed {
			continue
		}
		want := temp
		if c.elsewhere {
			want = beside
		}
		if filepath.Dir(lost.Rescue) != want || ids(t, lost.Rescue) != "a:gave_up b:ok a:ok" || !strings.Contains(err.Error(), lost.Rescue) {
			t.Errorf("%s: got %v with %q, want all rows in %s", c.name, err, ids(t, lost.Rescue), want)
		}
	}
}

// A folder that was only moved has the rows, in order, and the error says where.
func TestFolderMoves(t *testing.T) {
	if _, err := os.Stat("/proc/self/fd"); err != nil {
		t.Skip("only /proc knows where a file went")
	}
	top := t.TempDir()
	old, moved := filepath.Join(top, "old"), filepath.Join(top, "new")
	if err := os.Mkdir(old, 0o700); err != nil {
		t.Fatal(err)
	}
	f := mustOpen(t, filepath.Join(old, "r.jsonl"), Options{})
	mustWrite(t, f, row("a", GaveUp, 0), row("a", OK, 0))
	if err := os.Rename(old, moved); err != nil {
		t.Fatal(err)
	}
	err := f.Close(CloseOptions{})
	want := filepath.Join(moved, "r.jsonl")
	if lost, ok := errors.AsType[*WriteError](err); !ok || lost.Rescue != want || ids(t, want) != "a:ok" || names(t, want) != "r.jsonl" {
		t.Errorf("got %v and %q, want the rows in %s", err, ids(t, want), want)
	}
}

// A link whose target does not exist yet stays a link, through the final rewrite too.
func TestDanglingLink(t *testing.T) {
	for _, target := range []string{"target.jsonl", filepath.Join(t.TempDir(), "far.jsonl")} {
		folder := t.TempDir()
		link := filepath.Join(folder, "link.jsonl")
		if err := errors.Join(os.Symlink(target, filepath.Join(folder, "middle")), os.Symlink("middle", link)); err != nil {
			t.Fatal(err)
		}
		f := mustOpen(t, link, Options{})
		mustWrite(t, f, row("a", GaveUp, 0), row("a", OK, 0))
		mustClose(t, f, CloseOptions{})
		info, err := os.Lstat(link)
		if err != nil || info.Mode()&os.ModeSymlink == 0 || ids(t, link) != "a:ok" {
			t.Errorf("got %v, %v with %q, want the link and the rows in its target", info, err, ids(t, link))
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(folder, target)
		}
		if ids(t, target) != "a:ok" {
			t.Errorf("got %q in the target", ids(t, target))
		}
	}
}

// What a merge replaces keeps its name until the new file takes it, and has a second one.
func TestLinkFree(t *testing.T) {
	path := tempFile(t, lines(row("a", OK, 0)))
	for range 2 {
		if err := linkFree(path); err != nil {
			t.Fatal(err)
		}
	}
	if got := names(t, path); got != "p.results.jsonl p.results.jsonl.bak p.results.jsonl.bak1" || read(t, path) != read(t, path+".bak1") {
		t.Errorf("got %q", got)
	}
}
