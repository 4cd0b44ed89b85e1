package body

import (
	"bytes"
	"encoding/json"
	"strings"

	"llmbatch/input/jsonl"
	"llmbatch/runner/provider"
)

var bom = []byte("\xef\xbb\xbf")

// Answer returns the body of a 2xx answer as one compact, valid JSON object or
// array (in which some gateways wrap an error).
// Blank lines and a byte order mark before it are skipped, and so are what is left of
// a stream behind it (data: [DONE]). The bytes of a body that is already compact are
// used, not copied. Invalid bytes and escapes of lone surrogates become U+FFFD.
//
// A body that ends too early is Truncated, as is one of white space alone, which
// queueing servers send to keep a connection alive. Anything else is
// InvalidResponse.
func Answer(a provider.Answer) (json.RawMessage, *provider.Error) { return whole(a, jsonl.Clean) }

// whole is Answer with another way to make its bytes compact: in a piece of a stream
// half a pair of surrogates may stand.
func whole(a provider.Answer, clean func([]byte) []byte) (json.RawMessage, *provider.Error) {
	b := withoutEvents(bytes.TrimPrefix(bytes.TrimLeft(bytes.TrimPrefix(a.Body, bom), space), bom))
	switch {
	case len(a.Body) == 0:
		return nil, Invalid(a, "the answer is empty")
	case len(b) == 0:
		return nil, cut(a, "the answer ended before its JSON began")
	case b[0] == '<':
		return nil, Invalid(a, "the answer is a page of HTML or XML, not JSON: "+excerpt(b))
	case b[0] != '{' && b[0] != '[':
		return nil, Invalid(a, "the answer is not a JSON object: "+excerpt(b))
	}
	if c := clean(b); c != nil {
		return c, nil
	}
	w := Members(b)
	if b[0] == '[' {
		w = Elements(b)
	}
	for w.Next() {
	}
	switch err := w.Err(); {
	case err == nil || err.Behind:
		return nil, Invalid(a, "the answer has something after its JSON")
	case err.At >= len(b):
		return nil, cut(a, "the answer's JSON ends too early")
	}
	return nil, Invalid(a, "the answer is not valid JSON")
}

const space = " \n\r\t"

// withoutEvents takes the lines of an event stream that carry nothing off the end of a
// whole answer. No JSON has a line break inside a string, so none of it is lost.
func withoutEvents(b []byte) []byte {
	for {
		b = bytes.TrimRight(b, space)
		at := bytes.LastIndexByte(b, '\n') + 1
		field, value, found := bytes.Cut(b[at:], []byte(":"))
		if at == 0 || !found || bytes.HasPrefix(bytes.TrimSpace(value), []byte("{")) {
			return b
		}
		switch string(field) {
		case "data", "event", "":
			b = b[:at]
		default:
			return b
		}
	}
}

// excerpt is the beginning of a body that is no JSON, on one line.
func excerpt(b []byte) string {
	const most = 120
	s := strings.Join(strings.Fields(string(bytes.ToValidUTF8(b[:min(len(b), 4*most)], []byte("\ufffd")))), " ")
	for i := range s {
		if i >= most {
			return s[:i] + "…"
		}
	}
	return s
}

// Invalid is the error of an answer that can't be used.
func Invalid(a provider.Answer, msg string) *provider.Error {
	return &provider.Error{
		Class:     provider.InvalidResponse,
		Status:    a.Status,
		Message:   msg,
		RequestID: provider.RequestID(a.Header),
	}
}

func cut(a provider.Answer, msg string) *provider.Error {
	e := Invalid(a, msg)
	e.Class = provider.Truncated
	return e
}
