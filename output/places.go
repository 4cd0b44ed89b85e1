package output

import (
	"bufio"
	"cmp"
	"io"
	"slices"

	"llmbatch/input/jsonl"
)

// place is where a row stands and where it should.
type place struct {
	index  int64
	offset int64
	length int // with its line end
	file   int // of several files
}

func byIndex(a, b place) int { return cmp.Compare(a.index, b.index) }

// places lists the rows in the first size bytes of file but for those that begin
// at gone, which is sorted, in file order.
func places(file io.ReaderAt, path string, size int64, gone []int64) ([]place, error) {
	var list []place
	err := eachLine(file, size, gone, func(line []byte, offset int64) error {
		if blank(line) {
			return nil
		}
		w, index := jsonl.Members(line), int64(0)
		for w.Next() {
			if string(w.Name) == "index" {
				index = number(w.Value)
			}
		}
		if err := wholeObject(&w); err != nil {
			return rowError(file, path, offset, err)
		}
		list = append(list, place{index: index, offset: offset, length: len(line) + 1})
		return nil
	})
	return list, err
}

// eachLine calls do with the lines in the first size bytes of file but for those
// that begin at gone, which is sorted.
func eachLine(file io.ReaderAt, size int64, gone []int64, do func(line []byte, offset int64) error) error {
	var lines lineReader
	lines.rewind(file, 0, size)
	for {
		line, offset, _, err := lines.next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if len(gone) > 0 && gone[0] == offset {
			gone = gone[1:]
			continue
		}
		if err := do(line, offset); err != nil {
			return err
		}
	}
}

// copyPlaces copies rows in the order of their index; those with the same index
// keep their order.
func copyPlaces(w *bufio.Writer, files []io.ReaderAt, list []place) error {
	slices.SortStableFunc(list, byIndex)
	var row []byte
	for _, p := range list {
		var err error
		if row, err = p.read(files[p.file], row); err != nil {
			return err
		}
		if _, err := w.Write(row); err != nil {
			return err
		}
	}
	return nil
}

// read returns the row with its newline, in buf if that is long enough.
func (p place) read(file io.ReaderAt, buf []byte) ([]byte, error) {
	row := slices.Grow(buf[:0], p.length)[:p.length]
	if n, err := file.ReadAt(row, p.offset); err != nil && n < p.length-1 {
		return nil, err
	}
	row[p.length-1] = '\n' // the last row of a file may lack it
	return row, nil
}
