package input

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
)

// packing is how a file is compressed.
type packing uint8

const (
	plain packing = iota
	gzipped
	zstandard
)

// packingOf tells the packing by the first bytes, which no JSON or CSV text has.
// A name that ends otherwise is an error, or a cut file would pass as text.
func packingOf(r io.ReaderAt, ext string) (packing, error) {
	head := make([]byte, 4)
	n, err := r.ReadAt(head, 0)
	if err != nil && err != io.EOF {
		return plain, err
	}
	kind := packed(head[:n])
	if ext == ".gz" && kind != gzipped || ext == ".zst" && kind != zstandard {
		return plain, fmt.Errorf("the name ends in %s, but the content is not compressed so", ext)
	}
	return kind, nil
}

func packed(head []byte) packing {
	switch {
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		return gzipped
	case bytes.HasPrefix(head, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		return zstandard
	}
	return plain
}

// archive is a compressed stream whose end before its time is an error.
type archive struct {
	r    io.Reader
	what string
}

func (a archive) Read(b []byte) (int, error) {
	n, err := a.r.Read(b)
	if err != nil && err != io.EOF {
		err = a.wrap(err)
	}
	return n, err
}

func (a archive) wrap(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) || err == io.EOF {
		return fmt.Errorf("the %s data is cut off: %w", a.what, io.ErrUnexpectedEOF)
	}
	return fmt.Errorf("the %s data is corrupt or unreadable: %w", a.what, err)
}

// unpack returns the decompressed stream, and a function that ends it.
func unpack(r io.Reader, kind packing) (io.Reader, func(), error) {
	switch kind {
	case gzipped:
		a := archive{what: "gzip"}
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, nil, a.wrap(err)
		}
		a.r = z
		return a, func() { z.Close() }, nil
	case zstandard:
		a := archive{what: "zstd"}
		z, err := zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
		if err != nil {
			return nil, nil, a.wrap(err)
		}
		a.r = z
		return a, z.Close, nil
	}
	return r, func() {}, nil
}

// source opens the input at a line that begins at off; both are 1 and 0 but in
// a plain file. The function ends it.
func (f *File) source(line int, off int64) (source, func(), error) {
	r, done, err := f.stream(off)
	if err != nil {
		return nil, nil, err
	}
	if f.csv {
		src, err := newCSVSource(f, r, line, off)
		return src, done, err
	}
	src := &lineSource{r: r, max: int(min(f.o.MaxLine, math.MaxInt-1)), line: line - 1, off: off, bigs: make(chan []byte, 2)}
	src.bigs <- nil
	src.bigs <- nil
	return src, done, nil
}

func (f *File) stream(off int64) (io.Reader, func(), error) {
	if f.pipe == nil {
		return unpack(io.NewSectionReader(f.file, off, math.MaxInt64-off), f.kind)
	}
	if f.taken.Swap(true) {
		return nil, nil, errors.New("a pipe cannot be read twice")
	}
	b := bufio.NewReaderSize(f.pipe, chunkSize)
	head, err := b.Peek(4)
	if err != nil && err != io.EOF {
		return nil, nil, err
	}
	return unpack(b, packed(head))
}
