package fleet

import (
	"strings"
	"testing"
)

func TestIsRunName(t *testing.T) {
	for name, want := range map[string]bool{
		"a": true, "Nightly-2_b": true, strings.Repeat("z", 64): true,
		"": false, strings.Repeat("z", 65): false, "a.b": false, "a b": false, "a*": false, "é": false, "a\n": false, "a/b": false,
	} {
		if got := isRunName(name); got != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
	}
}
