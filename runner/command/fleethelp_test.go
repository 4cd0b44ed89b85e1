package command

import (
	"strings"
	"testing"
	"unicode/utf8"
)

// The help of each fleet command fits a terminal.
func TestFleetHelpFits(t *testing.T) {
	for _, name := range []string{"", "serve", "run", "worker", "status", "limit", "pause", "unpause", "abort", "rm"} {
		code, help, said := world{}.call(strings.Fields("fleet " + name + " --help")...)
		want(t, code, help+said, 0, "Usage: llmbatch fleet")
		for line := range strings.Lines(help) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > 80 {
				t.Errorf("fleet %s --help: got a line of %d columns, want 80 at most: %s", name, n, line)
			}
		}
	}
}
