package command_test

import (
	"path/filepath"
	"strings"
	"testing"
)

// What can't be written at the end is told before anything is sent.
func TestSummaryThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	s := newStory(t, 1)
	code, said := s.run("ok", "--summary", filepath.Join(filepath.Dir(s.out), "none", "sum.json"))
	if n := s.mock.Stats().Count; code != 2 || n != 0 || !strings.Contains(said, "--summary") {
		t.Errorf("exit %d after %d requests, want 2 after none:\n%s", code, n, said)
	}
}
