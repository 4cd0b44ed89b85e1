package command

import "testing"

// What the command line itself costs a start: it is built anew for each call.
func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		world{}.call("run", "x", "--print-config")
	}
}
