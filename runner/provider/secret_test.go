package provider

import (
	"encoding/json"
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
		`{"m":"it is\npw-7\tpw-7 \\npw-7"}`:               `{"m":"it is\n***\t*** \\npw-7"}`,
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
		if len(s.secrets) == 0 || strings.TrimSpace(key) != key || strings.Contains(key, hidden) || strings.ContainsAny(key, "{}:,") {
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
