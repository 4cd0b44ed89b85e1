package output

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// Rows that were kept beside the file come back into it, once, and none of them
// replaces an answer.
func TestTakeBack(t *testing.T) {
	inFile := []*Result{row("a", OK, 0), row("b", GaveUp, 1)}
	tests := []struct {
		name, rescue  string
		want, says    string
		stays, refuse bool
	}{
		{"answers", string(lines(row("b", OK, 1), row("c", OK, 2))), "a:ok b:ok c:ok", "2 rows that an earlier run had kept in", false, false},
		{"an answer is there", string(lines(row("a", Aborted, 0))), "a:ok b:gave_up", "", false, false},
		{"torn", string(lines(row("c", OK, 2))) + `{"id":"d","sta`, "a:ok b:gave_up c:ok", "1 rows", false, false},
		{"empty", "", "a:ok b:gave_up", "", false, false},
		{"not ours", `{"x":1}` + "\n", "a:ok b:gave_up", "rescue.jsonl:1: this is not a results file", true, true},
		{"broken", string(lines(row("c", OK, 2))) + "{\n" + string(lines(row("d", OK, 3))), "a:ok b:gave_up", "rescue.jsonl:2: broken row", true, true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := tempFile(t, lines(inFile...))
			if err := os.WriteFile(path+rescueSuffix, []byte(tt.rescue), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := Open(path, Options{})
			said := ""
			if tt.refuse {
				if err == nil {
					t.Fatal("got no error, want one")
				}
				said = err.Error()
			} else {
				if err != nil {
					t.Fatal(err)
				}
				said = f.Repaired()
				mustClose(t, f, CloseOptions{})
			}
			if !strings.Contains(said, tt.says) || tt.says == "" && said != "" {
				t.Errorf("got %q, want %q", said, tt.says)
			}
			if got := ids(t, path); got != tt.want {
				t.Errorf("got rows %q, want %q", got, tt.want)
			}
			if got := slices.Contains(strings.Fields(names(t, path)), "p.results.jsonl.rescue.jsonl"); got != tt.stays {
				t.Errorf("got the kept rows' file %v, want %v", got, tt.stays)
			}
		})
	}
}

// A link of that name is not followed, and a new start puts the kept rows aside.
func TestTakeBackOfOthers(t *testing.T) {
	path, other := tempFile(t, lines(row("a", OK, 0))), tempFile(t, lines(row("b", OK, 1)))
	if err := os.Symlink(other, path+rescueSuffix); err != nil {
		t.Fatal(err)
	}
	if f, err := Open(path, Options{}); err == nil {
		f.Close(CloseOptions{})
		t.Error("got the rows behind a link, want an error")
	}
	if err := os.Remove(path + rescueSuffix); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path+rescueSuffix, lines(row("b", OK, 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, path, Options{Fresh: true}), CloseOptions{})
	if got, want := names(t, path), "p.results.jsonl p.results.jsonl.bak p.results.jsonl.rescue.jsonl.bak"; got != want {
		t.Errorf("got files %q, want %q", got, want)
	}
}

// A failed write loses nothing: the next Open has the row again.
func TestRowInHandComesBack(t *testing.T) {
	path := tempFile(t, nil)
	f := mustOpen(t, path, Options{})
	mustWrite(t, f, row("a", OK, 0))
	f.file.Close() // every write fails from now on
	for i, id := range []string{"b", "c"} {
		err := f.Write(row(id, OK, i+1))
		failed, ok := err.(*WriteError)
		if !ok || !failed.TakenBack() {
			t.Fatalf("got %v, want the row to be taken back", err)
		}
	}
	if failed, ok := f.Close(CloseOptions{}).(*WriteError); !ok || !failed.TakenBack() {
		t.Errorf("got %v of Close, want where the rows are", failed)
	}
	g := mustOpen(t, path, Options{})
	if g.Index().Len() != 3 {
		t.Errorf("got %d rows, want 3", g.Index().Len())
	}
	mustWrite(t, g, row("d", OK, 3))
	mustClose(t, g, CloseOptions{})
	if got, want := ids(t, path), "a:ok b:ok c:ok d:ok"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !(&WriteError{Path: "x", Rescue: "/tmp/y", Err: syscall.EIO}).TakenBack() {
		return
	}
	t.Error("got a file elsewhere taken back, want it left")
}

// When the file beside the results is full, all that is in hand moves to where
// there is room: it stays in one file.
func TestRowsInHandMove(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	path := tempFile(t, nil)
	first := lines(row("a", OK, 0))
	if err := os.WriteFile(path+rescueSuffix, first, 0o600); err != nil {
		t.Fatal(err)
	}
	full, err := os.Open(path + rescueSuffix) // no write succeeds
	if err != nil {
		t.Fatal(err)
	}
	s := rescue{file: full, size: int64(len(first))}
	e := &WriteError{Path: path, Err: syscall.ENOSPC}
	s.keep(lines(row("b", OK, 1)), e)
	if !strings.HasPrefix(e.Rescue, os.Getenv("TMPDIR")) || e.TakenBack() || names(t, path) != "" {
		t.Errorf("got %q, and %q beside the results, want a file in %s alone", e.Rescue, names(t, path), os.Getenv("TMPDIR"))
	}
	if got, want := ids(t, e.Rescue), "a:ok b:ok"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	// Nowhere: what is kept stays, the row is in the error.
	s = rescue{file: nil}
	t.Setenv("TMPDIR", path+".none")
	lost := &WriteError{Path: path + "/none", Err: syscall.ENOSPC}
	if s.keep(lines(row("c", OK, 2)), lost); lost.Rescue != "" || lost.Unsaved == nil {
		t.Errorf("got %+v, want the row in the error", lost)
	}
}
