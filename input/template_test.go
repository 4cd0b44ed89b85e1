package input

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

func TestTemplates(t *testing.T) {
	for _, c := range []struct{ name, tmpl, id, line, want string }{
		{"field", "Classify: {{.text}}", "", `{"text":"a\n\"b\"","x":1}`, `"sha256:* prompt prompt=Classify: a` + "\n" + `"b"`},
		{"id", "{{.text}}", "", `{"text":"a","id":9007199254740993}`, `9007199254740993 prompt prompt=a`},
		{"custom_id", "{{.text}}", "", `{"custom_id":"c","text":"a"}`, `"c" prompt prompt=a`},
		{"id before custom_id", "{{.text}}", "", `{"custom_id":"c","id":"i","text":"a"}`, `"i" prompt prompt=a`},
		{"id field", "{{.text}}", "sku", `{"sku":"s1","id":"i","text":"a"}`, `"s1" prompt prompt=a`},
		{"digits", "{{.n}} {{.m}}", "", `{"id":1,"n":9007199254740993,"m":1.50}`, `1 prompt prompt=9007199254740993 1.50`},
		{"values", "{{.a}} {{.o}} {{.t}}", "", `{"id":1,"a":[1,"<b>",null],"o":{"k":1.0,"l":"x"},"t":true}`, `1 prompt prompt=[1,"<b>",null] {"k":1.0,"l":"x"} true`},
		{"the whole line", "{{.}}", "", `{"id":1,"k":"v"}`, `1 prompt prompt={"id":1,"k":"v"}`},
		{"nested", "{{.a.b.c}}", "", `{"id":1,"a":{"b":{"c":"deep"}}}`, `1 prompt prompt=deep`},
		{"range and if", "{{range $i, $x := .l}}{{if $i}}, {{end}}{{$x.n}}{{end}}", "", `{"id":1,"l":[{"n":1},{"n":2}]}`, `1 prompt prompt=1, 2`},
		{"functions", `{{printf "%.2s" .t}} {{len .t}} {{.t | printf "%q"}}`, "", `{"id":1,"t":"abc"}`, `1 prompt prompt=ab 3 "abc"`},
		{"variables", `{{$x := .t}}{{$x}}`, "", `{"id":1,"t":"abc"}`, `1 prompt prompt=abc`},
		{"optional", `a{{with index . "t"}}{{.}}{{end}}`, "", `{"id":1}`, `1 prompt prompt=a`},
		{"defined", `{{define "x"}}<{{.}}>{{end}}{{template "x" .t}}`, "", `{"id":1,"t":1e9}`, `1 prompt prompt=<1e9>`},
		{"options are fields", "{{.prompt}} {{.model}}", "", `{"id":1,"prompt":"p","model":"m","max_tokens":5,"metadata":{"k":1}}`, `1 prompt prompt=p m metadata={"k":1}`},
	} {
		f := open(t, "p.jsonl", c.line, Options{Template: c.tmpl, IDField: c.id})
		items, err := all(f)
		if err != nil || len(items) != 1 {
			t.Errorf("%s: got %d items and error %v", c.name, len(items), err)
			continue
		}
		got := describe(items[0])
		if head, _, ok := strings.Cut(c.want, "*"); ok && strings.HasPrefix(got, head) {
			got = head + "*" + got[len(`"sha256:0123456789ab#1"`):]
		}
		if got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.name, got, c.want)
		}
		want := items[0].Prompt
		items[0].Forget()
		if err := f.Reload(items[0]); err != nil || items[0].Prompt != want {
			t.Errorf("%s: Reload gave %q and error %v, want %q", c.name, items[0].Prompt, err, want)
		}
	}
}

func TestTemplateErrors(t *testing.T) {
	for _, c := range []struct{ tmpl, id, line, want, hint string }{
		{"{{.txt}}", "", `{"id":1,"text":"a"}`, `p.jsonl:1:1: --template: no field "txt"; there is "id", "text"`, "did you mean {{.text}}?"},
		{"{{.summary}}", "", `{"id":1,"text":"a"}`, `p.jsonl:1:1: --template: no field "summary"; there is "id", "text"`, `{{with index . "summary"}}`},
		{"{{if .label}}x{{end}}", "", `{"id":1}`, `p.jsonl:1:1: --template: no field "label"; there is "id"`, ""},
		{"{{.a.b}}", "", `{"id":1,"a":{"c":1,"d":2}}`, `p.jsonl:1:1: --template: no field "b" in .a; there is "c", "d"`, ""},
		{"{{.a.b.c}}", "", `{"a":{"b":{}}}`, `p.jsonl:1:1: --template: no field "c" in .a.b; there is nothing`, ""},
		{"{{.a}}", "", `{"id":1,"a":null}`, `p.jsonl:1:1: --template: {{.a}} is null in this line`, "{{with"},
		{"{{.a.b}}", "", `{"id":1,"a":{"b":null}}`, `p.jsonl:1:1: --template: {{.a.b}} is null in this line`, ""},
		{`{{index . "x"}}`, "", `{"id":1}`, `p.jsonl:1:1: --template: {{index . "x"}} is null in this line`, ""},
		{"{{with .a}}{{end}}", "", `{"id":1,"a":1}`, `p.jsonl:1:1: --template makes an empty prompt of this line`, ""},
		{"{{.a}}", "sku", ` {"id":1,"a":1}`, `p.jsonl:1:2: no "sku", which --id-field names; the line has "id", "a"`, ""},
		{"{{.a}}", "sku", `{"sku":null,"a":1}`, `p.jsonl:1:8: "sku" is null, want a string or a number`, ""},
		{"{{.a}}", "", `[1]`, `p.jsonl:1:1: an array, not a JSON object`, ""},
	} {
		f := open(t, "p.jsonl", c.line, Options{Template: c.tmpl, IDField: c.id})
		bad := errorsOf(t, f, CheckFuncs{})
		if bad == nil || bad.First[0].Error() != c.want || !strings.Contains(bad.First[0].Hint, c.hint) {
			t.Errorf("%s of %s\n got %v\nwant %s, hint %s", c.tmpl, c.line, bad, c.want, c.hint)
		}
	}
	_, err := all(open(t, "p.jsonl", `{"id":1,"a":"x"}`, Options{Template: "{{.a.b}}"}))
	if err == nil || strings.Contains(err.Error(), "no value") || !strings.HasPrefix(err.Error(), "p.jsonl:1:1: --template: ") || !strings.Contains(err.Error(), `the fields are "a", "id"`) {
		t.Errorf("a field of a string: got %v", err)
	}
}

func TestCSV(t *testing.T) {
	in := "\ufeffid,text,metadata\r\n1,\"two\r\nlines, \"\"quoted\"\"\",m\r\n\r\nb,plain,\r\n007,last,x"
	for _, name := range []string{"p.csv", "p.csv.gz", "P.CSV"} {
		data := in
		if strings.HasSuffix(name, ".gz") {
			data = gz(t, in)
		}
		f := open(t, name, data, Options{Template: "{{.text}}!", Keep: "none"})
		if bad := errorsOf(t, f, CheckFuncs{}); bad != nil {
			t.Fatal(bad)
		}
		items, err := all(f)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, it := range items {
			got = append(got, fmt.Sprintf("%d:%s", it.Line, describe(it)))
		}
		want := []string{`2:"1" prompt prompt=two` + "\n" + `lines, "quoted"! metadata="m"`, `5:"b" prompt prompt=plain! metadata=""`, `6:"007" prompt prompt=last! metadata="x"`}
		if strings.Join(got, "|") != strings.Join(want, "|") {
			t.Errorf("%s\n got %q\nwant %q", name, got, want)
		}
		for i, it := range items {
			if !f.CanReload() {
				break
			}
			it.Forget()
			if err := f.Reload(it); err != nil || fmt.Sprintf("%d:%s", it.Line, describe(it)) != want[i] {
				t.Errorf("Reload of item %d: got %q and error %v", i, describe(it), err)
			}
		}
	}
}

func TestCSVErrors(t *testing.T) {
	for _, c := range []struct {
		in, id string
		want   []string
	}{
		{"a,b\n1,2\n3\n4,5,6\n7,8\n", "", []string{"p.csv:3:1: 1 field, the header has 2", "p.csv:4:1: 3 fields, the header has 2"}},
		{"id,a\n1,x\n\n\n2,y\n1,z\n", "", []string{`p.csv:6:1: duplicate id "1": line 2 has it too`}},
		{"id,a\n,x\n", "", []string{`p.csv:2:1: column "id", the id, is empty`}},
		{"id,a\n1,\xff\n", "", []string{`p.csv:2:1: invalid UTF-8 in column "a"`}},
		{"id,a\n1,x\"y\n2,z\n", "", []string{`p.csv:2:4: bad CSV: bare " in non-quoted-field`}},
		{"id,a\n1,x\n2,\"y\nz\n", "", []string{`p.csv:3:1: bad CSV: extraneous or missing " in quoted-field (in a row that goes on to line 4)`}},
		{"id,a,a\n1,x,y\n", "", []string{`p.csv:1:1: two columns are called "a"`}},
		{"id,a\n1,x\n", "sku", []string{`p.csv:1:1: no column "sku", which --id-field names; there is "id", "a"`}},
		{"id,b\n1,x\n", "", []string{`p.csv:2:1: --template: no field "a"; there is "b", "id"`}},
	} {
		f := open(t, "p.csv", c.in, Options{Template: "{{.a}}", IDField: c.id})
		bad := errorsOf(t, f, CheckFuncs{})
		var got []string
		if bad != nil {
			for _, l := range bad.First {
				got = append(got, l.Error())
			}
		}
		if strings.Join(got, "\n") != strings.Join(c.want, "\n") {
			t.Errorf("%q\n got %q\nwant %q", c.in, got, c.want)
		}
		_, err := all(f)
		if _, ok := errors.AsType[*LineError](err); !ok || err.Error() != c.want[0] {
			t.Errorf("%q: Items ended with %v, want %s", c.in, err, c.want[0])
		}
	}
}

func TestCSVLetThrough(t *testing.T) {
	f := open(t, "p.csv", "a,id\nx,1\ny\nz,1\nw,2\ny\nv,\"3\n", Options{Template: "{{.a}}", LetThrough: true})
	items, err := all(f)
	if err != nil || len(items) != 6 {
		t.Fatalf("got %d items and error %v, want 6", len(items), err)
	}
	seen := map[string]bool{}
	for i, it := range items {
		if (it.Bad != nil) != (i != 0 && i != 3) || seen[it.Key] || it.Index != i {
			t.Errorf("item %d: %s", i, describe(it))
		}
		seen[it.Key] = true
	}
}

// A quote that is never closed does not take the rest of a large file with it.
func TestCSVRowTooLong(t *testing.T) {
	f := open(t, "p.csv", "a,b\n1,2\n\"3,4\n"+strings.Repeat("5,6\n", 100_000), Options{Template: "{{.a}}", MaxLine: 1000})
	bad := errorsOf(t, f, CheckFuncs{})
	if bad == nil || !strings.Contains(bad.Error(), "the row is longer than 1000 bytes") {
		t.Errorf("got %v", bad)
	}
}

// Rows over many chunks keep their places.
func TestCSVLarge(t *testing.T) {
	var b strings.Builder
	b.WriteString("id,text\n")
	const n = 5000
	for i := range n {
		fmt.Fprintf(&b, "%d,\"row %d\nsecond\"\n\n", i, i)
	}
	f := open(t, "p.csv", b.String()+"4000,again\n", Options{Template: "{{.text}}", IDField: "id"})
	bad := errorsOf(t, f, CheckFuncs{})
	if want := fmt.Sprintf(`p.csv:%d:1: duplicate id "4000": line %d has it too`, 2+3*n, 2+3*4000); bad == nil || bad.First[0].Error() != want {
		t.Errorf("got %v, want %s", bad, want)
	}
	i := 0
	for it := range f.Items() {
		if it == nil {
			break
		}
		if it.Line != 2+3*i || it.Prompt != fmt.Sprintf("row %d\nsecond", i) {
			t.Fatalf("item %d: line %d, prompt %q", i, it.Line, it.Prompt)
		}
		i++
	}
	if i != n {
		t.Errorf("got %d items, want %d", i, n)
	}
}
