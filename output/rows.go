package output

import (
	"errors"
	"iter"
	"os"
	"slices"
)

// Rows yields the rows of a results file as ParseRow reads them, in file order,
// superseded ones included, in memory for one row. A file that is still growing
// is read to where it ends now, and a torn last line ends it without an error.
// After an error, such as a *BrokenRowError, nothing more comes.
func Rows(path string) iter.Seq2[*Result, error] {
	return func(yield func(*Result, error) bool) {
		v, err := openView(path)
		if err != nil {
			yield(nil, err)
			return
		}
		defer v.file.Close()
		v.each(yield)
	}
}

// LastRows yields the last row of each id, in file order or in that of index.
// It reads the file twice and keeps about 30 bytes a row in between.
func LastRows(path string, ordered bool) iter.Seq2[*Result, error] {
	return func(yield func(*Result, error) bool) {
		v, err := openView(path)
		if err != nil {
			yield(nil, err)
			return
		}
		defer v.file.Close()
		if err := v.dropSuperseded(); err != nil {
			yield(nil, err)
			return
		}
		if ordered {
			v.eachInOrder(yield)
			return
		}
		v.each(yield)
	}
}

// view is a results file as it was when it was opened, without a torn last line.
type view struct {
	path string
	file *os.File
	size int64
	gone []int64 // offsets of rows to pass over, sorted
}

func openView(path string) (*view, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	v := &view{path: path, file: file}
	if err := v.measure(); err != nil {
		file.Close()
		return nil, err
	}
	return v, nil
}

// measure finds the end of the last whole row.
func (v *view) measure() error {
	size, err := sizeOf(v.file)
	if err != nil {
		return err
	}
	if v.size, err = lastLineEnd(v.file, size); err != nil || v.size == size {
		return err
	}
	tail := make([]byte, size-v.size)
	if _, err := v.file.ReadAt(tail, v.size); err != nil {
		return err
	}
	var head rowHead
	switch err := head.read(tail); {
	case err == nil:
		v.size = size
	case !isBroken(err):
		return rowError(v.file, v.path, v.size, err)
	case v.size == 0 && !couldBeRow(tail):
		return &ForeignError{Path: v.path, Line: 1, Cause: "its only line is no row"}
	}
	return nil
}

func (v *view) dropSuperseded() error {
	x, err := scan(v.file, v.path, v.size)
	if err != nil {
		return err
	}
	v.gone = slices.Sorted(slices.Values(x.superseded))
	return nil
}

// each yields the rows in file order.
func (v *view) each(yield func(*Result, error) bool) {
	err := eachLine(v.file, v.size, v.gone, func(line []byte, offset int64) error {
		if !blank(line) && !v.yieldRow(line, offset, nil, yield) {
			return errStopped
		}
		return nil
	})
	if err != nil && err != errStopped {
		yield(nil, err)
	}
}

// errStopped ends a pass whose reader wants no more, or has had its error.
var errStopped = errors.New("stopped")

// eachInOrder yields the rows in the order of index.
func (v *view) eachInOrder(yield func(*Result, error) bool) {
	list, err := places(v.file, v.path, v.size, v.gone)
	if err != nil {
		yield(nil, err)
		return
	}
	slices.SortStableFunc(list, byIndex)
	var row []byte
	for _, p := range list {
		row, err = p.read(v.file, row)
		if !v.yieldRow(row, p.offset, err, yield) {
			return
		}
	}
}

// yieldRow reports whether to go on.
func (v *view) yieldRow(line []byte, offset int64, err error, yield func(*Result, error) bool) bool {
	if err != nil {
		yield(nil, err)
		return false
	}
	r, err := ParseRow(line)
	if err != nil {
		yield(nil, rowError(v.file, v.path, offset, err))
		return false
	}
	return yield(r, nil)
}
