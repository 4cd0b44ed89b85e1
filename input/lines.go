package input

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"slices"

	"llmbatch/input/jsonl"
)

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

// source fills a chunk with what comes next. It returns io.EOF at the end, and
// then nothing more is in the chunk; a *LineError says that the file as a whole is
// unusable.
type source interface {
	next(ctx context.Context, c *chunk) error
}

// chunk is a run of whole lines or rows, with room for what is made of them. Its
// memory is used again for a later chunk.
type chunk struct {
	buf   []byte // whole lines
	rows  []record
	line  int // number of the first line
	off   int64
	max   int           // bytes of a line
	big   chan struct{} // holds a place for this chunk's large buffer; nil: it is small
	ready chan struct{}

	items  []Item
	hashes []uint64
	bad    []*LineError
}

// each calls yield for the chunk's lines or rows, but for blank ones.
func (c *chunk) each(yield func(record) bool) {
	for _, r := range c.rows {
		if !yield(r) {
			return
		}
	}
	line, off := c.line, c.off
	for rest := c.buf; len(rest) > 0; line++ {
		b, size := rest, len(rest)
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			b, size = rest[:i], i+1
		}
		rest = rest[size:]
		if n := len(b); n > 0 && b[n-1] == '\r' {
			b = b[:n-1]
		}
		if from, to := trim(b); from < to {
			r := record{line: line, off: off, b: b, size: len(b)}
			if len(b) > c.max {
				r.bad, r.sum, r.b = longLine(c.max), contentSum(b), nil
			}
			if !yield(r) {
				return
			}
		}
		off += int64(size)
	}
}

// release gives a large buffer's place to another chunk.
func (c *chunk) release() {
	if c.big != nil {
		<-c.big
		c.big, c.buf = nil, nil
	}
}

const (
	chunkSize = 64 << 10
	// bigSize is where a buffer becomes one of the few that may be big.
	bigSize = 256 << 10
)

// lineSource cuts a stream into chunks at line ends. A chunk has what one or
// more reads brought, so a slow pipe's lines arrive one by one.
type lineSource struct {
	r    io.Reader
	max  int
	big  chan struct{} // its room bounds how many chunks may be large at a time
	rest []byte        // what was read of the next line
	line int           // lines before rest
	off  int64         // of rest
	err  error
}

func (s *lineSource) next(ctx context.Context, c *chunk) error {
	c.rows, c.max = nil, s.max
	if c.buf == nil {
		c.buf = make([]byte, 0, chunkSize)
	}
	if err := s.claim(ctx, c, len(s.rest)); err != nil {
		return err
	}
	if c.buf = append(c.buf[:0], s.rest...); len(s.rest) < bigSize {
		s.rest = s.rest[:0]
	} else {
		s.rest = nil
	}
	for from, empty := 0, 0; ; {
		if end := bytes.LastIndexByte(c.buf[from:], '\n'); end >= 0 {
			return s.cut(c, from+end+1)
		}
		if len(c.buf) > s.max {
			return s.tooLong(c)
		}
		if s.err != nil {
			if s.err == io.EOF && len(c.buf) > 0 {
				return s.cut(c, len(c.buf))
			}
			return s.err
		}
		if err := s.grow(ctx, c); err != nil {
			return err
		}
		from = len(c.buf)
		var n int
		n, s.err = s.r.Read(c.buf[from:cap(c.buf)])
		c.buf = c.buf[:from+n]
		if empty++; n > 0 {
			empty = 0
		} else if empty > 100 && s.err == nil {
			s.err = io.ErrNoProgress
		}
	}
}

// grow makes room in the chunk's buffer.
func (s *lineSource) grow(ctx context.Context, c *chunk) error {
	if len(c.buf) < cap(c.buf) {
		return nil
	}
	err := s.claim(ctx, c, len(c.buf))
	c.buf = slices.Grow(c.buf, len(c.buf))
	return err
}

// claim waits, where the chunk is to be a large one, until there may be another.
func (s *lineSource) claim(ctx context.Context, c *chunk, size int) error {
	if c.big != nil || size < bigSize {
		return nil
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case s.big <- struct{}{}:
		c.big = s.big
		return nil
	}
}

// cut makes the chunk of the first n bytes of its buffer.
func (s *lineSource) cut(c *chunk, n int) error {
	s.rest = append(s.rest, c.buf[n:]...)
	c.buf, c.line, c.off = c.buf[:n], s.line+1, s.off
	s.line += bytes.Count(c.buf, []byte{'\n'})
	s.off += int64(n)
	return nil
}

func longLine(most int) *LineError {
	size := fmt.Sprintf("%d bytes", most)
	if most >= 1<<20 {
		size = fmt.Sprintf("%d MiB", most>>20)
	}
	return &LineError{Col: 1, Msg: "the line is longer than " + size,
		Hint: "is the file one large array? `jq -c '.[]'` makes lines of it"}
}

// tooLong reads the line that fills the chunk to its end without keeping it.
func (s *lineSource) tooLong(c *chunk) error {
	h := sha256.New()
	r := record{line: s.line + 1, off: s.off, bad: longLine(s.max)}
	for b := c.buf; ; b = c.buf {
		end := bytes.IndexByte(b, '\n')
		if end >= 0 {
			s.rest = append(s.rest, b[end+1:]...)
			b = b[:end]
		}
		h.Write(b)
		r.size += len(b)
		if end >= 0 {
			s.off++
			break
		}
		if s.err != nil && s.err != io.EOF {
			return s.err
		}
		if s.err == io.EOF {
			break
		}
		var n int
		n, s.err = s.r.Read(c.buf[:cap(c.buf)])
		c.buf = c.buf[:n]
	}
	s.line++
	s.off += int64(r.size)
	r.sum = sum48(h)
	c.buf, c.rows = c.buf[:0], []record{r}
	return nil
}

func sum48(h hash.Hash) uint64 { return binary.BigEndian.Uint64(h.Sum(nil)) >> 16 }

func contentSum(b []byte) uint64 {
	h := sha256.Sum256(b)
	return binary.BigEndian.Uint64(h[:8]) >> 16
}

var bom = []byte("\xef\xbb\xbf")

// trim returns where the content of a line begins and ends: without one BOM and
// without white space around it.
func trim(b []byte) (from, to int) {
	if bytes.HasPrefix(b, bom) {
		from = len(bom)
	}
	to = len(b)
	for from < to && jsonl.Space(b[from]) {
		from++
	}
	for to > from && jsonl.Space(b[to-1]) {
		to--
	}
	return from, to
}
