package command

import (
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"llmbatch/output"
	"llmbatch/runner"
)

// metricsEvery is how often the text file is written anew.
const metricsEvery = 15 * time.Second

// metrics shows a run to Prometheus, over HTTP or in a file for node_exporter. A
// nil one shows nothing.
type metrics struct {
	registry *prometheus.Registry
	items    *prometheus.CounterVec
	attempts *prometheus.CounterVec
	waits    *prometheus.CounterVec
	tokens   *prometheus.CounterVec
	cost     prometheus.Counter
	latency  *prometheus.HistogramVec

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
		if err := prometheus.WriteToTextfile(m.file, m.registry); err != nil {
			return nil, usagef("--metrics-textfile: %w", err)
		}
		m.writer.Go(m.rewrite)
	}
	return m, nil
}

func newMetrics(status func() runner.Status) *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		items:    counters("llmbatch_items_total", "Final rows by status.", "status"),
		attempts: counters("llmbatch_attempts_total", "Attempts of items that have a final row, by outcome.", "outcome"),
		waits:    counters("llmbatch_wait_seconds_total", "Time that items waited between attempts, by reason.", "reason"),
		tokens:   counters("llmbatch_tokens_total", "Tokens billed, by kind.", "kind"),
		cost:     prometheus.NewCounter(prometheus.CounterOpts{Name: "llmbatch_cost_total", Help: "Cost in the unit of the prices."}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "llmbatch_attempt_duration_seconds", Help: "Duration of attempts, by outcome.",
			Buckets: prometheus.ExponentialBuckets(0.05, 2, 14),
		}, []string{"outcome"}),
	}
	m.registry.MustRegister(m.items, m.attempts, m.waits, m.tokens, m.cost, m.latency)
	gauge := func(name, help string, value func(runner.Status) float64) {
		m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help},
			func() float64 { return value(status()) }))
	}
	gauge("llmbatch_in_flight", "Requests on the wire.", func(s runner.Status) float64 { return float64(s.InFlight) })
	gauge("llmbatch_limit", "Requests that may be on the wire, over all lanes.", func(s runner.Status) float64 { return float64(s.Limit) })
	gauge("llmbatch_waiting", "Items between two attempts.", func(s runner.Status) float64 { return float64(s.Waiting) })
	gauge("llmbatch_skipped", "Items that were done before.", func(s runner.Status) float64 { return float64(s.Skipped) })
	gauge("llmbatch_requests", "Requests sent so far.", func(s runner.Status) float64 { return float64(s.Requests) })
	gauge("llmbatch_throttled", "429 answers so far.", func(s runner.Status) float64 { return float64(s.Throttled) })
	gauge("llmbatch_gate_seconds", "Time until requests leave again, 0 if they may.", func(s runner.Status) float64 {
		if s.Gate.IsZero() {
			return 0
		}
		return max(0, time.Until(s.Gate).Seconds())
	})
	return m
}

func counters(name, help, label string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, []string{label})
}

func (m *metrics) serve(addr string) error {
	if host, port, err := net.SplitHostPort(addr); err == nil && host == "" {
		addr = net.JoinHostPort("127.0.0.1", port)
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return usagef("--metrics-addr: %w", err).hint("such as 127.0.0.1:9464")
	}
	mux := http.NewServeMux()
	mux.Handle("/metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
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
			_ = prometheus.WriteToTextfile(m.file, m.registry)
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
	m.items.WithLabelValues(string(r.Status)).Inc()
	for _, a := range r.Attempts {
		m.attempts.WithLabelValues(a.Outcome).Inc()
		m.latency.WithLabelValues(a.Outcome).Observe(a.Duration.Seconds())
		if a.Wait > 0 {
			m.waits.WithLabelValues(a.WaitReason).Add(a.Wait.Seconds())
		}
		m.usage(a.Usage)
	}
	m.cost.Add(r.Cost)
}

func (m *metrics) usage(u output.Usage) {
	for kind, n := range map[string]int64{
		"input": u.InputTokens, "output": u.OutputTokens, "cache_read": u.CacheReadTokens, "cache_write": u.CacheWriteTokens,
	} {
		if n > 0 {
			m.tokens.WithLabelValues(kind).Add(float64(n))
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
	return prometheus.WriteToTextfile(m.file, m.registry)
}
