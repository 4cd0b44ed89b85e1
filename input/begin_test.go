package input

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Items begin at the place that Begin names, with the numbers that they have from
// the beginning; where an id depends on the lines before it, nothing changes.
func TestBegin(t *testing.T) {
	named := `{"id":"a","prompt":"1"}

{"id":"b","prompt":"2"}
{"id":"c","prompt":"3"}
{"id":"d","prompt":"4"}
`
	for _, c := range []struct {
		name, text string
		can        bool
	}{
		{"ids", named, true},
		{"no ids", strings.ReplaceAll(named, `"id":"a",`, ""), false},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "p.jsonl")
			if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
				t.Fatal(err)
			}
			f, err := Open(path, Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			var all []Item
			err = f.Check(t.Context(), CheckFuncs{
				Prepare: func(*Item) (uint64, error) { return 0, nil },
				Each: func(it *Item, _ uint64) error {
					all = append(all, Item{Index: it.Index, Line: it.Line, Offset: it.Offset, Key: strings.Clone(it.Key)})
					return nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			if got := f.Begin(&all[2]); got != c.can {
				t.Fatalf("Begin says %v, want %v", got, c.can)
			}
			want := all
			if c.can {
				want = all[2:]
			}
			var got []Item
			for it, err := range f.Items() {
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, Item{Index: it.Index, Line: it.Line, Offset: it.Offset, Key: it.Key})
				it.Forget()
				if err := f.Reload(it); err != nil {
					t.Error(err)
				}
			}
			if len(got) != len(want) {
				t.Fatalf("%d items, want %d", len(got), len(want))
			}
			for i := range got {
				if got[i].Index != want[i].Index || got[i].Line != want[i].Line || got[i].Offset != want[i].Offset || got[i].Key != want[i].Key {
					t.Errorf("got %+v, want %+v", got[i], want[i])
				}
			}
		})
	}
}
