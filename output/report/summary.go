package report

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"time"

	"llmbatch/output"
)

// Summary is a run or a results file in figures: what `--summary` writes as
// JSON. Times are in milliseconds where a name ends in _ms. Lists are sorted,
// the largest first. Members are only ever added.
type Summary struct {
	Rows         int                `json:"rows"`
	OK           int                `json:"ok"`
	Failed       int                `json:"failed"`
	GaveUp       int                `json:"gave_up"`
	Aborted      int                `json:"aborted"`
	Waiting      int                `json:"waiting"`
	Causes       []Cause            `json:"causes,omitempty"`
	StopReasons  []Count            `json:"stop_reasons,omitempty"`
	GiveUps      []Count            `json:"give_up_reasons,omitempty"`
	Attempts     Attempts           `json:"attempts"`
	Waits        []Wait             `json:"waits,omitempty"`
	Latency      []Latency          `json:"latency,omitempty"`   // of attempts, by outcome
	ItemTime     []Latency          `json:"item_time,omitempty"` // first attempt to end of the last, by status
	Usage        output.Usage       `json:"usage"`
	Cost         *float64           `json:"cost,omitempty"` // nil: no prices were known
	Models       []Model            `json:"models,omitempty"`
	Slowest      []SlowItem         `json:"slowest,omitempty"`
	FirstAttempt *time.Time         `json:"first_attempt_at,omitempty"`
	LastEvent    *time.Time         `json:"last_event_at,omitempty"`
	PeakInFlight int                `json:"peak_in_flight,omitempty"` // largest mean over a bucket of the time series
	Throughput   []ThroughputBucket `json:"throughput,omitempty"`
	Run          *RunFacts          `json:"run,omitempty"` // nil: the summary of a file, not of a run
}

// RunFacts are what the command that ran knows and rows do not tell.
type RunFacts struct {
	ExitCode     int       `json:"exit_code"`
	Reason       string    `json:"reason,omitempty"` // one sentence: why the run ended
	StartedAt    time.Time `json:"started_at"`
	WallMS       int64     `json:"wall_ms"`
	Items        int       `json:"items"`          // in the input; -1: not known
	Skipped      int       `json:"skipped"`        // done by an earlier run, left alone
	SkippedNotOK int       `json:"skipped_not_ok"` // of these, rows that are not ok
	Untouched    int       `json:"untouched"`      // never sent, no row; -1: not known
	Invalid      int       `json:"invalid"`        // input lines that were no item
	Superseded   int       `json:"superseded"`     // rows removed by the final rewrite
	PeakInFlight int       `json:"peak_in_flight"`
	FinalLimit   int       `json:"final_limit,omitempty"`
	Output       string    `json:"output,omitempty"`
	Next         string    `json:"next,omitempty"` // the command to type next
	Notes        []string  `json:"notes,omitempty"`
}

// Cause is a group of rows that are not ok, for one reason.
type Cause struct {
	Status  string          `json:"status"`
	Class   string          `json:"class"`
	HTTP    int             `json:"http_status,omitempty"`
	Message string          `json:"message,omitempty"` // as it is if all are alike, else their shape
	Count   int             `json:"count"`
	Example json.RawMessage `json:"example_id,omitempty"`
}

// Count is how often a word was seen.
type Count struct {
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// Attempts are calls begun: Sent reached the wire, Unsent did not.
type Attempts struct {
	Total   int     `json:"total"`
	Sent    int     `json:"sent"`
	Unsent  int     `json:"unsent"`
	Retried int     `json:"retried_items"` // items with more than one
	PerItem float64 `json:"per_item"`
}

// Wait is the time that items waited between attempts for one reason, summed
// over items.
type Wait struct {
	Reason  string `json:"reason"`
	Count   int    `json:"count"`
	TotalMS int64  `json:"total_ms"`
}

// Latency are percentiles of one group.
type Latency struct {
	Name   string `json:"name"`
	Count  int    `json:"count"`
	P50MS  int64  `json:"p50_ms"`
	P95MS  int64  `json:"p95_ms"`
	P99MS  int64  `json:"p99_ms"`
	MaxMS  int64  `json:"max_ms"`
	MeanMS int64  `json:"mean_ms"`
}

// Model is what one provider's model did.
type Model struct {
	Name  string       `json:"name"`
	Items int          `json:"items"`
	OK    int          `json:"ok"`
	Usage output.Usage `json:"usage"`
	Cost  *float64     `json:"cost,omitempty"`
}

// SlowItem is one of the items that took longest.
type SlowItem struct {
	ID       json.RawMessage `json:"id"`
	Status   string          `json:"status"`
	MS       int64           `json:"ms"`
	Attempts int             `json:"attempts"`
}

// ThroughputBucket is what ended within one stretch of time.
type ThroughputBucket struct {
	At           time.Time `json:"at"`
	Seconds      float64   `json:"seconds"`
	OK           int       `json:"ok"`
	NotOK        int       `json:"not_ok"`
	RateLimited  int       `json:"rate_limited"`
	OutputTokens int64     `json:"output_tokens"`
}

// Summary is what was added so far. s may be added to afterwards.
func (s *Stats) Summary() Summary {
	sum := Summary{
		Rows: s.rows, OK: s.count(output.OK), Failed: s.count(output.Failed), GaveUp: s.count(output.GaveUp),
		Aborted: s.count(output.Aborted), Waiting: s.count(output.Waiting),
		Causes: s.causeList(), StopReasons: counts(&s.stops), GiveUps: counts(&s.giveUps),
		Attempts: Attempts{Total: s.attempts, Sent: s.attempts - s.unsent, Unsent: s.unsent, Retried: s.retried},
		Usage:    s.usage,
		Models:   s.modelList(),
		Slowest:  slices.Clone(s.slow),
	}
	if s.rows > 0 {
		sum.Attempts.PerItem = math.Round(float64(s.attempts)/float64(s.rows)*100) / 100
	}
	if s.hasCost {
		cost := s.cost
		sum.Cost = &cost
	}
	for reason, w := range s.waits.vals {
		sum.Waits = append(sum.Waits, Wait{reason, (*w).count, (*w).total.Milliseconds()})
	}
	slices.SortFunc(sum.Waits, func(a, b Wait) int {
		return cmp.Or(cmp.Compare(b.TotalMS, a.TotalMS), cmp.Compare(a.Reason, b.Reason))
	})
	for name, o := range s.outcomes.vals {
		sum.Latency = append(sum.Latency, latency(name, &(*o).latency))
	}
	sortLatency(sum.Latency)
	for status, h := range s.itemTimes.vals {
		sum.ItemTime = append(sum.ItemTime, latency(string(status), *h))
	}
	sortLatency(sum.ItemTime)
	if !s.first.IsZero() {
		first, last := s.first.UTC(), s.last.UTC()
		sum.FirstAttempt, sum.LastEvent = &first, &last
	}
	sum.PeakInFlight = s.series.peak()
	sum.Throughput = s.series.throughput(s.first, s.last)
	return sum
}

func (s *Stats) count(status output.Status) int {
	if n, ok := s.statuses.vals[status]; ok {
		return *n
	}
	return 0
}

func (s *Stats) causeList() []Cause {
	var list []Cause
	for k, p := range s.causes.vals {
		c := Cause{string(k.status), k.class, k.http, k.shape, (*p).count, (*p).id}
		if (*p).same {
			c.Message = (*p).message
		}
		list = append(list, c)
	}
	slices.SortFunc(list, func(a, b Cause) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Class, b.Class),
			cmp.Compare(a.HTTP, b.HTTP), cmp.Compare(a.Message, b.Message), cmp.Compare(a.Status, b.Status))
	})
	return list
}

func (s *Stats) modelList() []Model {
	var list []Model
	for name, p := range s.models.vals {
		m := Model{Name: name, Items: (*p).items, OK: (*p).ok, Usage: (*p).usage}
		if s.hasCost {
			cost := (*p).cost
			m.Cost = &cost
		}
		list = append(list, m)
	}
	slices.SortFunc(list, func(a, b Model) int {
		return cmp.Or(cmp.Compare(b.Items, a.Items), cmp.Compare(a.Name, b.Name))
	})
	return list
}

func counts(t *table[string, int]) []Count {
	var list []Count
	for name, n := range t.vals {
		list = append(list, Count{name, *n})
	}
	slices.SortFunc(list, func(a, b Count) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
	return list
}

func latency(name string, h *histogram) Latency {
	ms := func(q float64) int64 { return h.quantile(q).Round(time.Millisecond).Milliseconds() }
	l := Latency{Name: name, Count: h.count, P50MS: ms(0.50), P95MS: ms(0.95), P99MS: ms(0.99), MaxMS: h.max.Round(time.Millisecond).Milliseconds()}
	if h.count > 0 {
		l.MeanMS = (h.sum / time.Duration(h.count)).Round(time.Millisecond).Milliseconds()
	}
	return l
}

func sortLatency(list []Latency) {
	slices.SortFunc(list, func(a, b Latency) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name))
	})
}

// peak is the largest mean number of requests on the wire in any bucket.
func (s *series) peak() int {
	if s.width == 0 {
		return 0
	}
	var most time.Duration
	for _, t := range s.wire.totals(s.width) {
		most = max(most, t)
	}
	return int(math.Ceil(float64(most)/float64(s.width) - 0.01))
}

// throughput are the buckets from the first event to the last, joined to at
// most 64.
func (s *series) throughput(first, last time.Time) []ThroughputBucket {
	if s.width == 0 || first.IsZero() {
		return nil
	}
	from, to := s.at(first), s.at(last)
	step := (to-from)/64 + 1
	var list []ThroughputBucket
	for i := from; i <= to; i += step {
		b := ThroughputBucket{At: s.edge(i).UTC(), Seconds: (time.Duration(step) * s.width).Seconds()}
		for j := i; j < min(i+step, buckets); j++ {
			b.OK += int(s.ok[j])
			b.NotOK += int(s.failed[j])
			b.RateLimited += int(s.throttled[j])
			b.OutputTokens += int64(s.tokensOut[j])
		}
		list = append(list, b)
	}
	return list
}
