// Package plain writes foreign text and figures for people: what servers and
// prompt files say never reaches a terminal raw, and a figure looks the same
// wherever it stands.
//
// All functions are pure and safe for concurrent use.
package plain

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Clean makes text fit for a terminal. Control characters but the tab, characters
// that reorder text (U+202A to U+202E, U+2066 to U+2069 and the like), other
// invisible format characters, line and paragraph separators, and invalid bytes
// become visible escapes. The zero-width joiners are kept: emoji and several
// scripts are written with them. A line of JSON stays JSON with the same meaning,
// because the escapes of what may stand in it are JSON's own.
func Clean(s string) string {
	clean := true
	for i := 0; i < len(s) && clean; i++ {
		clean = s[i] >= ' ' && s[i] < 0x7f || s[i] == '\t'
	}
	if clean {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\t':
			b.WriteByte('\t')
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r < ' ':
			fmt.Fprintf(&b, `\x%02x`, r)
		case hidden(r) && r > 0xffff:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		case hidden(r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// hidden tells whether a character does something else than show itself.
func hidden(r rune) bool {
	if r == 0x200c || r == 0x200d {
		return false
	}
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp)
}

// Line is s on one line, cleaned, with each run of white space one space.
func Line(s string) string { return Clean(strings.Join(strings.Fields(s), " ")) }

// Block is s with its line breaks, each line cleaned: an answer as it is shown.
func Block(s string) string {
	lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	for i, l := range lines {
		lines[i] = Clean(l)
	}
	return strings.Join(lines, "\n")
}

// Width is how many columns of a terminal s takes.
func Width(s string) int { return uniseg.StringWidth(s) }

// Clip is s in at most n columns, the last of them an ellipsis if it is cut.
func Clip(s string, n int) string {
	if Width(s) <= n {
		return s
	}
	head, _ := split(s, n-1)
	if n > 0 {
		head += "…"
	}
	return head
}

// split cuts s after as many whole characters as n columns hold.
func split(s string, n int) (head, rest string) {
	room := n
	for rest, state := s, -1; rest != ""; {
		var width int
		_, next, width, state2 := uniseg.FirstGraphemeClusterInString(rest, state)
		if room -= width; room < 0 {
			return s[:len(s)-len(rest)], rest
		}
		rest, state = next, state2
	}
	return s, ""
}

// Wrap breaks s between words into lines of at most width columns, a longer word
// where it must. With most above 0 there are at most that many lines, the last
// with an ellipsis if something was left out.
func Wrap(s string, width, most int) []string {
	var lines []string
	line := ""
	for _, w := range strings.Fields(s) {
		for Width(w) > width {
			if line != "" {
				lines, line = append(lines, line), ""
			}
			head, rest := split(w, width)
			if head == "" { // one character is wider than the line
				break
			}
			lines, w = append(lines, head), rest
		}
		if line != "" && Width(line)+1+Width(w) > width {
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
		last, _ := split(lines[most-1], width-1)
		lines = append(lines[:most-1], last+"…")
	}
	return lines
}
