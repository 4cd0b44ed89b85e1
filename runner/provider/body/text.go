package body

import "llmbatch/runner/provider"

// Text is provider.Text.
func Text(v []byte) string { return provider.Text(v) }
