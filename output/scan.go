package output

import (
	"bytes"
	"errors"
	"hash/maphash"
	"io"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"

	"llmbatch/input/jsonl"
)

// sectionSize of a file is what one goroutine scans at a time.
const sectionSize = 16 << 20

// maxScanners bounds the goroutines of a scan: beyond it memory is the limit.
const maxScanners = 8

// scan reads the rows in the first size bytes of f, which end with a line end,
// and builds their Index. Each line is checked to be one whole JSON object: a
// torn row that another was glued to, bytes that a crash left zero and lines
// mixed by two writers are all found, with the first in the file reported.
// What is not checked is the UTF-8 inside strings. Blank lines are passed over.
//
// The error is a *BrokenRowError or *ForeignError with this path, or f's.
func scan(f io.ReaderAt, path string, size int64) (*Index, error) {
	return scanSections(f, path, size, sectionSize, false)
}

// scanSections scans sections of that size. tolerant passes over broken lines and
// notes them in the index.
func scanSections(f io.ReaderAt, path string, size, section int64, tolerant bool) (*Index, error) {
	x := &Index{seed: maphash.MakeSeed()}
	sections := (size + section - 1) / section
	workers := make([]*scanner, max(1, min(sections, int64(runtime.GOMAXPROCS(0)), maxScanners)))
	var taken atomic.Int64
	var wg sync.WaitGroup
	for i := range workers {
		s := &scanner{index: x, file: f, size: size, tolerant: tolerant}
		workers[i] = s
		wg.Go(func() {
			// Sections are taken in order, so whoever stops at a bad line has left
			// no earlier one to others that they do not finish.
			for s.err == nil {
				n := taken.Add(1) - 1
				if n >= sections {
					return
				}
				s.section(n*section, min(size, (n+1)*section))
			}
		})
	}
	wg.Wait()

	var bad, salted *scanner
	var blocks [][]entry
	for _, s := range workers {
		if s.err != nil && (bad == nil || s.errAt < bad.errAt) {
			bad = s
		}
		if s.salt != "" && (salted == nil || s.saltAt < salted.saltAt) {
			salted = s
		}
		blocks = append(blocks, s.blocks...)
		x.broken = append(x.broken, s.broken...)
	}
	if bad != nil {
		return nil, rowError(f, path, bad.errAt, bad.err)
	}
	if salted != nil {
		x.salt = salted.salt
	}
	x.build(blocks)
	return x, nil
}

// rowError says where the row at offset stands.
func rowError(f io.ReaderAt, path string, offset int64, err error) error {
	if cause, ok := errors.AsType[foreignError](err); ok {
		return &ForeignError{Path: path, Line: lineNumber(f, offset), Cause: string(cause)}
	}
	if isBroken(err) {
		return &BrokenRowError{Path: path, Line: lineNumber(f, offset), Offset: offset, Cause: err.Error()}
	}
	return err
}

// brokenLine is one that a tolerant scan passed over.
type brokenLine struct {
	offset int64
	err    error
}

// scanner reads sections of a file. Its entries are in no order.
type scanner struct {
	index  *Index // for its seed
	file   io.ReaderAt
	size   int64
	lines  lineReader
	head   rowHead
	blocks [][]entry

	tolerant bool
	broken   []brokenLine

	salt   string
	saltAt int64
	err    error
	errAt  int64
}

// section reads the rows that begin in [lo, hi).
func (s *scanner) section(lo, hi int64) {
	from := max(lo-1, 0)
	s.lines.rewind(s.file, from, s.size)
	if lo > 0 { // what belongs to the row that begins before lo
		if _, _, _, err := s.lines.next(); err != nil {
			s.fail(lo, err)
			return
		}
	}
	for {
		line, offset, _, err := s.lines.next()
		if err == io.EOF || err == nil && offset >= hi {
			return
		}
		if err != nil {
			s.fail(offset, err)
			return
		}
		if blank(line) {
			continue
		}
		e, err := s.row(line, offset)
		if s.tolerant && isBroken(err) {
			s.broken = append(s.broken, brokenLine{offset, err})
			continue
		}
		if err != nil {
			s.fail(offset, err)
			return
		}
		s.add(e)
	}
}

func (s *scanner) fail(at int64, err error) {
	if err != io.EOF {
		s.err, s.errAt = err, at
	}
}

func (s *scanner) add(e entry) {
	last := len(s.blocks) - 1
	if last < 0 || len(s.blocks[last]) == blockSize {
		s.blocks = append(s.blocks, make([]entry, 0, blockSize))
		last++
	}
	s.blocks[last] = append(s.blocks[last], e)
}

// row reads what an entry needs.
func (s *scanner) row(line []byte, offset int64) (entry, error) {
	h := &s.head
	if err := h.read(line); err != nil {
		return entry{}, err
	}
	code, _ := statusCode(h.status)
	if h.key != nil && s.salt == "" { // its sections ascend: the first is the first
		if salt, _, ok := strings.Cut(jsonl.Text(h.key), "-"); ok {
			s.salt, s.saltAt = salt, offset
		}
	}
	return entry{key: s.index.rawKeyHash(h.id), hash: h.hash, at: uint64(offset)<<3 | code}, nil
}

// rowHead is what a scan wants of a row. The slices are the line's.
type rowHead struct {
	id     []byte
	status Status
	hash   uint64
	key    []byte // idempotency_key as written, nil if there is none
}

// read checks the whole line and fills h.
func (h *rowHead) read(line []byte) error {
	*h = rowHead{}
	w := jsonl.Members(line)
	for w.Next() {
		switch string(w.Name) {
		case "id":
			h.id = nil
			if isID(w.Value) {
				h.id = w.Value
			}
		case "status":
			h.status = readStatus(w.Value)
		case "request_hash":
			h.hash = hashOf(bytes.Trim(w.Value, `"`))
		case "idempotency_key":
			h.key = w.Value
		}
	}
	if err := wholeObject(&w); err != nil {
		return err
	}
	if h.id == nil {
		return foreignError("a row has no id")
	}
	if h.status == "" {
		return foreignError("a row has no status, or an unknown one")
	}
	return nil
}

// readStatus returns a known status, or "".
func readStatus(value []byte) Status {
	switch string(value) {
	case `"ok"`:
		return OK
	case `"failed"`:
		return Failed
	case `"gave_up"`:
		return GaveUp
	case `"aborted"`:
		return Aborted
	case `"waiting"`:
		return Waiting
	}
	s := Status(jsonl.Text(value))
	if _, known := statusCode(s); !known {
		return ""
	}
	return s
}

func blank(line []byte) bool { return len(bytes.Trim(line, " \t\r")) == 0 }
