package output

import (
	"io"
	"sync"
)

// Stream writes one final row an item to standard output or a pipe: rows that say
// waiting are left out. It may be used by many goroutines.
type Stream struct {
	w io.Writer

	mu    sync.Mutex
	row   []byte
	fault error
	spare rescue
}

// NewStream returns a Stream to w.
func NewStream(w io.Writer) *Stream { return &Stream{w: w} }

// Write hands one row to the writer, in one call. The error is a *WriteError (its
// cause may be syscall.EPIPE), and every later Write fails too: rows are then
// kept in the system's folder for temporary files. Part of a row may have been
// written.
func (s *Stream) Write(r *Result) error {
	if r.Status == Waiting {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.row = AppendRow(s.row[:0], r)
	if s.fault == nil {
		if _, s.fault = s.w.Write(s.row); s.fault == nil {
			return nil
		}
	}
	return s.spare.keep(s.row, &WriteError{Err: s.fault})
}

// Close returns the first error of Write, if there was one. It does not close the
// writer.
func (s *Stream) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fault != nil {
		return s.spare.close("", s.fault)
	}
	return nil
}
