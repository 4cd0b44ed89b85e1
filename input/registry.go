package input

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"math"
	"strconv"
	"strings"
	"sync"
)

// registry numbers the items of one pass over the file and sees to it that no
// two have the same id.
//
// It holds hashes only. In a plain file that is checked, a hash that is seen
// again is no more than a suspicion: the earlier line is read again and its id
// compared. Where that cannot be done (a pipe, an archive), or would have to be
// done without end (bad lines let through), ids are told apart by more
// than 100 bits.
type registry struct {
	f          *File
	index      int
	seen       *table // ids: 32 bits of hash and the line's number; nil if known to be unique
	seed, more maphash.Seed
	pass       *pass          // where chunks begin, to read a line again
	firsts     map[string]int // confirmed: the id's first line

	mu     sync.Mutex
	sums   table          // contents of lines without an id, and how many there were
	counts map[uint64]int // those that don't fit a slot
	like   map[string]int // ids in the file that look like content ids, and their lines
}

const (
	maxCount   = math.MaxUint16
	maxConfirm = 1000 // suspicions looked into; a file with more duplicates is bad anyway
)

func newRegistry(f *File, unique bool) *registry {
	r := &registry{f: f, seed: maphash.MakeSeed(), more: maphash.MakeSeed(), pass: &pass{},
		firsts: map[string]int{}, counts: map[uint64]int{}, like: map[string]int{}}
	r.sums.shift = 16
	if !unique {
		r.seen = &table{shift: 32, wide: f.o.LetThrough || f.kind != plain}
	}
	return r
}

// admit gives the item its index and, where it has none, its id. A bad line,
// among them one whose id repeats, is returned as such or let through.
func (r *registry) admit(it *Item, bad *LineError) *LineError {
	it.Index = r.index
	r.index++
	r.mu.Lock()
	defer r.mu.Unlock()
	if bad == nil && it.has {
		bad = r.repeats(it)
	}
	if bad == nil {
		if !it.has {
			r.f.unnamed.Store(true)
			it.ID, it.Key = r.contentID(it.sum)
		}
		return nil
	}
	bad.File, bad.Line = r.f.name, it.Line
	if r.f.o.LetThrough {
		r.spoil(it, bad)
		return nil
	}
	return bad
}

// note remembers where a chunk begins, if lines may have to be read again.
func (r *registry) note(c *chunk) {
	if r.seen != nil && !r.seen.wide {
		r.pass.note(c)
	}
}

// reject makes a bad line of an item that was admitted.
func (r *registry) reject(it *Item, bad *LineError) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.spoil(it, bad)
}

// spoil makes a bad line of the item, under a content id: the one it has, or a
// new one. mu is held.
func (r *registry) spoil(it *Item, bad *LineError) {
	id, key := it.ID, it.Key
	if it.has || key == "" {
		id, key = r.contentID(it.sum)
	}
	*it = Item{Index: it.Index, Line: it.Line, Offset: it.Offset, Size: it.Size, ID: id, Key: key, Bad: bad, at: it.at, sum: it.sum}
}

func (r *registry) contentID(sum uint64) (json.RawMessage, string) {
	for {
		key := contentKey(sum, r.count(sum, 1))
		if _, taken := r.like[key]; !taken {
			return json.RawMessage(`"` + key + `"`), key
		}
	}
}

func contentKey(sum uint64, n int) string {
	return fmt.Sprintf("sha256:%012x#%d", sum, n)
}

// count adds n to how often the content was seen, and returns the sum.
func (r *registry) count(sum uint64, n int) int {
	s := &r.sums.shards[sum&(1<<shardBits-1)]
	i := -1
	if len(s.slots) > 0 {
		i = r.sums.probe(s, sum, r.sums.home(s, sum))
	}
	if i < 0 {
		if n > 0 {
			r.sums.add(s, sum<<16|uint64(n), 0)
		}
		return n
	}
	have := int(s.slots[i] & maxCount)
	if have == maxCount {
		r.counts[sum] += n
		return have + r.counts[sum]
	}
	s.slots[i] += uint64(n)
	return have + n
}

// repeats is the error of an item whose id an earlier line has.
func (r *registry) repeats(it *Item) *LineError {
	if sum, n, ok := asContentID(it.Key); ok {
		if n <= r.count(sum, 0) {
			return &LineError{Col: it.idAt + 1, Msg: fmt.Sprintf("duplicate id %.80q: an earlier line without id has it", it.Key)}
		}
		r.like[it.Key] = it.Line
	}
	if r.seen == nil {
		return nil
	}
	h := maphash.String(r.seed, it.Key)
	s := &r.seen.shards[h>>(64-shardBits)]
	tag, extra := h&math.MaxUint32, uint64(0)
	if r.seen.wide {
		extra = maphash.String(r.more, it.Key)
	}
	for i := r.seen.probe(s, tag, r.seen.home(s, tag)); i >= 0; i = r.seen.probe(s, tag, i+1) {
		line := int(s.slots[i] & math.MaxUint32)
		if r.seen.wide && s.extra[i] != extra || !r.seen.wide && !r.confirm(line, it.Key) {
			continue
		}
		return &LineError{Col: it.idAt + 1, Msg: fmt.Sprintf("duplicate id %.80q: line %d has it too", it.Key, line),
			Hint: "give each line an id of its own, or none at all"}
	}
	r.seen.add(s, tag<<32|uint64(it.Line)&math.MaxUint32, extra)
	return nil
}

// confirm tells whether the id of the earlier line is the key.
func (r *registry) confirm(line int, key string) bool {
	if first, ok := r.firsts[key]; ok {
		return first == line
	}
	if len(r.firsts) >= maxConfirm {
		return true
	}
	earlier, err := r.pass.keyAt(r.f, line)
	if err != nil || earlier != key {
		return err != nil
	}
	r.firsts[key] = line
	return true
}

func asContentID(key string) (sum uint64, n int, ok bool) {
	rest, ok := strings.CutPrefix(key, "sha256:")
	if !ok || len(rest) < 14 || rest[12] != '#' {
		return 0, 0, false
	}
	sum, err := strconv.ParseUint(rest[:12], 16, 64)
	if err != nil {
		return 0, 0, false
	}
	n, err = strconv.Atoi(rest[13:])
	return sum, n, err == nil && n > 0 && contentKey(sum, n) == key
}
