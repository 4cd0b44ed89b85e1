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
// An event may be as large as MaxEvent. What a server calls a stream may be none: where
// JSON or a page begins instead of a field, Next returns ErrNotEvents, and Rest the body.
package sse

import (
	"bytes"
	"errors"
	"io"
)

// MaxEvent is the most data that one event may have, in bytes.
const MaxEvent = 64 << 20

var (
	// ErrTooLarge is returned for an event with more than MaxEvent bytes of data: what
	// the server sends can't be used.
	ErrTooLarge = errors.New("an event of the stream is larger than 64 MB")
	// ErrNotEvents is returned where the body is no stream of events.
	ErrNotEvents = errors.New("the answer is no stream of events")
)

// Event is one event.
type Event struct {
	// Name is the event field, "" if there was none.
	Name string
	// Data is the data fields joined by line feeds. Valid until the next call.
	Data []byte
}

// Meaningful is false for events that only keep a connection alive: pings, and data
// that is no JSON object.
func (e Event) Meaningful() bool {
	if len(e.Data) == 0 {
		return e.Name != "" && !isPing(e.Name)
	}
	return !isPing(e.Name) && lively(e.Data)
}

// Reader reads events. Not for concurrent use.
type Reader struct {
	src   io.Reader
	alive func()
	max   int

	chunk []byte // what is read into
	rest  []byte // of chunk: what is not yet taken
	err   error  // what ended src

	begun  bool // a line that is not blank has begun
	first  bool // the line is the stream's first
	skipLF bool // the last line ended in CR
	line   []byte
	grown  bool // the line has grown since alive was called

	data  []byte
	name  string
	seen  bool // the event has a data or an event field
	lines int  // data fields of the event
}

const (
	chunkSize = 8 << 10
	maxName   = 256
	// keepData is the most capacity that is kept for the next event.
	keepData = 1 << 20
)

var bom = []byte("\xef\xbb\xbf")

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
// those of src, ErrNotEvents or ErrTooLarge. An error stays.
func (r *Reader) Next() (Event, error) {
	if cap(r.data) > keepData {
		r.data, r.line = nil, nil
	}
	r.data, r.name, r.seen, r.lines = r.data[:0], "", false, 0
	for r.err != ErrNotEvents {
		if len(r.rest) == 0 {
			if err := r.fill(); err != nil {
				return r.last(err)
			}
		}
		if r.skipLF {
			r.skipLF = false
			if r.rest[0] == '\n' {
				r.rest = r.rest[1:]
				continue
			}
		}
		if !r.begun && r.foreign() {
			r.err = ErrNotEvents
			break
		}
		n := bytes.IndexAny(r.rest, "\r\n")
		if n < 0 {
			n = len(r.rest)
		}
		r.line = append(r.line, r.rest[:n]...)
		r.grown = r.grown || n > 0
		if len(r.data)+len(r.line) > r.max+len("data: ") {
			r.err, r.rest = ErrTooLarge, nil
			return Event{}, ErrTooLarge
		}
		if n == len(r.rest) {
			r.rest = nil
			continue
		}
		r.skipLF = r.rest[n] == '\r'
		r.rest = r.rest[n+1:]
		if r.endLine() {
			return r.event(), nil
		}
	}
	return Event{}, r.err
}

// foreign says that the body begins with JSON or a page.
func (r *Reader) foreign() bool {
	b := bytes.TrimLeft(bytes.TrimPrefix(r.rest, bom), " \t\r\n")
	r.begun = len(b) > 0
	return r.begun && len(r.line) == 0 && bytes.IndexByte([]byte("{[<"), b[0]) >= 0
}

// Rest is the body that is no stream of events, after ErrNotEvents. alive is called
// for what is read of it.
func (r *Reader) Rest() io.Reader {
	return io.MultiReader(bytes.NewReader(r.rest), io.TeeReader(r.src, said(r.alive)))
}

// said is called for each piece that is read.
type said func()

func (s said) Write(p []byte) (int, error) { s(); return len(p), nil }

// fill reads more of src, after saying that what came before was meaningful.
func (r *Reader) fill() error {
	if r.grown {
		r.grown = false
		data := r.data
		if field, value, _ := bytes.Cut(r.line, []byte(":")); len(data) == 0 && string(field) == "data" {
			data = value
		}
		if !isPing(r.name) && lively(data) {
			r.alive()
		}
	}
	for range 100 {
		if r.err != nil {
			return r.err
		}
		var n int
		n, r.err = r.src.Read(r.chunk)
		if r.rest = r.chunk[:n]; n > 0 {
			return nil
		}
	}
	r.err = io.ErrNoProgress
	return r.err
}

// last returns the event that src ended in, if it ended well, and then the error.
func (r *Reader) last(err error) (Event, error) {
	if err == io.EOF && (r.endLine() || r.seen) {
		return r.event(), nil
	}
	return Event{}, err
}

// endLine takes the line, and says whether it was the blank one after an event.
func (r *Reader) endLine() (done bool) {
	line := r.line
	if r.first {
		line = bytes.TrimPrefix(line, bom)
	}
	r.line, r.first = r.line[:0], false
	if len(line) == 0 {
		return r.seen
	}
	field, value, _ := bytes.Cut(line, []byte(":"))
	value = bytes.TrimPrefix(value, []byte(" "))
	switch string(field) {
	case "data":
		if r.lines++; r.lines > 1 {
			r.data = append(r.data, '\n')
		}
		r.data, r.seen = append(r.data, value...), true
	case "event":
		r.name, r.seen = string(value[:min(len(value), maxName)]), true
	}
	return false
}

// event returns the event that is whole.
func (r *Reader) event() Event {
	e := Event{Name: r.name, Data: r.data}
	r.grown, r.seen = false, false
	if e.Meaningful() {
		r.alive()
	}
	return e
}

// maxPing is the largest ping: one that grows beyond it is taken for an answer.
const maxPing = 256

// lively says that data, of which more may come, is part of an answer: a JSON object,
// or an array of them, that is no {"type":"ping"} or {"type":"keepalive"}.
func lively(data []byte) bool {
	var b []byte // without white space
	for _, c := range data[:min(len(data), maxPing)] {
		if c > ' ' {
			b = append(b, c)
		}
	}
	if !bytes.HasPrefix(b, []byte("{")) && !bytes.HasPrefix(b, []byte("[{")) {
		return false
	}
	for _, ping := range [...][]byte{[]byte(`{"type":"ping"`), []byte(`{"type":"keepalive"`)} {
		if len(data) <= maxPing && (bytes.HasPrefix(b, ping) || bytes.HasPrefix(ping, b)) {
			return false
		}
	}
	return true
}

func isPing(name string) bool { return name == "ping" || name == "keepalive" }
