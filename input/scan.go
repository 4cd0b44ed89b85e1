package input

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// maxDepth is how deep values may nest; deeper ones would be refused further on.
const maxDepth = 10_000

// member is one name and value of an object. Positions are those of the line:
// at of the name's quote, start and end of the value.
type member struct {
	name           []byte // without quotes and escapes
	at, start, end int
}

// scan reads one line of JSON, checking all of it. Its own walk rather than a
// library's because it is the whole cost of reading a file: it is a pass without
// allocations that knows where each member is and where trouble began.
// The bytes must be valid UTF-8.
type scan struct {
	b      []byte
	spaced bool // there is white space between tokens

	// inner are the members of the last "body" or "params" of the object that the
	// members were asked of, which begins at innerAt; 0: there was none.
	inner   []member
	innerAt int

	at   int // of the trouble
	msg  string
	hint string
}

// Valid reports whether b is one JSON value (RFC 8259) in valid UTF-8 without
// anything around it and without half a surrogate pair among its escapes, and
// whether it has no white space between its tokens either.
func Valid(b []byte) (valid, compact bool) {
	s := scan{b: b}
	valid = s.value(0, 0) == len(b) && utf8.Valid(b)
	return valid, !s.spaced
}

func (s *scan) fail(at int, msg string) int {
	s.at, s.msg, s.hint = at, msg, ""
	return -1
}

// unexpected is the failure at byte i, which is none of what was wanted.
func (s *scan) unexpected(i int, wanted string) int {
	if i >= len(s.b) {
		s.fail(len(s.b), "bad JSON: the line ends where "+wanted+" should follow")
		s.hint = oneLine
		return -1
	}
	r, _ := utf8.DecodeRune(s.b[i:])
	return s.fail(i, fmt.Sprintf("bad JSON: %q where %s should be", r, wanted))
}

const oneLine = "each line must hold one whole JSON object; `jq -c .` writes a file so"

func space(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

func (s *scan) skip(i int) int {
	for i < len(s.b) && space(s.b[i]) {
		s.spaced = true
		i++
	}
	return i
}

// value returns the end of the value that begins at i, or -1.
func (s *scan) value(i, depth int) int {
	if i >= len(s.b) {
		return s.unexpected(i, "a value")
	}
	switch c := s.b[i]; {
	case c == '"':
		return s.str(i)
	case c == '{':
		return s.object(i, depth, nil)
	case c == '[':
		return s.array(i, depth)
	case c == 't':
		return s.word(i, "true")
	case c == 'f':
		return s.word(i, "false")
	case c == 'n':
		return s.word(i, "null")
	case c == '-' || '0' <= c && c <= '9':
		return s.number(i)
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

// number follows the grammar of RFC 8259 §6.
func (s *scan) number(i int) int {
	if s.b[i] == '-' {
		i++
	}
	if i < len(s.b) && s.b[i] == '0' {
		i++
		if i < len(s.b) && '0' <= s.b[i] && s.b[i] <= '9' {
			return s.fail(i, "bad JSON: a number with a leading zero")
		}
	} else if i = s.digits(i); i < 0 {
		return -1
	}
	if i < len(s.b) && s.b[i] == '.' {
		if i = s.digits(i + 1); i < 0 {
			return -1
		}
	}
	if i < len(s.b) && (s.b[i] == 'e' || s.b[i] == 'E') {
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

// plainRun returns where, from i on, the first byte stands that ends or
// interrupts a string: a quote, a backslash or a control character.
func plainRun(b []byte, i int) int {
	for i+8 <= len(b) {
		x := binary.LittleEndian.Uint64(b[i:])
		q, e := x^(ones*'"'), x^(ones*'\\')
		// Each term has the high bit of the bytes that are zero (or below 0x20);
		// a borrow can only err above the first one, which is the one we take.
		hit := ((q - ones) &^ q) | ((e - ones) &^ e) | ((x - ones*0x20) &^ x)
		if hit &= highs; hit != 0 {
			return i + bits.TrailingZeros64(hit)/8
		}
		i += 8
	}
	for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= 0x20 {
		i++
	}
	return i
}

func (s *scan) str(i int) int {
	from := i
	for i++; ; {
		i = plainRun(s.b, i)
		switch {
		case i >= len(s.b):
			s.fail(len(s.b), fmt.Sprintf("bad JSON: the line ends inside the string that begins at column %d", from+1))
			s.hint = oneLine
			return -1
		case s.b[i] == '"':
			return i + 1
		case s.b[i] == '\\':
			if i = s.escape(i); i < 0 {
				return -1
			}
		default:
			s.fail(i, fmt.Sprintf("bad JSON: control character %U in a string", s.b[i]))
			s.hint = fmt.Sprintf(`write it as \u%04x`, s.b[i])
			return -1
		}
	}
}

// escape returns the end of the escape at i. Half a surrogate pair is no text.
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
	first, end := s.hex(i + 2)
	if end < 0 || first < 0xd800 || first > 0xdfff {
		return end
	}
	if first < 0xdc00 && end+1 < len(s.b) && s.b[end] == '\\' && s.b[end+1] == 'u' {
		second, end := s.hex(end + 2)
		if end < 0 || 0xdc00 <= second && second <= 0xdfff {
			return end
		}
	}
	return s.fail(i, fmt.Sprintf(`bad JSON: \u%04x is half of a surrogate pair, not a character`, first))
}

func (s *scan) hex(i int) (v, end int) {
	for k := range 4 {
		if i+k >= len(s.b) {
			return 0, s.unexpected(i+k, "four hex digits")
		}
		c := s.b[i+k]
		switch {
		case '0' <= c && c <= '9':
			c -= '0'
		case 'a' <= c|0x20 && c|0x20 <= 'f':
			c = c | 0x20 - 'a' + 10
		default:
			return 0, s.unexpected(i+k, "four hex digits")
		}
		v = v<<4 | int(c)
	}
	return v, i + 4
}

func (s *scan) array(i, depth int) int {
	if depth >= maxDepth {
		return s.fail(i, fmt.Sprintf("bad JSON: values nest deeper than %d", maxDepth))
	}
	i = s.skip(i + 1)
	if i < len(s.b) && s.b[i] == ']' {
		return i + 1
	}
	for {
		if i = s.value(i, depth+1); i < 0 {
			return -1
		}
		i = s.skip(i)
		switch {
		case i < len(s.b) && s.b[i] == ',':
			i = s.skip(i + 1)
		case i < len(s.b) && s.b[i] == ']':
			return i + 1
		default:
			return s.unexpected(i, "a comma or ]")
		}
	}
}

// object returns the end of the object that begins at i, or -1. Its members
// are appended to *into unless that is nil.
func (s *scan) object(i, depth int, into *[]member) int {
	if depth >= maxDepth {
		return s.fail(i, fmt.Sprintf("bad JSON: values nest deeper than %d", maxDepth))
	}
	i = s.skip(i + 1)
	if i < len(s.b) && s.b[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(s.b) || s.b[i] != '"' {
			return s.unexpected(i, "a quoted name")
		}
		m := member{at: i}
		if i = s.str(i); i < 0 {
			return -1
		}
		m.name = s.b[m.at+1 : i-1]
		if i = s.skip(i); i >= len(s.b) || s.b[i] != ':' {
			return s.unexpected(i, "a colon")
		}
		m.start = s.skip(i + 1)
		if into != nil && depth == 0 && s.holdsRequest(m) {
			s.inner, s.innerAt = s.inner[:0], m.start
			m.end = s.object(m.start, 1, &s.inner)
		} else {
			m.end = s.value(m.start, depth+1)
		}
		if m.end < 0 {
			return -1
		}
		if into != nil {
			if plainRun(m.name, 0) < len(m.name) {
				m.name, _ = jsontext.AppendUnquote(nil, s.b[m.at:m.at+len(m.name)+2])
			}
			*into = append(*into, m)
		}
		i = s.skip(m.end)
		switch {
		case i < len(s.b) && s.b[i] == ',':
			i = s.skip(i + 1)
		case i < len(s.b) && s.b[i] == '}':
			return i + 1
		default:
			return s.unexpected(i, "a comma or }")
		}
	}
}

// holdsRequest says that the members of m's value will be asked for too.
func (s *scan) holdsRequest(m member) bool {
	return (string(m.name) == "body" || string(m.name) == "params") && m.start < len(s.b) && s.b[m.start] == '{'
}

// kindOf names the kind of a valid JSON value for messages.
func kindOf(v []byte) string {
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
