// Package sse reads server-sent events as the LLM APIs send them.
//
// It follows the event stream format of the WHATWG HTML standard (§9.2.6), with
// three differences that a client which pays for its answers wants. The last
// event counts although no blank line follows it: whoever reads it decides
// whether it was whole. An event with a name and no data counts. And the reader
// tells which bytes were meaningful while they arrive, so that a connection kept
// alive by comments and pings can be told from one on which a single large event
// trickles in. id and retry are ignored: nothing reconnects here.
//
// An event may be as large as MaxEvent. Readers that split whole events off a
// scanner's buffer look at the same bytes again with each read from the network;
// this one looks at each byte once.
package sse

import (
	"bytes"
	"errors"
	"io"
)

// MaxEvent is the most data that one event may have, in bytes.
const MaxEvent = 64 << 20

// ErrTooLarge is returned for an event with more than MaxEvent bytes of data: what
// the server sends can't be used.
var ErrTooLarge = errors.New("an event of the stream is larger than 64 MB")

// Event is one event.
type Event struct {
	// Name is the event field, "" if there was none.
	Name string
	// Data is the data fields joined by line feeds. Valid until the next call.
	Data []byte
}

// Meaningful is false for pings: events that only keep a connection alive.
func (e Event) Meaningful() bool {
	return !isPing(e.Name) && maybePing(e.Data) != pingWhole && (e.Name != "" || len(e.Data) > 0)
}

// Reader reads events. Not for concurrent use.
type Reader struct {
	src   io.Reader
	alive func()
	max   int

	chunk    []byte
	pos, end int
	err      error // what ended src
	first    bool  // the line is the stream's first
	skipLF   bool  // the last line ended in CR

	field    field
	head     []byte // the line up to its colon
	space    bool   // a leading space of the value is to be dropped
	data     []byte
	name     []byte
	seen     bool // the event has a data or an event field
	lines    int  // data fields of the event
	progress bool // meaningful bytes since alive was called

	lastName string
}

type field uint8

const (
	unknown field = iota
	dataField
	nameField
	ignored
)

const (
	chunkSize = 8 << 10
	maxName   = 256
	// keepData is the most capacity that is kept for the next event.
	keepData = 1 << 20
)

// NewReader returns a reader of src. alive, which may be nil, is called from Next
// each time that meaningful bytes have arrived: bytes of data that is no ping,
// also before their event is whole.
func NewReader(src io.Reader, alive func()) *Reader {
	if alive == nil {
		alive = func() {}
	}
	return &Reader{src: src, alive: alive, max: MaxEvent, chunk: make([]byte, chunkSize), first: true}
}

// Next returns the next event. At the end of src it is io.EOF; other errors are
// those of src, or ErrTooLarge. An error stays.
func (r *Reader) Next() (Event, error) {
	r.reset()
	for {
		if r.pos == r.end {
			if err := r.fill(); err != nil {
				return r.last(err)
			}
		}
		b := r.chunk[r.pos:r.end]
		if r.skipLF {
			r.skipLF = false
			if b[0] == '\n' {
				r.pos++
				continue
			}
		}
		n := lineEnd(b)
		r.take(b[:n])
		if len(r.data) > r.max {
			r.err, r.pos, r.end = ErrTooLarge, 0, 0
			return Event{}, ErrTooLarge
		}
		r.pos += n
		if n == len(b) {
			continue
		}
		r.skipLF = b[n] == '\r'
		r.pos++
		if r.endLine() {
			return r.event(), nil
		}
	}
}

// lineEnd returns the index of the first CR or LF, or len(b).
func lineEnd(b []byte) int {
	n := bytes.IndexByte(b, '\n')
	if n < 0 {
		n = len(b)
	}
	if cr := bytes.IndexByte(b[:n], '\r'); cr >= 0 {
		return cr
	}
	return n
}

func (r *Reader) reset() {
	if cap(r.data) > keepData {
		r.data = nil
	}
	r.data, r.name = r.data[:0], r.name[:0]
	r.seen, r.lines = false, 0
}

// fill reads more of src, after saying that what it had was meaningful.
func (r *Reader) fill() error {
	if r.progress {
		r.progress = false
		r.alive()
	}
	for range 100 {
		if r.err != nil {
			return r.err
		}
		var n int
		n, r.err = r.src.Read(r.chunk)
		r.pos, r.end = 0, n
		if n > 0 {
			return nil
		}
	}
	r.err = io.ErrNoProgress
	return r.err
}

// last returns the event that src ended in, if it ended well, and then the error.
func (r *Reader) last(err error) (Event, error) {
	if err != io.EOF {
		return Event{}, err
	}
	if r.endLine() || r.seen {
		return r.event(), nil
	}
	return Event{}, err
}

// take adds a piece of the current line.
func (r *Reader) take(b []byte) {
	if len(b) == 0 {
		return
	}
	if r.field == unknown {
		b = r.takeHead(b)
	}
	if r.space && len(b) > 0 {
		r.space = false
		if b[0] == ' ' {
			b = b[1:]
		}
	}
	switch r.field {
	case dataField:
		r.data = append(r.data, b...)
		if len(b) > 0 && !r.progress && !isPing(string(r.name)) {
			r.progress = maybePing(r.data) == pingNot
		}
	case nameField:
		r.name = append(r.name, b[:min(len(b), maxName-len(r.name))]...)
	}
}

// takeHead looks for the colon after the field's name, and returns what follows it.
func (r *Reader) takeHead(b []byte) (value []byte) {
	colon := bytes.IndexByte(b[:min(len(b), chunkHead)], ':')
	if colon >= 0 {
		r.head = append(r.head, b[:colon]...)
		r.open()
		r.space = true
		return b[colon+1:]
	}
	r.head = append(r.head, b[:min(len(b), chunkHead)]...)
	if len(r.head) >= chunkHead {
		r.field = ignored
	}
	return nil
}

// chunkHead is more than a byte order mark and the longest known field name.
const chunkHead = 16

// open begins the field that head names.
func (r *Reader) open() {
	name := r.head
	if r.first {
		name = bytes.TrimPrefix(name, []byte("\xef\xbb\xbf"))
	}
	switch string(name) {
	case "data":
		r.field, r.seen = dataField, true
		if r.lines++; r.lines > 1 {
			r.data = append(r.data, '\n')
		}
	case "event":
		r.field, r.seen = nameField, true
		r.name = r.name[:0]
	default:
		r.field = ignored
	}
}

// endLine ends the line, and says whether it was the blank one after an event.
func (r *Reader) endLine() (done bool) {
	if r.field == unknown {
		blank := len(r.head) == 0 || r.first && string(r.head) == "\xef\xbb\xbf"
		if blank {
			done = r.seen
		} else {
			r.open()
		}
	}
	r.field, r.head, r.space, r.first = unknown, r.head[:0], false, false
	return done
}

// event returns the event that is whole.
func (r *Reader) event() Event {
	if string(r.name) != r.lastName {
		r.lastName = string(r.name)
	}
	e := Event{Name: r.lastName, Data: r.data}
	r.progress = false
	if e.Meaningful() {
		r.alive()
	}
	r.seen = false
	return e
}

type pingState uint8

const (
	pingNot   pingState = iota // no ping, whatever follows
	pingBegun                  // could become one
	pingWhole
)

// maxPing is the largest ping: one that grows beyond it is taken for an answer.
const maxPing = 256

// maybePing says whether data is, or begins like, {"type":"ping"} or
// {"type":"keepalive"}, whatever members follow.
func maybePing(data []byte) pingState {
	if len(data) > maxPing {
		return pingNot
	}
	state := pingNot
	for _, pattern := range [...]string{`{"type":"ping"`, `{"type":"keepalive"`} {
		state = max(state, matchPing(data, pattern))
	}
	return state
}

func matchPing(data []byte, pattern string) pingState {
	i := 0
	for _, c := range data {
		if c == ' ' || c == '\t' || c == '\n' {
			continue
		}
		if i == len(pattern) {
			return pingWhole
		}
		if c != pattern[i] {
			return pingNot
		}
		i++
	}
	if i == len(pattern) {
		return pingWhole
	}
	return pingBegun
}

func isPing(name string) bool { return name == "ping" || name == "keepalive" }
