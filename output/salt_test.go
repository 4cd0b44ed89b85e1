package output

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func mustSalt(t *testing.T, f *File) string {
	t.Helper()
	salt, err := f.Salt()
	if err != nil || salt == "" {
		t.Fatalf("got %q, %v, want a salt", salt, err)
	}
	return salt
}

// The salt outlives a run that is killed before its first row, and the file beside
// goes when rows on the disk have it.
func TestSaltIsKept(t *testing.T) {
	path := tempFile(t, nil)
	f := mustOpen(t, path, Options{Flush: time.Hour})
	salt := mustSalt(t, f)
	if info, err := os.Stat(path + saltSuffix); err != nil || info.Mode().Perm() != 0o600 || read(t, path+saltSuffix) != salt {
		t.Fatalf("got %v, %v, want the salt beside the results", info, err)
	}
	f.file.Close() // as a kill does
	g := mustOpen(t, path, Options{Flush: time.Hour})
	if got := mustSalt(t, g); got != salt {
		t.Errorf("got %s after a kill, want %s", got, salt)
	}
	r := row("a", OK, 0)
	mustWrite(t, g, r) // with a key of another salt
	if err := g.checkSynced(g.file); err != nil || names(t, path) != "p.results.jsonl p.results.jsonl.salt" {
		t.Errorf("got %v, %s, want the salt still kept", err, names(t, path))
	}
	r = row("b", OK, 1)
	r.IdempotencyKey = salt + "-b"
	mustWrite(t, g, r)
	if err := g.checkSynced(g.file); err != nil || names(t, path) != "p.results.jsonl" {
		t.Errorf("got %v, %s, want the results alone", err, names(t, path))
	}
	mustClose(t, g, CloseOptions{})
}

// A new file and --fresh begin with a new salt; a run that sent nothing leaves none.
func TestNewSalt(t *testing.T) {
	path := tempFile(t, nil)
	f := mustOpen(t, path, Options{})
	salt := mustSalt(t, f)
	f.file.Close()
	f = mustOpen(t, path, Options{Fresh: true})
	fresh := mustSalt(t, f)
	f.file.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	f = mustOpen(t, path, Options{})
	if anew := mustSalt(t, f); fresh == salt || anew == fresh {
		t.Errorf("got %s, %s, %s, want three salts", salt, fresh, anew)
	}
	mustClose(t, f, CloseOptions{})
	if got := names(t, path); got != "p.results.jsonl" {
		t.Errorf("got %q, want the results alone", got)
	}
	if err := os.WriteFile(path+saltSuffix, []byte("torn"), 0o600); err != nil {
		t.Fatal(err)
	}
	f = mustOpen(t, path, Options{})
	if got := mustSalt(t, f); len(got) != 16 {
		t.Errorf("got %q, want a whole salt", got)
	}
	mustClose(t, f, CloseOptions{})
}

// A salt that can't be kept is an error: nothing is to be sent.
func TestSaltCanNotBeKept(t *testing.T) {
	path := tempFile(t, nil)
	f := mustOpen(t, path, Options{})
	if err := os.Mkdir(path+saltSuffix, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(path+saltSuffix, "x"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if salt, err := f.Salt(); err == nil {
		t.Errorf("got %q, want an error", salt)
	}
	_ = f.Close(CloseOptions{})
}
