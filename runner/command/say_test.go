package command

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// With --log-format json standard error is one object a line, to the end.
func TestLogsAreOneObjectALine(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		scenario string
		flags    []string
		code     int
		messages []string
	}{
		{"ok", []string{"-vv"}, exitOK, []string{"attempt", "progress", "summary"}},
		{"ok", []string{"-q"}, exitOK, nil},
		{"spend-cap", nil, exitAborted, []string{"progress", "summary", "stopped: spend cap"}},
		{"spend-cap", []string{"-q"}, exitAborted, []string{"stopped: spend cap"}},
	} {
		args := append([]string{"run", "--provider", "mock", "--mock-scenario", c.scenario, "--log-format", "json", prompts(t, 3)}, c.flags...)
		code, _, errs := world{}.call(args...)
		if code != c.code {
			t.Errorf("%v: got exit %d, want %d", args, code, c.code)
		}
		var got []string
		for line := range strings.Lines(errs) {
			var record struct {
				Time, Level, Msg string
				Summary          struct{ Rows *int }
				Hints            []string
			}
			if err := json.Unmarshal([]byte(line), &record); err != nil || record.Msg == "" || record.Time == "" {
				t.Errorf("%v: got %q (%v), want an object with time, level and msg", args, line, err)
			}
			if record.Msg == "summary" && record.Summary.Rows == nil {
				t.Errorf("%v: got %q, want the figures", args, line)
			}
			if record.Level == "ERROR" && len(record.Hints) == 0 {
				t.Errorf("%v: got %q, want what to do", args, line)
			}
			got = append(got, record.Msg)
		}
		for _, want := range c.messages {
			if !slices.ContainsFunc(got, func(m string) bool { return strings.HasPrefix(m, want) }) {
				t.Errorf("%v: got messages %q, want %s", args, got, want)
			}
		}
		if c.messages == nil && errs != "" {
			t.Errorf("%v: got %q, want nothing", args, errs)
		}
	}
}
