package report

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"llmbatch/output"
)

func TestCompare(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 22, 0, 0, 0, time.UTC)
	row := func(n int, status output.Status, text string, took time.Duration) *output.Result {
		return &output.Result{
			ID: json.RawMessage(fmt.Sprintf(`"q%d"`, n)), Key: fmt.Sprintf("q%d", n), Status: status, Text: text, HasCost: true, Cost: 0.5, FinishedAt: at.Add(took),
			Usage: output.Usage{InputTokens: 10, OutputTokens: 4}, Attempts: []output.Attempt{{Attempt: 1, StartedAt: at, Duration: took, Outcome: "ok"}},
		}
	}
	c, err := Compare(
		rowsOf(row(1, output.OK, "yes", time.Second), row(2, output.OK, "no", time.Second), row(3, output.Failed, "", time.Second), row(4, output.OK, "x", time.Second), row(5, output.OK, "x", time.Second)),
		rowsOf(row(1, output.OK, "yes\n", 2*time.Second), row(2, output.OK, "maybe", 2*time.Second), row(3, output.OK, "now", 2*time.Second), row(4, output.GaveUp, "", 2*time.Second), row(6, output.OK, "new", 2*time.Second)),
	)
	if err != nil {
		t.Fatal(err)
	}
	got := [6]int{c.Same, c.Changed, c.Mended, c.Broken, c.OnlyA, c.OnlyB}
	if want := [6]int{1, 1, 1, 1, 1, 1}; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
	var b bytes.Buffer
	if err := c.WriteText(&b, "monday.results.jsonl", "tuesday.results.jsonl"); err != nil {
		t.Fatal(err)
	}
	golden(t, "compare.txt", b.Bytes())
}
