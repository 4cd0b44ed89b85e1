package body

import (
	"bytes"
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"llmbatch/input"
	"llmbatch/runner/provider"
)

// walked lists what a walk yields, as name=value.
func walked(w Walk) (got []string) {
	for w.Next() {
		got = append(got, string(w.Name)+"="+string(w.Value))
	}
	return got
}

func TestWalk(t *testing.T) {
	tests := []struct {
		in   string
		want []string
	}{
		{`{}`, nil},
		{` { "a" : 1 , "b":[1,{"a":2}],"c":"x\"}" } `, []string{"a=1", `b=[1,{"a":2}]`, `c="x\"}"`}},
		{`{"\u0061\n":null,"a":"\\","a":true}`, []string{"a\n=null", `a="\\"`, "a=true"}},
		{`{"":{}}`, []string{"={}"}},
		{`[]`, nil},
		{`[ 1 , "a]" ,[[]], {"a":["}"]} ,-1.50e3]`, []string{"=1", `="a]"`, "=[[]]", `={"a":["}"]}`, "=-1.50e3"}},
		// What is no object or array, or ends too early, yields what it can.
		{``, nil}, {`null`, nil}, {`"{}"`, nil},
		{`{"a":1,"b"`, []string{"a=1"}}, {`{"a":1,"b":`, []string{"a=1"}}, {`{"a":1,x}`, []string{"a=1"}}, {`{"a" 1}`, nil}, {`{"a`, nil}, {`{"a":]`, nil},
		{`[1,"a`, []string{"=1"}},
	}
	for _, tt := range tests {
		w := Members([]byte(tt.in))
		if strings.HasPrefix(tt.in, "[") {
			w = Elements([]byte(tt.in))
		}
		if got := walked(w); !reflect.DeepEqual(got, tt.want) {
			t.Errorf("%s: got %q, want %q", tt.in, got, tt.want)
		}
	}
	if got := walked(Members([]byte(`["a"]`))); got != nil {
		t.Errorf("got members %q of an array, want none", got)
	}
	if got := walked(Elements([]byte(`{"a":1}`))); got != nil {
		t.Errorf("got elements %q of an object, want none", got)
	}
}

func FuzzWalk(f *testing.F) {
	for _, s := range []string{`{"a":{"b":[1,"\\\"",null]},"c":1.50}`, `[{},[],"\u00e9",true]`, `{"a":]`, `{"a`, "{\"\\", `[,,]`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		members, elements := walked(Members(data)), walked(Elements(data))
		v := jsontext.Value(data)
		if !v.IsValid() {
			return
		}
		var want []string
		d := jsontext.NewDecoder(bytes.NewReader(data))
		kind := v.Kind()
		if kind == '{' || kind == '[' {
			_, _ = d.ReadToken()
			for d.PeekKind() != '}' && d.PeekKind() != ']' {
				name := ""
				if kind == '{' {
					tok, _ := d.ReadToken()
					name = tok.String()
				}
				value, _ := d.ReadValue()
				want = append(want, name+"="+string(value))
			}
		}
		if got := append(members, elements...); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: got %q, want %q", data, got, want)
		}
	})
}

func TestInt(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "12": 12, "9007199254740993": 9007199254740993, "1e2": 100, "5.9": 5, "-3": 0, "1e400": 0, "1e300": 1 << 53,
		"99999999999999999999": 1 << 53, `"7"`: 0, "null": 0, "": 0, "{}": 0,
	} {
		if got := Int([]byte(in)); got != want {
			t.Errorf("%s: got %d, want %d", in, got, want)
		}
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{
		`""`: "", `"a"`: "a", `"\u00e9\n"`: "é\n", `"\ud83d\ude00"`: "😀", `"\ud83d"`: "\ufffd", "\"a\xff\"": "a\ufffd",
		"": "", "null": "", "7": "", `"`: "",
	} {
		if got := Text([]byte(in)); got != want {
			t.Errorf("%s: got %q, want %q", in, got, want)
		}
		if got := Word([]byte(in), "a", "b"); got != want {
			t.Errorf("%s: got word %q, want %q", in, got, want)
		}
	}
}

func FuzzText(f *testing.F) {
	for _, s := range []string{`"a\n\"\\\/\b\f\r\t\u00e9"`, `"\ud83d\ude00 \ud83d\u0041 \ude00"`, "\"\u00e9\xff\"", `"\u12"`, `"\`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, v []byte) {
		got := Text(v)
		if !jsontext.Value(v).IsValid(jsontext.AllowInvalidUTF8(true)) || v[0] != '"' || v[len(v)-1] != '"' {
			return
		}
		if want, _ := jsontext.AppendUnquote(nil, v); got != string(want) {
			t.Fatalf("%s: got %q, want %q", v, got, want)
		}
	})
}

func TestChanges(t *testing.T) {
	obj := []byte(` { "a" : 1.0, "b":[ 1 ] }`)
	tests := []struct{ name, got, want string }{
		{"insert", string(Insert(obj, "m", []byte(`"x"`))), ` {"m":"x", "a" : 1.0, "b":[ 1 ] }`},
		{"insert in an empty object", string(Insert([]byte(`{ }`), "m", []byte(`1`))), `{"m":1 }`},
		{"insert in no object", string(Insert(nil, "m", []byte(`1`))), ``},
		{"set", string(Set(obj, "a", []byte(`2`))), `{"a":2,"b":[ 1 ]}`},
		{"set what is new", string(Set(obj, "c", []byte(`2`))), `{"a":1.0,"b":[ 1 ],"c":2}`},
		{"set in an empty object", string(Set([]byte(`{}`), "c", []byte(`2`))), `{"c":2}`},
		{"append", string(Append([]byte(`[ 1 ,"]"]`), []byte(`2`))), `[1,"]",2]`},
		{"append to nothing", string(Append([]byte(`[]`), []byte(`2`))), `[2]`},
		{"build", string(Build([]byte(`{"b":2,"\"":3}`), Field{"a", []byte("1")}, Field{"b", []byte("1")}, Field{"c", nil})), `{"a":1,"b":2,"\"":3}`},
		{"first", string(First("", "a\"", "b")), `"a\""`},
		{"no first", string(First("")), ``},
		{"first raw", string(FirstRaw(nil, json.RawMessage("null"), json.RawMessage("1"))), `1`},
	}
	for _, tt := range tests {
		if tt.got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, tt.got, tt.want)
		}
	}
}

func TestAnswer(t *testing.T) {
	tests := []struct {
		name, in, want string
		class          provider.Class
		says           string
	}{
		{name: "compact", in: `{"a":"b c"}`, want: `{"a":"b c"}`},
		{name: "spaced", in: "\xef\xbb\xbf\n\n{ \"a\" :\t[1, 2.50,\"x y\"] }\r\n", want: `{"a":[1,2.50,"x y"]}`},
		{name: "array", in: `[ {} ]`, want: `[{}]`},
		{name: "invalid bytes", in: "{\"a\":\"\xe2\x82 b\xff\"}", want: "{\"a\":\"\ufffd\ufffd b\ufffd\"}"},
		// lone surrogates: jq and Python refuse them, and so does the input.
		{name: "lone surrogate", in: `{"a":"\ud83d", "b":1}`, want: `{"a":"\ufffd","b":1}`},
		{name: "compact with a lone surrogate", in: `{"a":"\uDE00\ud83d\ude00\\ud83d\ud83d\u0041"}`, want: `{"a":"\ufffd\ud83d\ude00\\ud83d\ufffd\u0041"}`},
		{name: "json-as-event-stream: done behind it", in: `{"a":1}` + "\n\ndata: [DONE]\n\n", want: `{"a":1}`},
		{name: "comments behind it", in: `{"a":1}` + "\n: bye\r\n\r\nevent: end\ndata: [DONE]", want: `{"a":1}`},
		{name: "an event behind it", in: `{"a":1}` + "\n\ndata: {}", class: provider.InvalidResponse, says: "after its JSON"},
		{name: "names twice", in: `{"a":1,"a":2}`, want: `{"a":1,"a":2}`},
		{name: "html", in: "\n<html>\n <b>Log  in</b>", class: provider.InvalidResponse, says: "<html> <b>Log in</b>"},
		{name: "text", in: "no\x00 healthy upstream " + strings.Repeat("é", 300), class: provider.InvalidResponse, says: "no\x00 healthy upstream éé"},
		{name: "cut", in: `{"a":[1`, class: provider.Truncated, says: "too early"},
	}
	for _, tt := range tests {
		before := tt.in
		got, err := Answer(provider.Answer{Status: 200, Body: []byte(tt.in)})
		if string(got) != tt.want || before != tt.in {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
		if tt.class == "" && err == nil {
			continue
		}
		if err == nil || err.Class != tt.class || err.Status != 200 || !strings.Contains(err.Message, tt.says) || len(err.Message) > 300 {
			t.Errorf("%s: got %+v, want %s with %q", tt.name, err, tt.class, tt.says)
		}
	}
	// The bytes of a body that is compact are used as they are.
	in := []byte(` {"a":1}`)
	if got, _ := Answer(provider.Answer{Status: 200, Body: in}); &got[0] != &in[1] {
		t.Error("got a copy of a compact body, want the same bytes")
	}
}

func TestLineErrorColumn(t *testing.T) {
	e, ok := missingModel(&input.Item{BodyOffset: 40}).(*input.LineError)
	if !ok || e.Col != 41 {
		t.Errorf("got %+v, want column 41", e)
	}
	if e := missingModel(&input.Item{}).(*input.LineError); e.Col != 0 {
		t.Errorf("got column %d of an unknown place, want 0", e.Col)
	}
}

// What the model is asked to go on with has no white space at its end.
func TestRest(t *testing.T) {
	if got := string(Rest("Hello ", Prefill)); got != `{"role":"assistant","content":"Hello"}` {
		t.Errorf("got %s, want no white space at the end of a prefill", got)
	}
	if got := Rest(" \n", UserTurn); got != nil {
		t.Errorf("got %s, want nothing to continue from white space", got)
	}
}
