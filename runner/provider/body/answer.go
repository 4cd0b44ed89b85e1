package body

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"llmbatch/input"
	"llmbatch/runner/provider"
)

var bom = []byte("\xef\xbb\xbf")

// Answer returns the body of a 2xx answer as one compact, valid JSON object or
// array (in which some gateways wrap an error).
// Blank lines and a byte order mark before it are skipped; the bytes of a body
// that is already compact are used, not copied. Invalid bytes become U+FFFD;
// escapes of lone surrogates stay as they were written.
//
// A body that ends too early is Truncated, as is one of white space alone, which
// queueing servers send to keep a connection alive. Anything else is
// InvalidResponse.
func Answer(a provider.Answer) (json.RawMessage, *provider.Error) {
	b := trimLeft(bytes.TrimPrefix(a.Body, bom))
	b = bytes.TrimRight(bytes.TrimPrefix(b, bom), " \n\r\t")
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
	valid, tight := input.Valid(b)
	switch {
	case valid && tight:
		return b, nil
	case valid:
		return compact(b), nil
	}
	b = validUTF8(b)
	if err := checkSyntax(a, b); err != nil {
		return nil, err
	}
	return compact(b), nil
}

// checkSyntax tells a body that was cut from one that is no JSON.
func checkSyntax(a provider.Answer, b []byte) *provider.Error {
	d := jsontext.NewDecoder(bytes.NewReader(b), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if _, err := d.ReadValue(); errors.Is(err, io.ErrUnexpectedEOF) {
		return cut(a, "the answer's JSON ends too early")
	} else if err != nil {
		return Invalid(a, "the answer is not valid JSON")
	}
	if _, err := d.ReadToken(); err != io.EOF {
		return Invalid(a, "the answer has something after its JSON")
	}
	return nil
}

// excerpt is the beginning of a body that is no JSON, on one line.
func excerpt(b []byte) string {
	const most = 120
	s := strings.Join(strings.Fields(string(validUTF8(b[:min(len(b), 4*most)]))), " ")
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

// Failed is what an error inside a whole 2xx answer means, its headers included:
// raw is the error's object, or whatever stands in its place. Where it names no
// status it is the server's fault.
func Failed(a provider.Answer, c *provider.Call, raw json.RawMessage, u provider.Usage) *provider.Error {
	e := provider.Classify(a, c.Body)
	if e.Class == provider.InvalidResponse || e.Class == provider.Truncated {
		// No error object: the answer says by another member that it has failed.
		e = provider.ClassifyObject(raw, http.StatusInternalServerError, c.Body)
		e.RequestID = cmp.Or(e.RequestID, provider.RequestID(a.Header))
	}
	e.Usage = u
	return e
}

// Wrapped returns the error in the first element of an array, nil if there is none.
func Wrapped(array []byte) []byte {
	w := Elements(array)
	if !w.Next() {
		return nil
	}
	if v := Member(w.Value, "error"); !Null(v) {
		return v
	}
	return nil
}

// compact drops the white space between the tokens of valid JSON.
func compact(b []byte) json.RawMessage {
	v := jsontext.Value(bytes.Clone(b))
	if err := v.Compact(); err != nil {
		return b
	}
	return json.RawMessage(v)
}

// validUTF8 replaces each invalid byte by U+FFFD.
func validUTF8(b []byte) []byte {
	if utf8.Valid(b) {
		return b
	}
	out := make([]byte, 0, len(b)+len(b)/8)
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		out = utf8.AppendRune(out, r)
		b = b[n:]
	}
	return out
}
