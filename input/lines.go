package input

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"hash"
	"io"
	"sort"
)

// chunk is a run of whole lines or rows, with room for what is made of them. Its
// memory is used again for a later chunk.
type chunk struct {
	small []byte
	buf   []byte // small, or a big one on loan
	data  []byte // whole lines in buf
	rows  []record
	line  int // number of the first line
	off   int64
	bigs  chan []byte // where buf is on loan from
	ready chan struct{}

	items  []Item
	hashes []uint64
	bad    []*LineError
}

// source fills a chunk with what comes next. It returns io.EOF at the end, and
// then nothing more is in the chunk; a *LineError says that the file as a whole is
// unusable.
type source interface {
	next(ctx context.Context, c *chunk) error
}

// each calls yield for the chunk's lines or rows, but for blank ones.
func (c *chunk) each(yield func(record) bool) {
	for _, r := range c.rows {
		if !yield(r) {
			return
		}
	}
	line, off := c.line, c.off
	for rest := c.data; len(rest) > 0; line++ {
		b, size := rest, len(rest)
		if i := bytes.IndexByte(rest, '\n'); i >= 0 {
			b, size = rest[:i], i+1
		}
		rest = rest[size:]
		if n := len(b); n > 0 && b[n-1] == '\r' {
			b = b[:n-1]
		}
		if from, to := trim(b); from < to {
			if !yield(record{line: line, off: off, b: b, size: len(b)}) {
				return
			}
		}
		off += int64(size)
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
	bigs chan []byte // buffers for long lines: they bound the memory in use
	rest []byte      // what was read of the next line, in the buffer of the chunk before
	line int
	off  int64
	err  error
}

func (s *lineSource) next(ctx context.Context, c *chunk) error {
	c.data, c.rows = nil, nil
	if s.err != nil {
		return s.err
	}
	if c.small == nil {
		c.small = make([]byte, chunkSize)
		c.buf = c.small
	}
	rest := s.rest
	s.rest = nil
	for 2*len(rest) > len(c.buf) {
		if err := s.grow(ctx, c, 0); err != nil {
			return err
		}
	}
	n, empty := copy(c.buf, rest), 0
	if end := bytes.LastIndexByte(c.buf[:n], '\n'); end >= 0 { // behind a line that was too long
		s.rest = c.buf[end+1 : n]
		return s.cut(c, end+1)
	}
	for {
		if n > s.max {
			return s.tooLong(c, n)
		}
		if n == len(c.buf) {
			if err := s.grow(ctx, c, n); err != nil {
				return err
			}
		}
		m, err := s.r.Read(c.buf[n:])
		if m == 0 && err == nil {
			if empty++; empty > 100 {
				err = io.ErrNoProgress
			}
		}
		end := bytes.LastIndexByte(c.buf[n:n+m], '\n')
		if end >= 0 {
			s.rest, s.err = c.buf[n+end+1:n+m], err
			if err == io.EOF && len(s.rest) > 0 {
				s.rest, end = nil, m-1
			}
			return s.cut(c, n+end+1)
		}
		n += m
		if err != nil {
			s.err = err
			if err == io.EOF && n > 0 && n <= s.max {
				return s.cut(c, n)
			}
			if n > s.max {
				return s.tooLong(c, n)
			}
			return err
		}
	}
}

// cut makes the chunk of the first n bytes of its buffer. One of its lines may
// still be too long, if the buffer is larger than the bound.
func (s *lineSource) cut(c *chunk, n int) error {
	c.data, c.line, c.off = c.buf[:n], s.line+1, s.off
	s.line += bytes.Count(c.data, []byte{'\n'})
	if c.buf[n-1] != '\n' {
		s.line++
	}
	s.off += int64(n)
	if n > s.max {
		c.rows = make([]record, 0, 4)
		all := *c
		all.rows = nil
		c.data = nil
		all.each(func(r record) bool {
			if r.size > s.max {
				r.bad, r.sum, r.b = longLine(s.max), contentSum(r.b), nil
			}
			c.rows = append(c.rows, r)
			return true
		})
	}
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

// tooLong reads a line to its end without keeping it; n bytes are in the buffer.
func (s *lineSource) tooLong(c *chunk, n int) error {
	h := sha256.New()
	h.Write(c.buf[:n])
	c.line, c.off = s.line+1, s.off
	size := int64(n)
	for s.err == nil {
		m, err := s.r.Read(c.buf)
		s.err = err
		if end := bytes.IndexByte(c.buf[:m], '\n'); end >= 0 {
			h.Write(c.buf[:end])
			size += int64(end)
			s.off = c.off + size + 1
			s.rest = c.buf[end+1 : m]
			break
		}
		h.Write(c.buf[:m])
		size += int64(m)
	}
	if s.err != nil && s.err != io.EOF {
		return s.err
	}
	s.line++
	if s.err == io.EOF && len(s.rest) > 0 {
		s.r, s.err = eof{}, nil // next finds the rest
	}
	c.rows = []record{{line: c.line, off: c.off, size: int(size), bad: longLine(s.max), sum: sum48(h)}}
	return nil
}

func sum48(h hash.Hash) uint64 { return binary.BigEndian.Uint64(h.Sum(nil)) >> 16 }

type eof struct{}

func (eof) Read([]byte) (int, error) { return 0, io.EOF }

// grow doubles the chunk's buffer, of which the first n bytes are in use. For a
// big one it waits until there is one to be had.
func (s *lineSource) grow(ctx context.Context, c *chunk, n int) error {
	size := 2 * len(c.buf)
	old := c.buf
	if size > bigSize && len(old) <= bigSize {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c.buf = <-s.bigs:
			c.bigs = s.bigs
		}
	}
	if len(c.buf) < size {
		c.buf = make([]byte, size)
	}
	copy(c.buf, old[:n])
	if size <= bigSize {
		c.small = c.buf
	}
	return nil
}

// release gives the chunk's big buffer back.
func (c *chunk) release() {
	if len(c.buf) > bigSize {
		c.bigs <- c.buf
	}
	c.buf = c.small
}

// pass notes where the chunks of a pass begin, so that a line can be found again.
type pass struct {
	lines []int
	offs  []int64
}

func (p *pass) note(c *chunk) {
	p.lines, p.offs = append(p.lines, c.line), append(p.offs, c.off)
}

// keyAt returns the key of the item on the line.
func (p *pass) keyAt(f *File, line int) (string, error) {
	i := sort.SearchInts(p.lines, line+1) - 1
	if i < 0 {
		return "", io.ErrUnexpectedEOF
	}
	src, done, err := f.source(p.lines[i], p.offs[i])
	if err != nil {
		return "", err
	}
	defer done()
	parse, c := f.parser(), &chunk{}
	for shift, fresh := 0, f.csv; ; c.release() {
		if err := src.next(context.Background(), c); err != nil {
			return "", err
		}
		for r := range c.each {
			if fresh { // a CSV chunk may begin with blank lines, its number does not count them
				shift, fresh = p.lines[i]-r.line, false
			}
			if r.line+shift != line {
				continue
			}
			var it Item
			if bad := parse.parse(r, &it); bad != nil {
				return "", bad
			}
			return it.Key, nil
		}
	}
}
