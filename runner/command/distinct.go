package command

import (
	"errors"
	"os"
	"path/filepath"

	"llmbatch/output"
)

// distinct refuses to write over the input or the results what goes elsewhere,
// under whatever names.
func (s *session) distinct() error {
	if s.prompts == "-" && sameAs(s.e.stdin, s.out) {
		return usagef("standard input and the output are the same file, %s: the input would be written to", s.out).
			hint("choose another name with -o FILE")
	}
	if s.out == "-" && sameAs(s.e.stdout, s.prompts) {
		return usagef("standard output is the input, %s", s.prompts).hint("send it to another file")
	}
	for _, to := range []struct{ flag, name string }{{"--summary", s.o.summary}, {"--metrics-textfile", s.o.metricsTextfile}} {
		if samePlace(to.name, s.prompts) {
			return usagef("%s %s is the input", to.flag, to.name).hint("choose another name")
		}
		if samePlace(to.name, s.out) {
			return usagef("%s %s is the file of the results", to.flag, to.name).hint("choose another name")
		}
		if err := canWrite(to.name); err != nil { // better now than after the night
			return usagef("%s: %w", to.flag, err).hint("make the folder or choose another name")
		}
	}
	return nil
}

// canWrite tries whether a file of that name could be written whole.
func canWrite(name string) error {
	if info, err := os.Stat(name); name == "" || name == "-" || err == nil && !info.Mode().IsRegular() {
		return nil
	}
	f, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return err
	}
	return errors.Join(f.Close(), os.Remove(f.Name()))
}

// sameAs says whether a standard stream is the file with this name.
func sameAs(stream any, name string) bool {
	f, ok := stream.(*os.File)
	if !ok || name == "-" {
		return false
	}
	a, errA := f.Stat()
	b, errB := os.Stat(name)
	return errA == nil && errB == nil && a.Mode().IsRegular() && os.SameFile(a, b)
}

// samePlace says whether two names are one file, also where there is none yet.
func samePlace(a, b string) bool {
	if a == "" || a == "-" || b == "-" {
		return false
	}
	absA, errA := filepath.Abs(a)
	absB, errB := filepath.Abs(b)
	return errA == nil && errB == nil && absA == absB || output.SameFile(a, b)
}

// orphans counts the rows of earlier runs, and those of them that are of no item
// of the input; 0 where only a part of the input is looked at.
func (s *session) orphans() (of, n int) {
	if s.file == nil || s.in.Pipe() || s.shard.n > 1 || s.ids != nil {
		return 0, 0
	}
	n = s.file.Index().Len()
	of = n
	for _, known := range s.found.old {
		n -= known
	}
	return of, n
}
