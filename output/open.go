package output

import (
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Options of Open. The zero value continues the file, or creates it.
type Options struct {
	// Fresh moves what the path holds to ….bak (.bak1, … if that is taken).
	Fresh bool
	// ReadOnly neither creates, locks nor repairs, for a look at what a run would
	// do. A missing file has an empty Index.
	ReadOnly bool
	// Flush is the longest time for which a row is not yet on the disk; 0 means 1 s.
	Flush time.Duration
	// Elsewhere are folders for rows that can't be kept beside the results. The
	// system's folder for temporary files comes after them.
	Elsewhere []string
}

// copySuffix names the file that the final rewrite writes beside the results.
const copySuffix = ".rewrite"

// Open locks the results file at path, creating it with mode 0600 where there is
// none, reads its index and repairs its end: a last line that lacks only its
// newline is completed, a torn one cut off. Before that the whole file is
// checked, and nothing in it is changed if it is not ours. Rows that an earlier
// run could write only beside the file (WriteError.TakenBack) are taken back.
//
// The errors: ErrCompressed, ErrNotRegular, *LockedError, *BrokenRowError,
// *ForeignError, or one that names the folder or file and what the system said.
func Open(path string, o Options) (*File, error) {
	if err := CheckName(path); err != nil {
		return nil, err
	}
	if o.ReadOnly {
		return look(path)
	}
	path = follow(path)
	if err := checkFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	_, err := os.Stat(path)
	anew := o.Fresh || errors.Is(err, fs.ErrNotExist)
	f, err := lock(path)
	if err != nil {
		return nil, err
	}
	if o.Fresh {
		if f, err = moveAside(f, path); err != nil {
			return nil, err
		}
	}
	// What a rewrite left that was cut short. The lock makes it ours.
	if err := os.Remove(path + copySuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.Close()
		return nil, err
	}
	file, err := load(f, path, false)
	if err == nil && anew {
		err = file.dropSalt()
	}
	if err == nil {
		err = file.takeBack()
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	file.safe, file.spare.elsewhere = file.size, o.Elsewhere
	file.startFlusher(o.Flush)
	return file, nil
}

// CheckName returns ErrCompressed if out names a compressed file, else nil.
func CheckName(out string) error {
	switch strings.ToLower(filepath.Ext(out)) {
	case ".gz", ".zst":
		return fmt.Errorf("%s: %w", out, ErrCompressed)
	}
	return nil
}

// SameFile reports whether both paths lead to one existing file.
func SameFile(in, out string) bool {
	a, errA := os.Stat(in)
	b, errB := os.Stat(out)
	return errA == nil && errB == nil && os.SameFile(a, b)
}

// look reads a file's index without touching it. Its last line counts only if it
// is whole.
func look(path string) (*File, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return &File{path: path, index: &Index{seed: maphash.MakeSeed()}, readOnly: true}, nil
	}
	if err != nil {
		return nil, err
	}
	file, err := load(f, path, true)
	if err != nil {
		f.Close()
		return nil, err
	}
	return file, nil
}

// checkFolder asks before anything is sent whether files can be made in dir: the
// rewrite at the end needs one beside the results.
func checkFolder(dir string) error {
	info, err := os.Stat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the folder of the results, %s, does not exist: %w", dir, fs.ErrNotExist)
	}
	if err != nil {
		return fmt.Errorf("the folder of the results: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("the folder of the results, %s, is not a folder", dir)
	}
	if err := unix.Access(dir, unix.W_OK|unix.X_OK); err != nil {
		return fmt.Errorf("the folder of the results, %s, can't be written to: %w", dir, err)
	}
	return nil
}

// lock opens path for appending and takes its lock. Between the two another run
// may have renamed its copy onto the path, so it makes sure that the locked file
// is the one that the path names.
func lock(path string) (*os.File, error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return nil, err
		}
		info, err := f.Stat()
		if err == nil && !info.Mode().IsRegular() {
			err = fmt.Errorf("%s: %w", path, ErrNotRegular)
		}
		if err == nil {
			err = tryLock(f, path)
		}
		if err != nil {
			f.Close()
			return nil, err
		}
		named, err := os.Stat(path)
		if err == nil && os.SameFile(info, named) {
			return f, nil
		}
		f.Close()
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
}

// tryLock waits no longer than a run takes to end: a child that a process is
// about to start holds the lock of its parent for a moment. The lock goes with
// the process, however it ends.
func tryLock(f *os.File, path string) error {
	for patience := 25; ; {
		switch err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err {
		case nil:
			return nil
		case unix.EINTR:
		case unix.EWOULDBLOCK:
			if patience--; patience < 0 {
				return &LockedError{Path: path}
			}
			time.Sleep(10 * time.Millisecond)
		default:
			return fmt.Errorf("%s: can't lock it: %w", path, err)
		}
	}
}

// moveAside renames what is locked as f to a free name and returns a new file,
// locked. An empty file is kept as it is. Rows that could not be written into
// the old file go aside with it.
func moveAside(f *os.File, path string) (*os.File, error) {
	if err := renameFree(path + rescueSuffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.Close()
		return nil, err
	}
	size, err := sizeOf(f)
	if err != nil {
		f.Close()
		return nil, err
	}
	if size == 0 {
		return f, nil
	}
	defer f.Close() // held until the new file is locked
	if err := renameFree(path); err != nil {
		return nil, err
	}
	return lock(path)
}

// renameFree renames path to path.bak, or to the first of path.bak1, … that is free.
func renameFree(path string) error {
	bak, err := freeName(path)
	if err == nil {
		err = os.Rename(path, bak)
	}
	if err != nil {
		return err
	}
	return syncFolder(path)
}

// linkFree gives what path names a free name like that of renameFree too, so that
// what is renamed onto path next replaces it in one step. Where the file system has
// no links it is renamed.
func linkFree(path string) error {
	bak, err := freeName(path)
	if err != nil {
		return err
	}
	if os.Link(path, bak) != nil {
		return renameFree(path)
	}
	return syncFolder(path)
}

func freeName(path string) (string, error) {
	bak := path + ".bak"
	for n := 1; ; n++ {
		_, err := os.Lstat(bak)
		if errors.Is(err, fs.ErrNotExist) {
			return bak, nil
		}
		if err != nil {
			return "", err
		}
		bak = path + ".bak" + strconv.Itoa(n)
	}
}

// load scans f and, unless it is only looked at, repairs its end.
func load(f *os.File, path string, readOnly bool) (*File, error) {
	size, err := sizeOf(f)
	if err != nil {
		return nil, err
	}
	end, err := lastLineEnd(f, size)
	if err != nil {
		return nil, err
	}
	file := &File{path: path, file: f, size: end, readOnly: readOnly}
	tail := make([]byte, size-end)
	if _, err := f.ReadAt(tail, end); err != nil && err != io.EOF {
		return nil, err
	}
	return file, file.settle(tail)
}

// settle scans the whole lines, then decides what the bytes behind them are.
func (f *File) settle(tail []byte) error {
	whole := int64(0)
	if len(tail) > 0 {
		var head rowHead
		switch err := head.read(tail); {
		case err == nil:
			whole = int64(len(tail))
		case !isBroken(err):
			return rowError(f.file, f.path, f.size, err)
		case f.size == 0 && !couldBeRow(tail):
			return &ForeignError{Path: f.path, Line: 1, Cause: "its only line is no row"}
		}
	}
	index, err := scan(f.file, f.path, f.size+whole)
	if err != nil {
		return err
	}
	f.index = index
	if len(tail) == 0 || f.readOnly {
		return nil
	}
	return f.repair(len(tail), whole)
}

// couldBeRow reports whether a torn line begins as our rows do.
func couldBeRow(torn []byte) bool {
	const begin = `{"id":`
	n := min(len(begin), len(torn))
	return string(torn[:n]) == begin[:n]
}

// repair completes or cuts the last line.
func (f *File) repair(torn int, whole int64) error {
	if whole > 0 {
		if _, err := f.file.Write([]byte{'\n'}); err != nil {
			return fmt.Errorf("%s: can't complete its last line: %w", f.path, err)
		}
		f.size += whole + 1
		f.repaired = "the last row lacked its newline, which was added"
	} else {
		if err := f.file.Truncate(f.size); err != nil {
			return fmt.Errorf("%s: can't cut its torn last line: %w", f.path, err)
		}
		f.repaired = fmt.Sprintf("a torn last line of %d bytes was cut off", torn)
	}
	return f.file.Sync()
}

// syncFolder makes a change of names beside path last.
func syncFolder(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer dir.Close()
	// Some file systems can't sync a folder and say EINVAL; theirs is the risk.
	if err := dir.Sync(); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOTSUP) {
		return err
	}
	return nil
}
