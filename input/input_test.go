package input

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// open returns the file with the content, under a name that ends as given.
func open(t testing.TB, name, content string, o Options) *File {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	f.name = name
	t.Cleanup(func() { f.Close() })
	return f
}

// all returns the file's items and the error that ended them.
func all(f *File) (items []*Item, end error) {
	for it, err := range f.Items() {
		if err != nil {
			return items, err
		}
		items = append(items, it)
	}
	return items, nil
}

// errorsOf returns the errors of the lines that the whole-file check finds.
func errorsOf(t testing.TB, f *File, c CheckFuncs) *Errors {
	t.Helper()
	err := f.Check(t.Context(), c)
	if bad, ok := errors.AsType[*Errors](err); ok {
		return bad
	}
	if err != nil {
		t.Fatalf("Check: %v", err)
	}
	return nil
}

// describe writes an item on one line for comparisons.
func describe(it *Item) string {
	if it.Bad != nil {
		return "bad " + string(it.ID) + " " + it.Bad.Error()
	}
	var b strings.Builder
	b.WriteString(string(it.ID) + " " + [...]string{"prompt", "messages", "openai", "anthropic"}[it.Format])
	for _, f := range []struct{ name, v string }{{"model", it.Model}, {"url", it.URL}, {"prompt", it.Prompt}, {"system", it.System},
		{"max_tokens", string(it.MaxTokens)}, {"temperature", string(it.Temperature)}, {"params", string(it.Params)},
		{"body", string(it.Body)}, {"metadata", string(it.Metadata)}, {"input", string(it.Input)}} {
		if f.v != "" {
			b.WriteString(" " + f.name + "=" + f.v)
		}
	}
	return b.String()
}

var goodLines = []struct{ name, line, want string }{
	{"prompt", `{"id":"q1","prompt":"Hi"}`, `"q1" prompt prompt=Hi`},
	{"every option", `{"id": 7, "prompt":"a\nb", "system":"s", "model":"m", "max_tokens":10, "temperature":0.70, "params":{"top_p":1.0}, "metadata":[1, 2]}`,
		"7 prompt model=m prompt=a\nb system=s max_tokens=10 temperature=0.70 params={\"top_p\":1.0} metadata=[1, 2]"},
	{"null options", `{"id":"a","prompt":"x","system":null,"model":null,"max_tokens":null,"temperature":null,"params":null,"metadata":null}`,
		`"a" prompt prompt=x metadata=null`},
	{"model in params", `{"id":"a","prompt":"x","params":{"model":"m","n":1}}`, `"a" prompt model=m prompt=x params={"model":"m","n":1}`},
	{"model beside params", `{"id":"a","prompt":"x","model":"k","params":{"model":"m"}}`, `"a" prompt model=k prompt=x params={"model":"m"}`},
	{"escaped names", `{"\u0069d":"a","pr\u006fmpt":"x"}`, `"a" prompt prompt=x`},
	{"an id is kept as written", `{"id":"\u00e9\/","prompt":"x"}`, `"\u00e9\/" prompt prompt=x`},
	{"separators are text", "{\"id\":\"a\",\"prompt\":\"x\u2028\u2029\u0085y\"}", "\"a\" prompt prompt=x\u2028\u2029\u0085y"},
	{"surrogates", `{"id":"a","prompt":"\ud83d\ude00"}`, `"a" prompt prompt=😀`},
	{"messages, id first", `{"id":"a","model":"m","messages":[{"role":"user"}],"seed":1}`,
		`"a" messages model=m body={"model":"m","messages":[{"role":"user"}],"seed":1}`},
	{"messages, id last", `{ "messages" : [1] , "top_p" : 1e0, "id":"a"}`, `"a" messages body={"messages" : [1] , "top_p" : 1e0}`},
	{"messages, id in the middle", `{"messages":[1], "id":"a", "n": 1.50, "metadata":{}, "n": 2}`, `"a" messages body={"messages":[1],"n": 1.50,"n": 2} metadata={}`},
	{"messages, no id", `{"messages":[1]}`, `"sha256:3c89d1360387#1" messages body={"messages":[1]}`},
	{"digits and order survive", `{"id":"a","z":12345678901234567890.10,"a":1E5,"messages":[{"b":0.10,"a":1}],"stream":true}`,
		`"a" messages body={"z":12345678901234567890.10,"a":1E5,"messages":[{"b":0.10,"a":1}],"stream":true}`},
	{"input", `{"id":"a","input":"x","max_output_tokens":5}`, `"a" messages body={"input":"x","max_output_tokens":5}`},
	{"input list", `{"id":"a","input":["x"]}`, `"a" messages body={"input":["x"]}`},
	{"input and a stored prompt", `{"id":"a","input":"x","prompt":{"id":"pmpt_1"}}`, `"a" messages body={"input":"x","prompt":{"id":"pmpt_1"}}`},
	{"openai", `{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{"model":"m", "messages":[]}}`,
		`"a" openai model=m url=/v1/chat/completions body={"model":"m", "messages":[]}`},
	{"openai, no method", `{"custom_id":"a","url":"/v1/embeddings","body":{"input":"x"},"metadata":1}`, `"a" openai url=/v1/embeddings body={"input":"x"} metadata=1`},
	{"openai, slashes escaped", `{"custom_id":"a","url":"\/v1\/embeddings","body":{}}`, `"a" openai url=/v1/embeddings body={}`},
	{"anthropic", `{"custom_id":"a","params":{"model":"m","max_tokens":1,"messages":[]}}`, `"a" anthropic model=m body={"model":"m","max_tokens":1,"messages":[]}`},
	{"anthropic by id", `{"params":{},"id":"a"}`, `"a" anthropic body={}`},
	// C52: ids are digits, not float64s.
	{"id above 2^53", `{"id":9007199254740993,"prompt":"x"}`, `9007199254740993 prompt prompt=x`},
	{"id of a million", `{"id":1000000,"prompt":"x"}`, `1000000 prompt prompt=x`},
	{"id with an exponent", `{"id":1E6,"prompt":"x"}`, `1E6 prompt prompt=x`},
	{"a name twice: the last counts", `{"id":"a","id":"b","prompt":"x","prompt":"y"}`, `"b" prompt prompt=y`},
}

func TestLines(t *testing.T) {
	for _, c := range goodLines {
		t.Run(c.name, func(t *testing.T) {
			f := open(t, "p.jsonl", c.line+"\n", Options{})
			items, err := all(f)
			if err != nil || len(items) != 1 {
				t.Fatalf("%s: got %d items and error %v, want 1 item", c.line, len(items), err)
			}
			it := items[0]
			if got := describe(it); got != c.want {
				t.Errorf("%s\n got %s\nwant %s", c.line, got, c.want)
			}
			if it.BodyOffset > 0 && !bytes.Equal([]byte(c.line)[it.BodyOffset+1:it.BodyOffset+len(it.Body)-1], it.Body[1:len(it.Body)-1]) {
				t.Errorf("%s: body %s is not at offset %d", c.line, it.Body, it.BodyOffset)
			}
			if bad := errorsOf(t, f, CheckFuncs{}); bad != nil {
				t.Errorf("%s: Check finds %v", c.line, bad)
			}
		})
	}
}

var badLines = []struct{ line, want string }{
	{`{"id":"a","prompt":"x"`, `p.jsonl:1:23: bad JSON: the line ends where a comma or } should follow`},
	{`{"id":"a","prompt":"x`, `p.jsonl:1:22: bad JSON: the line ends inside the string that begins at column 20`},
	{`{"id":"a" "prompt":"x"}`, `p.jsonl:1:11: bad JSON: '"' where a comma or } should be`},
	{`{"id":"a",}`, `p.jsonl:1:11: bad JSON: '}' where a quoted name should be`},
	{`{"id":tru}`, `p.jsonl:1:10: bad JSON: '}' where true should be`},
	{`{"id":01}`, `p.jsonl:1:8: bad JSON: a number with a leading zero`},
	{`{"id":1.}`, `p.jsonl:1:9: bad JSON: '}' where a digit should be`},
	{`{"id":"\x"}`, `p.jsonl:1:9: bad JSON: 'x' where an escape such as \n should be`},
	{`{"id":"\ud800"}`, `p.jsonl:1:8: bad JSON: \ud800 is half of a surrogate pair, not a character`},
	{"{\"id\":\"a\tb\"}", `p.jsonl:1:9: bad JSON: control character U+0009 in a string`},
	{`{"id":"a"}{"id":"b"}`, `p.jsonl:1:11: bad JSON: text after the object`},
	{"{\"id\":\"a\",\"prompt\":\"\xff\"}", `p.jsonl:1:21: invalid UTF-8: byte 0xff`},
	{`  [1,2]`, `p.jsonl:1:3: an array, not a JSON object`},
	{`"text"`, `p.jsonl:1:1: a string, not a JSON object`},
	{`17`, `p.jsonl:1:1: a number, not a JSON object`},
	{`hello`, `p.jsonl:1:1: not a JSON object: it begins with "hello"`},
	{`[1,`, `p.jsonl:1:4: bad JSON: the line ends where a value should follow`},
	{`{`, `p.jsonl:1:2: bad JSON: the line ends where a quoted name should follow`},
	{`{}`, `p.jsonl:1:1: no prompt: the line has nothing`},
	{`{"id":1,"promt":"x"}`, `p.jsonl:1:9: no prompt: the line has "id", "promt"`},
	{`{"id":1,"text":"x"}`, `p.jsonl:1:1: no prompt: the line has "id", "text"`},
	{`{"id":1,"prompt":null}`, `p.jsonl:1:18: "prompt" is null`},
	{`{"id":1,"prompt":""}`, `p.jsonl:1:18: the prompt is empty`},
	{`{"id":1,"prompt":["x"]}`, `p.jsonl:1:18: "prompt" is an array, want a string`},
	{`{"id":1,"prompt":5}`, `p.jsonl:1:18: "prompt" is a number, want a string`},
	{`{"id":1,"prompt":"x","top_p":1}`, `p.jsonl:1:22: unknown member "top_p" beside "prompt"`},
	{`{"id":1,"prompt":"x","max_token":1}`, `p.jsonl:1:22: unknown member "max_token" beside "prompt"`},
	{`{"custom_id":1,"prompt":"x"}`, `p.jsonl:1:2: unknown member "custom_id" beside "prompt"`},
	{`{"id":1,"prompt":"x","messages":[1]}`, `p.jsonl:1:22: both "prompt" and "messages" in one line`},
	{`{"id":1,"prompt":"x","input":"y"}`, `p.jsonl:1:22: both "prompt" and "input" in one line`},
	{`{"id":1,"messages":[1],"body":{}}`, `p.jsonl:1:24: both "body" and "messages" in one line`},
	{`{"id":1,"prompt":"x","system":5}`, `p.jsonl:1:31: "system" is a number, want a string`},
	{`{"id":1,"prompt":"x","model":{}}`, `p.jsonl:1:30: "model" is an object, want a string`},
	{`{"id":1,"prompt":"x","model":""}`, `p.jsonl:1:30: "model" is empty`},
	{`{"id":1,"prompt":"x","max_tokens":"5"}`, `p.jsonl:1:35: "max_tokens" is a string, want a number`},
	{`{"id":1,"prompt":"x","max_tokens":0}`, `p.jsonl:1:35: "max_tokens" is 0, want a positive whole number`},
	{`{"id":1,"prompt":"x","max_tokens":-5}`, `p.jsonl:1:35: "max_tokens" is -5, want a positive whole number`},
	{`{"id":1,"prompt":"x","max_tokens":1.5}`, `p.jsonl:1:35: "max_tokens" is 1.5, want a positive whole number`},
	{`{"id":1,"prompt":"x","temperature":true}`, `p.jsonl:1:36: "temperature" is a boolean, want a number`},
	{`{"id":1,"prompt":"x","params":[]}`, `p.jsonl:1:31: "params" is an array, want an object`},
	{`{"id":1,"prompt":"x","params":{"model":5}}`, `p.jsonl:1:40: "model" is a number, want a string`},
	{`{"id":1,"messages":"x"}`, `p.jsonl:1:20: "messages" is a string, want an array`},
	{`{"id":1,"messages":[ ]}`, `p.jsonl:1:20: "messages" is empty`},
	{`{"custom_id":1,"messages":[1]}`, `p.jsonl:1:2: "custom_id" beside "messages"`},
	{"\xff\xfe{\x00", `p.jsonl:1:1: the file is UTF-16`},
	{`{"id":1,"input":5}`, `p.jsonl:1:17: "input" is a number, want a string or an array`},
	{`{"id":1,"messages":[1],"model":null}`, `p.jsonl:1:32: "model" is null, want a string`},
	{`{"id":null,"prompt":"x"}`, `p.jsonl:1:7: "id" is null, want a string or a number`},
	{`{"id":true,"prompt":"x"}`, `p.jsonl:1:7: "id" is a boolean, want a string or a number`},
	{`{"id":{},"messages":[1]}`, `p.jsonl:1:7: "id" is an object, want a string or a number`},
	{`{"id":"","prompt":"x"}`, `p.jsonl:1:7: "id" is empty`},
	{`{"custom_id":[],"params":{}}`, `p.jsonl:1:14: "custom_id" is an array, want a string or a number`},
	{`{"custom_id":"a","params":{"model":1}}`, `p.jsonl:1:36: "model" is a number, want a string`},
	{`{"custom_id":"a","params":[]}`, `p.jsonl:1:27: "params" is an array, want an object`},
	{`{"custom_id":"a","params":{},"model":"m"}`, `p.jsonl:1:30: unknown member "model" in an Anthropic batch line`},
	{`{"custom_id":"a","url":"/v1/x","body":5}`, `p.jsonl:1:39: "body" is a number, want an object`},
	{`{"custom_id":"a","url":"/v1/x"}`, `p.jsonl:1:1: no "body" in an OpenAI batch line`},
	{`{"custom_id":"a","url":"/v1/x","body":{},"params":{}}`, `p.jsonl:1:42: unknown member "params" in an OpenAI batch line`},
	{`{"custom_id":"a","method":"GET","url":"/v1/x","body":{}}`, `p.jsonl:1:27: "method" is "GET", want "POST"`},
	{`{"custom_id":"a","method":5,"url":"/v1/x","body":{}}`, `p.jsonl:1:27: "method" is a number, want a string`},
	{`{"custom_id":"a","url":7,"body":{}}`, `p.jsonl:1:24: "url" is a number, want a string`},
}

var badURLs = []string{"https://evil.example/v1/x", "//evil.example/v1/x", "/v1//evil.example", "/v1/../admin", "/v1/x/..", "v1//x", "/v4", "v4/", "host:80/v1/x", "/v1", "/v1/",
	"", "/v1/x?key=1", "/v1/x#y", "/v1/%2e%2e/x", `/v1/\\evil`, "/v1/a b", "/v1/x\\u0000", "/v1/é", "/v1/http://x", "/v1/@evil.example:80//x", "file:///v1/x"}

func TestBadLines(t *testing.T) {
	for _, c := range badLines {
		t.Run(c.line, func(t *testing.T) {
			f := open(t, "p.jsonl", c.line, Options{})
			_, err := all(f)
			if _, ok := errors.AsType[*LineError](err); !ok || err.Error() != c.want {
				t.Errorf("Items of %s\n got %v\nwant %s", c.line, err, c.want)
			}
			if bad := errorsOf(t, f, CheckFuncs{}); bad == nil || bad.Count != 1 || bad.First[0].Error() != c.want {
				t.Errorf("Check of %s\n got %v\nwant %s", c.line, bad, c.want)
			}
		})
	}
	for _, u := range badURLs {
		line := `{"custom_id":"a","url":"` + u + `","body":{}}`
		if items, err := all(open(t, "p.jsonl", line, Options{})); err == nil || !strings.HasPrefix(err.Error(), `p.jsonl:1:24: "url"`) {
			t.Errorf("%s: got %d items and error %v, want a bad url", line, len(items), err)
		}
	}
}

func TestHints(t *testing.T) {
	for _, c := range []struct{ line, want string }{
		{`{"id":1,"promt":"x"}`, `"promt" looks like "prompt" misspelt`},
		{`{"id":1,"prompt":"x","top_p":1}`, `"params"`},
		{`{"id":1,"prompt":"x","temprature":1}`, `did you mean "temperature"?`},
		{`{"custom_id":1,"prompt":"x"}`, `the id is called "id"`},
		{`[{"prompt":"x"},`, "jq -c '.[]'"},
		{`{`, "jq -c ."},
		{`{"id":1,"prompt":["x"]}`, `"messages"`},
	} {
		_, err := all(open(t, "p.jsonl", c.line, Options{}))
		bad, ok := errors.AsType[*LineError](err)
		if !ok || !strings.Contains(bad.Hint, c.want) {
			t.Errorf("%s: got %#v, want a hint with %s", c.line, bad, c.want)
		}
	}
}

func TestPipe(t *testing.T) {
	in := strings.Join([]string{`{"id":"a","prompt":"x"}`, `{"id":"a","prompt":"y"}`, `{"id":"b"`, `{"id":"c","prompt":"z"}`, `{"id":"b"`}, "\n")
	f, err := Open("-", Options{Stdin: strings.NewReader(in)})
	if err != nil {
		t.Fatal(err)
	}
	if !f.Pipe() || f.CanReload() || f.Name() != "stdin" {
		t.Errorf("got pipe %t, reload %t, name %s", f.Pipe(), f.CanReload(), f.Name())
	}
	if _, ok := f.Stat(); ok {
		t.Error("a reader that is no file has a Stat")
	}
	items, err := all(f)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i, it := range items {
		if it.Index != i || it.Line != i+1 {
			t.Errorf("item %d has index %d, line %d", i, it.Index, it.Line)
		}
		if it.Bad != nil && (it.Prompt != "" || it.Key == "a" || string(it.ID) != `"`+it.Key+`"`) {
			t.Errorf("bad item %+v", it)
		}
		got = append(got, describe(it))
	}
	want := []string{`"a" prompt prompt=x`,
		`bad "sha256:e0c1d8a76e61#1" stdin:2:7: duplicate id "a": an earlier line has it too`,
		`bad "sha256:48d3d9c9e0aa#1" stdin:3:10: bad JSON: the line ends where a comma or } should follow`,
		`"c" prompt prompt=z`,
		`bad "sha256:48d3d9c9e0aa#2" stdin:5:10: bad JSON: the line ends where a comma or } should follow`}
	for i := range want {
		sum := contentSum([]byte(strings.Split(in, "\n")[i]))
		w := strings.NewReplacer("e0c1d8a76e61", hex48(sum), "48d3d9c9e0aa", hex48(sum)).Replace(want[i])
		if got[i] != w {
			t.Errorf("item %d\n got %s\nwant %s", i, got[i], w)
		}
	}
	if _, err := all(f); err == nil {
		t.Error("a pipe was read twice")
	}
	if err := f.Check(t.Context(), CheckFuncs{}); err == nil {
		t.Error("a pipe was checked")
	}
}

func hex48(sum uint64) string { return contentKey(sum, 1)[len("sha256:"):][:12] }

// A slow producer's line is an item before the next one is written.
func TestPipeDoesNotWait(t *testing.T) {
	r, w := io.Pipe()
	f, err := Open("-", Options{Stdin: r})
	if err != nil {
		t.Fatal(err)
	}
	ack := make(chan string)
	go func() {
		defer w.Close()
		for _, id := range []string{"a", "b", "c"} {
			io.WriteString(w, `{"id":"`+id+`","prompt":"x"}`+"\n")
			if got := <-ack; got != id {
				t.Errorf("got item %s, want %s", got, id)
			}
		}
	}()
	for it, err := range f.Items() {
		if err != nil {
			t.Fatal(err)
		}
		ack <- it.Key
	}
}
