package output

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"hash/maphash"
	"math/bits"

	"llmbatch/input/jsonl"
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
// It keeps 24 bytes a row and 6 more for finding it, and no id: ids are
// told apart by 64-bit hashes with a random seed. Among a million ids the chance
// that any two share one is 3 in 100 million; the second of these would pass for
// done, or be refused as changed.
type Index struct {
	seed   maphash.Seed
	blocks [][]entry
	// table has 1.5 slots a row. The low placeBits of a slot are the position of an
	// entry plus one: its block, then its place in the block. The bits above them
	// are those of its key, so that what is not it is hardly ever looked at.
	table     []uint32
	placeBits int

	rows       int
	counts     [numStatus]int
	broken     []brokenLine // of a tolerant scan
	superseded []int64      // offsets of rows that a later one replaces
	salt       string       // of the first idempotency key, before its dash
}

// entry is one row.
type entry struct {
	key  uint64 // hash of the id's key
	hash uint64
	at   uint64 // offset<<3 | status code
}

func (e entry) offset() int64 { return int64(e.at >> 3) }

const (
	blockBits = 13
	blockSize = 1 << blockBits
	numStatus = 5
)

// Lookup returns the last row of the id with this key (input.Item.Key).
func (x *Index) Lookup(key string) (Row, bool) {
	e := x.find(x.keyHash(key))
	if e == nil {
		return Row{}, false
	}
	return Row{Status: statusOf(e.at & 7), Hash: e.hash, Offset: e.offset()}, true
}

// Len is the number of ids.
func (x *Index) Len() int { return x.rows }

// Counts is the number of ids by the status of their last row.
func (x *Index) Counts() map[Status]int {
	counts := make(map[Status]int, numStatus)
	for code, n := range x.counts {
		if n > 0 {
			counts[statusOf(uint64(code))] = n
		}
	}
	return counts
}

func (x *Index) keyHash(key string) uint64 { return maphash.String(x.seed, key) }

// rawKeyHash is keyHash of an id as it stands in a row.
func (x *Index) rawKeyHash(id []byte) uint64 {
	if id[0] != '"' {
		return maphash.Bytes(x.seed, id)
	}
	if inner := id[1 : len(id)-1]; bytes.IndexByte(inner, '\\') < 0 {
		return maphash.Bytes(x.seed, inner)
	}
	return maphash.String(x.seed, jsonl.Text(id))
}

// find returns the entry with the key's hash, nil if there is none.
func (x *Index) find(key uint64) *entry {
	if len(x.table) == 0 {
		return nil
	}
	if slot := x.slot(key); x.table[slot] != 0 {
		return x.entry(x.table[slot])
	}
	return nil
}

// slot is the one that holds key, or the free one where it would be.
func (x *Index) slot(key uint64) int {
	home, _ := bits.Mul64(key, uint64(len(x.table)))
	for i := int(home); ; i++ {
		if i == len(x.table) {
			i = 0
		}
		v := x.table[i]
		if v == 0 || v>>x.placeBits == uint32(key)>>x.placeBits && x.entry(v).key == key {
			return i
		}
	}
}

func (x *Index) entry(slot uint32) *entry {
	position := slot&(1<<x.placeBits-1) - 1
	return &x.blocks[position>>blockBits][position&(blockSize-1)]
}

// build makes blocks findable, keeps the last row of each id and notes the rest
// as superseded.
func (x *Index) build(blocks [][]entry) {
	n := 0
	for _, b := range blocks {
		n += len(b)
	}
	x.blocks = blocks
	if n == 0 {
		return
	}
	x.table = make([]uint32, n+n/2+1)
	x.placeBits = bits.Len(uint(len(blocks) << blockBits))
	for i, b := range blocks {
		for j := range b {
			slot := x.slot(b[j].key)
			if x.table[slot] == 0 {
				x.table[slot] = uint32(b[j].key)>>x.placeBits<<x.placeBits | uint32(i<<blockBits|j) + 1
				x.rows++
				continue
			}
			kept := x.entry(x.table[slot])
			loser := min(kept.at, b[j].at)
			if b[j].at > kept.at {
				*kept = b[j]
			}
			x.superseded = append(x.superseded, int64(loser>>3))
		}
	}
	for _, position := range x.table {
		if position != 0 {
			x.counts[x.entry(position).at&7]++
		}
	}
}

// HashOf returns the first 8 bytes of a request_hash such as "sha256:…", 0 if it
// is not one.
func HashOf(requestHash string) uint64 { return hashOf(requestHash) }

func hashOf[T string | []byte](requestHash T) uint64 {
	const prefix = "sha256:"
	if len(requestHash) < len(prefix)+16 || string(requestHash[:len(prefix)]) != prefix {
		return 0
	}
	var digits [16]byte
	copy(digits[:], requestHash[len(prefix):])
	var h [8]byte
	if _, err := hex.Decode(h[:], digits[:]); err != nil {
		return 0
	}
	return binary.BigEndian.Uint64(h[:])
}

func statusCode(s Status) (uint64, bool) {
	switch s {
	case OK:
		return 0, true
	case Failed:
		return 1, true
	case GaveUp:
		return 2, true
	case Aborted:
		return 3, true
	case Waiting:
		return 4, true
	}
	return 0, false
}

func statusOf(code uint64) Status {
	return [8]Status{OK, Failed, GaveUp, Aborted, Waiting}[code&7]
}
