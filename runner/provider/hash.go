package provider

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"sync"
)

// Hash identifies a request: "sha256:" and the 64 hex digits of the digest of
// its family, method, path and body. Host, headers and key are no part of it,
// nor is a "stream" that llmbatch adds when it sends. Safe for concurrent use.
func Hash(c *Call) string {
	sum := digest(c)
	var out [7 + 2*sha256.Size]byte
	copy(out[:], "sha256:")
	hex.Encode(out[7:], sum[:])
	return string(out[:])
}

// HashSum is the first 8 bytes of the same digest, big endian.
func HashSum(c *Call) uint64 {
	sum := digest(c)
	return binary.BigEndian.Uint64(sum[:8])
}

// buffers keeps the joined bytes of small calls: one Sum256 of a buffer is twice
// as fast as four writes to a hash.
var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4096); return &b }}

// longestJoined bounds what is copied (and kept) to be hashed in one go.
const longestJoined = 64 << 10

// digest hashes the members, each but the last behind its length, so that no
// two different calls have the same bytes.
func digest(c *Call) (sum [sha256.Size]byte) {
	kept := buffers.Get().(*[]byte)
	b := (*kept)[:0]
	for _, s := range [...]string{cmp.Or(c.Family, c.Provider), c.Method, c.Path} {
		b = binary.AppendUvarint(b, uint64(len(s)))
		b = append(b, s...)
	}
	if len(c.Body) <= longestJoined {
		b = append(b, c.Body...)
		sum = sha256.Sum256(b)
	} else {
		h := sha256.New()
		h.Write(b)
		h.Write(c.Body)
		h.Sum(sum[:0])
	}
	*kept = b
	buffers.Put(kept)
	return sum
}
