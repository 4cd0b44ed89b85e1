package input

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The delimiter is found in the header, said by Excel's line sep=, or by the user.
func TestDelimiters(t *testing.T) {
	for _, c := range []struct{ name, asked, text, want string }{
		{"p.csv", "", "id,text\n1,\"a;b\"\n", `"1" prompt prompt=a;b`},
		{"p.csv", "", "id;text\n1;a,b\n", `"1" prompt prompt=a,b`},
		{"p.csv", "", "\"id,x\";text;id\n0;a;1\n", `"1" prompt prompt=a`},
		{"p.csv", "", "id\ttext\n1\ta\n", `"1" prompt prompt=a`},
		{"p.tsv", "", "id\ttext\n1\ta,b\n", `"1" prompt prompt=a,b`},
		{"p.csv", "", "\ufeffsep=;\r\nid;text\r\n1;a\r\n", `"1" prompt prompt=a`},
		{"p.csv", "", "sep=|\nid|text\n1|a,b\n", `"1" prompt prompt=a,b`},
		{"p.csv", "|", "id|text,;\tx\n1|a\n", ``},
		{"p.csv", "|", "id|text|x,y,z\n1|a|b\n", `"1" prompt prompt=a`},
		{"p.dat", "tab", "id\ttext\n1\ta\n", `"1" prompt prompt=a`},
	} {
		f := open(t, c.name, c.text, Options{Template: "{{.text}}", Delimiter: c.asked, Keep: "none"})
		items, err := all(f)
		if c.want == "" {
			if err == nil {
				t.Errorf("%q: no error", c.text)
			}
			continue
		}
		if err != nil || len(items) != 1 || describe(items[0]) != c.want {
			t.Errorf("%q: got %v and error %v, want %s", c.text, items, err, c.want)
			continue
		}
		line := strings.Count(strings.TrimRight(c.text, "\r\n"), "\n") + 1
		items[0].Forget()
		if err := f.Reload(items[0]); err != nil || describe(items[0]) != c.want || items[0].Line != line {
			t.Errorf("%q: read again, got line %d %s and error %v", c.text, items[0].Line, describe(items[0]), err)
		}
	}
	if _, err := Open("p.csv", Options{Delimiter: "ab"}); err == nil {
		t.Error("a delimiter of two characters passes")
	}
	f, err := Open("-", Options{Template: "{{.text}}", Delimiter: ";", Stdin: strings.NewReader("id;text\n1;a\n")})
	if err != nil {
		t.Fatal(err)
	}
	if items, err := all(f); err != nil || describe(items[0]) != `"1" prompt prompt=a input={"id":"1","text":"a"}` {
		t.Errorf("CSV in a pipe: got %v and error %v", items, err)
	}
	bad := errorsOf(t, open(t, "p.csv", "id;text\n1;a;b\n", Options{Template: "{{.text}}"}), CheckFuncs{})
	if bad == nil || !strings.Contains(bad.Error(), "3 fields, the header has 2") || !strings.Contains(bad.First[0].Hint, "';'") {
		t.Errorf("got %v", bad)
	}
}

// csv-from-excel: rows of nothing but delimiters are no items.
func TestBlankRows(t *testing.T) {
	f := open(t, "p.csv", "text,label\nfoo,x\n,\n , \n,\nbar,y\n,", Options{Template: "{{.text}}"})
	if bad := errorsOf(t, f, CheckFuncs{}); bad != nil || f.Blank() != 4 {
		t.Errorf("Check: got %v and %d blank rows, want 4", bad, f.Blank())
	}
	items, err := all(f)
	if err != nil || len(items) != 2 || items[1].Index != 1 || items[1].Line != 6 || f.Blank() != 4 {
		t.Errorf("got %v, error %v, %d blank rows", items, err, f.Blank())
	}
}

// --keep: columns and members travel along as they are, in their order.
func TestKeep(t *testing.T) {
	const table, line = "id,text,n\n1,\"say \"\"hi\"\"\",07\n", `{"id":1, "b":[1, 2],"text":"x","b":1.50}`
	for _, c := range []struct{ name, text, keep, want string }{
		{"p.csv", table, "", `{"id":"1","text":"say \"hi\"","n":"07"}`},
		{"p.csv", table, "all", `{"id":"1","text":"say \"hi\"","n":"07"}`},
		{"p.csv", table, "n, text", `{"text":"say \"hi\"","n":"07"}`},
		{"p.csv", table, "none", ""},
		{"p.jsonl", line, "", ""},
		{"p.jsonl", line, "b", `{"b":1.50}`},
		{"p.jsonl", line, "text,id,missing", `{"id":1,"text":"x"}`},
		{"p.jsonl", line, "all", line},
	} {
		items, err := all(open(t, c.name, c.text, Options{Template: "{{.text}}", Keep: c.keep}))
		if err != nil || string(items[0].Input) != c.want {
			t.Errorf("%s, keep %q: got %s and error %v, want %s", c.name, c.keep, items[0].Input, err, c.want)
		}
	}
	bad := errorsOf(t, open(t, "p.csv", table, Options{Template: "{{.text}}", Keep: "nn"}), CheckFuncs{})
	if bad == nil || !strings.Contains(bad.Error(), `no column "nn", which --keep names; there is "id", "text", "n"`) {
		t.Errorf("a column that is not there: got %v", bad)
	}
}

// --system and --params hold fields too.
func TestTemplatesOfSystemAndParams(t *testing.T) {
	o := Options{Template: "{{.q}}", System: "Answer in {{.lang}}.", Params: `{"user":"{{.q}}","seed":{{.n}},"stop":["x"],"model":"m-{{.lang}}"}`}
	items, err := all(open(t, "p.jsonl", `{"id":1,"q":"a \"b\"\n","lang":"de","n":7.0}`, o))
	want := `1 prompt model=m-de prompt=a "b"` + "\n" + ` system=Answer in de. params={"user":"a \"b\"\n","seed":7.0,"stop":["x"],"model":"m-de"}`
	if err != nil || describe(items[0]) != want {
		t.Errorf("got %v and error %v, want %s", describe(items[0]), err, want)
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Template: "{{.q}}", System: "in {{.nolang}}"}, `--system: no field "nolang"`},
		{Options{Template: "{{.q}}", Params: `{"a":{{.lang}}}`}, `--params is no JSON object with this line's fields: "{\"a\":de}"`},
		{Options{Template: "{{.q}}", Params: `[{{.n}}]`}, "no JSON object"},
	} {
		_, err := all(open(t, "p.jsonl", `{"id":1,"q":"x","lang":"de","n":1}`, c.o))
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %s", c.o, err, c.want)
		}
	}
}

// A template that would make the same prompt of each line is refused with what to write.
func TestTemplatesRefused(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"p.csv": "id,text,Review Text\n1,a,b\n", "p.jsonl": `{"id":1,"text":"a"}` + "\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ file, tmpl, want string }{
		{"p.csv", "Static prompt", `there is "id", "text", "Review Text"`},
		{"p.csv", "Read {text}", "did you mean {{.text}} instead of {text}?"},
		{"p.csv", "Read {Review Text}", `did you mean {{index . "Review Text"}}`},
		{"p.csv", "Read {{.Review Text}}", `{{index . "Review Text"}}`},
		{"p.csv", "Read {{text}}", "did you mean {{.text}}?"},
		{"p.jsonl", `Read {{"text"}}`, `there is "id", "text": write {{.text}}`},
		{"p.jsonl", "Read {other}", `there is "id", "text"`},
	} {
		f, err := Open(filepath.Join(dir, c.file), Options{Template: c.tmpl})
		if err == nil {
			f.Close()
		}
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %s: got %v, want %s", c.file, c.tmpl, err, c.want)
		}
	}
	for _, tmpl := range []string{"{{.}}", "{{range .}}x{{end}}", "{{$}}", `{{index . "id"}}`, `{{define "x"}}{{.text}}{{end}}{{template "x" .}}`} {
		f, err := Open(filepath.Join(dir, "p.jsonl"), Options{Template: tmpl})
		if err != nil {
			t.Errorf("%s: %v", tmpl, err)
			continue
		}
		f.Close()
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{System: "{{.x}}"}, "--system has {{ in it"},
		{Options{Keep: "a"}, "--keep works with --template only"},
	} {
		if _, err := Open(filepath.Join(dir, "p.jsonl"), c.o); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: got %v, want %s", c.o, err, c.want)
		}
	}
	if _, err := Open("-", Options{Template: "static", Stdin: strings.NewReader("")}); err == nil {
		t.Error("a template without a field passes for a pipe")
	}
}

// Files are read when they are asked for, are known by their content and never lie
// outside of their folder.
func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const png = "\x89PNG\r\n\x1a\n0000"
	if err := os.MkdirAll(filepath.Join(dir, "in", "img"), 0o700); err != nil {
		t.Fatal(err)
	}
	write("secret.txt", "s")
	write("in/img/a.jpg", png) // the content says what it is
	write("in/b.pdf", "%PDF-1.7 \xff")
	write("in/c.md", strings.Repeat("é", 40_000))
	write("in/d.bin", "\x00\x01\xff")
	for link, to := range map[string]string{"in/out": "../secret.txt", "in/up": "..", "in/ok": "c.md"} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(dir, "in", "p.jsonl")
	from := func(files string, o Options) ([]*Item, error) {
		write("in/p.jsonl", `{"id":1,"prompt":"x","files":`+files+`}`)
		f, err := Open(path, o)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		return all(f)
	}
	items, err := from(`["img/a.jpg","b.pdf","c.md","ok","img/../c.md"]`, Options{})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, r := range items[0].Files {
		b, err := r.Read()
		if err != nil || len(r.Sum) != 64 {
			t.Errorf("%s: %v, hash %s", r.Path, err, r.Sum)
		}
		got = append(got, fmt.Sprintf("%s %s %t %d", r.Name(), r.MediaType, r.Text(), len(b)))
	}
	if want := "a.jpg image/png false 12|b.pdf application/pdf false 10|c.md text/plain true 80000|ok text/plain true 80000|c.md text/plain true 80000"; strings.Join(got, "|") != want {
		t.Errorf("got %s\nwant %s", strings.Join(got, "|"), want)
	}
	write("in/b.pdf", "%PDF-1.8")
	if _, err := items[0].Files[1].Read(); err == nil || !strings.Contains(err.Error(), "has changed") {
		t.Errorf("a changed file: got %v", err)
	}
	again, err := from(`["b.pdf"]`, Options{})
	if err != nil || again[0].Files[0].Sum == items[0].Files[1].Sum {
		t.Errorf("another content has the same hash, or error %v", err)
	}
	if _, err := from(`["secret.txt"]`, Options{FilesRoot: dir}); err != nil {
		t.Errorf("below --files-root: %v", err)
	}
	for files, want := range map[string]string{
		`["../secret.txt"]`: "escapes", `["out"]`: "escapes", `["up/secret.txt"]`: "escapes", `["` + dir + `/secret.txt"]`: "escapes",
		`["none.png"]`: "no such file", `["img"]`: "no regular file", `["d.bin"]`: "no PNG", `["c.md",5]`: "a number, want paths", `"c.md"`: "want an array",
	} {
		if _, err := from(files, Options{}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", files, err, want)
		}
	}
}
