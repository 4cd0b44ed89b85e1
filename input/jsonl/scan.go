// Package jsonl reads one JSON value (RFC 8259) as bytes: whether it is valid, and if
// not, where; its members and elements; the text of its strings; the same value
// without white space. It is the one walker of JSON for lines of input, rows of
// output and bodies of requests and answers.
//
// Nothing is decoded that is not asked for. What a walk yields are pieces of the text
// that it was given, so members keep their order and their white space, numbers keep
// their digits, and names that repeat are all seen. Names and strings may hold bytes
// that are not UTF-8: Valid and Clean look at those, a walk does not.
package jsonl

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"
)

// MaxDepth is how deep arrays and objects may nest, as in encoding/json.
const MaxDepth = 10_000

// Error is why a text is not JSON.
type Error struct {
	// At is the offset in bytes of what is wrong.
	At int
	// Msg says what is wrong; Hint what to do, or "".
	Msg, Hint string
	// Behind says that a whole value ends before At, where something else follows.
	Behind bool
}

// Error is the message without the hint.
func (e *Error) Error() string { return e.Msg }

// OneLine is the hint for a text that ends too early.
const OneLine = "each line must hold one whole JSON object; `jq -c .` writes a file so"

// Valid reports whether b is one JSON value in valid UTF-8 with nothing around it and
// without half a surrogate pair among its escapes, and whether it has no white
// space between its tokens either.
func Valid(b []byte) (valid, compact bool) {
	s := scan{b: b, strict: true}
	valid = s.value(0, 0) == len(b) && utf8.Valid(b)
	return valid, !s.spaced
}

// Check says why b is not one JSON value, white space around it allowed; nil if it
// is. Half a surrogate pair is no character and so an error; bytes that are not UTF-8
// are not looked for.
func Check(b []byte) *Error {
	s := scan{b: b, strict: true}
	end := s.value(s.skip(0), 0)
	if end < 0 {
		return s.err
	}
	return s.rest(end)
}

// scan checks the JSON in b. Its methods take where a token begins and return where
// it ends, or -1 when they have set err.
type scan struct {
	b      []byte
	strict bool // half a surrogate pair is an error
	spaced bool // white space was seen
	err    *Error
}

func (s *scan) fail(at int, hint, format string, args ...any) int {
	s.err = &Error{At: at, Msg: "bad JSON: " + fmt.Sprintf(format, args...), Hint: hint}
	return -1
}

// unexpected is the failure at byte i, which is none of what was wanted.
func (s *scan) unexpected(i int, wanted string) int {
	if i >= len(s.b) {
		return s.fail(len(s.b), OneLine, "the line ends where %s should follow", wanted)
	}
	r, _ := utf8.DecodeRune(s.b[i:])
	return s.fail(i, "", "%q where %s should be", r, wanted)
}

// rest is the error of a text that goes on behind its value.
func (s *scan) rest(end int) *Error {
	if end = s.skip(end); end < len(s.b) {
		return &Error{At: end, Msg: "bad JSON: text after the object", Hint: "one JSON object a line", Behind: true}
	}
	return nil
}

// Space reports whether c is white space between tokens.
func Space(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func (s *scan) skip(i int) int {
	for i < len(s.b) && Space(s.b[i]) {
		s.spaced = true
		i++
	}
	return i
}

func (s *scan) value(i, depth int) int {
	if i >= len(s.b) {
		return s.unexpected(i, "a value")
	}
	switch c := s.b[i]; {
	case c == '"':
		return s.str(i)
	case c == '{' || c == '[':
		return s.nested(i, depth)
	case c == '-' || '0' <= c && c <= '9':
		return s.number(i)
	case c == 't':
		return s.word(i, "true")
	case c == 'f':
		return s.word(i, "false")
	case c == 'n':
		return s.word(i, "null")
	}
	return s.unexpected(i, "a value")
}

func (s *scan) word(i int, w string) int {
	for k := range len(w) {
		if i+k >= len(s.b) || s.b[i+k] != w[k] {
			return s.unexpected(i+k, w)
		}
	}
	return i + len(w)
}

func (s *scan) digits(i int) int {
	from := i
	for i < len(s.b) && '0' <= s.b[i] && s.b[i] <= '9' {
		i++
	}
	if i == from {
		return s.unexpected(i, "a digit")
	}
	return i
}

func (s *scan) number(i int) int {
	if s.b[i] == '-' {
		i++
	}
	first := i
	if i = s.digits(i); i < 0 {
		return -1
	}
	if s.b[first] == '0' && i > first+1 {
		return s.fail(first+1, "", "a number with a leading zero")
	}
	if i < len(s.b) && s.b[i] == '.' {
		if i = s.digits(i + 1); i < 0 {
			return -1
		}
	}
	if i < len(s.b) && s.b[i]|0x20 == 'e' {
		i++
		if i < len(s.b) && (s.b[i] == '+' || s.b[i] == '-') {
			i++
		}
		return s.digits(i)
	}
	return i
}

const (
	ones  = 0x0101010101010101
	highs = 0x8080808080808080
)

// plain returns where, from i on, the first byte stands that ends or interrupts a
// string: a quote, a backslash or a control character.
func plain(b []byte, i int) int {
	for i+8 <= len(b) {
		x := binary.LittleEndian.Uint64(b[i:])
		q, e := x^(ones*'"'), x^(ones*'\\')
		// Each term has the high bit of the bytes that are zero (or below a blank);
		// a borrow can only err above the first one, which is the one that is taken.
		hit := ((q - ones) &^ q) | ((e - ones) &^ e) | ((x - ones*' ') &^ x)
		if hit &= highs; hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
		i += 8
	}
	for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' ' {
		i++
	}
	return i
}

func (s *scan) str(i int) int {
	from := i
	for i++; ; {
		i = plain(s.b, i)
		switch {
		case i >= len(s.b):
			return s.fail(len(s.b), OneLine, "the line ends inside the string that begins at column %d", from+1)
		case s.b[i] == '"':
			return i + 1
		case s.b[i] == '\\':
			if i = s.escape(i); i < 0 {
				return -1
			}
		default:
			return s.fail(i, fmt.Sprintf(`write it as \u%04x`, s.b[i]), "control character %U in a string", s.b[i])
		}
	}
}

func (s *scan) escape(i int) int {
	if i+1 >= len(s.b) {
		return s.unexpected(i+1, "an escape")
	}
	switch s.b[i+1] {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return i + 2
	case 'u':
	default:
		return s.unexpected(i+1, `an escape such as \n`)
	}
	for k := i + 2; k < i+6; k++ {
		if k >= len(s.b) || !hexDigit(s.b[k]) {
			return s.unexpected(k, "four hex digits")
		}
	}
	unit, end := surrogate(s.b, i)
	if unit != 0 && end == i+6 && s.strict {
		return s.fail(i, "", `\u%04x is half of a surrogate pair, not a character`, unit)
	}
	return end
}

func hexDigit(c byte) bool {
	return '0' <= c && c <= '9' || 'a' <= c|0x20 && c|0x20 <= 'f'
}

// surrogate reads the \uXXXX escape at i. unit is 0 where it is no surrogate. end is
// behind the pair, where it begins one, or else behind the escape itself.
func surrogate(b []byte, i int) (unit rune, end int) {
	unit, end = codeUnit(b, i), i+6
	if unit < 0xd800 || unit > 0xdfff {
		return 0, end
	}
	if low := codeUnit(b, end); unit < 0xdc00 && 0xdc00 <= low && low <= 0xdfff {
		end += 6
	}
	return unit, end
}

// codeUnit is what the escape \uXXXX at i says, -1 if there is none.
func codeUnit(b []byte, i int) rune {
	if i+6 > len(b) || b[i] != '\\' || b[i+1] != 'u' {
		return -1
	}
	var v rune
	for _, c := range b[i+2 : i+6] {
		if !hexDigit(c) {
			return -1
		}
		if c > '9' {
			c = c | 0x20 - 'a' + 10 + '0'
		}
		v = v<<4 | rune(c-'0')
	}
	return v
}

// nested reads the object or array at i.
func (s *scan) nested(i, depth int) int {
	if depth >= MaxDepth {
		return s.fail(i, "", "values nest deeper than %d", MaxDepth)
	}
	closing := closes(s.b[i])
	i = s.skip(i + 1)
	if i < len(s.b) && s.b[i] == closing {
		return i + 1
	}
	for more := true; more; {
		if closing == '}' {
			if _, i = s.name(i); i < 0 {
				return -1
			}
		}
		if i = s.value(i, depth+1); i < 0 {
			return -1
		}
		if i, more = s.behind(i, closing); i < 0 {
			return -1
		}
	}
	return i
}

func closes(open byte) byte { return open + 2 } // as ASCII has it

// name reads the name at i and the colon: it returns where the name ends and where
// the member's value begins.
func (s *scan) name(i int) (end, value int) {
	if i >= len(s.b) || s.b[i] != '"' {
		return -1, s.unexpected(i, "a quoted name")
	}
	if end = s.str(i); end < 0 {
		return -1, -1
	}
	if i = s.skip(end); i >= len(s.b) || s.b[i] != ':' {
		return -1, s.unexpected(i, "a colon")
	}
	return end, s.skip(i + 1)
}

// behind goes from a value's end to the next one, or to the end of what holds both.
func (s *scan) behind(i int, closing byte) (next int, more bool) {
	i = s.skip(i)
	switch {
	case i < len(s.b) && s.b[i] == ',':
		return s.skip(i + 1), true
	case i < len(s.b) && s.b[i] == closing:
		return i + 1, false
	}
	return s.unexpected(i, "a comma or "+string(closing)), false
}
