package mockapi

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// text returns the last text in v: a string itself, of an array the last element's, of an object its content's or
// text's. Deeper than depth it finds nothing.
func text(v jsontext.Value, depth int) (last string) {
	if depth == 0 {
		return ""
	}
	switch v.Kind() {
	case '"':
		b, err := jsontext.AppendUnquote(nil, v)
		if err == nil {
			last = string(b)
		}
	case '[':
		_ = array(v, func(v jsontext.Value) {
			if t := text(v, depth-1); t != "" {
				last = t
			}
		})
	case '{':
		_ = object(v, func(name string, v jsontext.Value) {
			if name == "content" || name == "text" {
				last = text(v, depth-1)
			}
		})
	}
	return last
}

// count returns of how many inputs an embeddings request consists: one, or the elements of an array of texts or of arrays.
func count(v jsontext.Value) int {
	n, numbers := 0, false
	if v.Kind() != '[' {
		return 1
	}
	_ = array(v, func(v jsontext.Value) { n++; numbers = v.Kind() == '0' })
	if numbers {
		return 1
	}
	return n
}

// number returns v as a whole number, 0 when it is none.
func number(v jsontext.Value) int {
	n, err := strconv.Atoi(string(v))
	if err != nil {
		return 0
	}
	return max(n, 0)
}

// array calls f with each element of v, a valid array.
func array(v jsontext.Value, f func(jsontext.Value)) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(v), jsontext.AllowDuplicateNames(true))
	if _, err := d.ReadToken(); err != nil {
		return err
	}
	for d.PeekKind() != ']' {
		e, err := d.ReadValue()
		if err != nil {
			return err
		}
		f(e)
	}
	return nil
}

// object calls f with each member of v and does nothing when v is no object.
func object(v jsontext.Value, f func(string, jsontext.Value)) error {
	d := jsontext.NewDecoder(bytes.NewBuffer(v), jsontext.AllowDuplicateNames(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return err
	}
	for d.PeekKind() != '}' {
		t, err := d.ReadToken()
		if err != nil {
			return err
		}
		name := t.String()
		m, err := d.ReadValue()
		if err != nil {
			return err
		}
		f(name, m)
	}
	return nil
}

// prefix cuts s to at most n bytes, at a rune's border, and keeps no reference to the rest.
func prefix(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.Clone(s[:n])
}

// quote appends s as a JSON string.
func quote(b []byte, s string) []byte {
	b, _ = jsontext.AppendQuote(b, s) // invalid UTF-8 becomes U+FFFD, and that is all that the error says
	return b
}
