package provider

import (
	"bytes"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Text returns the text of a JSON string, "" for any other value. Invalid UTF-8
// and lone surrogates become U+FFFD.
func Text(v []byte) string {
	if len(v) < 2 || v[0] != '"' {
		return ""
	}
	if !utf8.Valid(v) {
		s, _ := jsontext.AppendUnquote(nil, v)
		return string(s)
	}
	in := v[1 : len(v)-1]
	i := bytes.IndexByte(in, '\\')
	if i < 0 {
		return string(in)
	}
	// Answers are long and have few escapes, so what lies between them is copied whole.
	var b strings.Builder
	b.Grow(len(in))
	for i >= 0 {
		b.Write(in[:i])
		in = in[i+1:]
		if len(in) == 0 {
			break
		}
		r, n := escaped(in)
		b.WriteRune(r)
		in = in[n:]
		i = bytes.IndexByte(in, '\\')
	}
	b.Write(in)
	return b.String()
}

// escaped returns the character that an escape stands for, and the length of the
// escape without its backslash.
func escaped(in []byte) (r rune, n int) {
	switch in[0] {
	case 'b':
		return '\b', 1
	case 'f':
		return '\f', 1
	case 'n':
		return '\n', 1
	case 'r':
		return '\r', 1
	case 't':
		return '\t', 1
	case 'u':
		r, ok := hex4(in[1:])
		if !ok {
			return utf8.RuneError, 1
		}
		if !utf16.IsSurrogate(r) {
			return r, 5
		}
		if len(in) > 6 && in[5] == '\\' && in[6] == 'u' {
			if low, ok := hex4(in[7:]); ok {
				if r := utf16.DecodeRune(r, low); r != utf8.RuneError {
					return r, 11
				}
			}
		}
		return utf8.RuneError, 5
	}
	return utf8.DecodeRune(in) // a quote, a slash or a backslash
}

func hex4(in []byte) (rune, bool) {
	if len(in) < 4 {
		return 0, false
	}
	n, err := strconv.ParseUint(string(in[:4]), 16, 16)
	return rune(n), err == nil
}
