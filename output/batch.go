package output

import (
	"io/fs"
	"runtime"
	"sync"
)

// batch is rows that go to the kernel in one call. The goroutine of the first
// one writes it, the others wait for that.
type batch struct {
	lines []byte
	buf   *[]byte // where lines came from
	rows  []waitingRow
	done  chan struct{} // nil until somebody waits
}

// waitingRow is one row of a batch.
type waitingRow struct {
	key    uint64 // hash of its id's key
	status Status
	end    int // in the batch's lines
	err    error
}

// longestJoined is the longest row that is copied to be written with others.
const longestJoined = 64 << 10

// put hands a row to the kernel, with those that come at the same time: a call
// for each would be the dearest part of an item beside its request.
func (f *File) put(row []byte, w waitingRow) error {
	if len(row) > longestJoined {
		w.end = len(row)
		b := &batch{lines: row, rows: []waitingRow{w}}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.commit(b)
		return b.rows[0].err
	}
	f.join.Lock()
	b := f.next
	if b == nil {
		b = &batch{buf: lineBuffers.Get().(*[]byte), rows: make([]waitingRow, 0, 16)}
		b.lines = (*b.buf)[:0]
		f.next = b
	} else if b.done == nil {
		b.done = make(chan struct{})
	}
	n, done := len(b.rows), b.done
	b.lines = append(b.lines, row...)
	w.end = len(b.lines)
	b.rows = append(b.rows, w)
	f.join.Unlock()
	if n > 0 {
		<-done
		return b.rows[n].err
	}
	runtime.Gosched() // who can run now may have a row too
	f.mu.Lock()
	f.join.Lock()
	f.next = nil
	f.join.Unlock()
	f.commit(b)
	if b.done != nil {
		close(b.done)
	}
	f.mu.Unlock()
	if cap(b.lines) <= keptBuffer { // who waited looks at the rows only
		*b.buf = b.lines
		lineBuffers.Put(b.buf)
	}
	return b.rows[0].err
}

// lineBuffers are those of batches.
var lineBuffers = sync.Pool{New: func() any { return new([]byte) }}

// commit writes the rows of a batch at the end of the file, or keeps each
// elsewhere.
func (f *File) commit(b *batch) {
	if failed := f.syncErr.Load(); failed != nil && f.fault == nil {
		f.fault = *failed
	}
	if f.readOnly && f.fault == nil {
		f.fault = fs.ErrPermission
	}
	if f.fault == nil {
		f.fault = f.verify()
	}
	if f.fault == nil {
		f.fault = f.appendWhole(b.lines)
	}
	start, from := f.size, 0
	for i := range b.rows {
		w := &b.rows[i]
		line := b.lines[from:w.end]
		from = w.end
		if f.fault != nil {
			w.err = f.spare.keep(line, &WriteError{Path: f.path, Err: f.fault})
			continue
		}
		f.note(w.key, w.status, start+int64(w.end-len(line)))
	}
	if f.fault == nil {
		f.written = true
		f.remember(b.lines)
		f.wake()
	}
}
