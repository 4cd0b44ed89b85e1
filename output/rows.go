package output

import (
	"cmp"
	"errors"
	"fmt"
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
// It reads the file twice and keeps about 30 bytes a row in between. A broken line
// yields a *BrokenRowError before all rows, and the rest comes if the reader goes on; any
// other error is the last.
func LastRows(path string, ordered bool) iter.Seq2[*Result, error] {
	return func(yield func(*Result, error) bool) {
		v, err := openView(path)
		if err != nil {
			yield(nil, err)
			return
		}
		defer v.file.Close()
		broken, err := v.dropSuperseded(true)
		if err != nil {
			yield(nil, err)
			return
		}
		for i, b := range broken {
			err := rowError(v.file, v.path, b.offset, b.err)
			if i == mostBroken {
				err = fmt.Errorf("%s: more than %d lines are broken rows: this may be no results file", path, mostBroken)
			}
			if !yield(nil, err) || i == mostBroken {
				return
			}
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

// mostBroken bounds the broken lines that are told one by one.
const mostBroken = 100

// dropSuperseded has superseded rows passed over, and broken ones if it is tolerant.
func (v *view) dropSuperseded(tolerant bool) ([]brokenLine, error) {
	x, err := scanSections(v.file, v.path, v.size, sectionSize, tolerant)
	if err != nil {
		return nil, err
	}
	v.gone = x.superseded
	for _, b := range x.broken {
		v.gone = append(v.gone, b.offset)
	}
	slices.Sort(v.gone)
	slices.SortFunc(x.broken, func(a, b brokenLine) int { return cmp.Compare(a.offset, b.offset) })
	return x.broken, nil
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
	r.line = line
	more := yield(r, nil)
	r.line = nil
	return more
}
