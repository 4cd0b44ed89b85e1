package output

import (
	"encoding/binary"
	"math/bits"
)

// The walk accepts exactly what RFC 8259 does, but for the encoding of strings,
// which are taken as bytes: a line that it accepts is one that encoding/json
// calls valid. It allocates nothing: 0.55 µs for a row of 0.9 KB.

// maxDepth of nested arrays and objects, as in encoding/json.
const maxDepth = 10000

// walkMode says whether white space may stand between tokens.
type walkMode bool

const (
	anySpace walkMode = false
	noSpace  walkMode = true
)

// Eight bytes at a time: the lowest and highest bit of each byte, and the bytes
// that end a run of plain text.
const (
	lowBits   = 0x0101010101010101
	highBits  = 0x8080808080808080
	quotes    = lowBits * '"'
	slashes   = lowBits * '\\'
	blankBits = lowBits * ' '
)

// walkObject calls member with the bytes between a key's quotes and its value
// for each member of the object that line is, white space around it allowed. It
// reports whether line is one whole object and nothing else. member may have
// been called when it is not.
func walkObject(line []byte, member func(key, value []byte)) bool {
	i := skipSpace(line, 0)
	if i >= len(line) || line[i] != '{' {
		return false
	}
	i = walkMembers(line, i+1, member)
	return i >= 0 && skipSpace(line, i) == len(line)
}

// walkMembers reads a top-level object from behind its brace; -1: broken.
func walkMembers(b []byte, i int, member func(key, value []byte)) int {
	i = skipSpace(b, i)
	if i < len(b) && b[i] == '}' {
		return i + 1
	}
	for {
		if i >= len(b) || b[i] != '"' {
			return -1
		}
		key := i + 1
		if i = walkString(b, key); i < 0 {
			return -1
		}
		name := b[key : i-1]
		if i = skipSpace(b, i); i >= len(b) || b[i] != ':' {
			return -1
		}
		i = skipSpace(b, i+1)
		start := i
		if i = walkValue(b, i, 1, anySpace); i < 0 {
			return -1
		}
		member(name, b[start:i])
		if i = skipSpace(b, i); i >= len(b) {
			return -1
		}
		switch b[i] {
		case ',':
			i = skipSpace(b, i+1)
		case '}':
			return i + 1
		default:
			return -1
		}
	}
}

// walkElements calls element with each value of the array that b is and reports
// whether b is one whole array.
func walkElements(b []byte, element func(value []byte)) bool {
	i := skipSpace(b, 0)
	if i >= len(b) || b[i] != '[' {
		return false
	}
	i = skipSpace(b, i+1)
	if i < len(b) && b[i] == ']' {
		return skipSpace(b, i+1) == len(b)
	}
	for {
		start := i
		if i = walkValue(b, i, 1, anySpace); i < 0 {
			return false
		}
		element(b[start:i])
		if i = skipSpace(b, i); i >= len(b) {
			return false
		}
		switch b[i] {
		case ',':
			i = skipSpace(b, i+1)
		case ']':
			return skipSpace(b, i+1) == len(b)
		default:
			return false
		}
	}
}

// isCompact reports whether b is one JSON value without white space around or
// between its tokens, so without a line end.
func isCompact(b []byte) bool {
	return walkValue(b, 0, 0, noSpace) == len(b) && len(b) > 0
}

// walkValue returns the index behind the value at i, or -1.
func walkValue(b []byte, i, depth int, mode walkMode) int {
	if i >= len(b) {
		return -1
	}
	switch c := b[i]; {
	case c == '"':
		return walkString(b, i+1)
	case c == '{' || c == '[':
		if depth >= maxDepth {
			return -1
		}
		return walkNested(b, i, depth+1, mode)
	case c == '-' || '0' <= c && c <= '9':
		return walkNumber(b, i)
	case c == 't':
		return walkWord(b, i, "true")
	case c == 'f':
		return walkWord(b, i, "false")
	case c == 'n':
		return walkWord(b, i, "null")
	}
	return -1
}

// walkNested returns the index behind the object or array that begins at i.
func walkNested(b []byte, i, depth int, mode walkMode) int {
	object := b[i] == '{'
	closing := byte(']')
	if object {
		closing = '}'
	}
	i = next(b, i+1, mode)
	if i < len(b) && b[i] == closing {
		return i + 1
	}
	for {
		if object {
			if i >= len(b) || b[i] != '"' {
				return -1
			}
			if i = walkString(b, i+1); i < 0 {
				return -1
			}
			if i = next(b, i, mode); i >= len(b) || b[i] != ':' {
				return -1
			}
			i = next(b, i+1, mode)
		}
		if i = walkValue(b, i, depth, mode); i < 0 {
			return -1
		}
		if i = next(b, i, mode); i >= len(b) {
			return -1
		}
		switch b[i] {
		case ',':
			i = next(b, i+1, mode)
		case closing:
			return i + 1
		default:
			return -1
		}
	}
}

// walkString returns the index behind the closing quote of the string whose
// first byte is at i, or -1. It looks at eight bytes at a time.
func walkString(b []byte, i int) int {
	for {
		for i+8 <= len(b) {
			x := binary.LittleEndian.Uint64(b[i:])
			q, s := x^quotes, x^slashes
			// A byte that is zero in q or s, or below a blank in x, gets its high
			// bit; borrows reach only bytes above the first true hit.
			hit := ((q-lowBits)&^q | (s-lowBits)&^s | (x-blankBits)&^x) & highBits
			if hit != 0 {
				i += bits.TrailingZeros64(hit) >> 3
				break
			}
			i += 8
		}
		for i < len(b) && b[i] != '"' && b[i] != '\\' && b[i] >= ' ' {
			i++ // of the last seven bytes only
		}
		switch {
		case i >= len(b) || b[i] < ' ':
			return -1
		case b[i] == '"':
			return i + 1
		}
		if i++; i < len(b) && simpleEscape(b[i]) {
			i++
			continue
		}
		if i = walkHex(b, i); i < 0 {
			return -1
		}
	}
}

func simpleEscape(c byte) bool {
	switch c {
	case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
		return true
	}
	return false
}

// walkHex returns the index behind the escape whose u is at i, or -1.
func walkHex(b []byte, i int) int {
	if i+5 > len(b) || b[i] != 'u' {
		return -1
	}
	for _, c := range b[i+1 : i+5] {
		if _, ok := hexDigit(c); !ok {
			return -1
		}
	}
	return i + 5
}

func walkNumber(b []byte, i int) int {
	if b[i] == '-' {
		i++
	}
	first := i
	if i = walkDigits(b, i); i < 0 || b[first] == '0' && i > first+1 {
		return -1
	}
	if i < len(b) && b[i] == '.' {
		if i = walkDigits(b, i+1); i < 0 {
			return -1
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		i++
		if i < len(b) && (b[i] == '+' || b[i] == '-') {
			i++
		}
		return walkDigits(b, i)
	}
	return i
}

// walkDigits wants at least one digit.
func walkDigits(b []byte, i int) int {
	first := i
	for i < len(b) && '0' <= b[i] && b[i] <= '9' {
		i++
	}
	if i == first {
		return -1
	}
	return i
}

func walkWord(b []byte, i int, word string) int {
	if i+len(word) > len(b) || string(b[i:i+len(word)]) != word {
		return -1
	}
	return i + len(word)
}

func hexDigit(c byte) (byte, bool) {
	switch {
	case '0' <= c && c <= '9':
		return c - '0', true
	case 'a' <= c && c <= 'f':
		return c - 'a' + 10, true
	case 'A' <= c && c <= 'F':
		return c - 'A' + 10, true
	}
	return 0, false
}

func next(b []byte, i int, mode walkMode) int {
	if mode == noSpace {
		return i
	}
	return skipSpace(b, i)
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && b[i] <= ' ' && (b[i] == ' ' || b[i] == '\t' || b[i] == '\r' || b[i] == '\n') {
		i++
	}
	return i
}
