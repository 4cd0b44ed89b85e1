// Package openai speaks OpenAI's Chat Completions and Responses APIs, and those
// of the many servers that are compatible with them.
//
// A body that the user wrote goes out as it is; what it lacks is filled from the flags.
// An answer to a batch line of any other /v1/… path is kept if it is JSON without
// an error. A finish reason of length or refusal is an answer too, and flagged.
// Nothing here does I/O.
package openai

import (
	"net/http"
	"strings"

	"llmbatch/runner/provider"
)

// Provider is the OpenAI family of APIs. The zero value is ready for use by many
// goroutines.
type Provider struct{}

// New returns the provider.
func New() Provider { return Provider{} }

var (
	_ provider.Provider = Provider{}
	_ provider.Streamer = Provider{}
)

// Sign sets Authorization, or the header that replaces it (api-key on Azure), and
// the organization and project where they are known.
func (Provider) Sign(h http.Header, c provider.Credentials) {
	switch {
	case c.Key == "":
	case c.Header != "" && !strings.EqualFold(c.Header, "Authorization"):
		h.Set(c.Header, c.Key)
	default:
		h.Set("Authorization", "Bearer "+c.Key)
	}
	if c.Organization != "" {
		h.Set("OpenAI-Organization", c.Organization)
	}
	if c.Project != "" {
		h.Set("OpenAI-Project", c.Project)
	}
}
