package input

import (
	"bytes"
	"fmt"
	"unicode/utf8"

	"llmbatch/input/jsonl"
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
	kOptions
	kFiles
	kContents
	kinds
)

var memberNames = [kinds]string{"id", "custom_id", "prompt", "messages", "input", "system", "model", "max_tokens", "temperature",
	"params", "metadata", "method", "url", "body", "options", "files", "contents"}

func kindOfName(name []byte) int {
	for k, n := range memberNames {
		if string(name) == n {
			return k
		}
	}
	return -1
}

// member is one name and value of the line's object: at of the name's quote, start and
// end of the value.
type member struct {
	name           []byte // without quotes and escapes
	at, start, end int
}

// parser makes items of lines. It is for one goroutine at a time, and reused.
// What it returns aliases the line, whose bytes it may change where commas and
// braces stand.
type parser struct {
	f       *File
	b       []byte
	members []member
	known   [kinds]int // index into members, -1 where absent; the last of a name counts
	from    int        // of the object in the line

	model   string // the last ones, shared by the items that have the same
	urlPath string
	// goodPath is the last one that may be used.
	goodPath string
}

// parse fills in it, which is zero, from the record. It leaves Index, and the ID
// of an item without one, to ids. A LineError lacks File and Line.
func (p *parser) parse(r record, it *Item) *LineError {
	it.Line, it.Offset, it.Size = r.line, r.off, r.size
	if r.fields != nil || r.bad != nil {
		return p.row(r, it)
	}
	from, to := trim(r.b)
	it.at = from
	if p.f.o.LetThrough {
		it.sum = contentSum(r.b[from:to])
	}
	if bad := p.walk(r.b[:to], from); bad != nil {
		return bad
	}
	if p.f.tmpl != nil {
		return p.f.tmpl.object(p, it)
	}
	return p.formats(it)
}

// walk checks the line's JSON, which begins at from, and finds the members.
func (p *parser) walk(b []byte, from int) *LineError {
	p.b, p.from, p.members = b, from, p.members[:0]
	for k := range p.known {
		p.known[k] = -1
	}
	if !utf8.Valid(b[from:]) {
		return notUTF8(b, from)
	}
	if b[from] != '{' {
		return p.noObject()
	}
	w := jsonl.Line(b[from:])
	for w.Next() {
		if k := kindOfName(w.Name); k >= 0 {
			p.known[k] = len(p.members)
		}
		p.members = append(p.members, member{w.Name, from + w.NameAt, from + w.At, from + w.At + len(w.Value)})
	}
	return badJSON(w.Err(), from)
}

func badJSON(err *jsonl.Error, from int) *LineError {
	if err == nil {
		return nil
	}
	return &LineError{Col: from + err.At + 1, Msg: err.Msg, Hint: err.Hint}
}

func notUTF8(b []byte, i int) *LineError {
	for {
		r, n := utf8.DecodeRune(b[i:])
		if r == utf8.RuneError && n == 1 {
			break
		}
		i += n
	}
	return &LineError{Col: i + 1, Msg: fmt.Sprintf("invalid UTF-8: byte 0x%02x", b[i]), Hint: utf8Hint}
}

const arrayHint = "of a JSON array, `jq -c '.[]'` makes lines"

func (p *parser) noObject() *LineError {
	bad := badJSON(jsonl.Check(p.b[p.from:]), p.from)
	switch {
	case bad == nil:
		bad = &LineError{Col: p.from + 1, Msg: jsonl.Kind(p.b[p.from:]) + ", not a JSON object"}
	case bad.Col == p.from+1:
		bad.Msg = fmt.Sprintf("not a JSON object: it begins with %.20q", p.b[p.from:])
		bad.Hint = jsonl.OneLine
	}
	if p.b[p.from] == '[' {
		bad.Hint = arrayHint
	}
	return bad
}

// member is the known member k, if the line has it.
func (p *parser) member(k int) (member, bool) {
	if p.known[k] < 0 {
		return member{}, false
	}
	return p.members[p.known[k]], true
}

// raw is the bytes of the known member k, nil if absent.
func (p *parser) raw(k int) []byte {
	m, ok := p.member(k)
	if !ok {
		return nil
	}
	return p.b[m.start:m.end:m.end]
}

// has tells whether there is a member k that is not null.
func (p *parser) has(k int) bool {
	v := p.raw(k)
	return v != nil && v[0] != 'n'
}

func badAt(at int, format string, args ...any) *LineError {
	return &LineError{Col: at + 1, Msg: fmt.Sprintf(format, args...)}
}

// setID takes the item's id from the member m.
func (p *parser) setID(it *Item, m member) *LineError {
	v := p.b[m.start:m.end:m.end]
	it.ID, it.idAt, it.has = v, m.start, true
	var bad *LineError
	switch v[0] {
	case '"':
		it.Key = jsonl.Text(v)
	case '{', '[', 't', 'f', 'n':
		bad = badAt(m.start, "%q is %s, want a string or a number", m.name, jsonl.Kind(v))
	default:
		it.Key = string(v)
	}
	if bad == nil && it.Key == "" {
		bad = badAt(m.start, "%q is empty", m.name)
	}
	if bad != nil {
		bad.Hint = "leave it out to have the line known by its content"
	}
	return bad
}

// anonymous notes the content of an item that has no id.
func (p *parser) anonymous(it *Item) {
	if !it.has && !p.f.o.LetThrough {
		it.sum = contentSum(p.b[p.from:])
	}
}

// shared is the text of v for values that are the same in most lines: last is the one
// before, returned again if it says the same.
func shared(last *string, v []byte) string {
	if in := v[1 : len(v)-1]; bytes.IndexByte(in, '\\') >= 0 || string(in) != *last {
		*last = jsonl.Text(v)
	}
	return *last
}

// typed returns the value of member k, nil if it is absent or null. A value of
// another kind than that of first is an error ('0' stands for a number).
func (p *parser) typed(k int, first byte) ([]byte, *LineError) {
	v := p.raw(k)
	if v == nil || v[0] == 'n' {
		return nil, nil
	}
	ok := v[0] == first
	if first == '0' {
		ok = v[0] == '-' || '0' <= v[0] && v[0] <= '9'
	}
	if !ok {
		m, _ := p.member(k)
		return v, badAt(m.start, "%q is %s, want %s", m.name, jsonl.Kind(v), jsonl.Kind([]byte{first}))
	}
	return v, nil
}
