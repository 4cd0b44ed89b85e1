package body

import (
	"bytes"
	"encoding/json"
	"net/http"

	"llmbatch/input/jsonl"
	"llmbatch/runner/provider"
)

// Chunk reads an event of a stream. v is its object, nil where the event holds none
// and is passed over: a gateway's comment, null, [DONE]. failure is the error in it,
// nil if there is none. An *Error says that the event was cut or is no JSON.
func Chunk(name string, data []byte) (v, failure []byte, err *provider.Error) {
	data = bytes.TrimSpace(data)
	if len(data) == 0 || data[0] != '{' && !bytes.HasPrefix(data, []byte("[{")) {
		if name == "error" {
			return nil, Quote(string(data)), nil
		}
		return nil, nil, nil
	}
	raw, err := whole(provider.Answer{Status: 200, Body: data}, jsonl.Compact)
	switch {
	case err != nil && name == "error":
		return nil, Quote(string(data)), nil
	case err != nil:
		err.Message = "in the stream: " + err.Message
		return nil, nil, err
	case Failure(raw) || name == "error":
		return raw, raw, nil
	case raw[0] == '[':
		return nil, nil, nil
	}
	return raw, nil, nil
}

// Evidence returns a reason for the end of an answer, "" where it is none: absent,
// empty or "null", as servers write that have none yet.
func Evidence(v []byte) string {
	reason := Word(v, "stop", "end_turn", "length", "max_tokens", "tool_calls", "tool_use", "content_filter", "stop_sequence")
	if reason == "null" {
		return ""
	}
	return reason
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
func AppendText(dst, v []byte) []byte { return jsonl.AppendText(dst, v) }

// Remove returns the object without the member: itself where there is none. The others
// keep their order and their values' bytes.
func Remove(obj []byte, name string) json.RawMessage {
	if Member(obj, name) == nil {
		return obj
	}
	out := append(make([]byte, 0, len(obj)), '{')
	for w := Members(obj); w.Next(); {
		if string(w.Name) != name {
			out = appendMember(out, string(w.Name), w.Value)
		}
	}
	return append(out, '}')
}
