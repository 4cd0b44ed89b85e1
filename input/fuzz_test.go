package input

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

func seeds(f *testing.F) []string {
	var s []string
	for _, c := range goodLines {
		s = append(s, c.line)
	}
	for _, c := range badLines {
		s = append(s, c.line)
	}
	return append(s, "\ufeff{}", `{"id":"a","messages":[1e5,-0.0E-1,[[]],{"":{}}] , "x" : null }`, `{"a":"\ud83d\ude00\u00e9\/\b"}`, "\x00", `{"id":-0,"prompt":"x"}`)
}

// What is read as an item holds the line's own bytes.
func FuzzParse(f *testing.F) {
	for _, s := range seeds(f) {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, line []byte) {
		from, to := trim(line)
		if from == to || bytes.ContainsAny(line, "\n") {
			return
		}
		var it, again Item
		p := &parser{f: &File{root: &folder{path: t.TempDir()}}}
		bad := p.parse(record{line: 1, b: bytes.Clone(line)}, &it)
		if second := p.parse(record{line: 1, b: bytes.Clone(line)}, &again); !reflect.DeepEqual(it, again) || !reflect.DeepEqual(bad, second) {
			t.Fatalf("%q: read twice, got %+v and %+v", line, it, again)
		}
		if bad != nil {
			if bad.Col < from+1 || bad.Col > to+1 || bad.Msg == "" || !utf8.ValidString(bad.Msg) {
				t.Fatalf("%q: error %+v", line, bad)
			}
			return
		}
		if it.has != (it.Key != "") || it.has != (it.ID != nil) || !it.has && it.sum != contentSum(line[from:to]) {
			t.Fatalf("%q: id %q, key %q, sum %x", line, it.ID, it.Key, it.sum)
		}
		if it.Format == Prompt {
			if it.Prompt == "" || it.Body != nil {
				t.Fatalf("%q: got %+v", line, it)
			}
			return
		}
		if !jsontext.Value(it.Body).IsValid(jsontext.AllowDuplicateNames(true)) || it.Body[0] != '{' {
			t.Fatalf("%q: body %q is no object", line, it.Body)
		}
		if !it.scattered && !bytes.Equal(line[it.BodyOffset+1:it.BodyOffset+len(it.Body)-1], it.Body[1:len(it.Body)-1]) {
			t.Fatalf("%q: body %q is not what stands at %d", line, it.Body, it.BodyOffset)
		}
		if it.Format == Messages && !bytes.Equal(withoutID(t, line[from:to]), compact(t, it.Body)) {
			t.Fatalf("%q: body %s, want %s", line, it.Body, withoutID(t, line[from:to]))
		}
	})
}

func compact(t *testing.T, b []byte) []byte {
	v := jsontext.Value(bytes.Clone(b))
	if err := v.Compact(jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true)); err != nil {
		t.Fatal(err)
	}
	return v
}

// withoutID is the compacted object without its id and metadata, by jsontext.
func withoutID(t *testing.T, line []byte) []byte {
	d := jsontext.NewDecoder(bytes.NewReader(line), jsontext.AllowDuplicateNames(true))
	if _, err := d.ReadToken(); err != nil {
		t.Fatal(err)
	}
	var parts [][]byte
	for d.PeekKind() == '"' {
		name, err := d.ReadValue()
		if err != nil {
			t.Fatal(err)
		}
		raw := bytes.Clone(name)
		key, _ := jsontext.AppendUnquote(nil, raw)
		value, err := d.ReadValue()
		if err != nil {
			t.Fatal(err)
		}
		if string(key) != "id" && string(key) != "metadata" {
			parts = append(parts, append(append(raw, ':'), compact(t, value)...))
		}
	}
	return append(append([]byte{'{'}, bytes.Join(parts, []byte{','})...), '}')
}

// Lines come out as they went in, however the reads fall.
func FuzzLines(f *testing.F) {
	f.Add("a\nb\r\n\n\ufeffc", uint8(1), uint16(100))
	f.Add(strings.Repeat("x", 300)+"\n"+strings.Repeat("y", 3000)+"\nz", uint8(0), uint16(1000))
	f.Add(strings.Repeat("long", 20_000)+"\na\n\nb\nc", uint8(0), uint16(1000)) // more than a line behind one too long
	f.Add("\n\n\n", uint8(2), uint16(1))
	f.Fuzz(func(t *testing.T, in string, mode uint8, most uint16) {
		var r io.Reader = strings.NewReader(in)
		switch mode % 4 {
		case 1:
			r = iotest.OneByteReader(r)
		case 2:
			r = iotest.HalfReader(r)
		case 3:
			r = iotest.DataErrReader(r)
		}
		src := &lineSource{r: r, max: int(most) + 1, big: make(chan struct{}, 1)}
		var got []record
		c := &chunk{}
		for {
			err := src.next(context.Background(), c)
			if err == io.EOF {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			for r := range c.each {
				r.b = bytes.Clone(r.b)
				got = append(got, r)
			}
			c.release()
		}
		compareLines(t, in, src.max, got)
	})
}

// compareLines tells whether got are the lines of in, but for blank ones.
func compareLines(t *testing.T, in string, most int, got []record) {
	t.Helper()
	off := 0
	for i, line := range strings.Split(in, "\n") {
		at := off
		off += len(line) + 1
		kept := strings.TrimSuffix(line, "\r")
		from, to := trim([]byte(kept))
		long := len(line) > most
		if from == to && !long {
			continue
		}
		if len(got) == 0 {
			if from == to {
				continue
			}
			t.Fatalf("line %d %q is missing", i+1, line)
		}
		r := got[0]
		if from == to && r.line != i+1 {
			continue // a long blank line may be skipped
		}
		got = got[1:]
		if r.line != i+1 || r.off != int64(at) || r.bad == nil && string(r.b) != kept || r.bad == nil && len(kept) > most || r.bad != nil && len(line) <= most {
			t.Fatalf("got line %d at %d, bad %v, %q; want line %d at %d, %q", r.line, r.off, r.bad, r.b, i+1, at, kept)
		}
	}
	if len(got) > 0 {
		t.Fatalf("%d lines too many, first %+v", len(got), got[0])
	}
}

// A whole input never panics, has no id twice and is in order; bad lines too.
func FuzzItems(f *testing.F) {
	f.Add(strings.Join(seeds(f), "\n"), "")
	f.Add("id,a\n1,x\n\"2\",\"y\nz\"\n", "{{.a}}")
	f.Add(`{"a":{"b":null}}`, "{{.a.b}}{{range .a}}{{.}}{{end}}")
	f.Fuzz(func(t *testing.T, in, tmpl string) {
		file, err := Open("-", Options{Stdin: strings.NewReader(in), Template: tmpl})
		if err != nil {
			return
		}
		file.csv = tmpl != "" && len(in)%2 == 0
		seen, i := map[string]bool{}, 0
		for it, err := range file.Items() {
			if err != nil {
				if _, ok := errors.AsType[*LineError](err); ok && !file.csv && i > 0 {
					t.Fatalf("a bad line was not let through: %v", err)
				}
				break
			}
			if it.Key == "" || seen[it.Key] || it.Index != i || !json.Valid(it.ID) {
				t.Fatalf("item %d: %s", i, describe(it))
			}
			seen[it.Key] = true
			i++
		}
	})
}
