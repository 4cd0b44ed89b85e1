package report

import (
	"encoding/json"
	"strings"
	"time"

	"llmbatch/output/plain"
)

// word is a name, "(none)" if it is empty.
func word(s string) string {
	if s == "" {
		return "(none)"
	}
	return plain.Line(strings.ReplaceAll(s, "gave_up", "gave up"))
}

// idText is an id as people write it: a string without its quotes.
func idText(id json.RawMessage) string {
	var s string
	if json.Unmarshal(id, &s) == nil {
		return plain.Line(s)
	}
	return plain.Line(string(id))
}

// span is a duration in milliseconds.
func span(ms int64) string { return plain.Span(time.Duration(ms) * time.Millisecond) }
