package input

import (
	"errors"
	"strings"
	"testing"
	"time"
)

// batch-dialects: batch lines as Azure, Zhipu, Mistral and Together document them.
func TestBatchDialects(t *testing.T) {
	const body = `"body":{"model":"m","messages":[1]}}`
	for line, url := range map[string]string{
		`{"custom_id":"a","method":"POST","url":"/chat/completions",` + body:    "/chat/completions",
		`{"custom_id":"a","method":"POST","url":"/v4/chat/completions",` + body: "/v4/chat/completions",
		`{"custom_id":"a","url":"v1/chat/completions",` + body:                  "v1/chat/completions",
		`{"custom_id":"a","method":"post","url":"/v1/embeddings",` + body:       "/v1/embeddings",
		`{"custom_id":"a","method":null,"url":null,` + body:                     "",
		`{"custom_id":"a",` + body:                                              "",
	} {
		items, err := all(open(t, "p.jsonl", line, Options{}))
		if err != nil || items[0].Format != OpenAIBatch || items[0].URL != url || items[0].Model != "m" || string(items[0].Body) != `{"model":"m","messages":[1]}` {
			t.Errorf("%s: got %v and error %v", line, items, err)
		}
	}
}

// dataset-as-request: a line of a data set is no request; a request's own members are.
func TestDataSets(t *testing.T) {
	for line, want := range map[string]string{
		`{"instruction":"Name three","input":"","output":"red"}`:     "-t '{{.instruction}} {{.input}}'",
		`{"input":"1+1","output":"2"}`:                               "-t '{{.input}}'",
		`{"input":[{"role":"user","content":"q"}],"ideal":"4"}`:      "-t '{{.input}}'",
		`{"messages":[{"role":"user","content":"q"}],"label":"pos"}`: "-t '{{.messages}}'",
		`{"prompt":"p","completion":"c"}`:                            `"metadata"`,
		`{"text":"t","label":1}`:                                     "--template",
		`{"input":""}`:                                               "",
	} {
		_, err := all(open(t, "p.jsonl", line, Options{}))
		if bad, ok := errors.AsType[*LineError](err); !ok || !strings.Contains(bad.Hint, want) {
			t.Errorf("%s: got %#v, want a hint with %s", line, bad, want)
		}
	}
	for _, line := range []string{`{"input":"x","instructions":"i","text":{"format":{"type":"text"}},"include":[],"truncation":"auto"}`,
		`{"messages":[1],"tools":[],"response_format":{},"prediction":{},"extra_body":{"output":1}}`} {
		if _, err := all(open(t, "p.jsonl", line, Options{})); err != nil {
			t.Errorf("%s: %v", line, err)
		}
	}
}

// A file that is no file of lines gets one error with the way out.
func TestNotLines(t *testing.T) {
	for _, c := range []struct{ name, text, want, hint string }{
		{"p.jsonl", "[\n  {\"prompt\": \"x\"},\n  {\"prompt\": \"y\"}\n]\n", "p.jsonl:1:1: the file is one JSON array", "jq -c '.[]' p.jsonl"},
		{"p.json", "[\n{\"prompt\": \"x\"},\n{\"prompt\": \"y\"}\n]\n", "one JSON array", "jq -c '.[]'"},
		{"p.json", "[{\n  \"prompt\": \"x\"\n}]\n", "one JSON array", "jq -c '.[]'"},
		{"p.json", "{\n  \"prompt\": \"x\"\n}\n", "pretty-printed", "jq -c ."},
		{"p.txt", "What is 1+1?\nAnd 2+2?\n", "not lines of JSON", "jq -Rc '{prompt: .}' p.txt"},
		{"p.jsonl", "\xff\xfe{\x00\"\x00", "UTF-16", "iconv -f UTF-16"},
		{"p.jsonl", "{\x00\"\x00a\x00", "UTF-16", "iconv -f UTF-16"},
		{"p.csv", "\xfe\xff\x00i\x00d", "UTF-16", "iconv -f UTF-16"},
		{"p.xlsx", "PK\x03\x04rest", "Excel", "CSV UTF-8"},
		{"p.csv", "PK\x03\x04rest", "Excel", "CSV UTF-8"},
		{"p.xls", "\xd0\xcf\x11\xe0rest", "Excel", "CSV UTF-8"},
		{"p.data", "id,text\n1,x\n", "not lines of JSON", "--delimiter"},
	} {
		o := Options{}
		if strings.HasSuffix(c.name, ".csv") || strings.HasSuffix(c.name, ".data") {
			o.Template = "{{.text}}"
		}
		bad := errorsOf(t, open(t, c.name, c.text, o), CheckFuncs{})
		if bad == nil || bad.Count != 1 || !strings.Contains(bad.First[0].Error(), c.want) || !strings.Contains(bad.First[0].Hint, c.hint) {
			t.Errorf("%s %q: got %v, want %s and %s", c.name, c.text, bad, c.want, c.hint)
		}
		f, err := Open("-", Options{Template: o.Template, Stdin: strings.NewReader(c.text)})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := all(f); err == nil && !strings.HasPrefix(c.name, "p.txt") && !strings.HasPrefix(c.name, "p.csv") {
			t.Errorf("%q in a pipe: no error", c.text)
		}
	}
}

// A line's own budgets: validated, and no part of the request.
func TestOptions(t *testing.T) {
	for _, line := range []string{
		`{"id":1,"prompt":"x","options":OPTS}`,
		`{"id":1,"messages":[1],"options":OPTS,"n":1}`,
		`{"id":1,"a":"x","options":OPTS}`,
	} {
		o := Options{}
		if strings.Contains(line, `"a"`) {
			o.Template = "{{.a}}"
		}
		with := func(opts string) ([]*Item, error) {
			return all(open(t, "p.jsonl", strings.Replace(line, "OPTS", opts, 1), o))
		}
		items, err := with(`{"item_budget":"90s","attempt_timeout":"1m","max_attempts":0,"max_errors":2,"max_wait":"0s"}`)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		b := items[0].Bounds
		if b == nil || *b.ItemBudget != 90*time.Second || *b.AttemptTimeout != time.Minute || *b.MaxAttempts != 0 || *b.MaxErrors != 2 || *b.MaxWait != 0 {
			t.Errorf("%s: got %+v", line, b)
		}
		if strings.Contains(string(items[0].Body), "options") || strings.Contains(line, "messages") && string(items[0].Body) != `{"messages":[1],"n":1}` {
			t.Errorf("%s: the body is %s", line, items[0].Body)
		}
		for opts, want := range map[string]string{
			`{"max_errors":0}`:                    `"max_errors" is 0, want a whole number from 1 on`,
			`{"max_attempts":-1}`:                 "want a whole number from 0 on",
			`{"max_attempts":"3"}`:                "want a whole number",
			`{"item_budget":60}`:                  `"item_budget" is 60, want a time such as "90s" or "6h"`,
			`{"item_budget":"0s"}`:                "want a time",
			`{"max_wait":"-1s"}`:                  "want a time",
			`{"max_wait":"1s","max_atempts":1}`:   `unknown member "max_atempts" in "options"`,
			`{"attempt_timeout":"1s","top_p":1}`:  `unknown member "top_p"`,
			`{"max_wait":"1s","max_wait":"soon"}`: "want a time",
		} {
			if _, err := with(opts); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s with %s: got %v, want %s", line, opts, err, want)
			}
		}
	}
	// What is not ours stays where it is.
	items, err := all(open(t, "p.jsonl", `{"id":1,"messages":[1],"options":{"num_ctx":8}}`, Options{}))
	if err != nil || items[0].Bounds != nil || string(items[0].Body) != `{"messages":[1],"options":{"num_ctx":8}}` {
		t.Errorf("a body's own options: got %v and error %v", items, err)
	}
	items, err = all(open(t, "p.jsonl", `{"id":1,"options":["A","B"]}`, Options{Template: "{{.options}}"}))
	if err != nil || items[0].Prompt != `["A","B"]` {
		t.Errorf("a field called options: got %v and error %v", items, err)
	}
	if _, err = all(open(t, "p.jsonl", `{"id":1,"prompt":"x","options":{"num_ctx":8}}`, Options{})); err == nil {
		t.Error("beside a prompt, unknown options pass")
	}
}
