package body

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

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
func Answer(a provider.Answer) (json.RawMessage, *provider.Error) {
	b, err := whole(a)
	return paired(b), err
}

// whole is Answer for a piece of a stream, in which half a pair of surrogates may stand.
func whole(a provider.Answer) (json.RawMessage, *provider.Error) {
	b := trimLeft(bytes.TrimPrefix(a.Body, bom))
	b = withoutEvents(bytes.TrimPrefix(b, bom))
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
	valid, tight := jsonl.Valid(b)
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

// withoutEvents takes the lines of an event stream that carry nothing off the end of a
// whole answer. No JSON has a line break inside a string, so none of it is lost.
func withoutEvents(b []byte) []byte {
	for {
		b = bytes.TrimRight(b, " \n\r\t")
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

// paired replaces escapes of surrogates that are no pair (\ud83d alone) by U+FFFD's:
// they stand for no character, and many readers refuse them. It returns b itself where
// there are none.
func paired(b []byte) []byte {
	if !bytes.Contains(b, []byte(`\ud`)) && !bytes.Contains(b, []byte(`\uD`)) {
		return b
	}
	var out []byte
	for i := 0; i+1 < len(b); i++ {
		if b[i] != '\\' {
			continue
		}
		if b[i+1] != 'u' {
			i++
			continue
		}
		switch r := escape(b[i:]); {
		case !utf16.IsSurrogate(r):
			i += 5
		case utf16.DecodeRune(r, escape(b[min(i+6, len(b)):])) != utf8.RuneError:
			i += 11
		default:
			if out == nil {
				out = bytes.Clone(b)
			}
			copy(out[i:], `\ufffd`)
			i += 5
		}
	}
	if out != nil {
		return out
	}
	return b
}

// escape returns the code unit of a \uXXXX that b begins with, 0 if there is none.
func escape(b []byte) rune {
	if len(b) < 6 || b[0] != '\\' || b[1] != 'u' {
		return 0
	}
	n, _ := strconv.ParseUint(string(b[2:6]), 16, 16)
	return rune(n)
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
