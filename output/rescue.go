package output

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// rescue keeps rows that can't be written where they belong: in a file beside
// the results, else in another folder. A row is handed to the kernel at once, so
// that the caller can stop sending; the disk has it after close. The zero value
// is ready. Not for concurrent use.
type rescue struct {
	elsewhere []string // Options.Elsewhere
	file      *os.File
	size      int64
}

// keep appends line and says in e where, or puts the line into e.
func (s *rescue) keep(line []byte, e *WriteError) error {
	var kept bool
	if s.file == nil {
		kept = s.begin(e.Path, line)
	} else {
		kept = s.write(line) || s.file.Name() == e.Path+rescueSuffix && s.move(e.Path, line)
	}
	if kept {
		e.Rescue = s.file.Name()
		return e
	}
	e.Unsaved = bytes.Clone(line)
	return e
}

// begin makes a new file, 0600, that holds line: the one beside the results that
// the next Open takes back, else one of a name of its own in another folder.
func (s *rescue) begin(results string, line []byte) bool {
	if results != "" {
		file, err := os.OpenFile(results+rescueSuffix, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
		if s.file, s.size = file, 0; err == nil && s.write(line) {
			return true
		}
		s.drop()
	}
	return s.begun(s.folders("")[1:], results, line)
}

// folders are where rows may go: that of the results, others, the system's.
func (s *rescue) folders(results string) []string {
	return append(append([]string{filepath.Dir(results)}, s.elsewhere...), os.TempDir())
}

// begun makes a file that holds line in the first folder that takes it.
func (s *rescue) begun(folders []string, results string, line []byte) bool {
	name := "results"
	if results != "" {
		name = filepath.Base(results)
	}
	for _, dir := range folders {
		file, err := os.CreateTemp(dir, name+".rescue-*.jsonl")
		if s.file, s.size = file, 0; err == nil && s.write(line) {
			return true
		}
		s.drop()
	}
	return false
}

// move begins a file in another folder, where there may be room for line too, with
// what is kept beside the results: it stays in one file.
func (s *rescue) move(results string, line []byte) bool {
	for _, dir := range s.folders("")[1:] {
		to := rescue{elsewhere: s.elsewhere}
		if !to.begun([]string{dir}, results, nil) {
			continue
		}
		err := copyAll(to.file, s.file, s.size)
		if to.size = s.size; err == nil {
			err = to.file.Sync()
		}
		if err == nil && to.write(line) {
			s.remove()
			*s = to
			return true
		}
		to.remove()
	}
	return false
}

// copyAll appends the first size bytes of from to to.
func copyAll(to io.Writer, from io.ReaderAt, size int64) error {
	_, err := io.Copy(to, io.NewSectionReader(from, 0, size))
	return err
}

// remove gives up what is kept: another file has it.
func (s *rescue) remove() {
	if s.file != nil {
		s.file.Close()
		os.Remove(s.file.Name())
		s.file = nil
	}
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
	if s.size == 0 {
		s.remove()
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
