package output

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCloseLeavesOneRowAnID(t *testing.T) {
	content := lines(row("a", GaveUp, 0), row("b", OK, 1), row("c", Waiting, 2))
	content = append(content, `{"id":"b2","status":"ok","index":5,"later":1}`+"\n"...)
	path := tempFile(t, content)
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	f := mustOpen(t, path, Options{})
	mustWrite(t, f, row("d", Waiting, 3), row("a", Waiting, 0), row("d", Failed, 3), row("a", OK, 0), row("c", OK, 2), row("d", Aborted, 3))
	mustClose(t, f, CloseOptions{})
	if got, want := ids(t, path), "b:ok b2:ok a:ok c:ok d:aborted"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if !strings.Contains(read(t, path), `"later":1`) {
		t.Error("got no unknown member after the rewrite, want it kept")
	}
	if info, _ := os.Stat(path); info.Mode() != 0o640 {
		t.Errorf("got mode %v, want 0640", info.Mode())
	}
	if got := names(t, path); got != filepath.Base(path) {
		t.Errorf("got files %q, want the results alone", got)
	}
}

func TestCloseRemovesWhatACrashLeft(t *testing.T) {
	path := tempFile(t, lines(row("a", Waiting, 0), row("b", OK, 1), row("a", OK, 0)))
	if err := os.WriteFile(path+copySuffix, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	mustClose(t, mustOpen(t, path, Options{}), CloseOptions{})
	if got, want := ids(t, path), "b:ok a:ok"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := names(t, path); got != filepath.Base(path) {
		t.Errorf("got files %q, want the results alone", got)
	}
}

func TestOrdered(t *testing.T) {
	path := tempFile(t, lines(row("c", OK, 2), row("a", GaveUp, 0)))
	f := mustOpen(t, path, Options{})
	mustWrite(t, f, row("d", OK, 3), row("b", OK, 1), row("a", OK, 0))
	mustClose(t, f, CloseOptions{Ordered: true})
	if got, want := ids(t, path), "a:ok b:ok c:ok d:ok"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRewriteKeepsALink(t *testing.T) {
	path := tempFile(t, lines(row("a", GaveUp, 0)))
	link := filepath.Join(t.TempDir(), "link.jsonl")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	f := mustOpen(t, link, Options{})
	mustWrite(t, f, row("a", OK, 0))
	mustClose(t, f, CloseOptions{})
	if got := ids(t, path); got != "a:ok" {
		t.Errorf("got %q, want a:ok", got)
	}
	if target, err := os.Readlink(link); err != nil || target != path {
		t.Errorf("got link to %q, %v, want %q", target, err, path)
	}
}

// A rewrite that is cancelled leaves the file as it was, and nothing beside it.
func TestCancelledRewrite(t *testing.T) {
	path := tempFile(t, lines(row("a", Waiting, 0), row("a", OK, 0)))
	was := read(t, path)
	now := make(chan struct{})
	close(now)
	f := mustOpen(t, path, Options{})
	if err := f.Close(CloseOptions{Cancel: now}); !errors.Is(err, ErrCanceled) {
		t.Errorf("got %v, want ErrCanceled", err)
	}
	if read(t, path) != was || names(t, path) != "p.results.jsonl" {
		t.Errorf("got %q in %s, want the file as it was", read(t, path), names(t, path))
	}
}

// A file whose name was removed or taken while it was open is not lost.
func TestCloseWithoutItsName(t *testing.T) {
	for _, taken := range []bool{false, true} {
		path := tempFile(t, nil)
		f := mustOpen(t, path, Options{})
		mustWrite(t, f, row("a", Waiting, 0), row("a", OK, 0), row("b", OK, 1))
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if !taken {
			mustClose(t, f, CloseOptions{})
			if got, want := ids(t, path), "a:ok b:ok"; got != want {
				t.Errorf("got %q, want %q", got, want)
			}
			continue
		}
		if err := os.WriteFile(path, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		failed, ok := errors.AsType[*WriteError](f.Close(CloseOptions{}))
		if !ok || read(t, path) != "mine" {
			t.Fatalf("got %v and %q, want an error and the other file as it was", failed, read(t, path))
		}
		if got := ids(t, failed.Rescue); !strings.Contains(got, "a:ok b:ok") {
			t.Errorf("got %q kept, want all rows", got)
		}
	}
}
