package command

import (
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"llmbatch/output"
	"llmbatch/runner"
)

// What Prometheus reads: each family once, with its help and type before it, and
// none that has no series.
func TestMetricsText(t *testing.T) {
	m := newMetrics(func() runner.Status { return runner.Status{InFlight: 3, Limit: 2_000_000} })
	m.row(&output.Result{
		Status: output.OK, Cost: 0.5,
		Attempts: []output.Attempt{
			{Outcome: "ok", Duration: 300 * time.Millisecond, Usage: output.Usage{InputTokens: 5, OutputTokens: 1}},
			{Outcome: "a \"b\" \\\nc", Duration: 20 * time.Hour, Wait: 1500 * time.Millisecond, WaitReason: "backoff"},
		},
	})
	w := httptest.NewRecorder()
	m.ServeHTTP(w, nil)
	if got, want := w.Header().Get("Content-Type"), "text/plain; version=0.0.4; charset=utf-8"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	text := w.Body.String()
	for _, part := range []string{
		"# HELP llmbatch_attempts_total Attempts of items that have a final row, by outcome.\n# TYPE llmbatch_attempts_total counter\n",
		"# TYPE llmbatch_cost_total counter\nllmbatch_cost_total 0.5\n# HELP llmbatch_gate_seconds ",
		`llmbatch_attempts_total{outcome="a \"b\" \\\nc"} 1` + "\n",
		`llmbatch_attempts_total{outcome="ok"} 1` + "\n# HELP llmbatch_cost_total ",
		"# TYPE llmbatch_attempt_duration_seconds histogram\n",
		`llmbatch_attempt_duration_seconds_bucket{outcome="ok",le="0.2"} 0` + "\n" + `llmbatch_attempt_duration_seconds_bucket{outcome="ok",le="0.4"} 1` + "\n",
		`llmbatch_attempt_duration_seconds_bucket{outcome="ok",le="409.6"} 1` + "\n" + `llmbatch_attempt_duration_seconds_bucket{outcome="ok",le="+Inf"} 1` + "\n" +
			`llmbatch_attempt_duration_seconds_sum{outcome="ok"} 0.3` + "\n" + `llmbatch_attempt_duration_seconds_count{outcome="ok"} 1` + "\n",
		`llmbatch_wait_seconds_total{reason="backoff"} 1.5` + "\n",
		"llmbatch_in_flight 3\n", "llmbatch_limit 2e+06\n",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("got\n%s\nwant in it\n%s", text, part)
		}
	}
	before := ""
	for line := range strings.Lines(text) {
		if name, ok := strings.CutPrefix(line, "# HELP "); ok {
			name, _, _ = strings.Cut(name, " ")
			if name <= before {
				t.Errorf("family %s comes after %s", name, before)
			}
			before = name
		}
	}
	empty := newMetrics(func() runner.Status { return runner.Status{} })
	if got := string(empty.text()); strings.Contains(got, "llmbatch_items_total") || !strings.Contains(got, "llmbatch_cost_total 0\n") {
		t.Errorf("got %s, want no family without series, and the cost", got)
	}
}
