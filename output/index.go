package output

import (
	"hash/maphash"
)

// Row is what an Index knows of the last row of an id.
type Row struct {
	Status Status
	Hash   uint64 // the first 8 bytes of request_hash, 0 if it has none
	Offset int64  // of the row's first byte in the file
}

// Index is what a results file holds: for each id its last row. It is built by
// Open and then only read, so it may be used by many goroutines.
//
// It keeps 24 bytes a row and 4 to 8 more for finding it, and no id: ids are
// told apart by 64-bit hashes with a random seed. Among a million ids the chance
// that any two share one is 3 in 100 million; the second of these would pass for
// done, or be refused as changed.
type Index struct {
	seed   maphash.Seed
	blocks [][]entry
	// table holds position+1 of an entry: block in the high bits, place in the
	// block in the low ones. Its length is a power of two, at least 4/3 of rows.
	table []uint32

	rows       int
	counts     [numStatus]int
	superseded []int64 // offsets of rows that a later one replaces
	salt       string
	saltAt     int64
}

// entry is a row as the scan found it.
type entry struct {
	key  uint64
	hash uint64
	at   uint64 // offset<<3 | status code
}

const (
	blockBits = 13
	blockSize = 1 << blockBits
	numStatus = 6
)

// Lookup returns the last row of the id with this key (input.Item.Key).
func (x *Index) Lookup(key string) (Row, bool) { return Row{}, false }

// Len is the number of ids.
func (x *Index) Len() int { return x.rows }

// Counts is the number of ids by the status of their last row.
func (x *Index) Counts() map[Status]int { return nil }

// Salt is that of the idempotency keys in the file: what stands before the dash
// in the first row that has one, "" if none has.
func (x *Index) Salt() string { return x.salt }

// HashOf returns the first 8 bytes of a request_hash such as "sha256:…", 0 if it
// is not one.
func HashOf(requestHash string) uint64 { return 0 }
