package report

import (
	"encoding/json"
	"slices"
	"strings"
	"unicode"

	"llmbatch/output"
)

// causeKey is what makes two failures the same one.
type causeKey struct {
	status output.Status // the row's
	class  string
	http   int
	shape  string
}

// cause is one group of failures.
type cause struct {
	count   int
	id      json.RawMessage // of the first
	message string          // of the first
	same    bool            // all messages are that one
}

// addCause counts a row that is not ok.
func (s *Stats) addCause(r *output.Result) {
	key := causeKey{status: r.Status}
	message := ""
	if r.Error != nil {
		message = r.Error.Message
		key.class, key.http, key.shape = r.Error.Class, r.Error.Status, s.shapes.of(message)
	}
	if key.class == "" {
		key.class = r.GiveUpReason
	}
	p := s.causes.at(key)
	if *p == nil {
		*p = &cause{id: slices.Clone(r.ID), message: strings.Clone(message), same: true}
	}
	c := *p
	c.count++
	c.same = c.same && c.message == message
}

// shapeCache keeps the last shape: failures come in rows of the same message.
type shapeCache struct{ message, shape string }

func (c *shapeCache) of(message string) string {
	if message != c.message {
		c.message, c.shape = strings.Clone(message), shape(message)
	}
	return c.shape
}

// shape is a message without what differs from one item to the next: quoted
// parts become "…", words with a digit in them (numbers, ids, hashes, dates)
// become #, white space one space. It is cut at maxShapeLen characters.
func shape(message string) string {
	var b strings.Builder
	runes := []rune(message)
	if len(runes) > 8*maxShapeLen {
		runes = runes[:8*maxShapeLen]
	}
	n := 0
	put := func(s string) {
		if s == "#" && strings.HasSuffix(b.String(), "#") {
			return
		}
		b.WriteString(s)
		n += len([]rune(s))
	}
	for i := 0; i < len(runes) && n < maxShapeLen; {
		r := runes[i]
		if end := quoteEnd(runes, i); end > 0 {
			put("\"…\"")
			i = end
			continue
		}
		if unicode.IsSpace(r) {
			for i < len(runes) && unicode.IsSpace(runes[i]) {
				i++
			}
			put(" ")
			continue
		}
		if !inWord(r) {
			put(string(r))
			i++
			continue
		}
		end := i
		for end < len(runes) && inWord(runes[end]) {
			end++
		}
		word := strings.TrimRight(string(runes[i:end]), ".:-/")
		if varies(word) {
			put("#")
		} else {
			put(word)
		}
		i += len([]rune(word))
		if word == "" {
			put(string(r))
			i++
		}
	}
	return strings.TrimSpace(b.String())
}

// inWord tells whether a character belongs to a word or an id: 12:30:01,
// 2026-11-30, req_011CSx, 10.0.0.1:443.
func inWord(r rune) bool {
	return unicode.IsLetter(r) || unicode.IsDigit(r) || strings.ContainsRune("_-.:/", r)
}

// varies tells whether a word is likely to differ from item to item: it has a
// digit, or it is a hash that happens to have none.
func varies(word string) bool {
	hash := len(word) >= 8 && strings.Trim(word, "abcdefABCDEF") == ""
	return hash || strings.ContainsFunc(word, unicode.IsDigit)
}

// quoteEnd is the index after the quoted part that begins at i, 0 if none does.
// An apostrophe within a word begins nothing.
func quoteEnd(runes []rune, i int) int {
	r := runes[i]
	if !strings.ContainsRune("\"'`“‘", r) {
		return 0
	}
	if r == '\'' && i > 0 && (unicode.IsLetter(runes[i-1]) || unicode.IsDigit(runes[i-1])) {
		return 0
	}
	closing := r
	switch r {
	case '“':
		closing = '”'
	case '‘':
		closing = '’'
	}
	for j := i + 1; j < len(runes); j++ {
		if runes[j] != closing {
			continue
		}
		if closing == '\'' && j+1 < len(runes) && unicode.IsLetter(runes[j+1]) {
			continue
		}
		return j + 1
	}
	return 0
}
