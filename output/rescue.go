package output

import (
	"os"
	"path/filepath"
)

// rescue keeps rows that can't be written where they belong: in a file beside
// the results, else in the system's folder for temporary files. The zero value
// is ready. Not for concurrent use.
type rescue struct {
	file *os.File
	size int64
}

// keep appends line and says in e where, or puts the line into e.
func (s *rescue) keep(line []byte, e *WriteError, beside string) error {
	if s.file != nil && s.write(line) {
		e.Rescue = s.file.Name()
		return e
	}
	if s.file == nil {
		for _, dir := range []string{beside, os.TempDir()} {
			if dir != "" && s.create(dir, e.Path) && s.write(line) {
				e.Rescue = s.file.Name()
				return e
			}
			s.drop()
		}
	}
	e.Unsaved = append([]byte(nil), line...)
	return e
}

// create makes a new file, 0600, under a name of its own.
func (s *rescue) create(dir, results string) bool {
	name := "results"
	if results != "" {
		name = filepath.Base(results)
	}
	file, err := os.CreateTemp(dir, name+".rescue-*.jsonl")
	s.file, s.size = file, 0
	return err == nil
}

// write appends a whole line or nothing.
func (s *rescue) write(line []byte) bool {
	_, err := s.file.Write(line)
	if err == nil {
		err = s.file.Sync()
	}
	if err == nil {
		s.size += int64(len(line))
		return true
	}
	if s.file.Truncate(s.size) == nil {
		_, err = s.file.Seek(s.size, 0)
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

// name is "" while nothing is kept.
func (s *rescue) name() string {
	if s.file == nil {
		return ""
	}
	return s.file.Name()
}

func (s *rescue) close() {
	if s.file != nil {
		s.file.Close()
	}
}
