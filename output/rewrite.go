package output

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
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
	// LastResort gets each row, without its newline, when the file lost its name and
	// no folder takes its rows. nil: they are lost then.
	LastResort func(row []byte)
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
		f.finishDisk()
	}
	if f.fault == nil && f.salt != "" {
		if err := f.dropSalt(); err != nil {
			return errors.Join(f.end(o), err)
		}
	}
	return f.end(o)
}

// finishDisk brings what was written to the disk, mended if it must be. After a
// fault too: what was written before it is to last.
func (f *File) finishDisk() {
	for range 3 { // as often as another process writes into it
		if f.fault == nil {
			f.fault = f.verify()
		}
		if err := f.file.Sync(); f.fault == nil {
			f.fault = err
		}
		if size, err := sizeOf(f.file); err != nil || size == f.size {
			break
		}
	}
	if size, err := sizeOf(f.file); f.fault == nil && (err != nil || size != f.size) {
		f.fault = cmp.Or(err, errors.New("another process keeps writing into it"))
	}
}

// end leaves the rows where they belong or says where they are.
func (f *File) end(o CloseOptions) error {
	where, now := f.stand()
	switch {
	case where == nameTaken:
		return f.salvage(o, cmp.Or(f.fault, errors.New("another file has taken its name meanwhile")))
	case where == moved:
		e := &WriteError{Path: f.path, Rescue: now, Whole: true, Err: errors.New("its folder was moved meanwhile")}
		if f.path = now; f.fault == nil {
			f.fault = f.tidy(o, false)
		}
		if f.fault != nil || f.spare.file != nil {
			e.Err = fmt.Errorf("%w; %w", e.Err, f.spare.close(now, f.fault))
		}
		return e
	case f.fault != nil && where == nameGone && f.size > 0:
		return f.salvage(o, f.fault)
	case f.fault != nil:
		return f.spare.close(f.path, f.fault)
	}
	err := f.tidy(o, where == nameGone)
	if err != nil && where == nameGone {
		return f.salvage(o, fmt.Errorf("it was removed meanwhile and can't be made anew: %w", err))
	}
	if _, broken := errors.AsType[*BrokenRowError](err); broken {
		return &WriteError{Path: f.path, Err: err}
	}
	return err
}

func (f *File) unlock() {
	f.file.Close() // its data is on the disk, and the lock goes with it
	f.file = nil
}

// tidy rewrites the file if it must be, and makes it anew if its name is gone:
// the rows of the last hours must not vanish with it.
func (f *File) tidy(o CloseOptions, lost bool) (err error) {
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
		return f.copyWithout(w, gone)
	})
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) || errors.Is(err, syscall.EFBIG) {
		return &NoRoomError{Path: f.path, Superseded: len(gone), Err: err}
	}
	if _, broken := errors.AsType[*BrokenRowError](err); err != nil && !broken && !lost {
		return fmt.Errorf("%s: can't make its copy without superseded rows (the file is whole: the last row of an id counts): %w", f.path, err)
	}
	return err
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
	if f.size, err = sizeOf(out); err != nil {
		return err
	}
	f.safe, f.recent = f.size, nil
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
// which is sorted, in one pass. A line that is no row is an error.
func (f *File) copyWithout(w *bufio.Writer, gone []int64) error {
	var head rowHead
	return eachLine(f.file, f.size, gone, func(line []byte, offset int64) error {
		if blank(line) {
			return nil
		}
		if err := head.read(line); err != nil {
			return rowError(f.file, f.path, offset, err)
		}
		w.Write(line) // an error of w stays: WriteByte says it
		return w.WriteByte('\n')
	})
}
