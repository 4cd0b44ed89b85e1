package body

import (
	"bytes"
	"encoding/json"

	"llmbatch/runner/provider"
)

// Text is provider.Text.
func Text(v []byte) string { return provider.Text(v) }

// TextOrQuoted returns v where it is a JSON string that any JSON may hold as it is,
// and its Text otherwise. v is from an Answer; an escaped surrogate may be half a
// pair there.
func TextOrQuoted(v []byte) (text string, quoted json.RawMessage) {
	if len(v) < 2 || v[0] != '"' || bytes.Contains(v, []byte(`\u`)) {
		return Text(v), nil
	}
	return "", v
}
