package report

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// wrap breaks s between words into lines of at most width columns, a longer word
// where it must; most > 0: at most that many lines, the last with an ellipsis.
func wrap(s string, width, most int) []string {
	var lines []string
	line := ""
	for _, w := range strings.Fields(s) {
		for utf8.RuneCountInString(w) > width {
			if line != "" {
				lines, line = append(lines, line), ""
			}
			r := []rune(w)
			lines, w = append(lines, string(r[:width])), string(r[width:])
		}
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(w) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += w
	}
	if line != "" {
		lines = append(lines, line)
	}
	if most > 0 && len(lines) > most {
		lines = lines[:most]
		lines[most-1] = cut(lines[most-1]+"…", width)
		if !strings.HasSuffix(lines[most-1], "…") {
			lines[most-1] += "…"
		}
	}
	return lines
}

// cut is s in at most n columns, the last an ellipsis if it is cut.
func cut(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// clean makes a server's or a user's text one line without control or format
// characters: they become visible escapes.
func clean(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		case r < 0x80 && unicode.IsControl(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		case r != 0x200c && r != 0x200d && !unicode.IsPrint(r) && r != 0xa0:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// word is a name, "(none)" if it is empty.
func word(s string) string {
	if s == "" {
		return "(none)"
	}
	return clean(strings.ReplaceAll(s, "gave_up", "gave up"))
}

// idText is an id as people write it: a string without its quotes.
func idText(id json.RawMessage) string {
	var s string
	if json.Unmarshal(id, &s) == nil {
		return clean(s)
	}
	return clean(string(id))
}

// plain is a count with a comma each three digits.
func plain(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return plain(n) + " " + noun + "s"
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return plain(n) + " times"
}

func tokens(n int64) string { return plain(int(n)) }

// money shows four decimals while it is small, two later.
func money(c float64) string {
	if c < 1 {
		return strconv.FormatFloat(c, 'f', 4, 64)
	}
	return strconv.FormatFloat(c, 'f', 2, 64)
}

// span is a duration in milliseconds as people say it: 412ms, 4.2s, 3m05s, 2h10m.
func span(ms int64) string {
	s := (ms + 500) / 1000
	switch {
	case ms < 1000:
		return strconv.FormatInt(ms, 10) + "ms"
	case ms < 59_950:
		return strconv.FormatFloat(float64(ms)/1000, 'f', 1, 64) + "s"
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 100*3600:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd%02dh", s/86400, s/3600%24)
}
