package input

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// The members that lines are told apart by and made of.
const (
	kID = iota
	kCustomID
	kPrompt
	kMessages
	kInput
	kSystem
	kModel
	kMaxTokens
	kTemperature
	kParams
	kMetadata
	kMethod
	kURL
	kBody
	kinds
)

func kindOfName(name []byte) int {
	switch string(name) {
	case "id":
		return kID
	case "custom_id":
		return kCustomID
	case "prompt":
		return kPrompt
	case "messages":
		return kMessages
	case "input":
		return kInput
	case "system":
		return kSystem
	case "model":
		return kModel
	case "max_tokens":
		return kMaxTokens
	case "temperature":
		return kTemperature
	case "params":
		return kParams
	case "metadata":
		return kMetadata
	case "method":
		return kMethod
	case "url":
		return kURL
	case "body":
		return kBody
	}
	return -1
}

// record is one line or CSV row as a source found it.
type record struct {
	line   int
	off    int64
	b      []byte     // without its line end; of a CSV row nothing
	fields []string   // of a CSV row
	size   int        // in bytes, without the line end
	bad    *LineError // what the source already found wrong
	sum    uint64     // of a line too long to keep
}

// parser makes items of lines. It is for one goroutine at a time, and reused.
// What it returns aliases the line, whose bytes it may change where commas and
// braces stand.
type parser struct {
	scan
	members []member
	known   [kinds]int // index into members, -1 where absent; the last of a name counts
	from    int        // of the object in the line
	end     int

	tmpl    *renderer
	header  func() []string // of a CSV file
	sumAll  bool            // any line may turn bad and need its content id
	scratch []byte          // for text with escapes
	model   string          // the last ones, shared by the items that have the same
	urlPath string
	// goodPath is the last one that may be used.
	goodPath string
}

var bom = []byte("\xef\xbb\xbf")

// trim returns where the content of a line begins and ends: without one BOM and
// without white space around it.
func trim(b []byte) (from, to int) {
	if bytes.HasPrefix(b, bom) {
		from = len(bom)
	}
	to = len(b)
	for from < to && space(b[from]) {
		from++
	}
	for to > from && space(b[to-1]) {
		to--
	}
	return from, to
}

func contentSum(b []byte) uint64 {
	h := sha256.Sum256(b)
	return binary.BigEndian.Uint64(h[:8]) >> 16
}

// parse fills in it, which is zero, from the record. It leaves Index, and the ID
// of an item without one, to the registry. A LineError lacks File and Line.
func (p *parser) parse(r record, it *Item) *LineError {
	it.Line, it.Offset, it.Size = r.line, r.off, r.size
	if r.fields != nil || r.bad != nil {
		return p.row(r, it)
	}
	from, to := trim(r.b)
	it.at = from
	if p.sumAll {
		it.sum = contentSum(r.b[from:to])
	}
	if bad := p.walk(r.b[:to], from); bad != nil {
		return bad
	}
	if p.tmpl != nil {
		return p.tmpl.object(p, it)
	}
	return p.formats(it)
}

// walk checks the line's JSON, which begins at from, and finds the members.
func (p *parser) walk(b []byte, from int) *LineError {
	p.b, p.from = b, from
	if !utf8.Valid(b[from:]) {
		return notUTF8(b, from)
	}
	if b[from] != '{' {
		return p.noObject()
	}
	p.members, p.innerAt = p.members[:0], 0
	if p.end = p.object(from, 0, &p.members); p.end < 0 {
		return &LineError{Col: p.at + 1, Msg: p.msg, Hint: p.hint}
	}
	if next := p.skip(p.end); next < len(b) {
		return &LineError{Col: next + 1, Msg: "bad JSON: text after the object", Hint: "one JSON object a line"}
	}
	for k := range p.known {
		p.known[k] = -1
	}
	for i, m := range p.members {
		if k := kindOfName(m.name); k >= 0 {
			p.known[k] = i
		}
	}
	return nil
}

func notUTF8(b []byte, i int) *LineError {
	for {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		i += n
	}
	bad := &LineError{Col: i + 1, Msg: fmt.Sprintf("invalid UTF-8: byte 0x%02x", b[i]), Hint: utf8Hint}
	if bytes.HasPrefix(b, []byte{0xff, 0xfe}) || bytes.HasPrefix(b, []byte{0xfe, 0xff}) {
		bad.Hint = "this looks like UTF-16: iconv -f UTF-16 -t UTF-8"
	}
	return bad
}

func (p *parser) noObject() *LineError {
	end := p.value(p.from, 0)
	if end < 0 {
		bad := &LineError{Col: p.at + 1, Msg: p.msg, Hint: oneLine}
		if p.at == p.from {
			bad.Msg = fmt.Sprintf("not a JSON object: it begins with %.20q", p.b[p.from:])
		}
		if p.b[p.from] == '[' {
			bad.Hint = "of a JSON array, `jq -c '.[]'` makes lines"
		}
		return bad
	}
	bad := &LineError{Col: p.from + 1, Msg: kindOf(p.b[p.from:]) + ", not a JSON object"}
	if p.b[p.from] == '[' {
		bad.Hint = "of a JSON array, `jq -c '.[]'` makes lines"
	}
	return bad
}

// value of the known member k, nil if the line has none.
func (p *parser) member(k int) (member, bool) {
	if p.known[k] < 0 {
		return member{}, false
	}
	return p.members[p.known[k]], true
}

// raw is the bytes of the known member k, nil if absent.
func (p *parser) raw(k int) []byte {
	if p.known[k] < 0 {
		return nil
	}
	m := p.members[p.known[k]]
	return p.b[m.start:m.end:m.end]
}

// has tells whether there is a member k that is not null.
func (p *parser) has(k int) bool {
	v := p.raw(k)
	return v != nil && v[0] != 'n'
}

func (p *parser) badAt(at int, format string, args ...any) *LineError {
	return &LineError{Col: at + 1, Msg: fmt.Sprintf(format, args...)}
}

// setID takes the item's id from the member m.
func (p *parser) setID(it *Item, m member) *LineError {
	v := p.b[m.start:m.end:m.end]
	it.ID, it.idAt, it.has = v, m.start, true
	switch v[0] {
	case '"':
		it.Key = p.text(v)
	case '{', '[', 't', 'f', 'n':
		bad := p.badAt(m.start, "%q is %s, want a string or a number", m.name, kindOf(v))
		bad.Hint = "leave it out to have the line known by its content"
		return bad
	default:
		it.Key = string(v)
	}
	if it.Key == "" {
		bad := p.badAt(m.start, "%q is empty", m.name)
		bad.Hint = "leave it out to have the line known by its content"
		return bad
	}
	return nil
}

// anonymous notes the content of an item that has no id.
func (p *parser) anonymous(it *Item) {
	if !it.has && !p.sumAll {
		it.sum = contentSum(p.b[p.from:])
	}
}

// text returns what the JSON string v says; v is known to be valid.
func (p *parser) text(v []byte) string {
	if plainRun(v, 1) == len(v)-1 {
		return string(v[1 : len(v)-1])
	}
	p.scratch, _ = jsontext.AppendUnquote(p.scratch[:0], v)
	t := string(p.scratch)
	if cap(p.scratch) > bigSize {
		p.scratch = nil
	}
	return t
}

// shared is text for values that are the same in most lines: last is the one
// before, returned again if it says the same.
func (p *parser) shared(last *string, v []byte) string {
	if plainRun(v, 1) < len(v)-1 || string(v[1:len(v)-1]) != *last {
		*last = p.text(v)
	}
	return *last
}
