package command

import (
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"llmbatch/output"
	"llmbatch/runner"
)

// metricsEvery is how often the text file is written anew.
const metricsEvery = 15 * time.Second

// metrics shows a run to Prometheus, over HTTP or in a file for node_exporter. A
// nil one shows nothing.
type metrics struct {
	families []*family // in the order of their names
	items    *family
	attempts *family
	waits    *family
	tokens   *family
	cost     *family
	latency  *family

	file   string
	server *http.Server
	over   chan struct{}
	writer sync.WaitGroup
}

// startMetrics begins to show what status tells; nil if neither flag is given.
func startMetrics(o *options, status func() runner.Status) (*metrics, error) {
	if o.metricsAddr == "" && o.metricsTextfile == "" {
		return nil, nil
	}
	m := newMetrics(status)
	m.file, m.over = o.metricsTextfile, make(chan struct{})
	if o.metricsAddr != "" {
		if err := m.serve(o.metricsAddr); err != nil {
			return nil, err
		}
	}
	if m.file != "" {
		if err := m.write(); err != nil {
			return nil, usagef("--metrics-textfile: %w", err)
		}
		m.writer.Go(m.rewrite)
	}
	return m, nil
}

func newMetrics(status func() runner.Status) *metrics {
	m := &metrics{}
	m.items = m.family("llmbatch_items_total", "Final rows by status.", "counter", "status")
	m.attempts = m.family("llmbatch_attempts_total", "Attempts of items that have a final row, by outcome.", "counter", "outcome")
	m.waits = m.family("llmbatch_wait_seconds_total", "Time that items waited between attempts, by reason.", "counter", "reason")
	m.tokens = m.family("llmbatch_tokens_total", "Tokens billed, by kind.", "counter", "kind")
	m.cost = m.family("llmbatch_cost_total", "Cost in the unit of the prices.", "counter", "")
	m.latency = m.family("llmbatch_attempt_duration_seconds", "Duration of attempts, by outcome.", "histogram", "outcome")
	m.cost.add("", 0)
	gauge := func(name, help string, value func(runner.Status) float64) {
		m.family(name, help, "gauge", "").now = func() float64 { return value(status()) }
	}
	gauge("llmbatch_in_flight", "Requests on the wire.", func(s runner.Status) float64 { return float64(s.InFlight) })
	gauge("llmbatch_limit", "Requests that may be on the wire, over all lanes.", func(s runner.Status) float64 { return float64(s.Limit) })
	gauge("llmbatch_waiting", "Items between two attempts.", func(s runner.Status) float64 { return float64(s.Waiting) })
	gauge("llmbatch_skipped", "Items that were done before.", func(s runner.Status) float64 { return float64(s.Skipped) })
	gauge("llmbatch_requests", "Requests that have ended; llmbatch_in_flight more are on the wire.", func(s runner.Status) float64 { return float64(s.Requests) })
	gauge("llmbatch_throttled", "429 answers so far.", func(s runner.Status) float64 { return float64(s.Throttled) })
	gauge("llmbatch_gate_seconds", "Time until requests leave again, 0 if they may.", func(s runner.Status) float64 {
		if s.Gate.IsZero() {
			return 0
		}
		return max(0, time.Until(s.Gate).Seconds())
	})
	slices.SortFunc(m.families, func(a, b *family) int { return strings.Compare(a.name, b.name) })
	return m
}

func (m *metrics) serve(addr string) error {
	l, err := net.Listen("tcp", onLoopback(addr))
	if err != nil {
		return usagef("--metrics-addr: %w", err).hint("such as 127.0.0.1:9464")
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", m)
	m.server = &http.Server{Handler: mux, ReadHeaderTimeout: 5 * time.Second}
	m.writer.Go(func() { m.server.Serve(l) }) // returns when closed
	return nil
}

func (m *metrics) rewrite() {
	tick := time.NewTicker(metricsEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			// A failure now may pass; the one at the end is reported.
			_ = m.write()
		case <-m.over:
			return
		}
	}
}

// row counts a final row.
func (m *metrics) row(r *output.Result) {
	if m == nil {
		return
	}
	m.items.add(string(r.Status), 1)
	for _, a := range r.Attempts {
		m.attempts.add(a.Outcome, 1)
		m.latency.observe(a.Outcome, a.Duration.Seconds())
		if a.Wait > 0 {
			m.waits.add(a.WaitReason, a.Wait.Seconds())
		}
		m.usage(a.Usage)
	}
	m.cost.add("", r.Cost)
}

func (m *metrics) usage(u output.Usage) {
	for kind, n := range map[string]int64{
		"input": u.InputTokens, "output": u.OutputTokens, "cache_read": u.CacheReadTokens, "cache_write": u.CacheWriteTokens,
	} {
		if n > 0 {
			m.tokens.add(kind, float64(n))
		}
	}
}

// finish writes the file a last time and stops serving.
func (m *metrics) finish() error {
	if m == nil {
		return nil
	}
	close(m.over)
	if m.server != nil {
		m.server.Close()
	}
	m.writer.Wait()
	if m.file == "" {
		return nil
	}
	return m.write()
}
