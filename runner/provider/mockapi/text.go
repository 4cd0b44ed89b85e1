package mockapi

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// walker reads a body in one pass. Its zero value is ready for begin.
type walker struct {
	jsontext.Decoder

	body []byte
	in   bytes.Reader
}

// begin makes the walker read body.
func (w *walker) begin(body []byte) {
	w.body = body
	w.in.Reset(body)
	w.Reset(&w.in, jsontext.AllowDuplicateNames(true))
}

// object reads an object and calls f with each name; f reads the value.
func (w *walker) object(f func(name string) error) error {
	t, err := w.ReadToken()
	if err != nil {
		return err
	}
	if t.Kind() != '{' {
		return errors.New("an object is needed")
	}
	for w.PeekKind() != '}' {
		t, err := w.ReadToken()
		if err != nil {
			return err
		}
		if err := f(t.String()); err != nil {
			return err
		}
	}
	_, err = w.ReadToken()
	return err
}

// text reads a value and returns the last text in it, quoted as it stands in the body: a string itself, of an array the
// last element's, of an object its content's, text's or parts'. Deeper than depth it finds nothing. n is of how many inputs the
// value would consist in an embeddings request: an array of numbers is one, other arrays are as many as their elements.
func (w *walker) text(depth int) (last []byte, n int, err error) {
	n = 1
	if depth == 0 {
		return nil, n, w.SkipValue()
	}
	switch w.PeekKind() {
	case '"':
		v, err := w.ReadValue()
		end := int(w.InputOffset())
		return w.body[end-len(v) : end : end], n, err
	case '{':
		err = w.object(func(name string) error {
			if name != "content" && name != "text" && name != "parts" {
				return w.SkipValue()
			}
			var err error
			last, _, err = w.text(depth - 1)
			return err
		})
		return last, n, err
	case '[':
		return w.array(depth)
	}
	return nil, n, w.SkipValue()
}

// array is text for an array.
func (w *walker) array(depth int) (last []byte, n int, err error) {
	if _, err = w.ReadToken(); err != nil {
		return nil, 1, err
	}
	numbers := false
	for ; w.PeekKind() != ']'; n++ {
		numbers = w.PeekKind() == '0'
		raw, _, err := w.text(depth - 1)
		if err != nil {
			return nil, 1, err
		}
		if raw != nil {
			last = raw
		}
	}
	if numbers {
		n = 1
	}
	_, err = w.ReadToken()
	return last, n, err
}

// unquote returns the text of a JSON string; nil is the empty one.
func unquote(raw []byte) string {
	b, err := jsontext.AppendUnquote(nil, raw)
	if err != nil {
		return ""
	}
	return string(b)
}

// hex writes a hash.
func hex(hash uint64) string {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], hash)
	return fmt.Sprintf("%x", b[:])
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
