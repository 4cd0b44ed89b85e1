package plain

import (
	"encoding/json"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"Paris":              "Paris",
		"a\tb":               "a\tb",
		"a\nb\r":             `a\nb\r`,
		"\x1b[2J":            `\x1b[2J`,
		"\x7f\u0085":         `\u007f\u0085`,
		"a\u202eb":           `a\u202eb`,
		"\u2028":             `\u2028`,
		"\U000e0041":         `\udb40\udc41`,
		"\xff":               `\xff`,
		"👩\u200d👩":           "👩\u200d👩",
		"zero\u200bwidth":    `zero\u200bwidth`,
		"{\"a\":\"\u202e\"}": `{"a":"\u202e"}`,
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q): got %q, want %q", in, got, want)
		}
	}
}

func TestLineAndBlock(t *testing.T) {
	t.Parallel()
	if got, want := Line(" a\n\n b\x1b "), `a b\x1b`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := Block("a\r\nb\x1b\n"), "a\nb\\x1b\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestClipAndWrap(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		in   string
		n    int
		want string
	}{{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"日本語", 4, "日…"}, {"abc", 1, "…"}, {"abc", 0, ""}} {
		if got := Clip(c.in, c.n); got != c.want {
			t.Errorf("Clip(%q, %d): got %q, want %q", c.in, c.n, got, c.want)
		}
	}
	if got, want := strings.Join(Wrap("one two three four", 8, 2), "|"), "one two|three…"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got, want := strings.Join(Wrap("abcdefghij k", 4, 0), "|"), "abcd|efgh|ij k"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := Wrap("日", 1, 0); len(got) != 1 {
		t.Errorf("got %q, want the character on a line of its own", got)
	}
}

func TestFigures(t *testing.T) {
	t.Parallel()
	for _, c := range [][2]string{
		{Count(0), "0"}, {Count(-1234), "-1,234"}, {Count(int64(1234567)), "1,234,567"}, {Count(999), "999"},
		{Brief(0), "0"}, {Brief(0.25), "0.25"}, {Brief(9999), "9999"}, {Brief(12_340), "12.3k"}, {Brief(4e6), "4M"}, {Brief(2.5e9), "2.5G"},
		{Plural(1, "item"), "1 item"}, {Plural(2000, "item"), "2,000 items"}, {Plural(2, "entry", "entries"), "2 entries"},
		{Times(1), "once"}, {Times(3), "3 times"},
		{Money(0.00012), "0.0001"}, {Money(12.345), "12.35"},
		{Percent(0, 0), ""}, {Percent(1, 2), "50.0 %"}, {Percent(1, 100_000), "under 0.1 %"}, {Percent(99_999, 100_000), "over 99.9 %"},
		{Span(0), "0ms"}, {Span(-time.Second), "0ms"}, {Span(412 * time.Millisecond), "412ms"}, {Span(4200 * time.Millisecond), "4.2s"},
		{Span(185 * time.Second), "3m05s"}, {Span(130 * time.Minute), "2h10m"}, {Span(99 * time.Hour), "99h00m"}, {Span(101 * time.Hour), "4d05h"},
	} {
		if c[0] != c[1] {
			t.Errorf("got %q, want %q", c[0], c[1])
		}
	}
}

// Cleaned JSON means the same, and nothing that acts on a terminal is left.
func FuzzClean(f *testing.F) {
	f.Add("a\x1b[2J\u202e\u2028")
	f.Add("\xff\U000e0041")
	f.Fuzz(func(t *testing.T, s string) {
		got := Clean(s)
		if !utf8.ValidString(got) || strings.ContainsAny(got, "\n\r\x1b\x7f\u2028\u202e\u0085") {
			t.Fatalf("Clean(%q): got %q", s, got)
		}
		if !utf8.ValidString(s) {
			return
		}
		line, _ := json.Marshal(s)
		var back string
		if err := json.Unmarshal([]byte(Clean(string(line))), &back); err != nil || back != s {
			t.Fatalf("got %q (%v), want %q", back, err, s)
		}
	})
}
