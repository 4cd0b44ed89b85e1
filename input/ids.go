package input

import (
	"context"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io"
	"math/bits"
	"strconv"
	"strings"
	"sync"
)

// ids numbers the items of one pass over the file, gives a content id to those without
// one, and sees to it that no two have the same.
//
// It holds a hash of each id only. A hash that is seen again is a duplicate; its first
// line is found by a second pass, and only where there is an error to be told.
type ids struct {
	f      *File
	index  int
	unique bool // ids in the file are known to be unique
	seed   maphash.Seed

	mu    sync.Mutex
	seen  hashes
	times map[uint64]int // how often a content was seen, where more than once
}

func newIDs(f *File, unique bool) *ids {
	return &ids{f: f, unique: unique, seed: maphash.MakeSeed(), times: map[uint64]int{}}
}

// admit gives the item its index and, where it has none, its id. A bad line, among
// them one whose id repeats, is returned as such or let through.
func (d *ids) admit(it *Item, bad *LineError) *LineError {
	it.Index = d.index
	d.index++
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case bad == nil && !it.has:
		d.f.unnamed.Store(true)
		it.ID, it.Key = d.contentID(it.sum)
		return nil
	case bad == nil && (d.unique && !likeContent(it.Key) || d.claim(it.Key)):
		return nil
	case bad == nil:
		bad = &LineError{Col: it.idAt + 1, Msg: fmt.Sprintf("duplicate id %.80q: an earlier line has it too", it.Key),
			Hint: "give each line an id of its own, or none at all", repeats: strings.Clone(it.Key)}
	}
	bad.File, bad.Line = d.f.name, it.Line
	if d.f.o.LetThrough {
		d.spoil(it, bad)
		return nil
	}
	return bad
}

// claim notes the key; false if it is taken.
func (d *ids) claim(key string) bool {
	return d.seen.add(maphash.String(d.seed, key))
}

// hashes is a set of random 64-bit numbers in 8 bytes over its load of a half to
// three quarters, where a map of Go takes more than twice as much. Its parts grow one
// by one, so no second set of the full size ever exists. The zero value is empty.
type hashes struct {
	parts [1 << partBits]struct {
		slots []uint64 // 0: free
		used  int
	}
}

const partBits = 8

// add adds h; false if it was there.
func (s *hashes) add(h uint64) bool {
	h = max(h, 1)
	p := &s.parts[h>>(64-partBits)]
	if 4*(p.used+1) > 3*len(p.slots) {
		old := p.slots
		p.slots = make([]uint64, max(16, len(old)+len(old)/2))
		for _, h := range old {
			if h != 0 {
				p.slots[slotOf(p.slots, h)] = h
			}
		}
	}
	i := slotOf(p.slots, h)
	if p.slots[i] == h {
		return false
	}
	p.slots[i] = h
	p.used++
	return true
}

// slotOf is where h is, or belongs.
func slotOf(slots []uint64, h uint64) int {
	n, _ := bits.Mul64(h<<partBits, uint64(len(slots)))
	i := int(n)
	for slots[i] != 0 && slots[i] != h {
		if i++; i == len(slots) {
			i = 0
		}
	}
	return i
}

// reject makes a bad line of an item that was admitted.
func (d *ids) reject(it *Item, bad *LineError) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.spoil(it, bad)
}

// spoil makes a bad line of the item, under a content id: the one it has, or a
// new one. mu is held.
func (d *ids) spoil(it *Item, bad *LineError) {
	id, key := it.ID, it.Key
	if it.has || key == "" {
		id, key = d.contentID(it.sum)
	}
	*it = Item{Index: it.Index, Line: it.Line, Offset: it.Offset, Size: it.Size, ID: id, Key: key, Bad: bad, at: it.at, sum: it.sum}
}

func (d *ids) contentID(sum uint64) (json.RawMessage, string) {
	n := d.times[sum] + 1
	for !d.claim(contentKey(sum, n)) {
		n++
	}
	if n > 1 {
		d.times[sum] = n
	}
	key := contentKey(sum, n)
	return json.RawMessage(`"` + key + `"`), key
}

func contentKey(sum uint64, n int) string {
	return fmt.Sprintf("sha256:%012x#%d", sum, n)
}

// likeContent reports whether an id of the file is one that a line without id may get.
func likeContent(key string) bool {
	rest, ok := strings.CutPrefix(key, "sha256:")
	if !ok || len(rest) < 14 || rest[12] != '#' {
		return false
	}
	sum, err := strconv.ParseUint(rest[:12], 16, 64)
	n, err2 := strconv.Atoi(rest[13:])
	return err == nil && err2 == nil && n > 0 && contentKey(sum, n) == key
}

// explain says of duplicates where their ids stand first, in a second pass over the file.
func (f *File) explain(bad []*LineError) error {
	first := map[string]int{}
	for _, b := range bad {
		if b.repeats != "" {
			first[b.repeats] = 0
		}
	}
	if len(first) == 0 || f.pipe != nil {
		return nil
	}
	src, done, err := f.source(place{})
	if err != nil {
		return err
	}
	defer done()
	p := f.parser()
	for c := (&chunk{}); ; c.release() {
		if err := src.next(context.Background(), c); err == io.EOF {
			break
		} else if err != nil {
			return err
		}
		for r := range c.each {
			var it Item
			p.parse(r, &it) // a bad line may have an id too
			if line, asked := first[it.Key]; asked && line == 0 {
				first[strings.Clone(it.Key)] = r.line
			}
		}
	}
	for _, b := range bad {
		switch line := first[b.repeats]; {
		case b.repeats == "":
		case line > 0 && line < b.Line:
			b.Msg = fmt.Sprintf("duplicate id %.80q: line %d has it too", b.repeats, line)
		case likeContent(b.repeats):
			b.Msg = fmt.Sprintf("duplicate id %.80q: an earlier line without id has it", b.repeats)
		default:
			return fmt.Errorf("%s: two ids could not be told apart: run the same command again", f.name)
		}
	}
	return nil
}
