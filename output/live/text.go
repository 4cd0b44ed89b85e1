package live

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/rivo/uniseg"
)

// Sanitize makes text fit for a terminal: control characters (C0 but for the
// tab, DEL, C1), what reorders text (U+202A–202E, U+2066–2069, U+200E/F, U+061C),
// other invisible format characters, line and paragraph separators, and invalid
// bytes become visible escapes; other text is returned as it is. A line that is
// JSON stays JSON with the same meaning: the escapes of what may stand in it are
// JSON's own.
func Sanitize(s string) string {
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

// oneLine is s sanitised, with each run of white space one space.
func oneLine(s string) string { return Sanitize(strings.Join(strings.Fields(s), " ")) }

// hidden tells whether a character does something else than show itself. The
// zero-width joiners are kept: emoji and several scripts are written with them.
func hidden(r rune) bool {
	if r == 0x200c || r == 0x200d {
		return false
	}
	return unicode.IsControl(r) || unicode.In(r, unicode.Cf, unicode.Zl, unicode.Zp)
}

// clip cuts s to n columns, the last of them an ellipsis.
func clip(s string, n int) string {
	if uniseg.StringWidth(s) <= n {
		return s
	}
	var b strings.Builder
	room := n - 1
	for rest, state := s, -1; rest != ""; {
		var cluster string
		var width int
		cluster, rest, width, state = uniseg.FirstGraphemeClusterInString(rest, state)
		if room -= width; room < 0 {
			break
		}
		b.WriteString(cluster)
	}
	if n > 0 {
		b.WriteString("…")
	}
	return b.String()
}

// Handler is a log handler that writes to w: text for people (time of day, level,
// message, key=value) or, with format "json", one object a line. A nil level means Info.
func Handler(w io.Writer, format string, level slog.Leveler) slog.Handler {
	if level == nil {
		level = slog.LevelInfo
	}
	if format == "json" {
		return slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: utc})
	}
	return slog.NewTextHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: shortTime})
}

// utc writes a record's time as the rows do.
func utc(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Time(slog.TimeKey, a.Value.Time().UTC())
	}
	return a
}

// shortTime leaves the second: a log beside a line that counts needs no microseconds.
func shortTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.String(slog.TimeKey, a.Value.Time().Format(time.RFC3339))
	}
	return a
}
