package fleet

// bitmap is a set of line numbers: 12.5 MB for 100 million.
type bitmap []uint64

func (b bitmap) has(i int) bool { return i/64 < len(b) && b[i/64]&(1<<(i%64)) != 0 }

// add puts i in and reports whether it was new.
func (b *bitmap) add(i int) bool {
	for i/64 >= len(*b) {
		*b = append(*b, 0)
	}
	if b.has(i) {
		return false
	}
	(*b)[i/64] |= 1 << (i % 64)
	return true
}
