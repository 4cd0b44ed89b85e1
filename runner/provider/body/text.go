package body

import (
	"bytes"
	"encoding/json"

	"llmbatch/runner/provider"
)

// Text is provider.Text.
func Text(v []byte) string { return provider.Text(v) }

// TextOrQuoted returns v where it is a JSON string that any JSON may hold as it is,
// and its Text otherwise. v is from an Answer: an escaped surrogate may be half a
// pair there, and a secret be written with escapes that nobody looks for.
func TextOrQuoted(v []byte) (text string, quoted json.RawMessage) {
	if len(v) < 2 || v[0] != '"' {
		return "", nil
	}
	for in := v; ; in = in[2:] {
		i := bytes.IndexByte(in, '\\')
		if i < 0 {
			return "", v
		}
		if in = in[i:]; len(in) < 2 || in[1] == 'u' || in[1] == '/' {
			return Text(v), nil
		}
	}
}
