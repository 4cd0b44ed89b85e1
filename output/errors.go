package output

import (
	"errors"
	"fmt"
)

// ErrCompressed is why an output whose name ends in .gz or .zst is refused:
// rows are appended and repaired in place.
var ErrCompressed = errors.New("the output can't be compressed: choose a name without .gz or .zst")

// ErrNotRegular is why a device, pipe or folder is refused as an output; -o -
// writes to standard output.
var ErrNotRegular = errors.New("not a regular file")

// ErrUnknownColumn is why Export refuses a column.
var ErrUnknownColumn = errors.New("unknown column")

// LockedError says that another process holds the results file.
type LockedError struct {
	Path string
}

func (e *LockedError) Error() string {
	return e.Path + ": another run is writing this file"
}

// BrokenRowError is a line in the middle of a results file that is not one
// whole JSON object. Nothing in the file was changed.
type BrokenRowError struct {
	Path   string
	Line   int   // from 1
	Offset int64 // of the line's first byte
	// Cause says what is wrong, in a few words.
	Cause string
}

func (e *BrokenRowError) Error() string {
	return fmt.Sprintf("%s:%d: broken row: %s (byte %d)", e.Path, e.Line, e.Cause, e.Offset)
}

// ForeignError is a line that is JSON but no row of ours: the file is another
// tool's, or an input. Nothing in the file was changed.
type ForeignError struct {
	Path string
	Line int // from 1
	// Cause says what is missing, in a few words.
	Cause string
}

func (e *ForeignError) Error() string {
	return fmt.Sprintf("%s:%d: this is not a results file of llmbatch: %s", e.Path, e.Line, e.Cause)
}

// WriteError says that a row could not be written where it belongs. It is
// sticky: every later Write fails too.
type WriteError struct {
	Path string // "" for a stream
	// Rescue is the file that holds the row instead, "" if there is none.
	Rescue string
	// Whole says that all rows are in Rescue, not just those in hand: the file lost
	// its name.
	Whole bool
	// Printed says that CloseOptions.LastResort has them instead.
	Printed bool
	// Unsaved is the row's line when nothing could keep it, else nil.
	Unsaved []byte
	Err     error
}

func (e *WriteError) Error() string {
	name := e.Path
	if name == "" {
		name = "standard output"
	}
	switch {
	case e.Whole && e.Rescue != "":
		return fmt.Sprintf("%s: %v; all its rows are in %s", name, e.Err, e.Rescue)
	case e.Whole && e.Printed:
		return fmt.Sprintf("%s: %v; no folder takes its rows, which are on standard error", name, e.Err)
	case e.Whole:
		return fmt.Sprintf("%s: %v; its rows could not be kept anywhere", name, e.Err)
	case e.Rescue != "":
		return fmt.Sprintf("can't write results to %s: %v; rows in hand are in %s", name, e.Err, e.Rescue)
	case e.Unsaved != nil:
		return fmt.Sprintf("can't write results to %s: %v; a row in hand could not be kept anywhere", name, e.Err)
	}
	return fmt.Sprintf("can't write results to %s: %v", name, e.Err)
}

func (e *WriteError) Unwrap() error { return e.Err }

// NoRoomError says that superseded rows, or rows out of order, were left in the
// results file because there was no room for its copy. The file is valid: where
// an id has several rows, the last one counts.
type NoRoomError struct {
	Path       string
	Superseded int // rows that should have gone
	Err        error
}

func (e *NoRoomError) Error() string {
	return fmt.Sprintf("%s: no room for a copy without its %d superseded rows (%v); the file is whole: the last row of an id counts",
		e.Path, e.Superseded, e.Err)
}

func (e *NoRoomError) Unwrap() error { return e.Err }

// ClashError says that two results files to be merged hold the same id for
// different requests.
type ClashError struct {
	ID   string // as written
	A, B string // the files
}

func (e *ClashError) Error() string {
	return fmt.Sprintf("id %s was sent with different requests in %s and %s", e.ID, e.A, e.B)
}
