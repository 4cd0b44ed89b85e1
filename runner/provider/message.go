package provider

import (
	"bytes"
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

const (
	longestMessage = 1000     // bytes of a message in a row
	longestText    = 64 << 10 // bytes of a body that are looked at as text
)

// Clean makes text of a server fit to be shown, as clean does, in at most n bytes.
func Clean(v string, n int) string { return clip(clean(v), n) }

// clean makes text of a server fit for a row, a log and a terminal: one line, no
// control or invisible formatting characters, valid UTF-8.
func clean(v string) string {
	if isClean(v) {
		return v
	}
	var b strings.Builder
	space := false
	for _, r := range v {
		switch {
		case unicode.IsSpace(r), unicode.IsControl(r):
			space = b.Len() > 0
			continue
		case unicode.Is(unicode.Cf, r): // zero width and direction marks
			continue
		}
		if space {
			b.WriteByte(' ')
			space = false
		}
		b.WriteRune(r) // an invalid byte is U+FFFD here
	}
	return b.String()
}

// isClean says of short ASCII words, which are most of what comes, that there is
// nothing to clean.
func isClean(v string) bool {
	for i := range len(v) {
		if v[i] <= ' ' || v[i] > '~' {
			return false
		}
	}
	return true
}

// clip shortens v to n bytes, whole characters, with an ellipsis.
func clip(v string, n int) string {
	if len(v) <= n {
		return v
	}
	n -= len("…")
	for n > 0 && !utf8.RuneStart(v[n]) {
		n--
	}
	return v[:n] + "…"
}

// head bounds the part of a body that is looked at as text.
func head(body []byte) []byte { return body[:min(len(body), longestText)] }

// plainText is what a page says in one line: its title, or else its first text.
// A body that is no page is its own text.
func plainText(body []byte) string {
	body = bytes.TrimPrefix(head(body), []byte("\ufeff"))
	text := string(body)
	if !strings.HasPrefix(strings.TrimSpace(text), "<") {
		return clip(clean(text), longestMessage)
	}
	if title := clean(html.UnescapeString(between(text, "<title", "</title"))); title != "" {
		return clip(title, 200)
	}
	return clip(clean(html.UnescapeString(untagged(text))), 200)
}

// between is the content of the first element that open begins.
func between(text, open, end string) string {
	low := strings.ToLower(text)
	if len(low) != len(text) { // rare letters change their length
		low = text
	}
	i := strings.Index(low, open)
	if i < 0 {
		return ""
	}
	j := strings.IndexByte(low[i:], '>')
	if j < 0 {
		return ""
	}
	i += j + 1
	n := strings.Index(low[i:], end)
	if n < 0 {
		return ""
	}
	return text[i : i+n]
}

// untagged is a page's text without tags, scripts and styles.
func untagged(page string) string {
	var b strings.Builder
	for len(page) > 0 && b.Len() < longestMessage {
		i := strings.IndexByte(page, '<')
		if i < 0 {
			b.WriteString(page)
			break
		}
		b.WriteString(page[:i])
		b.WriteByte(' ')
		page = page[i:]
		end := ">"
		for _, skip := range [...][2]string{{"<script", "</script"}, {"<style", "</style"}, {"<!--", "-->"}} {
			if len(page) >= len(skip[0]) && strings.EqualFold(page[:len(skip[0])], skip[0]) {
				end = skip[1]
			}
		}
		j := strings.Index(page[1:], end)
		if j < 0 {
			break
		}
		page = page[1+j:]
		if k := strings.IndexByte(page, '>'); k >= 0 {
			page = page[k+1:]
		}
	}
	return b.String()
}
