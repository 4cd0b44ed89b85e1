// Package body reads and extends the JSON bodies of requests and answers as
// bytes, for the adapters.
//
// Nothing here uses reflection: an answer of 1 KB is validated and walked in a
// few microseconds, and what a user wrote keeps its members' order, its spaces
// and its numbers' digits.
package body

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// Walk goes over the members of an object or the elements of an array, in
// order, without allocating. The zero value has none. Of text that is not valid
// JSON it yields what it can and stops.
type Walk struct {
	// Name is the member's name without its quotes, escapes resolved; nil in an
	// array. Value is the value as written, without the space around it.
	Name, Value []byte

	rest  []byte
	close byte
}

// Members walks the object in v; any other value has none.
func Members(v []byte) Walk { return open(v, '{', '}') }

// Elements walks the array in v; any other value has none.
func Elements(v []byte) Walk { return open(v, '[', ']') }

func open(v []byte, first, last byte) Walk {
	v = trimLeft(v)
	if len(v) == 0 || v[0] != first {
		return Walk{}
	}
	return Walk{rest: v[1:], close: last}
}

// Next moves to the next member or element; false at the end.
func (w *Walk) Next() bool {
	b := trimLeft(w.rest)
	if len(b) > 0 && b[0] == ',' {
		b = trimLeft(b[1:])
	}
	if len(b) == 0 || b[0] == w.close {
		*w = Walk{}
		return false
	}
	if w.close == '}' {
		if b[0] != '"' {
			*w = Walk{}
			return false
		}
		end := stringEnd(b)
		w.Name = name(b[:end])
		b = trimLeft(b[end:])
		if len(b) == 0 || b[0] != ':' {
			*w = Walk{}
			return false
		}
		b = trimLeft(b[1:])
	}
	end := valueEnd(b)
	if end == 0 {
		*w = Walk{}
		return false
	}
	w.Value, w.rest = b[:end], b[end:]
	return true
}

// name resolves a quoted member name.
func name(q []byte) []byte {
	if bytes.IndexByte(q, '\\') < 0 && len(q) >= 2 {
		return q[1 : len(q)-1]
	}
	s, _ := jsontext.AppendUnquote(nil, q)
	return s
}

func trimLeft(b []byte) []byte {
	for len(b) > 0 && space(b[0]) {
		b = b[1:]
	}
	return b
}

func space(c byte) bool { return c == ' ' || c == '\n' || c == '\r' || c == '\t' }

// stringEnd returns the length of the string literal that b begins with, or
// len(b) where it has no end.
func stringEnd(b []byte) int {
	for i := 1; i < len(b); i++ {
		k := bytes.IndexByte(b[i:], '"')
		if k < 0 {
			break
		}
		i += k
		escapes := 0
		for j := i - 1; j > 0 && b[j] == '\\'; j-- {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
	return len(b)
}

// valueEnd returns the length of the value that b begins with.
func valueEnd(b []byte) int {
	depth := 0
	for i := 0; i < len(b); i++ {
		switch b[i] {
		case '"':
			i += stringEnd(b[i:]) - 1
			if depth == 0 {
				return i + 1
			}
		case '{', '[':
			depth++
		case '}', ']':
			if depth == 0 {
				return i
			}
			if depth--; depth == 0 {
				return i + 1
			}
		case ',', ' ', '\n', '\r', '\t':
			if depth == 0 {
				return i
			}
		}
	}
	return len(b)
}

// Member returns the value of the object's member of that name, the last one if
// it is repeated, or nil.
func Member(obj []byte, name string) []byte {
	var v []byte
	for w := Members(obj); w.Next(); {
		if string(w.Name) == name {
			v = w.Value
		}
	}
	return v
}

// Null says that a value is absent or null.
func Null(v []byte) bool { return len(v) == 0 || v[0] == 'n' }

// True says that a value is the literal true.
func True(v []byte) bool { return len(v) > 0 && v[0] == 't' }

// Word is Text for values out of a small set, for which nothing is allocated.
func Word(v []byte, known ...string) string {
	if len(v) >= 2 && v[0] == '"' {
		for _, k := range known {
			if string(v[1:len(v)-1]) == k {
				return k
			}
		}
	}
	return Text(v)
}

// Quote returns s as a JSON string. Invalid UTF-8 becomes U+FFFD.
func Quote(s string) []byte {
	q, _ := jsontext.AppendQuote(make([]byte, 0, len(s)+len(s)/16+2), s)
	return q
}

// Int returns a JSON number as an integer, rounded down; 0 for any other value
// and for a negative one.
func Int(v []byte) int64 {
	var n int64
	for _, c := range v {
		if c < '0' || c > '9' || n > (math.MaxInt64-9)/10 {
			return inexact(v)
		}
		n = n*10 + int64(c-'0')
	}
	return n
}

func inexact(v []byte) int64 {
	f, err := strconv.ParseFloat(string(v), 64)
	if err != nil || !(f > 0) {
		return 0
	}
	return int64(min(f, 1<<53))
}

// Insert returns the object with a member added in front of the others, whose
// bytes stay as they are.
func Insert(obj json.RawMessage, name string, value []byte) json.RawMessage {
	at := bytes.IndexByte(obj, '{') + 1
	if at == 0 {
		return obj
	}
	out := make([]byte, 0, len(obj)+len(name)+len(value)+4)
	out = append(out, obj[:at]...)
	out = append(out, '"')
	out = append(out, name...)
	out = append(out, '"', ':')
	out = append(out, value...)
	if rest := trimLeft(obj[at:]); len(rest) > 0 && rest[0] != '}' {
		out = append(out, ',')
	}
	return append(out, obj[at:]...)
}

// Field is one member of an object to be built; without a Value it is left out.
type Field struct {
	Name  string
	Value []byte
}

// Build writes an object with the fields in order and params, an object or nil,
// merged in: a param takes the place of the field with its name, and others
// follow in their own order.
func Build(params json.RawMessage, fields ...Field) json.RawMessage {
	size := len(params) + 2
	for _, f := range fields {
		size += len(f.Name) + len(f.Value) + 4
	}
	out := append(make([]byte, 0, size), '{')
	for _, f := range fields {
		value := f.Value
		if own := Member(params, f.Name); own != nil {
			value = own
		}
		if value != nil {
			out = appendMember(out, f.Name, value)
		}
	}
	for w := Members(params); w.Next(); {
		if !has(fields, w.Name) {
			out = appendMember(out, string(w.Name), w.Value)
		}
	}
	return append(out, '}')
}

func has(fields []Field, name []byte) bool {
	for _, f := range fields {
		if f.Name == string(name) {
			return true
		}
	}
	return false
}

func appendMember(out []byte, name string, value []byte) []byte {
	if len(out) > 1 {
		out = append(out, ',')
	}
	out, _ = jsontext.AppendQuote(out, name)
	out = append(out, ':')
	return append(out, value...)
}

// List returns an array of the values.
func List(values ...[]byte) []byte {
	size := 2
	for _, v := range values {
		size += len(v) + 1
	}
	out := append(make([]byte, 0, size), '[')
	for i, v := range values {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, v...)
	}
	return append(out, ']')
}

// First returns the first string that is not "" as a JSON string, or nil.
func First(values ...string) []byte {
	for _, s := range values {
		if s != "" {
			return Quote(s)
		}
	}
	return nil
}

// FirstRaw returns the first value that is neither absent nor null, or nil.
func FirstRaw(values ...json.RawMessage) []byte {
	for _, v := range values {
		if !Null(v) {
			return v
		}
	}
	return nil
}
