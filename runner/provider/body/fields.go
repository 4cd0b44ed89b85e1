package body

import (
	"bytes"
	"encoding/json"
	"net/http"

	"github.com/go-json-experiment/json/jsontext"

	"llmbatch/runner/provider"
)

// Fields is an object that is put together from the pieces of a stream. Its
// members keep the order in which they came. The zero value is empty.
//
// It has at most 1,000 members, more than any API sends; further ones are dropped.
// Strings grow by their escaped text, so that a surrogate pair whose halves came
// in two pieces is whole again.
type Fields struct {
	list []entry
}

type entry struct {
	name string
	// value lacks its last byte, a quote or a bracket, while open is not 0.
	value []byte
	open  byte
}

func (f *Fields) find(name string) *entry {
	for i := range f.list {
		if f.list[i].name == name {
			return &f.list[i]
		}
	}
	return nil
}

const maxFields = 1000

// Set gives the member a copy of the value, in the place that it has.
func (f *Fields) Set(name string, value []byte) {
	e := f.find(name)
	if e == nil {
		if len(f.list) == maxFields {
			return
		}
		f.list = append(f.list, entry{name: name})
		e = &f.list[len(f.list)-1]
	}
	e.value, e.open = append(e.value[:0], value...), 0
}

// Extend appends a string to the member's string and an array to its array. Any
// other value takes the member's place, but null does so only if there is none.
func (f *Fields) Extend(name string, value []byte) {
	e := f.find(name)
	if e == nil || Null(e.value) {
		f.Set(name, value)
		return
	}
	if Null(value) {
		return
	}
	kind := value[0]
	if e.value[0] != kind || kind != '"' && kind != '[' || len(value) < 2 {
		f.Set(name, value)
		return
	}
	if e.open == 0 {
		e.open = e.value[len(e.value)-1]
		e.value = e.value[:len(e.value)-1]
	}
	inner := value[1 : len(value)-1]
	if kind == '[' && len(bytes.TrimSpace(inner)) > 0 && len(bytes.TrimSpace(e.value[1:])) > 0 {
		e.value = append(e.value, ',')
	}
	e.value = append(e.value, inner...)
}

// Get returns the member's value, nil if there is none.
func (f *Fields) Get(name string) []byte {
	e := f.find(name)
	if e == nil {
		return nil
	}
	if e.open == 0 {
		return e.value
	}
	return append(e.value[:len(e.value):len(e.value)], e.open)
}

// JSON returns the object.
func (f *Fields) JSON() []byte {
	size := 2
	for _, e := range f.list {
		size += len(e.name) + len(e.value) + 5
	}
	out := append(make([]byte, 0, size), '{')
	for _, e := range f.list {
		out = appendMember(out, e.name, e.value)
		if e.open != 0 {
			out = append(out, e.open)
		}
	}
	return append(out, '}')
}

// Event returns the data of a stream's event as valid, compact JSON; an *Error
// says that the event was cut or is none.
func Event(data []byte) (json.RawMessage, *provider.Error) {
	v, err := Answer(provider.Answer{Status: 200, Body: data})
	if err != nil {
		err.Message = "in the stream: " + err.Message
	}
	return v, err
}

// CutShort is the error of a stream that ended without what makes it an answer.
func CutShort(msg string, u provider.Usage) *provider.Error {
	return &provider.Error{Class: provider.Truncated, Status: 200, Message: msg, Usage: u}
}

// StreamFailed is what an error event means.
func StreamFailed(c *provider.Call, raw json.RawMessage, u provider.Usage) *provider.Error {
	e := provider.ClassifyObject(bytes.Clone(raw), http.StatusInternalServerError, c.Body)
	e.Usage = u
	return e
}

// Set returns the object with the member's value replaced, or the member added at
// the end. The other members keep their order and their values' bytes.
func Set(obj []byte, name string, value []byte) json.RawMessage {
	out := append(make([]byte, 0, len(obj)+len(value)+len(name)+4), '{')
	done := false
	for w := Members(obj); w.Next(); {
		if string(w.Name) == name {
			out, done = appendMember(out, name, value), true
			continue
		}
		out = appendMember(out, string(w.Name), w.Value)
	}
	if !done {
		out = appendMember(out, name, value)
	}
	return append(out, '}')
}

// Append returns the array with an element added.
func Append(array, element []byte) []byte {
	var values [][]byte
	for w := Elements(array); w.Next(); {
		values = append(values, w.Value)
	}
	return List(append(values, element)...)
}

// AppendText adds the text of a JSON string to what is there.
func AppendText(dst, v []byte) []byte {
	if len(v) < 2 || v[0] != '"' {
		return dst
	}
	dst, _ = jsontext.AppendUnquote(dst, v)
	return dst
}
