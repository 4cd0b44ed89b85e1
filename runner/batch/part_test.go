package batch

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"llmbatch/runner/provider"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// A batch is created only where it is certain that there is none.
func TestNext(t *testing.T) {
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for _, tt := range []struct {
		name    string
		p       part
		uploads bool
		want    action
	}{
		{"planned, with its input", part{spool: f}, true, upload},
		{"planned, the input is the creation", part{spool: f}, false, create},
		{"planned, after a restart", part{}, true, free},
		{"an upload without an answer", part{phase: uploading, spool: f}, true, findFile},
		{"uploaded", part{phase: uploaded}, true, create},
		{"a creation without an answer", part{phase: creating, spool: f}, true, find},
		{"not yet due", part{phase: open, due: noon.Add(1)}, true, rest},
		{"open", part{phase: open, due: noon}, true, look},
		{"to be cancelled", part{phase: open, cancel: true}, true, stopIt},
		{"being cancelled", part{phase: open, cancel: true, asked: noon}, true, look},
		{"ended", part{phase: ended}, true, fetch},
		{"ended, and perhaps not ours", part{phase: ended, unproven: true}, false, prove},
		{"refused", part{phase: refused}, true, free},
	} {
		if got := tt.p.next(noon, tt.uploads); got != tt.want {
			t.Errorf("%s: action %d, want %d", tt.name, got, tt.want)
		}
	}
}

// Only the last of three looks makes certain that a creation made nothing.
func TestNotFound(t *testing.T) {
	const every = 30 * time.Second
	p := part{phase: creating, at: noon, file: "file-1"}
	var looks []time.Duration
	for now := noon.Add(time.Second); p.phase == creating; now = p.due {
		looks = append(looks, now.Sub(noon))
		p.notFound(now, every)
	}
	if want := []time.Duration{time.Second, every, 2 * every, 4 * every}; !slices.Equal(looks, want) || p.phase != uploaded {
		t.Errorf("looks at %v, then phase %d; want %v", looks, p.phase, want)
	}
}

func TestCandidate(t *testing.T) {
	batch := func(id, tag, file string, n int, age time.Duration) provider.BatchState {
		return provider.BatchState{ID: id, Tag: tag, File: file, Total: n, Created: noon.Add(age)}
	}
	for _, tt := range []struct {
		name   string
		list   []provider.BatchState
		named  bool
		want   string
		proven bool
	}{
		{"by its tag", []provider.BatchState{batch("b", "s-7", "", 0, 0)}, true, "b", true},
		{"by its input", []provider.BatchState{batch("b", "", "file-1", 0, 0)}, true, "b", true},
		{"another's of the same size", []provider.BatchState{batch("b", "x-7", "file-2", 9, 0)}, true, "", false},
		{"by size and time, unproven", []provider.BatchState{batch("b", "", "", 9, time.Second)}, false, "b", false},
		{"another size", []provider.BatchState{batch("b", "", "", 8, time.Second)}, false, "", false},
		{"too old", []provider.BatchState{batch("b", "", "", 9, -2*time.Minute)}, false, "", false},
		{"another part's", []provider.BatchState{batch("taken", "", "", 9, time.Second)}, false, "", false},
		{"the first made of two", []provider.BatchState{batch("late", "", "", 9, 9*time.Second), batch("b", "", "", 9, time.Second)}, false, "b", false},
	} {
		p := part{n: 9, at: noon, file: "file-1"}
		s, proven, ok := p.candidate(tt.list, "s-7", tt.named, map[string]bool{"taken": true}, noon.Add(time.Minute))
		if s.ID != tt.want || proven != tt.proven || ok != (tt.want != "") {
			t.Errorf("%s: %q, proven %t", tt.name, s.ID, proven)
		}
	}
}

const headLine = `{"t":"head","v":1,"salt":"abc","provider":"openai","base":"https://api.openai.com/v1","key":"sha256:00","created":"2026-03-01T12:00:00Z"}` + "\n"

func TestJournal(t *testing.T) {
	path := filepath.Join(t.TempDir(), "p.batches.jsonl")
	j, parts, err := openJournal(path)
	if err != nil || len(parts) > 0 {
		t.Fatal(parts, err)
	}
	if err := j.begin(Head{Type: "head", Version: 1, Salt: "abc"}); err != nil {
		t.Fatal(err)
	}
	m := member{custom: "abc-1-0-00", id: json.RawMessage(`9007199254740993`), index: 4, hash: "sha256:11"}
	for _, r := range []record{
		{Type: "part", Part: 1, N: 1, Items: []member{m}, Reserve: 1.5},
		{Type: "part", Part: 2, N: 1, Items: []member{m}},
		{Type: "create", Part: 1, At: &noon}, {Type: "batch", Part: 1, ID: "batch_1"}, {Type: "end", Part: 2},
	} {
		if err := j.put(r); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	// A line that was being written when the process ended is cut off.
	f, _ := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	f.WriteString(`{"t":"end","p":1`)
	f.Close()
	j, parts, err = openJournal(path)
	if err != nil || len(parts) != 1 || parts[0].id != "batch_1" || parts[0].phase != open || parts[0].reserve != 1.5 {
		t.Fatalf("%+v, %v", parts, err)
	}
	got, err := j.members(parts[0])
	if err != nil || len(got) != 1 || got[0].custom != m.custom || got[0].key() != "9007199254740993" || got[0].index != 4 {
		t.Errorf("%+v, %v", got, err)
	}
	if err := j.close(parts); err != nil {
		t.Fatal(err)
	}
	if data, _ := os.ReadFile(path); strings.Contains(string(data), `"p":2`) || strings.Count(string(data), "\n") != 4 {
		t.Errorf("kept:\n%s", data)
	}
	j, _, _ = openJournal(path)
	if err := j.close(nil); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Error("the journal of nothing is still there")
	}
}

func TestBrokenJournal(t *testing.T) {
	for name, text := range map[string]string{
		"two runs' journals":        headLine + `{"t":"part","p":1,"n":1}` + "\n" + headLine,
		"two runs' parts":           headLine + `{"t":"part","p":1,"n":1}` + "\n" + `{"t":"part","p":1,"n":2}` + "\n",
		"no head":                   `{"t":"part","p":1,"n":1}` + "\n",
		"another version":           strings.Replace(headLine, `"v":1`, `"v":9`, 1),
		"a line of an unknown part": headLine + `{"t":"end","p":4}` + "\n",
		"no JSON":                   headLine + "oops\n",
	} {
		path := filepath.Join(t.TempDir(), "j")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, _, err := openJournal(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", name, err)
		}
		if data, _ := os.ReadFile(path); string(data) != text {
			t.Errorf("%s: it was changed", name)
		}
	}
}
