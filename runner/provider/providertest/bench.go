package providertest

import (
	"bytes"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"llmbatch/input"
	"llmbatch/runner/provider"
)

// CheckEncode returns what is to be true of any item, for fuzzing: a body out of
// valid JSON is valid JSON, and has what the user wrote in it.
func CheckEncode(p provider.Provider, d provider.Defaults, formats ...input.Format) func(*testing.T, string, []byte, []byte) {
	return func(t *testing.T, prompt string, body, params []byte) {
		// The input refuses a line that is not valid JSON.
		if len(body) > 0 && !object(body) || len(params) > 0 && !object(params) {
			return
		}
		for _, format := range formats {
			it := &input.Item{Format: format, URL: "/v1/chat/completions"}
			if format == input.Prompt {
				it.Prompt, it.Params = prompt, params
			} else if it.Body = body; len(body) == 0 {
				continue
			}
			c, err := p.Encode(it, d)
			if err != nil {
				continue
			}
			if !jsontext.Value(c.Body).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
				t.Fatalf("got a body that is not valid JSON: %s", c.Body)
			}
			if at := bytes.IndexByte(body, '{'); format != input.Prompt && d.System == "" && !bytes.HasSuffix(c.Body, body[at+1:]) {
				t.Fatalf("got %s, want it to end as %s", c.Body, body)
			}
		}
	}
}

func object(b []byte) bool {
	v := jsontext.Value(b)
	return v.IsValid(jsontext.AllowDuplicateNames(true)) && v.Kind() == '{'
}

// BenchEncode times the encoding of one item.
func BenchEncode(b *testing.B, p provider.Provider, it *input.Item, d provider.Defaults) {
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Encode(it, d); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchDecode times the reading of a short answer and of one of 1 KB and of 8 KB,
// each with a text that fills it.
func BenchDecode(b *testing.B, p provider.Provider, c provider.Call, short string) {
	for _, size := range []struct {
		name string
		n    int
	}{{"short", 0}, {"1KB", 1 << 10}, {"8KB", 8 << 10}} {
		fill := max(0, size.n-len(short))
		data := bytes.Replace([]byte(short), []byte("OK"), append([]byte("OK"), bytes.Repeat([]byte("some words "), fill/11)...), 1)
		b.Run(size.name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetBytes(int64(len(data)))
			a := provider.Answer{Status: 200, Body: data}
			for b.Loop() {
				if _, err := p.Decode(&c, a); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
