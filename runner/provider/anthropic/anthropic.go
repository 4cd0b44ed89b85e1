// Package anthropic speaks the Messages API of Anthropic and of servers that
// are compatible with it.
//
// A body that the user wrote goes out as it is; what it lacks is filled from the
// flags. An answer is one with a content array; a stop reason of
// length, refusal or pause is an answer too, and flagged. Nothing here does I/O.
package anthropic

import (
	"net/http"
	"strings"

	"llmbatch/runner/provider"
)

// Version is the API version asked for unless the user names another. Bodies
// pass through as written, and later versions refuse members that this takes.
const Version = "2023-06-01"

// Provider is the Messages API. The zero value is ready for use by many goroutines.
type Provider struct{}

// New returns the provider.
func New() Provider { return Provider{} }

var (
	_ provider.Provider = Provider{}
	_ provider.Streamer = Provider{}
)

// Sign sets anthropic-version and the header that carries the key: x-api-key, or
// Authorization for a bearer token.
func (Provider) Sign(h http.Header, c provider.Credentials) {
	h.Set("Anthropic-Version", Version)
	switch {
	case c.Key == "":
	case c.Header != "" && !strings.EqualFold(c.Header, "Authorization"):
		h.Set(c.Header, c.Key)
	case c.Header != "" || c.Bearer:
		h.Set("Authorization", "Bearer "+c.Key)
	default:
		h.Set("X-Api-Key", c.Key)
	}
}
