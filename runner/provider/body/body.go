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

	"llmbatch/input/jsonl"
)

// Walk goes over the members of an object or the elements of an array.
type Walk = jsonl.Walk

// Members, Elements and Member are jsonl's.
func Members(v []byte) Walk { return jsonl.Members(v) }

// Elements walks the array in v; any other value has none.
func Elements(v []byte) Walk { return jsonl.Elements(v) }

// Member returns the value of the object's last member of that name, or nil.
func Member(obj []byte, name string) []byte { return jsonl.Member(obj, name) }

// Text returns the text of a JSON string, "" for any other value.
func Text(v []byte) string { return jsonl.Text(v) }

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
	return jsonl.AppendQuote(make([]byte, 0, len(s)+len(s)/16+2), s)
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
	if rest := bytes.TrimLeft(obj[at:], " \n\r\t"); len(rest) > 0 && rest[0] != '}' {
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
	out = append(jsonl.AppendQuote(out, name), ':')
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
