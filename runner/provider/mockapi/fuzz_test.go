package mockapi

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

// FuzzParse: whatever a body is, the server takes what is JSON and answers it with JSON, and refuses the rest.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{messagesBody, responsesBody, "", "{", "[]", "{}", `{"model":1,"messages":{"content":["a",{"text":"b"}]}}`,
		`{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":1e400,"messages":[{"content":[{"text":"\ud800"}]}]}`,
		`{"model":"m","messages":[[[[[[["x"]]]]]]]}`, `{"model":"m","model":null,"input":[1,2],"prompt":"\u0000"}`, "{\"a\":\"\xff\"}", `{"":{}} `, `{"stream_options":[{}]}`} {
		f.Add(seed)
	}
	s := New(Config{})
	f.Fuzz(func(t *testing.T, body string) {
		q, err := s.parse([]byte(body), messages, true)
		valid := json.Valid([]byte(body)) && utf8.ValidString(body) && strings.HasPrefix(strings.TrimLeft(body, " \t\r\n"), "{")
		if err == nil && !valid {
			t.Errorf("took %q, which is no JSON object", body)
		}
		if !utf8.ValidString(q.prompt) || !utf8.ValidString(q.model) || q.maxTokens < 0 || q.inputs < 0 {
			t.Errorf("got %+v", q)
		}
		if err != nil {
			return
		}
		for _, a := range []api{messages, chat, responses, embeddings, completions} {
			c := &call{api: a, req: q, p: Params{Echo: true}}
			if b := c.body(); !json.Valid(b) {
				t.Errorf("%q is answered with %s", body, b)
			}
		}
	})
}

// FuzzParams: a query sets what it may or is refused, and a refused one can't stop the server from answering.
func FuzzParams(f *testing.F) {
	for _, seed := range []string{"latency=20ms&rpm=600", "latency=0", "p429=NaN", "drop=1e400", "gap=-1s", "nosuch=1", "%zz", "a=1;b=2", "seed=1&seed=2",
		"rpm=1&burst=2147483647", "latency=2562047h47m16.854775807s", "size=10&parts=2147483647"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		p, err := Params{}.with(query)
		if err != nil {
			return
		}
		x := p.Faults
		for _, share := range []float64{x.P429, x.P500, x.P503, x.P529, x.Drop, x.Cut, x.HTML, x.Slow, p.Spread} {
			if !(share >= 0 && share <= 100) {
				t.Errorf("%q: got a share of %v", query, share)
			}
		}
		c := &call{p: p}
		if p.Latency < None || p.Gap < 0 || p.latency(1, c) < 0 || p.size(requests) < 1 {
			t.Errorf("%q: got %+v, latency %v", query, p, p.latency(1, c))
		}
	})
}
