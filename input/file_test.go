package input

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// keys joins the items' keys.
func keys(items []*Item) string {
	var k []string
	for _, it := range items {
		k = append(k, it.Key)
	}
	return strings.Join(k, " ")
}

// C24: a line has no length at which it is cut or lost.
func TestLongLines(t *testing.T) {
	var b strings.Builder
	sizes := []int{10, 65_535, 65_536, 66_068, 131_072, 1<<20 + 1, 20, 10<<20 + 1, 300_000, 7}
	for i, n := range sizes {
		fmt.Fprintf(&b, `{"id":%d,"prompt":"%s"}`+"\n", i, strings.Repeat("x", n))
	}
	f := open(t, "p.jsonl", strings.TrimSuffix(b.String(), "\n"), Options{})
	items, err := all(f)
	if err != nil || len(items) != len(sizes) {
		t.Fatalf("got %d items and error %v, want %d", len(items), err, len(sizes))
	}
	for i, n := range sizes {
		if it := items[i]; len(it.Prompt) != n || it.Line != i+1 || it.Key != fmt.Sprint(i) {
			t.Errorf("item %d: got a prompt of %d bytes, line %d, id %s; want %d bytes", i, len(it.Prompt), it.Line, it.Key, n)
		}
	}
	next := 0
	each := func(it *Item, hash uint64) error {
		if it.Index != next || hash != uint64(sizes[next]) {
			t.Errorf("Each got item %d with hash %d, want item %d with %d", it.Index, hash, next, sizes[next])
		}
		next++
		return nil
	}
	bad := errorsOf(t, f, CheckFuncs{Prepare: func(it *Item) (uint64, error) { return uint64(len(it.Prompt)), nil }, Each: each})
	if bad != nil || next != len(sizes) {
		t.Errorf("Check: got %d items and errors %v", next, bad)
	}
}

// C24: a bound is a message, and the lines behind are read.
func TestMaxLine(t *testing.T) {
	for _, size := range []int{50, 101, 70_000, 400_000} {
		for _, last := range []string{"", "\n", "\n" + `{"id":"b","prompt":"y"}`} {
			in := `{"id":"a","prompt":"x"}` + "\n" + strings.Repeat("z", size) + last
			want := "a b"
			if len(last) < 2 {
				want = "a"
			}
			f := open(t, "p.jsonl", in, Options{MaxLine: 49, LetThrough: true})
			items, err := all(f)
			if err != nil || len(items) != len(want)/2+2 || items[1].Bad == nil {
				t.Fatalf("%d bytes, then %q: got items %s and error %v, want one of them bad", size, last, keys(items), err)
			}
			if got, want := items[1].Bad.Error(), "p.jsonl:2:1: the line is longer than 49 bytes"; got != want {
				t.Errorf("got %s, want %s", got, want)
			}
			if got := keys(append(items[:1:1], items[2:]...)); got != want {
				t.Errorf("%d bytes, then %q: got items %s, want %s", size, last, got, want)
			}
			if size := int64(items[1].Size); size != int64(len(in)-24-len(last)) || items[1].Offset != 24 {
				t.Errorf("got size %d at %d", size, items[1].Offset)
			}
			strict := open(t, "p.jsonl", in, Options{MaxLine: 49})
			if bad := errorsOf(t, strict, CheckFuncs{}); bad == nil || bad.Count != 1 || bad.First[0].Line != 2 {
				t.Errorf("%d bytes: Check found %v", size, bad)
			}
		}
	}
}

// C26: BOMs, CRLF, blank lines and a missing last newline.
func TestLineEnds(t *testing.T) {
	in := "\ufeff{\"id\":1,\"prompt\":\"x\"}\r\n\r\n\n  \t\n\ufeff\n\ufeff {\"id\":2,\"prompt\":\"y\"} \r\n{\"id\":3,\"prompt\":\"a\u2028b\"}\n{\"id\":4,\"messages\":[1]}\r"
	f := open(t, "p.jsonl", in, Options{})
	items, err := all(f)
	if err != nil || keys(items) != "1 2 3 4" {
		t.Fatalf("got items %s and error %v, want 1 2 3 4", keys(items), err)
	}
	for i, line := range []int{1, 6, 7, 8} {
		it := items[i]
		if it.Line != line || it.Index != i {
			t.Errorf("item %d: got line %d, index %d, want line %d", i, it.Line, it.Index, line)
		}
		if b := in[it.Offset:][:it.Size]; !strings.Contains(b, fmt.Sprintf(`{"id":%d,`, i+1)) || strings.ContainsAny(b, "\r\n") {
			t.Errorf("item %d: at %d there is %q", i, it.Offset, b)
		}
	}
	_, err = all(open(t, "p.jsonl", "\ufeff{\"id\":null,\"prompt\":\"x\"}", Options{}))
	if err == nil || err.Error() != `p.jsonl:1:10: "id" is null, want a string or a number` {
		t.Errorf("behind a BOM: got %v, want column 10", err)
	}
}

func gz(t testing.TB, s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	io.WriteString(w, s)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func zst(t testing.TB, s string) string {
	w, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	return string(w.EncodeAll([]byte(s), nil))
}

func TestCompressed(t *testing.T) {
	var plain strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&plain, `{"id":%d,"prompt":"the %d%dth"}`+"\n", i, i*7919, i*i)
	}
	for _, c := range []struct{ name, data string }{
		{"p.jsonl.gz", gz(t, plain.String())},
		{"p.jsonl.zst", zst(t, plain.String())},
		{"p.jsonl", gz(t, plain.String())}, // known by its bytes
		{"two-members.gz", gz(t, plain.String()[:len(plain.String())/2]) + gz(t, plain.String()[len(plain.String())/2:])},
	} {
		f := open(t, c.name, c.data, Options{})
		if f.CanReload() {
			t.Errorf("%s: an archive can be read at a position", c.name)
		}
		for range 2 {
			if bad := errorsOf(t, f, CheckFuncs{}); bad != nil {
				t.Errorf("%s: Check found %v", c.name, bad)
			}
			items, err := all(f)
			if err != nil || len(items) != 3000 || items[2999].Key != "2999" {
				t.Errorf("%s: got %d items and error %v, want 3000", c.name, len(items), err)
			}
		}
		piped, err := Open("-", Options{Stdin: strings.NewReader(c.data)})
		if err != nil {
			t.Fatal(err)
		}
		if items, err := all(piped); err != nil || len(items) != 3000 {
			t.Errorf("%s piped: got %d items and error %v, want 3000", c.name, len(items), err)
		}
		for _, cut := range []int{len(c.data) - 1, len(c.data) / 2, 20} {
			f := open(t, c.name, c.data[:cut], Options{})
			_, err := all(f)
			_, line := errors.AsType[*LineError](err)
			if err == nil || line || !strings.Contains(err.Error(), "data is cut off") {
				t.Errorf("%s cut at %d: Items ended with %v, want a cut archive", c.name, cut, err)
			}
			err = f.Check(t.Context(), CheckFuncs{})
			if err == nil || !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s cut at %d: Check returned %v", c.name, cut, err)
			}
		}
		spoilt := []byte(c.data)
		for i := len(spoilt) / 2; i < len(spoilt)/2+40; i++ {
			spoilt[i] ^= 0x5a
		}
		if _, err := all(open(t, c.name, string(spoilt), Options{LetThrough: true})); err == nil {
			t.Errorf("%s corrupt: no error", c.name)
		}
	}
}

func TestOpenErrors(t *testing.T) {
	dir := t.TempDir()
	write := func(name, s string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(s), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		path string
		o    Options
		want string
	}{
		{filepath.Join(dir, "none.jsonl"), Options{}, "no such file"},
		{dir, Options{}, "is a folder"},
		{write("x.gz", `{"id":1}`), Options{}, "not compressed so"},
		{write("y.zst", ""), Options{}, "not compressed so"},
		{write("z.csv", "a,b\n"), Options{}, "needs a template"},
		{write("a.jsonl", ""), Options{IDField: "x"}, "--id-field"},
		{write("b.jsonl", ""), Options{Template: "{{.x", TemplateName: "t.tmpl"}, "t.tmpl: 1: unclosed action"},
	} {
		f, err := Open(c.path, c.o)
		if err == nil {
			f.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want %q", filepath.Base(c.path), err, c.want)
		}
	}
}

func TestEmptyFile(t *testing.T) {
	for _, in := range []string{"", "\n", "\r\n\r\n", "\ufeff", "  "} {
		f := open(t, "p.jsonl", in, Options{})
		items, err := all(f)
		if err != nil || len(items) != 0 {
			t.Errorf("%q: got %d items and error %v, want none", in, len(items), err)
		}
		if bad := errorsOf(t, f, CheckFuncs{}); bad != nil {
			t.Errorf("%q: Check found %v", in, bad)
		}
	}
}

func TestStat(t *testing.T) {
	f := open(t, "p.jsonl", "", Options{})
	info, ok := f.Stat()
	same, err := os.Stat(f.file.Name())
	if err != nil || !ok || !os.SameFile(info, same) {
		t.Errorf("got %v, %t: want the file at the path", info, ok)
	}
	stdin, err := os.Open(f.file.Name())
	if err != nil {
		t.Fatal(err)
	}
	defer stdin.Close()
	p, err := Open("-", Options{Stdin: stdin})
	if err != nil {
		t.Fatal(err)
	}
	if info, ok := p.Stat(); !ok || !os.SameFile(info, same) {
		t.Error("standard input from a file: want that file's Stat")
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := stdin.Stat(); err != nil {
		t.Errorf("Close closed standard input: %v", err)
	}
}

func TestReload(t *testing.T) {
	lines := []string{`{"id":"a","prompt":"p\n","system":"s","params":{"n":1}}`, "", "\ufeff" + `{"n":1.0,"id":"b","messages":[1],"metadata":{},"z":2}` + "\r",
		`{"messages":[2]}`, `{"custom_id":"c","url":"/v1/chat/completions","body":{"model":"m"}}`, `{"custom_id":"d","params":{"model":"m"}}`}
	f := open(t, "p.jsonl", strings.Join(lines, "\n"), Options{})
	if !f.CanReload() {
		t.Fatal("a plain file cannot be read at a position")
	}
	items, err := all(f)
	if err != nil || len(items) != 5 {
		t.Fatalf("got %d items and error %v", len(items), err)
	}
	for _, it := range items {
		want := describe(it)
		it.Forget()
		if it.Prompt+it.System+string(it.Body)+string(it.Params) != "" || it.Key == "" {
			t.Errorf("after Forget: %s", describe(it))
		}
		if err := f.Reload(it); err != nil {
			t.Fatal(err)
		}
		if got := describe(it); got != want {
			t.Errorf("after Reload\n got %s\nwant %s", got, want)
		}
		it.Forget()
	}
	w, err := os.OpenFile(f.file.Name(), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := w.WriteAt([]byte(`{"id":"b","prompt":"q\n"`), 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Reload(items[0]); err == nil || err.Error() != "line 1 of p.jsonl has changed since the run began" {
		t.Errorf("a changed line: got %v", err)
	}
	if err := w.Truncate(10); err != nil {
		t.Fatal(err)
	}
	if err := f.Reload(items[4]); err == nil {
		t.Error("a line cut off was read again")
	}
}

// An item owns its bytes: later lines do not change it.
func TestItemsAreFresh(t *testing.T) {
	f := lines(t, 2000, chatLine)
	items, err := all(f)
	if err != nil {
		t.Fatal(err)
	}
	for i, it := range items {
		want := strings.Replace(chatLine(i), fmt.Sprintf(`"id":"item-%07d",`, i), "", 1)
		if string(it.Body) != want || it.Key != fmt.Sprintf("item-%07d", i) || string(it.ID) != `"`+it.Key+`"` {
			t.Fatalf("item %d\n got %s %s\nwant %s", i, it.ID, it.Body, want)
		}
	}
}
