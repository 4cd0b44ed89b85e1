package output

import (
	"bytes"
	_ "embed"
)

//go:embed schema.json
var schema []byte

// Schema returns the JSON Schema (draft 2020-12) of a row. A row may have more
// members than it names; none that it names changes its meaning.
func Schema() []byte { return bytes.Clone(schema) }
