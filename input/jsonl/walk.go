package jsonl

import (
	"bytes"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Walk goes over the members of an object or the elements of an array, in order,
// checking as it goes and without allocating:
//
//	w := jsonl.Members(line)
//	for w.Next() {
//		… w.Name, w.Value
//	}
//	if err := w.Err(); err != nil { … }
//
// The zero value has none. Of a broken text it yields what stands before the trouble.
type Walk struct {
	// Name is the member's name without its quotes, escapes resolved; nil in an
	// array. Value is the value as written, without the space around it.
	Name, Value []byte
	// NameAt and At are where the name's quote and the value stand in the text.
	NameAt, At int

	s       scan
	i       int  // of the next member, or behind the closing bracket; -1: broken
	closing byte // 0 at the end
}

// Members walks the object in v, white space around it allowed; any other value has none.
// Half a surrogate pair passes.
func Members(v []byte) Walk { return open(v, '{') }

// Elements walks the array in v, white space around it allowed; any other value has none.
func Elements(v []byte) Walk { return open(v, '[') }

// Line is Members for what a user writes: half a surrogate pair is an error.
func Line(v []byte) Walk {
	w := Members(v)
	w.s.strict = true
	return w
}

func open(v []byte, first byte) Walk {
	w := Walk{s: scan{b: v}}
	at := w.s.skip(0)
	if at >= len(v) || v[at] != first {
		w.i = -1
		return w
	}
	w.i, w.closing = w.s.skip(at+1), closes(first)
	if w.i < len(v) && v[w.i] == w.closing {
		w.i, w.closing = w.i+1, 0
	}
	return w
}

// Next moves to the next member or element; false at the end and at trouble.
func (w *Walk) Next() bool {
	if w.closing == 0 {
		return false
	}
	w.NameAt, w.At = w.i, w.i
	if w.closing == '}' {
		end := 0
		if end, w.At = w.s.name(w.i); w.At < 0 {
			return w.stop()
		}
		w.Name = w.s.b[w.NameAt+1 : end-1]
		if bytes.IndexByte(w.Name, '\\') >= 0 {
			w.Name = AppendText(nil, w.s.b[w.NameAt:end])
		}
	}
	end := w.s.value(w.At, 1)
	if end < 0 {
		return w.stop()
	}
	w.Value = w.s.b[w.At:end:end]
	more := false
	if w.i, more = w.s.behind(end, w.closing); !more {
		w.closing = 0 // this one is whole, even if what follows is not
	}
	return true
}

func (w *Walk) stop() bool {
	w.Name, w.Value, w.i, w.closing = nil, nil, -1, 0
	return false
}

// Err says, once Next was false, why the text is not one whole object (or array) with
// nothing but white space around it; nil if it is.
func (w *Walk) Err() *Error {
	switch {
	case w.i >= 0:
		return w.s.rest(w.i)
	case w.s.err == nil:
		return &Error{At: w.s.skip(0), Msg: "bad JSON: neither an object nor an array stands here", Hint: OneLine}
	}
	return w.s.err
}

// Member returns the value of the object's member of that name, the last one if it is
// repeated; nil if there is none.
func Member(object []byte, name string) []byte {
	var v []byte
	for w := Members(object); w.Next(); {
		if string(w.Name) == name {
			v = w.Value
		}
	}
	return v
}

// Kind names the kind of a JSON value for messages, such as "an object".
func Kind(v []byte) string {
	if len(v) == 0 {
		return "nothing"
	}
	switch v[0] {
	case '"':
		return "a string"
	case '{':
		return "an object"
	case '[':
		return "an array"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// Text returns the text of a JSON string, "" for any other value. Bytes that are not
// UTF-8 and halves of surrogate pairs become U+FFFD.
func Text(v []byte) string {
	if len(v) < 2 || v[0] != '"' {
		return ""
	}
	if in := v[1 : len(v)-1]; bytes.IndexByte(in, '\\') < 0 && utf8.Valid(in) {
		return string(in)
	}
	return string(AppendText(make([]byte, 0, len(v)), v))
}

// AppendText appends what Text returns.
func AppendText(dst, v []byte) []byte {
	if len(v) < 2 || v[0] != '"' {
		return dst
	}
	dst, _ = jsontext.AppendUnquote(dst, v) // the error is that something became U+FFFD
	return dst
}

// AppendQuote appends s as a JSON string. Bytes that are not UTF-8 become U+FFFD.
func AppendQuote[T ~string | ~[]byte](dst []byte, s T) []byte {
	dst, _ = jsontext.AppendQuote(dst, s) // as above
	return dst
}

// Clean returns the JSON value v as any reader takes it, on one line: without white
// space around and between its tokens, with U+FFFD for bytes that are not UTF-8 and
// for halves of surrogate pairs, and with U+2028, U+2029 and U+0085, at which
// some readers end a line, escaped. All other bytes stay. v itself is returned where
// it is like that already; nil if it is not JSON.
func Clean(v []byte) []byte { return clean(v, false) }

// Compact is Clean for a piece of an answer: halves of surrogate pairs stay, since the
// other half may come in the next piece.
func Compact(v []byte) []byte { return clean(v, true) }

func clean(v []byte, halves bool) []byte {
	s := scan{b: v, strict: !halves}
	if s.value(0, 0) == len(v) && !s.spaced && utf8.Valid(v) && !separators(v) {
		return v
	}
	s = scan{b: v}
	from := s.skip(0)
	to := s.value(from, 0)
	if to < 0 || s.rest(to) != nil {
		return nil
	}
	out := make([]byte, 0, len(v)+16)
	for i := from; i < to; {
		if v[i] != '"' {
			if !Space(v[i]) {
				out = append(out, v[i])
			}
			i++
			continue
		}
		end := s.str(i)
		out = appendClean(out, v[i:end], halves)
		i = end
	}
	return out
}

func separators(v []byte) bool {
	return bytes.Contains(v, []byte("\u2028")) || bytes.Contains(v, []byte("\u2029")) || bytes.Contains(v, []byte("\u0085"))
}

// appendClean appends the JSON string q as Clean has it.
func appendClean(out, q []byte, halves bool) []byte {
	from := 0 // of what is not appended yet
	instead := func(i, end int, text string) {
		out = append(append(out, q[from:i]...), text...)
		from = end
	}
	for i := 0; i < len(q); {
		end := i + 1
		switch c := q[i]; {
		case c == '\\' && q[i+1] != 'u':
			end = i + 2
		case c == '\\':
			var unit rune
			if unit, end = surrogate(q, i); unit != 0 && end == i+6 && !halves {
				instead(i, end, `\ufffd`)
			}
		case c >= utf8.RuneSelf:
			r, n := utf8.DecodeRune(q[i:])
			end = i + n
			switch {
			case r == utf8.RuneError && n == 1:
				instead(i, end, "\ufffd")
			case r == 0x2028:
				instead(i, end, `\u2028`)
			case r == 0x2029:
				instead(i, end, `\u2029`)
			case r == 0x85:
				instead(i, end, `\u0085`)
			}
		}
		i = end
	}
	return append(out, q[from:]...)
}
