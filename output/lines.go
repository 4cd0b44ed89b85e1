package output

import (
	"bytes"
	"io"
	"os"
)

// lineReader reads the lines of a file from an offset up to a limit, in blocks,
// without a longest line. It uses ReadAt only, so many may read one file.
type lineReader struct {
	file  io.ReaderAt
	limit int64 // nothing is read at or beyond it
	buf   []byte
	off   int64 // of buf[0]
	start int   // of what next has not returned yet
	end   int
}

// lineBlock is read at once; it fits the caches that a core has to itself.
const lineBlock = 256 << 10

// rewind makes l read from offset on. It keeps the buffer.
func (l *lineReader) rewind(file io.ReaderAt, offset, limit int64) {
	l.file, l.limit, l.off, l.start, l.end = file, limit, offset, 0, 0
}

// next returns the next line without its LF, and its offset. The line is valid
// until the next call. whole is false for the bytes behind the last LF. At the
// limit the error is io.EOF.
func (l *lineReader) next() (line []byte, offset int64, whole bool, err error) {
	searched := 0
	for {
		rest := l.buf[l.start:l.end]
		if i := bytes.IndexByte(rest[searched:], '\n'); i >= 0 {
			offset = l.off + int64(l.start)
			l.start += searched + i + 1
			return rest[:searched+i], offset, true, nil
		}
		searched = len(rest)
		more, err := l.fill()
		if err != nil {
			return nil, 0, false, err
		}
		if !more {
			break
		}
	}
	if l.start == l.end {
		return nil, 0, false, io.EOF
	}
	line, offset = l.buf[l.start:l.end], l.off+int64(l.start)
	l.start = l.end
	return line, offset, false, nil
}

// fill reads another block behind what is there; false at the limit. A file that
// became shorter ends there.
func (l *lineReader) fill() (bool, error) {
	from := l.off + int64(l.end)
	if from >= l.limit {
		return false, nil
	}
	if l.start > 0 {
		copy(l.buf, l.buf[l.start:l.end])
		l.off += int64(l.start)
		l.end -= l.start
		l.start = 0
	}
	if l.end == len(l.buf) {
		grown := make([]byte, max(lineBlock, 2*len(l.buf)))
		copy(grown, l.buf[:l.end])
		l.buf = grown
	}
	room := l.buf[l.end:min(int64(len(l.buf)), int64(l.end)+l.limit-from)]
	n, err := l.file.ReadAt(room, from)
	l.end += n
	if err == io.EOF {
		l.limit = from + int64(n)
		err = nil
	}
	return n > 0, err
}

// lastLineEnd returns the offset behind the last LF before size, 0 if there is none.
func lastLineEnd(f io.ReaderAt, size int64) (int64, error) {
	buf := make([]byte, 64<<10)
	for size > 0 {
		n := min(size, int64(len(buf)))
		if _, err := f.ReadAt(buf[:n], size-n); err != nil {
			return 0, err
		}
		if i := bytes.LastIndexByte(buf[:n], '\n'); i >= 0 {
			return size - n + int64(i) + 1, nil
		}
		size -= n
	}
	return 0, nil
}

// lineNumber counts, from 1, the line that begins at offset.
func lineNumber(f io.ReaderAt, offset int64) int {
	buf := make([]byte, lineBlock)
	section := io.NewSectionReader(f, 0, offset)
	line := 1
	for {
		n, err := section.Read(buf)
		line += bytes.Count(buf[:n], []byte{'\n'})
		if err != nil {
			return line
		}
	}
}

// sizeOf returns a file's length.
func sizeOf(f *os.File) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), nil
}
