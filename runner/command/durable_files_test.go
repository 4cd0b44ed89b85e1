package command_test

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"llmbatch/runner/command"
)

// C32: a second run on the same file, as when cron starts before the last night
// is over, is refused with its own words, and the first is not disturbed: rows of
// 300 KB stay whole.
func TestOverlappingRuns(t *testing.T) {
	t.Parallel()
	s := newStory(t, 16)
	first := s.launch(launch{}, s.args("ok?latency=60ms&size=150000", "--concurrency", "4", "--fixed")...)
	s.served(4)
	_ = first.Process.Signal(syscall.SIGSTOP) // it keeps its lock, however slow the others are
	link := s.out + ".link"
	if err := os.Symlink(s.out, link); err != nil {
		t.Fatal(err)
	}
	for _, more := range [][]string{nil, {"-o", link}, {"--fresh"}} {
		code, said := s.run("ok?size=150000", more...)
		s.expect(code, said, 2, "out.jsonl: another run is writing this file", "hint: wait until it ends")
	}
	_ = first.Process.Signal(syscall.SIGCONT)
	s.expect(first.code(), first.said.String(), 0, "16 ok")
	if n, rows := s.mock.Stats().Count, lines(t, content(s.out)); len(rows) != 16 || n != 16 {
		t.Errorf("got %d rows after %d requests, want 16 and 16", len(rows), n)
	}
}

// The output is the input under whatever name, and nothing happens to it.
func TestOutputIsInput(t *testing.T) {
	t.Parallel()
	s := newStory(t, 3)
	was := content(s.in)
	sym, hard := s.in+".sym", s.in+".hard"
	if err := os.Symlink(s.in, sym); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(s.in, hard); err != nil {
		t.Fatal(err)
	}
	open := func(flag int) *os.File {
		f, err := os.OpenFile(s.in, flag, 0)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return f
	}
	for name, c := range map[string]struct {
		in, out string
		more    string
		stdin   io.Reader
		stdout  io.Writer
	}{
		"same":      {s.in, s.in, "", nil, nil},
		"symlink":   {s.in, sym, "--fresh", nil, nil},
		"hard link": {s.in, hard, "--fresh", nil, nil},
		"stdin":     {"-", s.in, "--fresh", open(os.O_RDONLY), nil},
		"stdout":    {s.in, "-", "", nil, open(os.O_WRONLY | os.O_APPEND)},
		"summary":   {s.in, s.out + ".1", "--summary=" + s.in, nil, nil},
		"metrics":   {s.in, s.out + ".2", "--metrics-textfile=" + sym, nil, nil},
	} {
		args := append([]string{"llmbatch"}, s.args("ok", strings.Fields(c.more)...)...)
		args[2], args[4] = c.in, c.out
		var said bytes.Buffer
		code := command.Main(args, c.stdin, c.stdout, &said)
		s.expect(code, said.String(), 2, "input", "hint: ")
		if content(s.in) != was {
			t.Fatalf("%s: the input was changed to %q", name, content(s.in))
		}
	}
	// Nor may the summary take the place of the results.
	code, said := s.run("ok?latency=1ms", "--summary", s.out)
	s.expect(code, said, 2, "--summary", "hint: ")
	if n := s.mock.Stats().Count; n != 0 {
		t.Errorf("got %d requests, want none", n)
	}
	if names, _ := filepath.Glob(filepath.Dir(s.in) + "/*"); len(names) != 3 {
		t.Errorf("got %v, want the input and its links", names)
	}
}

// Places where no results can be: each says so before anything is sent.
func TestOutputPlaces(t *testing.T) {
	t.Parallel()
	s := newStory(t, 3)
	dir := openFolder(t)
	s.in = filepath.Join(dir, "p.jsonl")
	put(t, s.in, `{"id":"a","prompt":"x"}`+"\n")
	if err := os.Chmod(s.in, 0o644); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{"readonly": 0o555, "closed": 0o700, "open": 0o777} {
		sub := filepath.Join(dir, name)
		if err := os.Mkdir(sub, 0o700); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(sub, "theirs.jsonl"), "")
		if name == "closed" && os.Getuid() != 0 {
			mode = 0
			t.Cleanup(func() { _ = os.Chmod(sub, 0o700) })
		}
		if err := os.Chmod(sub, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "open/folder"), 0o777); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Join(dir, "open/theirs.jsonl"), 0o444); err != nil {
		t.Fatal(err)
	}
	for out, says := range map[string]string{ // which root is refused too
		"missing/out.jsonl": "missing, does not exist",
		"open/folder":       "is a directory",
		"p.jsonl/out.jsonl": "not a ",
		"open/out.jsonl.gz": "the output can't be compressed",
		"open/out.ZST":      "the output can't be compressed",
	} {
		s.out = filepath.Join(dir, out)
		code, said := s.run("ok")
		s.expect(code, said, 2, says)
	}
	for out, says := range map[string]string{
		"readonly/out.jsonl": "readonly, can't be written to: permission denied",
		"closed/out.jsonl":   "permission denied",
		"open/theirs.jsonl":  "theirs.jsonl: permission denied",
	} {
		args := s.args("ok")
		args[3] = filepath.Join(dir, out)
		p := s.launch(launch{nobody: true}, args...)
		s.expect(p.code(), p.said.String(), 2, says)
	}
	if n := s.mock.Stats().Count; n != 0 {
		t.Errorf("got %d requests, want none", n)
	}
	args := s.args("ok?latency=1ms")
	args[3] = filepath.Join(dir, "open/out.jsonl")
	p := s.launch(launch{nobody: true}, args...)
	s.expect(p.code(), p.said.String(), 0, "1 ok")
}

// The rewrite keeps the file's mode and, where the system lets it, its owner.
func TestRewriteKeepsModeAndOwner(t *testing.T) {
	t.Parallel()
	s := newStory(t, 5)
	put(t, s.out, doneTwice(4))
	uid, gid := os.Getuid(), os.Getgid()
	if uid == 0 {
		uid, gid = 65534, 65534
	}
	if err := os.Chmod(s.out, 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(s.out, uid, gid); err != nil {
		t.Fatal(err)
	}
	code, said := s.run("ok?latency=1ms")
	s.expect(code, said, 0, "1 ok", "4 done before")
	info, err := os.Stat(s.out)
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	if info.Mode().Perm() != 0o640 || int(stat.Uid) != uid || int(stat.Gid) != gid {
		t.Errorf("got %v of %d:%d, want -rw-r----- of %d:%d", info.Mode(), stat.Uid, stat.Gid, uid, gid)
	}
	if n := len(lines(t, content(s.out))); n != 5 {
		t.Errorf("got %d rows, want 5", n)
	}
}

// C30: what was changed in the input between two runs decides what is sent, and
// no answer is ever given to another prompt.
func TestInputChanged(t *testing.T) {
	const a, b, c = `{"id":"a","prompt":"1"}`, `{"id":"b","prompt":"2"}`, `{"id":"c","prompt":"3"}`
	const x, y, z = `{"prompt":"1"}`, `{"prompt":"2"}`, `{"prompt":"3"}` // ids of their contents
	for _, tt := range []struct {
		name, before, after, flags string
		code                       int
		says                       []string
		asked                      string // prompts of the second run
		rows                       int
	}{
		{"same", a + b, a + b, "", 0, []string{"nothing to do"}, "", 2},
		{"row inserted", a + b, c + a + b, "", 0, []string{"1 ok", "2 done before"}, "3", 3},
		{"row removed", a + b, b, "", 0, []string{"1 answer belongs to", "no longer in", "kept"}, "", 2},
		{"reordered", a + b + c, c + a + b, "", 0, []string{"nothing to do"}, "", 3},
		{"edited", a + b, a + `{"id":"b","prompt":"other"}`, "", 2, []string{"1 line has changed", ":2: \"b\" already has an answer", "--on-changed rerun"}, "", 2},
		{"edited, rerun", a + b, a + `{"id":"b","prompt":"other"}`, "--on-changed rerun", 0, []string{"1 ok", "1 done before"}, "other", 2},
		{"ids swapped", a + b, `{"id":"b","prompt":"1"}{"id":"a","prompt":"2"}`, "", 2, []string{"2 lines have changed"}, "", 2},
		{"only metadata", a, `{"id":"a","prompt":"1","metadata":{"k":1}}`, "", 0, []string{"nothing to do"}, "", 1},
		{"another input", a + b, `{"id":"d","prompt":"4"}`, "", 0, []string{"none of the 2 answers in", "kept"}, "4", 3},
		{"id repeated", a, a + `{"id":"a","prompt":"2"}`, "", 2, []string{":2:", "nothing was sent"}, "", 1},
		{"1 and \"1\"", a, `{"id":1,"prompt":"2"}{"id":"1","prompt":"2"}`, "", 2, []string{":2:", "nothing was sent"}, "", 1},
		{"without ids, inserted", x + y, z + x + y, "", 0, []string{"1 ok"}, "3", 3},
		{"without ids, repeated", x + y, x + x + y, "", 0, []string{"1 ok"}, "1", 3}, // C29
		{"without ids, edited", x + y, x + z, "", 0, []string{"1 answer belongs to", "no longer in"}, "3", 3},
		{"model changed", a + b, a + b, "--model other", 2, []string{"2 lines have changed", "--model"}, "", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t, 0)
			split := func(text string) string { return strings.ReplaceAll(text, "}{", "}\n{") + "\n" }
			put(t, s.in, split(tt.before))
			if code, said := s.run("ok?echo=yes&latency=1ms"); code != 0 {
				t.Fatalf("got exit %d:\n%s", code, said)
			}
			put(t, s.in, split(tt.after))
			was, before := content(s.out), s.mock.Stats().Count
			code, said := s.run("ok?echo=yes&latency=1ms", strings.Fields(tt.flags)...)
			s.expect(code, said, tt.code, tt.says...)
			var asked []string
			for _, r := range s.mock.Log(s.mock.Stats().Count - before) {
				asked = append(asked, r.Prompt)
			}
			if got := strings.Join(asked, " "); s.mock.Stats().Count-before != len(asked) || got != tt.asked {
				t.Errorf("got %q asked, want %q", got, tt.asked)
			}
			if got := lines(t, content(s.out)); len(got) != tt.rows {
				t.Errorf("got %d rows, want %d", len(got), tt.rows)
			}
			if tt.asked == "" && content(s.out) != was {
				t.Errorf("got other bytes, want the same")
			}
		})
	}
}

// A pipe can't be checked beforehand: the run ends at the line that was changed.
func TestInputChangedInAPipe(t *testing.T) {
	t.Parallel()
	s := newStory(t, 3)
	args := append([]string{"run", "-"}, s.args("ok?latency=1ms")[2:]...)
	p := s.launch(launch{stdin: strings.NewReader(content(s.in))}, args...)
	s.expect(p.code(), p.said.String(), 0, "3 ok")
	edited := strings.Replace(content(s.in), "say 1", "other", 1)
	was := content(s.out)
	p = s.launch(launch{stdin: strings.NewReader(edited)}, args...)
	s.expect(p.code(), p.said.String(), 2, `:2: "q1" already has an answer`, "--on-changed rerun")
	if content(s.out) != was || s.mock.Stats().Count != 3 {
		t.Errorf("got %d requests, want 3, and the same bytes", s.mock.Stats().Count)
	}
	p = s.launch(launch{stdin: strings.NewReader(edited)}, append(args, "--on-changed", "rerun")...)
	s.expect(p.code(), p.said.String(), 0, "1 ok")
	if n := s.mock.Stats().Count; n != 4 || len(lines(t, content(s.out))) != 3 {
		t.Errorf("got %d requests and %d rows, want 4 and 3", n, len(lines(t, content(s.out))))
	}
}

// C28, and files that are no results: each is refused with its own sentence, and
// neither it nor the server notices.
func TestOutputIsSomethingElse(t *testing.T) {
	t.Parallel()
	s := newStory(t, 3)
	ok := `{"id":"q0","status":"ok","index":0}` + "\n"
	for name, c := range map[string]struct{ text, says, hint string }{
		"an input":           {content(s.in), "out.jsonl:1: this is not a results file of llmbatch", "choose another file"},
		"another tool's":     {`{"custom_id":"q0","response":{}}` + "\n", "out.jsonl:1: this is not a results file of llmbatch", "choose another file"},
		"a broken line":      {ok + `{"id":"q1","sta` + "\n" + ok, "out.jsonl:2: broken row", "mend or remove that line"},
		"a line glued on":    {ok + `{"id":"q1","sta` + ok + ok, "out.jsonl:2: broken row", "mend or remove that line"},
		"zeros":              {ok + ok + strings.Repeat("\x00", 4096) + "\n" + ok, "out.jsonl:3: broken row", "mend or remove that line"},
		"text":               {"hello\nworld\n", "out.jsonl:1: ", "mend or remove that line"},
		"text without a LF":  {"hello", "out.jsonl:1: this is not a results file of llmbatch", "choose another file"},
		"an archive":         {"\x1f\x8b\x08\x00\x00\n\x00\x00\n", "out.jsonl:1: ", "mend or remove that line"},
		"a status not known": {`{"id":"q0","status":"done"}` + "\n", "out.jsonl:1: this is not a results file of llmbatch", "choose another file"},
	} {
		put(t, s.out, c.text)
		code, said := s.run("ok")
		s.expect(code, said, 2, c.says, "hint: "+c.hint)
		if content(s.out) != c.text {
			t.Errorf("%s: got %q, want it untouched", name, content(s.out))
		}
	}
	if n := s.mock.Stats().Count; n != 0 {
		t.Errorf("got %d requests, want none", n)
	}
}

// --fresh starts over and never overwrites what an earlier one put aside.
func TestFreshKeepsEachOld(t *testing.T) {
	t.Parallel()
	s := newStory(t, 2)
	var old []string
	keys := map[string]bool{}
	for n := range 3 {
		code, said := s.run("ok?latency=1ms", "--fresh")
		s.expect(code, said, 0, "2 ok")
		old = append(old, content(s.out))
		for _, r := range lines(t, content(s.out)) {
			keys[r.IdempotencyKey] = true
			if len(r.Attempts) != 1 {
				t.Errorf("run %d: got %d attempts, want 1", n, len(r.Attempts))
			}
		}
	}
	if content(s.out+".bak") != old[0] || content(s.out+".bak1") != old[1] {
		t.Error("want both old files as they were")
	}
	if len(keys) != 6 {
		t.Errorf("got %d idempotency keys, want a new one for each of 6 requests", len(keys))
	}
	// Refused before it begins: the old file stays where it is.
	put(t, s.in, "{bad\n")
	code, said := s.run("ok", "--fresh")
	s.expect(code, said, 2, "nothing was sent")
	if content(s.out) != old[2] {
		t.Error("a refused input moved the results aside")
	}
	if got, _ := filepath.Glob(s.out + "*"); len(got) != 3 {
		t.Errorf("got %v, want three files", got)
	}
	if n := s.mock.Stats().Count; n != 6 {
		t.Errorf("got %d requests, want 6", n)
	}
}
