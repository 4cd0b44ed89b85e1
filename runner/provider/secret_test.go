package provider

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strings"
	"testing"
)

func TestScrubber(t *testing.T) {
	s := NewScrubber("sk-secret-12345678", "Bearer tok/en+\"<12345>", "pw-7", "ollama", "", "sk-secret-1234567890", "sk-secret-12345678")
	for in, want := range map[string]string{
		"nothing here": "nothing here",
		"Incorrect API key provided: sk-secret-12345678.": "Incorrect API key provided: ***.",
		"sk-secret-1234567890":                            "***",
		"sk-secret-12345678sk-secret-12345678":            "******",
		"got Bearer tok/en+\"<12345>":                     "got ***",
		"got tok/en+\"<12345>":                            "got ***",
		`{"m":"tok/en+\"<12345>"}`:                        `{"m":"***"}`,
		`{"m":"tok/en+\"\u003c12345\u003e"}`:              `{"m":"***"}`,
		`{"m":"tok\/en+\"<12345>"}`:                       `{"m":"***"}`,
		`{"m":"{\"k\":\"tok/en+\\\"<12345>\"}"}`:          `{"m":"{\"k\":\"***\"}"}`,
		"?k=tok%2Fen%2B%22%3C12345%3E&x":                  "?k=***&x",
		"pw-7 (pw-7) xpw-7 pw-77 pw-7":                    "*** (***) xpw-7 pw-77 ***",
		`{"m":"it is\npw-7\tpw-7 \\npw-7"}`:               `{"m":"it is\n***\t*** \\n***"}`,
		"an ollama is a lama":                             "an ollama is a lama",
	} {
		if got := s.String(in); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
		if got := string(s.Bytes([]byte(in))); got != want {
			t.Errorf("%s: got %s, want %s", in, got, want)
		}
	}
	clean := []byte("nothing here")
	if got := s.Bytes(clean); &got[0] != &clean[0] {
		t.Error("got a copy, want the same slice")
	}
	dirty := []byte("sk-secret-12345678")
	if s.Bytes(dirty); string(dirty) != "sk-secret-12345678" {
		t.Error("got the argument changed")
	}
	if got := new(Scrubber).String("x"); got != "x" {
		t.Errorf("got %q, want x", got)
	}
}

// written are the forms of a key in which servers, gateways and encoders may send it back.
func written(key string) map[string]string {
	each := func(f func(c byte) string) string {
		var b strings.Builder
		for i := range len(key) {
			b.WriteString(f(key[i]))
		}
		return b.String()
	}
	q, _ := json.Marshal(key)
	inside := string(q[1 : len(q)-1])
	again, _ := json.Marshal(inside)
	return map[string]string{
		"as it is":             key,
		"upper case":           strings.ToUpper(key),
		"lower case":           strings.ToLower(key),
		"JSON":                 inside,
		"JSON, each":           each(func(c byte) string { return fmt.Sprintf(`\u%04x`, c) }),
		"JSON, each, upper":    each(func(c byte) string { return fmt.Sprintf(`\u%04X`, c) }),
		"JSON, some":           strings.ReplaceAll(key, "e", `\u0065`),
		"JSON with slashes":    strings.ReplaceAll(inside, "/", `\/`),
		"JSON in JSON":         string(again[1 : len(again)-1]),
		"URL":                  url.QueryEscape(key),
		"URL, lower case":      strings.ToLower(url.QueryEscape(key)),
		"URL, each":            each(func(c byte) string { return fmt.Sprintf("%%%02x", c) }),
		"URL twice":            url.QueryEscape(url.QueryEscape(key)),
		"HTML":                 html.EscapeString(key),
		"HTML, each":           each(func(c byte) string { return fmt.Sprintf("&#%d;", c) }),
		"HTML, each, hex":      each(func(c byte) string { return fmt.Sprintf("&#x%X;", c) }),
		"HTML in JSON":         strings.ReplaceAll(key, "/", `\u0026#x2f;`),
		"split by U+200B":      key[:9] + "\u200b" + key[9:],
		"split, escaped":       key[:9] + `\u200b` + key[9:],
		"split by a control":   key[:9] + "\x00" + key[9:],
		"split by marks":       each(func(c byte) string { return string(c) + "\u2060" }),
		"base64":               base64.StdEncoding.EncodeToString([]byte(key)),
		"base64 for URLs":      base64.RawURLEncoding.EncodeToString([]byte(key)),
		"base64 of Basic":      base64.StdEncoding.EncodeToString([]byte("u:" + key)),
		"base64 of a sentence": base64.StdEncoding.EncodeToString([]byte("x " + key + " y")),
		"hex":                  hex.EncodeToString([]byte(key)),
		"cut by an ellipsis":   key[:len(key)-3] + "…",
	}
}

// faults 10: the key never comes back, in whatever form it is written.
func TestKeyInAllForms(t *testing.T) {
	const key = "sk-Secret/01+23&456=789"
	s := NewScrubber(key)
	for name, form := range written(key) {
		for _, around := range []string{"%s", "key: %s", `{"m":"a %s"}`, `{"m":"\n%s`} {
			in := fmt.Sprintf(around, form)
			got := s.String(in)
			rest := strings.Replace(got, hidden, "", 1)
			if !strings.Contains(got, hidden) || len(rest) > len(fmt.Sprintf(around, ""))+len("cwBc==…") || strings.HasPrefix(around, "{") && got[0] != '{' {
				t.Errorf("%s: got %q of %q, want it hidden", name, got, in)
			}
		}
	}
	long := strings.Repeat("words and \\n more ", 8_000)
	for _, at := range []int{0, window - 30, window - 5, window, len(long)} {
		got := s.String(long[:at] + written(key)["JSON, each"] + long[at:])
		if want := long[:at] + hidden + long[at:]; got != want {
			t.Errorf("at %d: got a text of %d bytes, want %d", at, len(got), len(want))
		}
	}
}

// A row that is valid JSON stays so.
func FuzzScrubber(f *testing.F) {
	f.Add("sk-secret-12345678", "the key sk-secret-12345678 is wrong")
	f.Add("0000000000000000", "\x10")
	f.Add("nabcdefgh-12345678", "\nabcdefgh-12345678\\n")
	f.Add("tok/en+\"<12345>\\", "a tok/en+\"<12345>\\ b")
	f.Fuzz(func(t *testing.T, key, message string) {
		row, err := json.Marshal(map[string]string{"m": message + key})
		if err != nil {
			t.Skip()
		}
		s := NewScrubber(key)
		if len(s.secrets().list) == 0 || strings.TrimSpace(key) != key || strings.Contains(key, hidden) || strings.ContainsAny(key, "{}:,") {
			t.Skip()
		}
		out := s.Bytes(row)
		if !json.Valid(out) && len(key) >= 16 {
			t.Fatalf("got %s from %s", out, row)
		}
	})
}

func TestSecrets(t *testing.T) {
	u, err := url.Parse("https://u:p@h/?api-version=1&api_key=a&Token=b&token=c&sig=d&x=e")
	if err != nil {
		t.Fatal(err)
	}
	got := Secrets(u)
	slices.Sort(got)
	if want := []string{"Basic dTpw", "a", "b", "c", "d", "p"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := Secrets(&url.URL{User: url.User("tok")}), []string{"tok", "Basic dG9rOg=="}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Basic(&url.URL{}); got != "" {
		t.Errorf("got %q, want none", got)
	}
}

// C50: what is pasted or read from a file as a key.
func TestCheckKey(t *testing.T) {
	for raw, want := range map[string]string{
		"sk-abc": "sk-abc", "sk-abc\n": "sk-abc", " sk-abc\r\n": "sk-abc", "\ufeffsk-abc": "sk-abc", "\tsk-abc\u00a0": "sk-abc",
	} {
		if got, err := CheckKey(raw, "X"); got != want || err != nil {
			t.Errorf("%q: got %q %v, want %q", raw, got, err, want)
		}
	}
	for raw, want := range map[string]string{
		"": "is empty", " \n": "is empty", "sk-s3\ncret": "a line break", "sk-s3\rcret": "a line break", "sk s3cret": "a space",
		"sk\ts3cret": "a space", "sk\x00s3cret": "a control character", "sk\x7fs3cret": "a control character",
		"“sk-s3cret”": "a typographic quote", "sk-s3crét": "outside ASCII", "sk-s3\ufeffcret": "outside ASCII",
		"sk-s3\xffcret": "outside ASCII", `"sk-s3cret"`: "in quotes", "'sk-s3cret'": "in quotes",
	} {
		got, err := CheckKey(raw, "OPENAI_API_KEY")
		if err == nil || got != "" {
			t.Errorf("%q: got %q, want an error", raw, got)
			continue
		}
		if !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "OPENAI_API_KEY") || strings.Contains(err.Error(), "s3") {
			t.Errorf("%q: got %q, want %q", raw, err, want)
		}
	}
}
