package input

import "math/bits"

// table is a hash set of 64-bit slots, each a key in the upper bits and a
// number in the lower ones; a slot is never 0. It takes 8 bytes over its load of
// 60 to 75 percent. Its shards grow one by one, so that little is copied at
// a time and no second table of the full size ever exists. With wide keys
// a second word stands beside each slot.
type table struct {
	shift  uint // the number's bits
	wide   bool
	shards [1 << shardBits]shard
}

type shard struct {
	slots []uint64
	extra []uint64
	used  int
}

const shardBits = 10

// home is where the search for a key begins: keys keep their order, so growing
// moves slots to their new places without knowing the whole hash.
func (t *table) home(s *shard, key uint64) int {
	i, _ := bits.Mul64(key<<t.shift, uint64(len(s.slots)))
	return int(i)
}

// probe returns the place of a slot with the key, beginning at i, or -1.
func (t *table) probe(s *shard, key uint64, i int) int {
	if len(s.slots) == 0 {
		return -1
	}
	for {
		if i >= len(s.slots) {
			i = 0
		}
		if s.slots[i] == 0 {
			return -1
		}
		if s.slots[i]>>t.shift == key {
			return i
		}
		i++
	}
}

func (t *table) add(s *shard, slot, extra uint64) {
	if (s.used+1)*4 > len(s.slots)*3 {
		t.grow(s)
	}
	s.used++
	t.place(s, slot, extra)
}

func (t *table) place(s *shard, slot, extra uint64) {
	i := t.home(s, slot>>t.shift)
	for s.slots[i] != 0 {
		if i++; i == len(s.slots) {
			i = 0
		}
	}
	s.slots[i] = slot
	if t.wide {
		s.extra[i] = extra
	}
}

func (t *table) grow(s *shard) {
	old, more := s.slots, s.extra
	size := max(8, len(old)+len(old)/4)
	s.slots = make([]uint64, size)
	if t.wide {
		s.extra = make([]uint64, size)
	}
	for i, slot := range old {
		if slot == 0 {
			continue
		}
		var extra uint64
		if t.wide {
			extra = more[i]
		}
		t.place(s, slot, extra)
	}
}
