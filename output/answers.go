package output

import (
	"fmt"
	"strings"
)

// Answers finds rows that are ok by what was asked: it is what --reuse and --dedupe
// look in. It keeps 30 bytes a row. The zero value has none. Its methods may be called by
// many goroutines, but not beside Close.
type Answers struct {
	files []answersOf
}

// answersOf are those of one file.
type answersOf struct {
	*view
	index *Index // its keys are the first 8 bytes of request_hash
}

// OpenAnswers reads results files, in parallel sections. A row that answers a request
// that several files have is that of the first. A torn last line of a file that is
// still written is left out, and so are broken rows, of which tell is told unless it is nil.
func OpenAnswers(paths []string, tell func(error)) (*Answers, error) {
	a := &Answers{}
	for _, path := range paths {
		v, err := openView(path)
		if err != nil {
			a.Close()
			return nil, err
		}
		a.files = append(a.files, answersOf{view: v})
		x, err := scanSections(v.file, path, v.size, sectionSize, true)
		if err != nil {
			a.Close()
			return nil, err
		}
		for i := 0; tell != nil && i < min(len(x.broken), mostBroken); i++ {
			tell(rowError(v.file, path, x.broken[i].offset, x.broken[i].err))
		}
		a.files[len(a.files)-1].index = x.byRequest()
	}
	return a, nil
}

// byRequest is an index of the rows that are ok by their request_hash.
func (x *Index) byRequest() *Index {
	y := &Index{}
	var blocks [][]entry
	for _, b := range x.blocks {
		kept := b[:0] // x is given up
		for _, e := range b {
			if statusOf(e.at&7) == OK && e.hash != 0 {
				e.key = e.hash
				kept = append(kept, e)
			}
		}
		blocks = append(blocks, kept)
	}
	y.build(blocks)
	return y
}

// Find returns the row that is ok for that request_hash and the file that has it; nil if
// there is none. The row's attempts are its Attempts.
func (a *Answers) Find(requestHash string) (r *Result, file string, err error) {
	hash := hashOf(requestHash)
	if hash == 0 {
		return nil, "", nil
	}
	for _, f := range a.files {
		e := f.index.find(hash)
		if e == nil {
			continue
		}
		var lines lineReader
		lines.buf = make([]byte, 8<<10)
		lines.rewind(f.file, e.offset(), f.size)
		line, _, _, err := lines.next()
		if err == nil {
			r, err = ParseRow(line)
		}
		if err != nil {
			return nil, "", fmt.Errorf("%s: a row can't be read again: %w", f.path, err)
		}
		if r.Status == OK && strings.EqualFold(r.RequestHash, requestHash) {
			return r, f.path, nil
		}
	}
	return nil, "", nil
}

// Len is the number of different requests that have an answer, counted a file.
func (a *Answers) Len() int {
	n := 0
	for _, f := range a.files {
		n += f.index.Len()
	}
	return n
}

// Close closes the files.
func (a *Answers) Close() {
	for _, f := range a.files {
		f.file.Close()
	}
}
