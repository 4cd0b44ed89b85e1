package output

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// row makes a short row; its id is a string.
func row(id string, s Status, index int) *Result {
	return &Result{ID: json.RawMessage(strconv.Quote(id)), Key: id, Status: s, Index: index, RequestHash: someHash,
		IdempotencyKey: "salt-" + id, Text: "日本語 \"" + id + "\""}
}

func lines(rows ...*Result) []byte {
	var b []byte
	for _, r := range rows {
		b = AppendRow(b, r)
	}
	return b
}

func tempFile(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "p.results.jsonl")
	if content != nil {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return path
}

func mustOpen(t *testing.T, path string, o Options) *File {
	t.Helper()
	f, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

func mustWrite(t *testing.T, f *File, rows ...*Result) {
	t.Helper()
	for _, r := range rows {
		if err := f.Write(r); err != nil {
			t.Fatal(err)
		}
	}
}

func mustClose(t *testing.T, f *File, o CloseOptions) {
	t.Helper()
	if err := f.Close(o); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// ids returns what the file holds, such as "a:ok b:failed", in file order.
func ids(t *testing.T, path string) string {
	t.Helper()
	var got []string
	for r, err := range Rows(path) {
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, r.Key+":"+string(r.Status))
	}
	return strings.Join(got, " ")
}

func names(t *testing.T, path string) string {
	t.Helper()
	entries, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	return strings.Join(got, " ")
}

func TestNewFileIsPrivateAndEmptyOfRows(t *testing.T) {
	path := tempFile(t, nil)
	f := mustOpen(t, path, Options{})
	if n := f.Index().Len(); n != 0 {
		t.Errorf("got %d rows, want 0", n)
	}
	if _, ok := f.Index().Lookup("a"); ok {
		t.Error("got a row of an empty file, want none")
	}
	mustWrite(t, f, row("a", OK, 0))
	if got := ids(t, path); got != "a:ok" { // C67: there at once
		t.Errorf("got %q before Close, want a:ok", got)
	}
	mustClose(t, f, CloseOptions{})
	info, err := os.Stat(path)
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("got mode %v, %v, want 0600", info.Mode(), err)
	}
}

// C31, C29: each id has its row, whatever became of it, and its own.
func TestResumeKnowsEachRow(t *testing.T) {
	path := tempFile(t, lines(row("a", OK, 0), row("b", Failed, 1), row("é", GaveUp, 2), row("d", Aborted, 3), row("e", Waiting, 4)))
	f := mustOpen(t, path, Options{})
	defer f.Close(CloseOptions{})
	for key, want := range map[string]Status{"a": OK, "b": Failed, "é": GaveUp, "d": Aborted, "e": Waiting} {
		got, ok := f.Index().Lookup(key)
		if !ok || got.Status != want || got.Hash != 0x0011223344556677 {
			t.Errorf("%s: got %+v, %v, want %s", key, got, ok, want)
		}
		r, err := f.Row(got.Offset)
		if err != nil || r.Key != key || r.Text != row(key, OK, 0).Text {
			t.Errorf("%s: got row %+v, %v", key, r, err)
		}
	}
	if got, want := f.Index().Counts(), (map[Status]int{OK: 1, Failed: 1, GaveUp: 1, Aborted: 1, Waiting: 1}); !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := f.index.salt; got != "salt" {
		t.Errorf("got salt %q, want salt", got)
	}
}

func TestCompleteFileStaysAsItIs(t *testing.T) {
	// Members that are not known stay, as does the form of a row.
	content := lines(row("a", OK, 0))
	content = append(content, `{ "later" : [1,  2], "status":"ok", "id":"b" }`+"\r\n\n"...)
	path := tempFile(t, content)
	old := time.Unix(1e9, 0)
	if err := os.Chtimes(path, old, old); err != nil {
		t.Fatal(err)
	}
	for _, o := range []CloseOptions{{}, {Ordered: true}} {
		mustClose(t, mustOpen(t, path, Options{}), o)
	}
	info, _ := os.Stat(path)
	if got := read(t, path); got != string(content) || !info.ModTime().Equal(old) {
		t.Errorf("got %q at %v, want it unchanged", got, info.ModTime())
	}
}

func TestHistoryIsCarriedOverAsWritten(t *testing.T) {
	old := `{"id":"a","status":"gave_up","request_hash":"","index":0,"attempts":[ {"attempt":1,"duration_ms":5,"outcome":"timeout","new":true} ]}`
	path := tempFile(t, []byte(old+"\n"))
	f := mustOpen(t, path, Options{})
	at, _ := f.Index().Lookup("a")
	r, err := f.Row(at.Offset)
	if err != nil {
		t.Fatal(err)
	}
	past, err := ParseAttempts(r.History)
	if err != nil || len(past) != 1 || past[0].Outcome != "timeout" || r.Attempts != nil {
		t.Fatalf("got history %+v, %v and attempts %v, want one timeout", past, err, r.Attempts)
	}
	r.Status = OK
	r.Attempts = []Attempt{{Attempt: 2, Outcome: "ok"}}
	mustWrite(t, f, r)
	mustClose(t, f, CloseOptions{})
	want := `"attempts":[{"attempt":1,"duration_ms":5,"outcome":"timeout","new":true},{"attempt":2,"duration_ms":0,"outcome":"ok"}]}` + "\n"
	if got := read(t, path); !strings.HasSuffix(got, want) {
		t.Errorf("got %s, want it to end in %s", got, want)
	}
}

func TestFreshKeepsTheOld(t *testing.T) {
	first, second := lines(row("a", OK, 0)), lines(row("b", OK, 0))
	path := tempFile(t, first)
	for range 2 {
		f := mustOpen(t, path, Options{Fresh: true})
		if n := f.Index().Len(); n != 0 {
			t.Errorf("got %d rows, want 0", n)
		}
		mustWrite(t, f, row("b", OK, 0))
		mustClose(t, f, CloseOptions{})
	}
	if a, b := read(t, path+".bak"), read(t, path+".bak1"); a != string(first) || b != string(second) {
		t.Errorf("got %q and %q, want %q and %q", a, b, first, second)
	}
	held := mustOpen(t, path, Options{})
	defer held.Close(CloseOptions{})
	if _, err := Open(path, Options{Fresh: true}); !isLocked(err) {
		t.Errorf("got %v, want it locked", err)
	}
	if got := names(t, path); strings.Contains(got, ".bak2") {
		t.Errorf("got files %q, want no other copy", got)
	}
}

func isLocked(err error) bool {
	_, ok := errors.AsType[*LockedError](err)
	return ok
}

// C32: a second run is kept out, also by the file that the rewrite put there.
func TestSecondRunIsKeptOut(t *testing.T) {
	path := tempFile(t, lines(row("a", GaveUp, 0)))
	f := mustOpen(t, path, Options{Flush: time.Hour}) // no group commit meanwhile, as in Close
	if _, err := Open(path, Options{}); !isLocked(err) {
		t.Errorf("got %v, want it locked", err)
	}
	mustWrite(t, f, row("a", OK, 0))
	err := f.replace(func(w *bufio.Writer) error {
		if _, err := Open(path, Options{}); !isLocked(err) {
			t.Errorf("during the rewrite: got %v, want it locked", err)
		}
		return f.copyWithout(w, []int64{0})
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Open(path, Options{}); !isLocked(err) {
		t.Errorf("after the rename: got %v, want it locked", err)
	}
	f.index.superseded, f.superseded = nil, nil
	mustClose(t, f, CloseOptions{})
	mustClose(t, mustOpen(t, path, Options{}), CloseOptions{})
}

// Whoever opened the old file just before the rename must not get it.
func TestLockIsOfTheFileThatThePathNames(t *testing.T) {
	path := tempFile(t, lines(row("a", GaveUp, 0)))
	var wg sync.WaitGroup
	var held, refused int
	var mu sync.Mutex
	for i := range 8 {
		wg.Go(func() {
			for range 50 {
				f, err := Open(path, Options{})
				mu.Lock()
				if isLocked(err) {
					refused++
					mu.Unlock()
					continue
				}
				held++
				mu.Unlock()
				if err != nil {
					t.Errorf("got %v, want a file or a lock", err)
					return
				}
				if n := f.Index().Len(); n != 1 {
					t.Errorf("got %d rows, want 1", n)
				}
				if err := errors.Join(f.Write(row("a", OK, i)), f.Close(CloseOptions{})); err != nil {
					t.Errorf("got %v, want none", err)
				}
			}
		})
	}
	wg.Wait()
	if got := ids(t, path); got != "a:ok" || held == 0 {
		t.Errorf("got %q after %d runs and %d refusals, want a:ok", got, held, refused)
	}
}

// C32: rows of many goroutines never mix.
func TestConcurrentRowsStayWhole(t *testing.T) {
	path := tempFile(t, nil)
	f := mustOpen(t, path, Options{})
	const writers, each = 8, 40
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				r := row(fmt.Sprintf("%d-%d", w, i), OK, w*each+i)
				r.Text = strings.Repeat("x", 30_000*(i%3))
				if err := f.Write(r); err != nil {
					t.Error(err)
				}
				f.Index().Lookup(r.Key)
			}
		})
	}
	wg.Wait()
	mustClose(t, f, CloseOptions{})
	g := mustOpen(t, path, Options{})
	defer g.Close(CloseOptions{})
	if n := g.Index().Len(); n != writers*each {
		t.Errorf("got %d rows, want %d", n, writers*each)
	}
}

func TestReadOnlyTouchesNothing(t *testing.T) {
	content := lines(row("a", OK, 0), row("b", OK, 1))
	content = content[:len(content)-9]
	path := tempFile(t, content)
	held := mustOpen(t, tempFile(t, nil), Options{})
	defer held.Close(CloseOptions{})
	f := mustOpen(t, path, Options{ReadOnly: true})
	if n := f.Index().Len(); n != 1 {
		t.Errorf("got %d rows, want 1", n)
	}
	if err := f.Write(row("c", OK, 2)); err == nil {
		t.Error("got no error of a write, want one")
	}
	mustClose(t, f, CloseOptions{})
	mustClose(t, mustOpen(t, held.Path(), Options{ReadOnly: true}), CloseOptions{}) // a run's file may be looked at
	missing := filepath.Join(t.TempDir(), "none.jsonl")
	none := mustOpen(t, missing, Options{ReadOnly: true})
	if _, ok := none.Index().Lookup("a"); ok || none.Index().Len() != 0 || none.index.salt != "" {
		t.Error("got rows of a missing file, want none")
	}
	mustClose(t, none, CloseOptions{})
	if _, err := os.Stat(missing); err == nil || read(t, path) != string(content) {
		t.Error("got a change, want none")
	}
	os.Remove(path)
}

func TestNamesAndFolders(t *testing.T) {
	dir := t.TempDir()
	in := filepath.Join(dir, "in.jsonl")
	if err := os.WriteFile(in, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Link(in, link); err != nil {
		t.Fatal(err)
	}
	if !SameFile(in, link) || SameFile(in, filepath.Join(dir, "none")) || SameFile(in, dir) { // C33
		t.Error("got SameFile wrong, want it to compare files")
	}
	tests := []struct{ path, want string }{
		{filepath.Join(dir, "out.jsonl.gz"), ErrCompressed.Error()},
		{filepath.Join(dir, "out.ZST"), ErrCompressed.Error()},
		{filepath.Join(dir, "none", "out.jsonl"), "does not exist"},
		{filepath.Join(in, "out.jsonl"), "not a"},
		{dir, "is a directory"},
		{os.DevNull, ErrNotRegular.Error()},
	}
	for _, tt := range tests {
		if _, err := Open(tt.path, Options{}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %q", tt.path, err, tt.want)
		}
	}
}

// The disk has a row at most Flush after it came, without a call.
func TestFlushWaitsForMostOfItsTime(t *testing.T) {
	path := tempFile(t, nil)
	synctest.Test(t, func(t *testing.T) {
		f := mustOpen(t, path, Options{Flush: time.Second})
		var syncs []time.Duration
		start := time.Now()
		f.synced = func() { syncs = append(syncs, time.Since(start)) }
		mustWrite(t, f, row("a", OK, 0), row("b", OK, 1))
		time.Sleep(10 * time.Second)
		mustWrite(t, f, row("c", OK, 2))
		time.Sleep(10 * time.Second)
		mustClose(t, f, CloseOptions{}) // which waits for the flusher
		if want := []time.Duration{750 * time.Millisecond, 10750 * time.Millisecond}; !slices.Equal(syncs, want) {
			t.Errorf("got syncs at %v, want %v", syncs, want)
		}
	})
}

func TestStream(t *testing.T) {
	var buf bytes.Buffer
	s := NewStream(&buf)
	for _, r := range []*Result{row("a", Waiting, 0), row("a", OK, 0)} {
		if err := s.Write(r); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil || buf.String() != string(lines(row("a", OK, 0))) {
		t.Errorf("got %q, %v, want the final row alone", &buf, err)
	}
}
