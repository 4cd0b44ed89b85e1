package jsonl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

func TestCheck(t *testing.T) {
	deep := func(n int) string { return strings.Repeat("[", n) + strings.Repeat("]", n) }
	tests := []struct {
		text string
		at   int // -1: valid
		msg  string
	}{
		{`{"a":[1,-0.5e+3,"\ud83d\ude00",true,false,null,{}]}`, -1, ""},
		{" \t{ } \r\n", -1, ""},
		{`123456789012345678901234567890.000100e999999`, -1, ""},
		{`{"a":1,"a":2}`, -1, ""},
		{deep(MaxDepth), -1, ""},
		{deep(MaxDepth + 1), MaxDepth, "nest deeper than 10000"},
		{strings.Repeat(`{"a":`, MaxDepth+1), 5 * MaxDepth, "nest deeper"},
		{``, 0, "the line ends where a value should follow"},
		{`{"a":1`, 6, "the line ends where a comma or } should follow"},
		{`[1 2]`, 3, "'2' where a comma or ] should be"},
		{`{"a" 1}`, 5, "'1' where a colon should be"},
		{`{a:1}`, 1, "'a' where a quoted name should be"},
		{`{"a":1,}`, 7, "'}' where a quoted name should be"},
		{`{} {}`, 3, "text after the object"},
		{`01`, 1, "leading zero"},
		{`-`, 1, "a digit"},
		{`1.`, 2, "a digit"},
		{`1e`, 2, "a digit"},
		{`trux`, 3, "'x' where true"},
		{`"a`, 2, "inside the string that begins at column 1"},
		{"\"a\tb\"", 2, "control character U+0009"},
		{`"\x"`, 2, `an escape such as \n`},
		{`"\u12g4"`, 5, "four hex digits"},
		{`"\ud83d"`, 1, `\ud83d is half of a surrogate pair`},
		{`"\ude00\ud83d"`, 1, `\ude00 is half`},
		{`"\ud83d\ud83d\ude00"`, 1, `\ud83d is half`},
		{`é`, 0, "'é' where a value"},
	}
	for _, c := range tests {
		err := Check([]byte(c.text))
		switch {
		case c.at < 0 && err != nil:
			t.Errorf("%.40q: %v", c.text, err)
		case c.at >= 0 && (err == nil || err.At != c.at || !strings.Contains(err.Msg, c.msg)):
			t.Errorf("%.40q: got %+v, want %q at %d", c.text, err, c.msg, c.at)
		}
	}
}

func TestWalk(t *testing.T) {
	const text = ` {"a" : [1, 2],"a":12345678901234567890, "\u0062\n":"x" } `
	w := Members([]byte(text))
	var got []string
	for w.Next() {
		got = append(got, fmt.Sprintf("%s=%s@%d,%d", w.Name, w.Value, w.NameAt, w.At))
		if text[w.At:w.At+len(w.Value)] != string(w.Value) || text[w.NameAt] != '"' {
			t.Errorf("%q does not stand at %d, its name at %d", w.Value, w.At, w.NameAt)
		}
	}
	want := []string{"a=[1, 2]@2,8", "a=12345678901234567890@15,19", "b\n=\"x\"@41,52"}
	if !reflect.DeepEqual(got, want) || w.Err() != nil {
		t.Errorf("got %q, %v, want %q", got, w.Err(), want)
	}
	if v := Member([]byte(text), "a"); string(v) != "12345678901234567890" {
		t.Errorf("of a name that repeats, got %s", v)
	}

	broken := []struct {
		text  string
		walk  func([]byte) Walk
		yield int
		whole bool
	}{
		{`[1,2,3]`, Elements, 3, true},
		{`[]`, Elements, 0, true},
		{`[1,`, Elements, 1, false},
		{`[1,x]`, Elements, 1, false},
		{`[1]]`, Elements, 1, false},
		{`{"a":1 "b":2}`, Members, 1, false},
		{`{"a":1}`, Elements, 0, false},
		{`"a"`, Members, 0, false},
		{``, Members, 0, false},
		{`{"a":"\ud800"}`, Members, 1, true},
		{`{"a":"\ud800"}`, Line, 0, false},
		{"{\"a\":\"\xff\"}", Line, 1, true},
	}
	for _, c := range broken {
		w, n := c.walk([]byte(c.text)), 0
		for w.Next() {
			n++
		}
		if err := w.Err(); n != c.yield || (err == nil) != c.whole || w.Next() {
			t.Errorf("%q: got %d values, then %v", c.text, n, err)
		}
	}
}

func TestWalkAllocatesNothing(t *testing.T) {
	text := []byte(`{"a":[1,{"b":"c"}],"d":"e\n","f":null}`)
	if n := testing.AllocsPerRun(100, func() {
		w := Members(text)
		for w.Next() {
		}
		if w.Err() != nil || Member(text, "d") == nil {
			t.Fail()
		}
	}); n != 0 {
		t.Errorf("got %v allocations", n)
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		`"plain"`: "plain", `"a\n\u00e9\ud83d\ude00\/"`: "a\né😀/", `"\ud83d"`: "\ufffd", "\"a\xffb\"": "a\ufffdb",
		`1`: "", ``: "", `"`: "", `null`: "",
	} {
		if got := Text([]byte(in)); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	if got := AppendQuote(nil, "a\"\x00\xff\u2028"); string(got) != "\"a\\\"\\u0000\ufffd\u2028\"" {
		t.Errorf("got %s", got)
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		`{"a":1}`:                        `{"a":1}`,
		" {\"a\" :\t[1.0,\r\n\"b c\"] }": `{"a":[1.0,"b c"]}`,
		`"\ud83d \ud83d\ude00\ude00"`:    `"\ufffd \ud83d\ude00\ufffd"`,
		`"\\ud83d"`:                      `"\\ud83d"`,
		"\"a\xff\xe2\x80\"":              "\"a\ufffd\ufffd\ufffd\"",
		"\"\u2028\u2029\u0085é\"":        `"\u2028\u2029\u0085é"`,
		`{} x`:                           "",
		`{`:                              "",
	} {
		if got := Clean([]byte(in)); string(got) != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
	in := []byte(`{"a":"é"}`)
	if got := Clean(in); &got[0] != &in[0] {
		t.Error("what is clean was copied")
	}
}

// Every function agrees with jsontext and encoding/json.
func FuzzJSON(f *testing.F) {
	for _, s := range []string{`{"a":[1e5,-0.0E-1,[[]],{"":{}}] , "x" : null }`, `{"a":"\ud83d\ude00\u00e9\/\b"}`, "\x00", `[1, 2]`, `"a b"`,
		`{"a":"\ud800"}`, "[]\n", "", "nul", "\"\xff\u2028\"", `{"a":1,"a":{}}`, `"\ud800\ud800\udc00\\u"`, `{"\u0061":01}`} {
		f.Add([]byte(s))
	}
	dup := jsontext.AllowDuplicateNames(true)
	f.Fuzz(func(t *testing.T, b []byte) {
		v := jsontext.Value(bytes.Clone(b))
		strict, loose := v.IsValid(dup), v.IsValid(dup, jsontext.AllowInvalidUTF8(true))
		bare := len(bytes.TrimSpace(b)) == len(b)
		valid, compact := Valid(b)
		if valid != (strict && bare) {
			t.Fatalf("%q: Valid says %t, jsontext %t", b, valid, strict)
		}
		if err := Check(b); utf8.Valid(b) && (err == nil) != strict {
			t.Fatalf("%q: Check says %v, jsontext valid: %t", b, err, strict)
		} else if err != nil && (err.At < 0 || err.At > len(b)) {
			t.Fatalf("%q: an error at %d", b, err.At)
		}
		if valid {
			var c bytes.Buffer
			if err := json.Compact(&c, b); err != nil || compact != bytes.Equal(c.Bytes(), b) {
				t.Fatalf("%q: got compact %t; compacting it yields %q, %v", b, compact, c.Bytes(), err)
			}
		}
		c := Clean(b)
		if (c != nil) != loose {
			t.Fatalf("%q: Clean returns %q, jsontext says %t", b, c, loose)
		}
		if again := Clean(c); loose && (!bytes.Equal(c, again) || !jsontext.Value(c).IsValid(dup)) {
			t.Fatalf("%q: got %q, cleaned again %q", b, c, again)
		}
		fuzzWalk(t, b, loose)
	})
}

func fuzzWalk(t *testing.T, b []byte, valid bool) {
	w := Members(b)
	got := map[string]string{}
	for w.Next() {
		got[strings.ToValidUTF8(string(w.Name), "\ufffd")] = string(w.Value)
	}
	trimmed := bytes.TrimLeft(b, " \t\r\n")
	whole := valid && len(trimmed) > 0 && trimmed[0] == '{'
	if (w.Err() == nil) != whole {
		t.Fatalf("%q: the walk ends with %v, a valid object: %t", b, w.Err(), whole)
	}
	var want map[string]json.RawMessage
	if !whole || json.Unmarshal(b, &want) != nil {
		return
	}
	for name, value := range want {
		if got[name] != string(value) && utf8.Valid(b) {
			t.Fatalf("%q: %q is %q, want %q", b, name, got[name], value)
		}
	}
}

func BenchmarkWalk(b *testing.B) {
	line := []byte(`{"id":"q1","prompt":"` + strings.Repeat("some words and é ", 40) + `","n":[1,2,3],"metadata":{"k":"v"}}`)
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		w := Line(line)
		for w.Next() {
		}
		if w.Err() != nil {
			b.Fatal(w.Err())
		}
	}
}
