package output

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

// rescue keeps rows that can't be written where they belong: in a file beside
// the results, else in the system's folder for temporary files. A row is handed
// to the kernel at once, so that the caller can stop sending; the disk has it
// after close. The zero value is ready. Not for concurrent use.
type rescue struct {
	file *os.File
	size int64
}

// keep appends line and says in e where, or puts the line into e.
func (s *rescue) keep(line []byte, e *WriteError) error {
	if s.file != nil && s.write(line) || s.file == nil && s.begin(e.Path, line) {
		e.Rescue = s.file.Name()
		return e
	}
	e.Unsaved = append([]byte(nil), line...)
	return e
}

// begin makes a new file, 0600, that holds line: the one beside the results that
// the next Open takes back, else one of a name of its own in the system's folder.
func (s *rescue) begin(results string, line []byte) bool {
	if results != "" {
		file, err := os.OpenFile(results+rescueSuffix, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if s.file, s.size = file, 0; err == nil && s.write(line) {
			return true
		}
		s.drop()
	}
	name := "results"
	if results != "" {
		name = filepath.Base(results)
	}
	file, err := os.CreateTemp("", name+".rescue-*.jsonl")
	if s.file, s.size = file, 0; err == nil && s.write(line) {
		return true
	}
	s.drop()
	return false
}

// write appends a whole line or nothing.
func (s *rescue) write(line []byte) bool {
	_, err := s.file.Write(line)
	if err == nil {
		s.size += int64(len(line))
		return true
	}
	if s.file.Truncate(s.size) == nil {
		_, _ = s.file.Seek(s.size, 0)
	}
	return false
}

// drop removes a file that holds nothing.
func (s *rescue) drop() {
	if s.file != nil && s.size == 0 {
		s.file.Close()
		os.Remove(s.file.Name())
		s.file = nil
	}
}

// close brings the rows to the disk and says where they are, and why they are
// not at path.
func (s *rescue) close(path string, fault error) error {
	if s.file == nil {
		return &WriteError{Path: path, Err: fault}
	}
	if err := errors.Join(s.file.Sync(), s.file.Close()); err != nil {
		fault = fmt.Errorf("%w, and what is in hand may not last: %v", fault, err)
	}
	return &WriteError{Path: path, Rescue: s.file.Name(), Err: fault}
}
