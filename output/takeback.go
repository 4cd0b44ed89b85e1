package output

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// rescueSuffix names the file beside the results that keeps the rows which could
// not be written into them.
const rescueSuffix = ".rescue.jsonl"

// TakenBack reports whether the next Open of Path takes the rows in Rescue back
// into it. Otherwise, behind a whole last line, they may be appended by hand: the
// last row of an id counts.
func (e *WriteError) TakenBack() bool { return e.Rescue != "" && e.Rescue == e.Path+rescueSuffix }

// takeBack appends the rows that an earlier run had to keep elsewhere, but for
// those whose id has an answer, and removes their file when the disk has them. A
// file that is broken or not ours is left alone and is an error.
func (f *File) takeBack() error {
	name := f.path + rescueSuffix
	file, err := os.OpenFile(name, os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer file.Close()
	size, err := sizeOf(file)
	if err != nil {
		return err
	}
	if size, err = lastLineEnd(file, size); err != nil {
		return err
	}
	if _, err := scan(file, name, size); err != nil {
		return err
	}
	n, err := f.appendRows(file, size)
	if err != nil {
		return fmt.Errorf("%s: the rows in %s can't be taken back into it: %w", f.path, name, err)
	}
	if err := errors.Join(os.Remove(name), syncFolder(f.path)); err != nil {
		return err
	}
	if n == 0 {
		return nil
	}
	if f.repaired != "" {
		f.repaired += "; "
	}
	f.repaired += fmt.Sprintf("%d rows that an earlier run had kept in %s were taken back", n, name)
	f.index, err = scan(f.file, f.path, f.size)
	return err
}

// appendRows appends the rows in the first size bytes of from whose ids have no
// answer in f: all of them, on the disk, or none.
func (f *File) appendRows(from io.ReaderAt, size int64) (n int, err error) {
	var head rowHead
	added := int64(0)
	w := bufio.NewWriter(f.file)
	err = eachLine(from, size, nil, func(line []byte, _ int64) error {
		if blank(line) {
			return nil
		}
		if err := head.read(line); err != nil {
			return err
		}
		if e := f.index.find(f.index.rawKeyHash(head.id)); e != nil && statusOf(e.at&7) == OK {
			return nil
		}
		n++
		added += int64(len(line)) + 1
		w.Write(line) // an error of w stays: WriteByte says it
		return w.WriteByte('\n')
	})
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = f.file.Sync()
	}
	if err != nil {
		return 0, errors.Join(err, f.file.Truncate(f.size))
	}
	f.size += added
	return n, nil
}
