package provider

import (
	"net/http"
	"time"
)

// Quota is what rate-limit headers say about one resource.
type Quota struct {
	// Resource is "requests", "input_tokens", "output_tokens" or "tokens".
	Resource string
	// Limit and Remaining are counts; Remaining is never more than Limit.
	Limit, Remaining float64
	// Reset is the time until Remaining is Limit again, 0 if unknown.
	Reset time.Duration
}

// Quotas reads the rate-limit headers of all known vendors.
func Quotas(h http.Header, now time.Time) []Quota { return nil }

// HasRateHeaders says whether the answer has any rate-limit header.
func HasRateHeaders(h http.Header) bool { return false }

// RequestID is the server's name for the request, from the first of the known
// headers that it sent, "" for none.
func RequestID(h http.Header) string {
	for _, name := range [...]string{"Request-Id", "X-Request-Id", "X-Litellm-Call-Id", "Apim-Request-Id", "Cf-Ray"} {
		if v := h.Get(name); v != "" {
			return v
		}
	}
	return ""
}
