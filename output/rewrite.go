package output

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// CloseOptions of File.Close.
type CloseOptions struct {
	// Ordered puts the rows in the order of their index.
	Ordered bool
	// Cancel, when closed, ends the making of the copy: the file stays as it is,
	// superseded rows among the others. nil: never.
	Cancel <-chan struct{}
}

// ErrCanceled is why a copy was not made.
var ErrCanceled = errors.New("interrupted")

// Close brings the rows to the disk, removes superseded ones, and unlocks the
// file. Only where there are superseded rows, or rows out of order that should be
// in order, is the file replaced: by a copy beside it with the same mode and
// owner that is renamed onto it when it is on the disk, so that the path names
// one whole file at any moment.
//
// A file that was removed meanwhile is made anew with all its rows.
//
// A *WriteError is that of the failed Write or fsync; the file is then left as it
// is. It also says that the path names another file by now, and where the rows
// are. A *NoRoomError or another error says that the copy could not be made: the
// rows are safe, superseded ones among them.
func (f *File) Close(o CloseOptions) error {
	if f.stop != nil {
		close(f.stop)
		f.flusher.Wait()
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.file == nil {
		return nil
	}
	defer f.unlock()
	if f.readOnly {
		return nil
	}
	if failed := f.syncErr.Load(); failed != nil && f.fault == nil {
		f.fault = *failed
	}
	if f.written {
		// After a fault too: what was written before it is to last.
		if err := f.file.Sync(); f.fault == nil {
			f.fault = err
		}
	}
	if f.fault != nil {
		return f.spare.close(f.path, f.fault)
	}
	return f.tidy(o)
}

func (f *File) unlock() {
	f.file.Close() // its data is on the disk, and the lock goes with it
	f.file = nil
}

// tidy rewrites the file if it must be, and makes it anew if its name is gone:
// the rows of the last hours must not vanish with it.
func (f *File) tidy(o CloseOptions) error {
	named, err := os.Stat(f.path)
	lost := errors.Is(err, fs.ErrNotExist)
	if !lost {
		held, heldErr := f.file.Stat()
		if err := errors.Join(err, heldErr); err != nil {
			return err
		}
		if !os.SameFile(named, held) {
			return f.displaced()
		}
	}
	gone := slices.Concat(f.index.superseded, f.superseded)
	slices.Sort(gone)
	gone = slices.Compact(gone)
	var order []place
	f.cancel = o.Cancel
	if o.Ordered {
		if order, err = places(f.file, f.path, f.size, gone); err != nil {
			return err
		}
		if slices.IsSortedFunc(order, byIndex) {
			order = nil
		}
	}
	if len(gone) == 0 && order == nil && (!lost || f.size == 0) {
		return nil
	}
	err = f.replace(func(w *bufio.Writer) error {
		if order != nil {
			return copyPlaces(w, []io.ReaderAt{f.file}, order)
		}
		return copyWithout(w, f.file, f.size, gone)
	})
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		return &NoRoomError{Path: f.path, Superseded: len(gone), Err: err}
	}
	if err != nil {
		return fmt.Errorf("%s: can't make its copy without superseded rows (the file is whole: the last row of an id counts): %w", f.path, err)
	}
	return nil
}

// displaced keeps a copy of the rows when the path names another file by now.
func (f *File) displaced() error {
	e := &WriteError{Path: f.path, Err: errors.New("another file has taken its name meanwhile")}
	out, err := os.CreateTemp(filepath.Dir(f.path), filepath.Base(f.path)+".rescue-*.jsonl")
	if err != nil {
		return errors.Join(e, err)
	}
	defer out.Close()
	_, err = io.Copy(out, io.NewSectionReader(f.file, 0, f.size))
	if err = errors.Join(err, out.Sync()); err != nil {
		os.Remove(out.Name())
		return errors.Join(e, err)
	}
	e.Rescue = out.Name()
	return e
}

// cancelWriter fails once cancel is closed.
type cancelWriter struct {
	w      io.Writer
	cancel <-chan struct{}
}

func (c cancelWriter) Write(p []byte) (int, error) {
	select {
	case <-c.cancel:
		return 0, ErrCanceled
	default:
		return c.w.Write(p)
	}
}

// replace writes a new file with fill and renames it onto the path. It is locked
// before it has the name, so that no other run gets between.
func (f *File) replace(fill func(*bufio.Writer) error) error {
	name := f.path + copySuffix
	out, err := createLike(f.file, name)
	if err != nil {
		return err
	}
	w := bufio.NewWriterSize(cancelWriter{out, f.cancel}, lineBlock)
	if err = fill(w); err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = tryLock(out, f.path)
	}
	if err == nil {
		err = out.Sync()
	}
	if err == nil {
		err = os.Rename(name, f.path)
	}
	if err != nil {
		out.Close()
		os.Remove(name)
		return err
	}
	f.file.Close()
	f.file = out
	return syncFolder(f.path)
}

// createLike makes an empty file with the mode and owner of the model.
func createLike(model *os.File, name string) (*os.File, error) {
	info, err := model.Stat()
	if err != nil {
		return nil, err
	}
	out, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	if want, ok := info.Sys().(*syscall.Stat_t); ok {
		var have unix.Stat_t
		if err = unix.Fstat(int(out.Fd()), &have); err == nil && (have.Uid != want.Uid || have.Gid != want.Gid) {
			err = out.Chown(int(want.Uid), int(want.Gid))
		}
	}
	if err == nil {
		err = out.Chmod(info.Mode().Perm())
	}
	if err != nil {
		out.Close()
		os.Remove(name)
		return nil, err
	}
	return out, nil
}

// copyWithout copies the first size bytes but for the rows that begin at gone,
// which is sorted, in one pass.
func copyWithout(w *bufio.Writer, file io.ReaderAt, size int64, gone []int64) error {
	return eachLine(file, size, gone, func(line []byte, _ int64) error {
		w.Write(line) // an error of w stays: WriteByte says it
		return w.WriteByte('\n')
	})
}
