package fleet

import (
	"crypto/rand"
	"encoding/hex"
)

// NewToken returns a random token.
func NewToken() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
