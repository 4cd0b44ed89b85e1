package output

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// A disk of 256 KiB: it fills up, rows are kept elsewhere, and there is no room
// for the copy of the final rewrite.
func TestFullDisk(t *testing.T) {
	disk := t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=256k"); err != nil {
		t.Skip("can't mount a small tmpfs here: ", err)
	}
	defer syscall.Unmount(disk, 0)
	t.Setenv("TMPDIR", t.TempDir())
	path := filepath.Join(disk, "r.jsonl")
	f := mustOpen(t, path, Options{})
	written := 0
	var failed *WriteError
	for i := range 1000 {
		r := row("item-"+strconv.Itoa(i), GaveUp, i)
		r.Text = strings.Repeat("x", 5000)
		if err := f.Write(r); err != nil {
			failed, _ = errors.AsType[*WriteError](err)
			break
		}
		written++
	}
	if failed == nil || !errors.Is(failed, syscall.ENOSPC) || !strings.HasPrefix(failed.Rescue, os.Getenv("TMPDIR")) {
		t.Fatalf("got %v, want no room and the row elsewhere", failed)
	}
	if err := f.Close(CloseOptions{}); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("got %v of Close, want ENOSPC", err)
	}
	if got := strings.Fields(ids(t, path)); len(got) != written {
		t.Errorf("got %d rows, want %d", len(got), written)
	}

	g := mustOpen(t, path, Options{})
	if g.Repaired() != "" {
		t.Errorf("got %q, want nothing to repair", g.Repaired())
	}
	mustWrite(t, g, &Result{Key: "item-0", Status: OK})
	full, ok := errors.AsType[*NoRoomError](g.Close(CloseOptions{}))
	if !ok || full.Superseded != 1 {
		t.Fatalf("got %v, want no room for the copy", full)
	}
	if got := names(t, path); got != "r.jsonl" {
		t.Errorf("got files %q, want the results alone", got)
	}
	rows := 0
	for r, err := range LastRows(path, false) {
		if err != nil || r.Key == "item-0" && r.Status != OK {
			t.Errorf("got %+v, %v, want the last row of each id", r, err)
		}
		rows++
	}
	if rows != written {
		t.Errorf("got %d ids, want %d", rows, written)
	}
}
