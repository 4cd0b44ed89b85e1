package output

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// keptRecent is how many bytes of rows are kept to be written again.
const keptRecent = 1 << 20

// verify compares the file's size with what was written. Another process may have
// cut the file (`: > results.jsonl`, logrotate's copytruncate) or appended to it. The
// rows since the last sync are then written again and whole rows of others stay; half
// a line of theirs goes, since it would spoil ours. An error means that earlier rows
// are gone. mu is held.
func (f *File) verify() error {
	size, err := sizeOf(f.file)
	if err != nil || size == f.size {
		return err
	}
	if size < f.safe {
		return f.restore(size)
	}
	f.mended = "another process wrote into the file; the rows that it damaged were written again"
	behind := make([]byte, size-f.safe)
	if _, err := f.file.ReadAt(behind, f.safe); err != nil {
		return err
	}
	ours := map[string]bool{}
	for line := range bytes.Lines(f.recent) {
		ours[string(line)] = true
	}
	var head rowHead
	for line := range bytes.Lines(behind) {
		if !ours[string(line)] && line[len(line)-1] == '\n' && head.read(line) == nil {
			f.recent = append(f.recent, line...)
		}
	}
	return f.rewriteRecent()
}

// restore writes the rows since the last sync behind what is left of a file that
// was cut before them.
func (f *File) restore(size int64) error {
	lost := fmt.Errorf("another process cut it from %d to %d bytes: rows that were in it are gone, and the next run asks for them again", f.size, size)
	end, err := lastLineEnd(f.file, size)
	if err != nil {
		return errors.Join(lost, err)
	}
	f.safe = end
	if err := f.rewriteRecent(); err != nil {
		return errors.Join(lost, err)
	}
	return lost
}

// rewriteRecent makes recent all that stands behind safe.
func (f *File) rewriteRecent() error {
	if err := f.file.Truncate(f.safe); err != nil {
		return err
	}
	f.size = f.safe
	if err := f.appendWhole(f.recent); err != nil {
		return err
	}
	f.size += int64(len(f.recent))
	f.wake()
	return nil
}

// remember keeps lines, which were just appended, until the next sync.
func (f *File) remember(lines []byte) {
	if len(f.recent)+len(lines) > keptRecent {
		f.safe, f.recent = f.size, f.recent[:0] // verify has seen these
	}
	f.size += int64(len(lines))
	if len(lines) > keptRecent {
		f.safe = f.size
		return
	}
	f.recent = append(f.recent, lines...)
}

// standing says whether a path still names the file that is held open.
type standing int

const (
	inPlace standing = iota
	nameGone
	nameTaken // by another file
	moved     // with its folder
)

// stand says how the file stands and, if it was moved, where it is now.
func (f *File) stand() (standing, string) {
	held, err := f.file.Stat()
	if err != nil {
		return inPlace, ""
	}
	named, err := os.Stat(f.path)
	switch {
	case err == nil && os.SameFile(named, held):
		return inPlace, ""
	case err == nil:
		return nameTaken, ""
	case !errors.Is(err, fs.ErrNotExist):
		return inPlace, "" // a folder that can't be looked into
	}
	if _, err := os.Stat(filepath.Dir(f.path)); err == nil {
		return nameGone, ""
	}
	// Linux knows the file's new name; elsewhere its rows are copied.
	now, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(int(f.file.Fd())))
	if err != nil {
		return nameGone, ""
	}
	if named, err = os.Stat(now); err != nil || !os.SameFile(named, held) {
		return nameGone, ""
	}
	return moved, now
}

// salvage copies all rows, which only the open file has, to the first folder that
// takes them: the results' own, those of Options.Elsewhere, the system's for
// temporary files. The last resort is o.LastResort.
func (f *File) salvage(o CloseOptions, cause error) error {
	e := &WriteError{Path: f.path, Err: cause, Whole: true}
	for _, dir := range f.spare.folders(f.path) {
		if e.Rescue = f.copyInto(dir); e.Rescue != "" {
			f.spare.remove()
			return e
		}
	}
	if o.LastResort == nil {
		return e
	}
	rows := func(line []byte, _ int64) error { o.LastResort(line); return nil }
	err := eachLine(f.file, f.size, nil, rows)
	if err == nil && f.spare.file != nil {
		err = eachLine(f.spare.file, f.spare.size, nil, rows)
	}
	e.Printed = err == nil
	return e
}

// copyInto makes a file in dir with all rows and returns its name, "" if it can't.
func (f *File) copyInto(dir string) string {
	out, err := os.CreateTemp(dir, filepath.Base(f.path)+".rescue-*.jsonl")
	if err != nil {
		return ""
	}
	err = copyAll(out, f.file, f.size)
	if err == nil && f.spare.file != nil {
		err = copyAll(out, f.spare.file, f.spare.size)
	}
	if err = errors.Join(err, out.Sync(), out.Close()); err != nil {
		os.Remove(out.Name())
		return ""
	}
	return out.Name()
}

// follow resolves the symbolic links that path goes through, also one whose target
// does not exist yet: the final rename must not replace a link.
func follow(path string) string {
	for range 40 { // as many as Linux follows
		if real, err := filepath.EvalSymlinks(path); err == nil {
			return real
		}
		target, err := os.Readlink(path)
		if err != nil {
			return path
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = target
	}
	return path
}
