package output

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"

	"llmbatch/input/jsonl"
)

// Merge writes the rows of several results files, such as those of run --shard,
// into the file dst: one row an id, in the order of index. Where several files
// have an id, ok beats failed, failed gave_up, that aborted, and that waiting;
// of two that are the same the one that finished later wins. It returns how many
// rows dst has.
//
// dst appears whole or not at all, with mode 0600; what it held is kept as ….bak.
// Nothing is merged if an id was sent with different requests (*ClashError), if
// a source is still being written (*LockedError) or broken (*BrokenRowError,
// *ForeignError), or if dst is one of them. A torn last line of a source is left
// out.
func Merge(dst string, srcs []string) (rows int, err error) {
	if err := CheckName(dst); err != nil {
		return 0, err
	}
	dst = follow(dst)
	if err := checkFolder(filepath.Dir(dst)); err != nil {
		return 0, err
	}
	m := &merger{places: map[string]int{}}
	defer m.close()
	for _, src := range srcs {
		if SameFile(src, dst) {
			return 0, fmt.Errorf("%s: a source can't be the result of the merge too", src)
		}
		if err := m.add(src); err != nil {
			return 0, err
		}
	}
	return len(m.rows), m.write(dst)
}

// merger holds what is known of the rows that win so far.
type merger struct {
	views  []*view
	places map[string]int // a key's place in rows
	rows   []mergeRow
}

type mergeRow struct {
	place
	hash     uint64
	finished int64 // Unix time in ms
	rank     uint8 // lower wins
}

// add reads the last rows of one source.
func (m *merger) add(src string) error {
	v, err := openView(src)
	if err != nil {
		return err
	}
	m.views = append(m.views, v)
	// A run holds this lock alone; merges may share it.
	if err := unix.Flock(int(v.file.Fd()), unix.LOCK_SH|unix.LOCK_NB); errors.Is(err, unix.EWOULDBLOCK) {
		return &LockedError{Path: src}
	}
	if err := v.measure(); err != nil { // again, now that nobody writes
		return err
	}
	if _, err := v.dropSuperseded(false); err != nil {
		return err
	}
	return eachLine(v.file, v.size, v.gone, func(line []byte, offset int64) error {
		if blank(line) {
			return nil
		}
		key, row, err := readMergeRow(line)
		if err != nil {
			return rowError(v.file, v.path, offset, err)
		}
		row.offset, row.length, row.file = offset, len(line)+1, len(m.views)-1
		return m.take(key, row)
	})
}

func readMergeRow(line []byte) (key []byte, row mergeRow, err error) {
	var head rowHead
	if err := head.read(line); err != nil {
		return nil, row, err
	}
	row.index = number(jsonl.Member(line, "index"))
	if t := moment(jsonl.Member(line, "finished_at")); !t.IsZero() {
		row.finished = t.UnixMilli()
	}
	code, _ := statusCode(head.status) // the codes are in the order of the ranks
	row.rank, row.hash = uint8(code), head.hash
	if head.id[0] == '"' {
		return []byte(jsonl.Text(head.id)), row, nil
	}
	return head.id, row, nil
}

// take lets the better of two rows of a key win.
func (m *merger) take(key []byte, row mergeRow) error {
	at, ok := m.places[string(key)]
	if !ok {
		m.places[string(key)] = len(m.rows)
		m.rows = append(m.rows, row)
		return nil
	}
	kept := &m.rows[at]
	if kept.hash != row.hash && kept.hash != 0 && row.hash != 0 {
		return &ClashError{ID: string(appendString(nil, string(key))), A: m.views[kept.file].path, B: m.views[row.file].path}
	}
	if cmp.Or(cmp.Compare(row.rank, kept.rank), -cmp.Compare(row.finished, kept.finished)) < 0 {
		*kept = row
	}
	return nil
}

// write makes dst.
func (m *merger) write(dst string) error {
	_, err := os.Lstat(dst)
	made := errors.Is(err, fs.ErrNotExist)
	file, err := lock(dst)
	if err != nil {
		return err
	}
	size, err := sizeOf(file)
	if err == nil {
		err = file.Chmod(0o600)
	}
	out := &File{path: dst, file: file}
	if err == nil {
		err = out.replace(func(w *bufio.Writer) error {
			if err := m.copy(w); err != nil || size == 0 {
				return err
			}
			if err := w.Flush(); err != nil {
				return err
			}
			return linkFree(dst)
		})
	}
	if err != nil && made {
		os.Remove(dst)
	}
	return errors.Join(err, out.file.Close())
}

func (m *merger) copy(w *bufio.Writer) error {
	files := make([]io.ReaderAt, len(m.views))
	for i, v := range m.views {
		files[i] = v.file
	}
	list := make([]place, len(m.rows))
	for i, row := range m.rows {
		list[i] = row.place
	}
	slices.SortStableFunc(list, byIndex)
	return copyPlaces(w, files, list)
}

func (m *merger) close() {
	for _, v := range m.views {
		v.file.Close()
	}
}
