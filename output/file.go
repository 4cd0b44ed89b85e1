package output

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// File is an open results file, locked until Close. Its methods may be called by
// many goroutines, Close once at the end.
type File struct {
	path     string
	index    *Index
	repaired string
	readOnly bool

	dirty   chan struct{} // holds one token while rows wait for the disk
	stop    chan struct{}
	flusher sync.WaitGroup
	syncErr atomic.Pointer[error]
	synced  func() // tests: called after each fsync of the flusher

	join sync.Mutex
	next *batch // the rows that wait for mu, nil if none do

	mu      sync.Mutex
	file    *os.File
	size    int64
	written bool
	fault   error // why writing ended, nil while it goes well
	spare   rescue
	// recent is what was appended behind safe; before safe, the file was found whole.
	safe   int64
	recent []byte
	mended string
	salt   string      // kept beside the file, "" if its rows had one at the start
	salted atomic.Bool // a row with salt was handed to the kernel
	// open holds this run's last row of each id that has one without an answer,
	// by the hash of its key: such a row may be superseded.
	open       map[uint64]int64
	superseded []int64
	cancel     <-chan struct{} // ends the rewrite
}

// keptBuffer is the longest buffer that is kept for the next row or batch.
const keptBuffer = 1 << 20

// Index is what the file held when it was opened.
func (f *File) Index() *Index { return f.index }

// Repaired says in one sentence what Open repaired, "" if nothing.
func (f *File) Repaired() string { return f.repaired }

// Mended says in one sentence what others did to the file since Open that was
// mended, "" if nothing.
func (f *File) Mended() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.mended
}

// Path is the file's own path, symbolic links resolved.
func (f *File) Path() string { return f.path }

// Row reads the row that begins at off, as Index.Lookup returned it. The attempts
// it holds are its History; Attempts is nil.
func (f *File) Row(off int64) (*Result, error) {
	var lines lineReader
	lines.buf = make([]byte, 8<<10)
	f.mu.Lock()
	file, size := f.file, f.size
	f.mu.Unlock()
	if file == nil {
		return nil, fs.ErrNotExist
	}
	if f.readOnly { // a whole last line without its newline lies behind size
		size = 1<<63 - 1
	}
	lines.rewind(file, off, size)
	line, _, _, err := lines.next()
	if err != nil {
		return nil, err
	}
	r, attempts, err := parseRow(line)
	if err != nil {
		return nil, rowError(file, f.path, off, err)
	}
	if attempts != nil && attempts[0] == '[' {
		r.History = append([]byte(nil), bytes.Trim(attempts[1:len(attempts)-1], " \t\r\n")...)
	}
	return r, nil
}

// Write appends r as one row. When it returns nil the row is with the kernel, so
// that the end of this process loses nothing; the disk has it Options.Flush later.
// An earlier row of the same id, in the file or without an answer in this run, is
// superseded.
//
// Any error is a *WriteError, and every later Write fails too: the row is then in
// a sibling file or in the error. Nothing of it is left in this file.
func (f *File) Write(r *Result) error {
	key := r.Key
	if key == "" && len(r.ID) > 0 {
		key = keyOf(r.ID)
	}
	kept := rows.Get().(*[]byte)
	row := AppendRow((*kept)[:0], r)
	err := f.put(row, waitingRow{key: f.index.keyHash(key), status: r.Status})
	if err == nil && f.carries(r.IdempotencyKey) {
		f.salted.Store(true)
	}
	if cap(row) <= keptBuffer {
		*kept = row
		rows.Put(kept)
	}
	return err
}

// rows are the buffers in which rows are made.
var rows = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// appendWhole writes line, once more if it fails, and leaves no part of it.
func (f *File) appendWhole(line []byte) error {
	for try := 0; ; try++ {
		n, err := f.file.Write(line)
		if err == nil {
			return nil
		}
		if n > 0 {
			if cut := f.file.Truncate(f.size); cut != nil {
				return errors.Join(err, cut) // the next Open cuts it
			}
		}
		if try == 1 {
			return err
		}
	}
}

// note remembers which row is superseded by the one at offset.
func (f *File) note(key uint64, s Status, offset int64) {
	if e := f.index.find(key); e != nil {
		f.superseded = append(f.superseded, e.offset())
	}
	if at, ok := f.open[key]; ok {
		f.superseded = append(f.superseded, at)
		delete(f.open, key)
	}
	if s != OK {
		if f.open == nil {
			f.open = map[uint64]int64{}
		}
		f.open[key] = offset
	}
}

// startFlusher begins the group commit: a goroutine of its own waits for a row,
// then for most of the time that it may, and syncs all that came meanwhile.
func (f *File) startFlusher(within time.Duration) {
	if within <= 0 {
		within = time.Second
	}
	f.dirty = make(chan struct{}, 1)
	f.stop = make(chan struct{})
	file := f.file
	f.flusher.Go(func() {
		for {
			select {
			case <-f.dirty:
			case <-f.stop:
				return
			}
			select {
			case <-time.After(within - within/4): // a quarter for the disk
			case <-f.stop:
				return
			}
			select {
			case <-f.dirty:
			default:
			}
			if f.checkSynced(file) != nil {
				return
			}
			if f.synced != nil {
				f.synced()
			}
		}
	})
}

// checkSynced syncs the file and then looks whether it is as it was written.
func (f *File) checkSynced(file *os.File) error {
	// After a failed sync the kernel may have dropped the pages, and a second
	// one would not say so.
	salted := f.salted.Load()
	if err := file.Sync(); err != nil {
		f.syncErr.Store(&err)
		return err
	}
	if salted && f.salted.CompareAndSwap(true, false) {
		_ = f.dropSalt() // Close tries again
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.fault == nil {
		f.fault = f.verify()
	}
	if f.fault == nil {
		f.safe, f.recent = f.size, f.recent[:0]
	}
	return f.fault
}

// wake tells the flusher that rows wait for the disk.
func (f *File) wake() {
	select {
	case f.dirty <- struct{}{}:
	default:
	}
}
