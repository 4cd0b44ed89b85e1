package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// slowIndex reads a file as encoding/json does: for each key the offset and
// status of its last row. bad is the offset of the first line that is no row, or -1.
func slowIndex(content []byte) (last map[string]Row, bad int64) {
	last = map[string]Row{}
	var offset int64
	for line := range bytes.Lines(content) {
		at := offset
		offset += int64(len(line))
		if len(bytes.Trim(line, " \t\r\n")) == 0 {
			continue
		}
		var row struct {
			ID     json.RawMessage
			Status Status
			Hash   string
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(line, &members) != nil || members == nil {
			return last, at
		}
		row.ID = members["id"]
		json.Unmarshal(members["status"], &row.Status)
		json.Unmarshal(members["request_hash"], &row.Hash)
		_, known := statusCode(row.Status)
		if len(row.ID) == 0 || !isID(row.ID) || !known {
			return last, at
		}
		key := string(row.ID)
		if row.ID[0] == '"' {
			json.Unmarshal(row.ID, &key)
		}
		last[key] = Row{Status: row.Status, Hash: HashOf(row.Hash), Offset: at}
	}
	return last, -1
}

// testSection is small, so that rows lie across many sections.
const testSection = 4 << 10

func checkScan(t *testing.T, content []byte) {
	t.Helper()
	want, bad := slowIndex(content)
	x, err := scanSections(bytes.NewReader(content), "f", int64(len(content)), testSection, false)
	if bad >= 0 {
		line := bytes.Count(content[:bad], []byte("\n")) + 1
		broken, isBroken := errors.AsType[*BrokenRowError](err)
		foreign, isForeign := errors.AsType[*ForeignError](err)
		switch {
		case isBroken && broken.Line == line && broken.Offset == bad:
		case isForeign && foreign.Line == line:
		default:
			t.Fatalf("%.300q: got %v, want line %d refused", content, err, line)
		}
		return
	}
	if err != nil {
		t.Fatalf("%.300q: got %v, want none", content, err)
	}
	if x.Len() != len(want) {
		t.Errorf("%.300q: got %d ids, want %d", content, x.Len(), len(want))
	}
	for key, row := range want {
		if got, ok := x.Lookup(key); !ok || got != row {
			t.Errorf("%.300q: got %+v, %v for %q, want %+v", content, got, ok, key, row)
		}
	}
}

// The scan finds what a slow reading with encoding/json finds.
func FuzzScan(f *testing.F) {
	a, b := string(lines(row("a", OK, 0))), string(lines(row("b", Waiting, 1)))
	for _, s := range []string{"", a, a + b, a + b + a, a + b[:20] + a, "\n \r\n" + a, a + `{"status":"ok","id":1}` + "\n",
		`{"id":1,"status":"ok","request_hash":"sha256:0011223344556677"}` + "\n" + `{"id":"1","status":"failed"}` + "\n",
		`{"id":"\u0061","status":"\u006fk"}` + "\n", `{"id":[],"status":"ok"}` + "\n", `{"id":1,"status":null}` + "\n",
		"[]\n", "\x00\n", `{"id":"x","status":"ok","request_hash":7,"idempotency_key":7}` + "\n"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		if strings.ToValidUTF8(s, "") != s {
			return // which bytes become U+FFFD, and whether twice, differs
		}
		checkScan(t, []byte(s))
	})
}

// Sections, goroutines and rows that lie across them.
func TestScanInSections(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	var content []byte
	for i := 0; len(content) < 600*testSection; i++ {
		r := row(strconv.Itoa(rng.IntN(3000)), []Status{OK, Failed, Waiting}[rng.IntN(3)], i)
		r.Text = strings.Repeat("x", rng.IntN(2000))
		if i%300 == 0 {
			r.Text = strings.Repeat("\"é", 100_000)
		}
		content = AppendRow(content, r)
		if i%100 == 0 {
			content = append(content, '\n')
		}
	}
	checkScan(t, content)
	// A broken row in each section: the first is the one that is told.
	for at := 3 * len(content) / 4; at > 0; at -= 50 * testSection {
		i := bytes.IndexByte(content[at:], '\n')
		content[at+i-1] = ' '
		_, want := slowIndex(content)
		_, err := scanSections(bytes.NewReader(content), "f", int64(len(content)), testSection, false)
		if broken, ok := errors.AsType[*BrokenRowError](err); !ok || broken.Offset != want {
			t.Errorf("got %v, want the broken row at %d", err, want)
		}
	}
}

// A line longer than a section, and one that begins exactly where a section does.
func TestScanAtSectionEdges(t *testing.T) {
	frame := len(lines(&Result{Key: "a", Status: OK, Text: "x"})) - 1
	for _, length := range []int{testSection - 1, testSection, testSection + 1, 2*testSection + 5} {
		first := lines(&Result{Key: "a", Status: OK, Text: strings.Repeat("x", length-frame)})
		if len(first) != length {
			t.Fatalf("got a row of %d bytes, want %d", len(first), length)
		}
		checkScan(t, append(first, lines(row("b", OK, 1), row("c", OK, 2))...))
	}
}

func TestIndexOfManyRows(t *testing.T) {
	path := filepath.Join(t.TempDir(), "r.jsonl")
	const n = 3*blockSize + 17
	var content []byte
	for i := range n {
		content = fmt.Appendf(content, `{"id":%d,"status":"ok"}`+"\n", i)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		t.Fatal(err)
	}
	f := mustOpen(t, path, Options{ReadOnly: true})
	defer f.Close(CloseOptions{})
	x := f.Index()
	for i := range n {
		if _, ok := x.Lookup(strconv.Itoa(i)); !ok {
			t.Fatalf("got nothing for %d, want its row", i)
		}
	}
	if _, ok := x.Lookup(strconv.Itoa(n)); ok || x.Len() != n {
		t.Errorf("got %d ids and %v for another, want %d and none", x.Len(), ok, n)
	}
	if perID := float64(len(x.blocks)*blockSize*24+len(x.table)*4) / n; perID > 40 {
		t.Errorf("got %.1f bytes an id, want 40 at most", perID)
	}
}

func TestHashOf(t *testing.T) {
	for s, want := range map[string]uint64{
		someHash:                  0x0011223344556677,
		"sha256:FFffffffffffffff": 1<<64 - 1,
		"sha256:123":              0,
		"sha256:x011223344556677": 0,
		"md5:0011223344556677889": 0,
		"":                        0,
	} {
		if got := HashOf(s); got != want {
			t.Errorf("%q: got %x, want %x", s, got, want)
		}
	}
}

// However a file ends, Open leaves whole rows only, keeps all that were whole, or
// refuses it untouched.
func FuzzRepair(f *testing.F) {
	whole, last := string(lines(row("a", OK, 0))), string(lines(row("b", OK, 1)))
	for cut := 0; cut < len(last); cut += 7 {
		f.Add(last[:cut])
	}
	f.Add(last + "\x00\x00")
	f.Add("  ")
	f.Add("{}")
	path := filepath.Join(f.TempDir(), "r.jsonl")
	f.Fuzz(func(t *testing.T, tail string) {
		if strings.Contains(tail, "\n") {
			return
		}
		if err := os.WriteFile(path, []byte(whole+tail), 0o600); err != nil {
			t.Fatal(err)
		}
		file, err := Open(path, Options{})
		got := read(t, path)
		if err != nil {
			if got != whole+tail {
				t.Errorf("%q: got %q beside %v, want it untouched", tail, got, err)
			}
			return
		}
		defer file.Close(CloseOptions{})
		if got != whole && (got != whole+tail+"\n" || !json.Valid([]byte(tail))) {
			t.Errorf("%q: got %q, want the whole rows", tail, got)
		}
	})
}
