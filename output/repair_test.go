package output

import (
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// C27: at every cut of the last row the file is repaired to the whole rows.
func TestTornTailAtEveryCut(t *testing.T) {
	whole := lines(row("a", OK, 0))
	last := lines(&Result{Key: "b", Status: OK, Text: "本\n"})
	for _, head := range [][]byte{nil, whole} {
		for cut := range len(last) {
			path := tempFile(t, slices.Concat(head, last[:cut]))
			f := mustOpen(t, path, Options{})
			want, said := string(head), "cut off"
			switch cut {
			case 0:
				said = ""
			case len(last) - 1: // only the newline lacks
				want, said = string(head)+string(last), "added"
			}
			if got := read(t, path); got != want {
				t.Fatalf("cut at %d: got %q, want %q", cut, got, want)
			}
			if got := f.Repaired(); !strings.Contains(got, said) || said == "" && got != "" {
				t.Errorf("cut at %d: got %q, want %q", cut, got, said)
			}
			if got, want := f.Index().Len(), strings.Count(want, "\n"); got != want {
				t.Errorf("cut at %d: got %d rows, want %d", cut, got, want)
			}
			mustWrite(t, f, row("c", OK, 2))
			mustClose(t, f, CloseOptions{})
			if got := read(t, path); got != want+string(lines(row("c", OK, 2))) {
				t.Errorf("cut at %d: got %q after another row", cut, got)
			}
			os.Remove(path)
		}
	}
}

// C28: what is broken in the middle is reported with its place and left alone.
func TestBrokenFilesAreRefusedUntouched(t *testing.T) {
	a, b := string(lines(row("a", OK, 0))), string(lines(row("b", OK, 1)))
	tests := []struct {
		name, content string
		want          error
	}{
		{"torn and glued", a + b[:len(b)-20] + a + b, &BrokenRowError{Line: 2, Offset: int64(len(a)), Cause: errNotObject.Error()}},
		{"torn in a rune", a + a[:strings.Index(a, "本")+1] + b, &BrokenRowError{Line: 2, Offset: int64(len(a)), Cause: errNotObject.Error()}},
		{"zeros", a + "\n" + strings.Repeat("\x00", 100) + "\n" + b, &BrokenRowError{Line: 3, Offset: int64(len(a)) + 1, Cause: errNotObject.Error()}},
		{"two on a line", a + strings.TrimSpace(a) + b, &BrokenRowError{Line: 2, Offset: int64(len(a)), Cause: errNotObject.Error()}},
		{"two rows mixed", a + a[:40] + b[:40] + a[40:], &BrokenRowError{Line: 2, Offset: int64(len(a)), Cause: errNotObject.Error()}},
		{"no id", a + `{"status":"ok"}` + "\n", &ForeignError{Line: 2, Cause: "a row has no id"}},
		{"an input", `{"id":"q","prompt":"x"}` + "\n", &ForeignError{Line: 1, Cause: "a row has no status, or an unknown one"}},
		{"an input without newline", `{"id":"q","prompt":"x"}`, &ForeignError{Line: 1, Cause: "a row has no status, or an unknown one"}},
		{"not JSON", "hello", &ForeignError{Line: 1, Cause: "its only line is no row"}},
		{"an array", "[]\n", &BrokenRowError{Line: 1, Cause: errNotObject.Error()}},
	}
	for _, tt := range tests {
		path := tempFile(t, []byte(tt.content))
		switch want := tt.want.(type) {
		case *BrokenRowError:
			want.Path = path
		case *ForeignError:
			want.Path = path
		}
		if _, err := Open(path, Options{}); !reflect.DeepEqual(err, tt.want) {
			t.Errorf("%s: got %v, want %v", tt.name, err, tt.want)
		}
		if got := read(t, path); got != tt.content {
			t.Errorf("%s: got %q, want it untouched", tt.name, got)
		}
		if _, err := os.Stat(path + ".bak"); err == nil {
			t.Errorf("%s: got a copy, want none", tt.name)
		}
	}
}
