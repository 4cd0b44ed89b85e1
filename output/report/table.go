package report

import (
	"cmp"
	"encoding/json"
	"math"
	"math/bits"
	"slices"
	"time"

	"llmbatch/output"
)

// table counts by key in a bounded number of places.
type table[K comparable, V any] struct {
	max   int
	other K
	vals  map[K]*V
}

// at is the place of k, made if need be; the place of the rest when all are taken.
func (t *table[K, V]) at(k K) *V {
	if v, ok := t.vals[k]; ok {
		return v
	}
	if t.vals == nil {
		t.vals = make(map[K]*V)
	}
	if len(t.vals) >= t.max {
		k = t.other
		if v, ok := t.vals[k]; ok {
			return v
		}
	}
	v := new(V)
	t.vals[k] = v
	return v
}

// histogram counts durations in buckets that are at most 1/16 of their value
// wide, from a microsecond to years. The zero value is ready.
type histogram struct {
	count   int
	sum     time.Duration
	max     time.Duration
	buckets [64 * 16]uint32
}

// subBits is the number of bits of a value that pick its bucket below the
// leading one.
const subBits = 4

func bucketOf(d time.Duration) int {
	us := uint64(max(d.Microseconds(), 0))
	if us < 1<<subBits {
		return int(us)
	}
	exp := bits.Len64(us) - 1 - subBits
	return (exp+1)<<subBits + int(us>>exp)&(1<<subBits-1)
}

// bucketLow is the least duration of a bucket.
func bucketLow(i int) time.Duration {
	if i < 1<<subBits {
		return time.Duration(i) * time.Microsecond
	}
	exp := i>>subBits - 1
	return time.Duration(uint64(1<<subBits+i&(1<<subBits-1))<<exp) * time.Microsecond
}

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	h.count++
	h.sum += d
	h.max = max(h.max, d)
	h.buckets[bucketOf(d)]++
}

// quantile is the middle of the bucket in which the q-th value lies, never more
// than the largest value; 0 of an empty histogram.
func (h *histogram) quantile(q float64) time.Duration {
	if h.count == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(h.count)))
	for i, n := range h.buckets {
		rank -= int(n)
		if rank <= 0 {
			return min((bucketLow(i)+bucketLow(i+1))/2, h.max)
		}
	}
	return h.max
}

// slowest keeps the items that took longest, the longest first.
type slowest []SlowItem

func (s *slowest) add(r *output.Result, took time.Duration) {
	ms := took.Milliseconds()
	if len(*s) == maxSlow && ms <= (*s)[maxSlow-1].MS {
		return
	}
	item := SlowItem{
		ID: json.RawMessage(slices.Clone(r.ID)), Status: string(r.Status), MS: ms, Attempts: len(r.Attempts),
	}
	at, _ := slices.BinarySearchFunc(*s, ms, func(e SlowItem, ms int64) int { return cmp.Compare(ms, e.MS) })
	*s = slices.Insert(*s, at, item)
	if len(*s) > maxSlow {
		*s = (*s)[:maxSlow]
	}
}
