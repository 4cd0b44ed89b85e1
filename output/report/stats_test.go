package report

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"llmbatch/output"
)

// C64: failures are grouped by class, status and the message's shape.
func TestShape(t *testing.T) {
	for _, c := range []struct{ message, want string }{
		{"", ""},
		{"no answer", "no answer"},
		{"prompt is too long: 201077 tokens > 200000 maximum", "prompt is too long: # tokens > # maximum"},
		{"Rate limit reached for org-abc123 on requests: Limit 3, Used 3.", "Rate limit reached for # on requests: Limit #, Used #."},
		{"request req_011CSHoEeqs5C35K2UUqR7Fy failed", "request # failed"},
		{"it can't be 'x1' nor 'y2'", `it can't be "…" nor "…"`},
		{`unknown field "temperatur"`, `unknown field "…"`},
		{"unknown field `a b`", `unknown field "…"`},
		{"a “quoted” word", `a "…" word`},
		{"an 'open quote", "an 'open quote"},
		{"two\n\n  lines\tand more", "two lines and more"},
		{"dial tcp 10.0.0.1:443: refused", "dial tcp #: refused"},
		{"at 2026-11-30T03:00:00Z again", "at # again"},
		{"1 2 3", "# # #"},
		{"ray cedcbddd, not faded", "ray #, not faded"},
		{"...", "..."},
		{strings.Repeat("word ", 100), strings.TrimSpace(strings.Repeat("word ", maxShapeLen/5))},
	} {
		if got := shape(c.message); got != c.want {
			t.Errorf("shape(%q): got %q, want %q", c.message, got, c.want)
		}
	}
}

func FuzzShape(f *testing.F) {
	for _, s := range []string{"", "a 1", "can't 'x' \"y", "“a”", "\xff\xfe", "::::1", "......", "'''''"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, message string) {
		got := shape(message)
		if n := len([]rune(got)); n > 2*maxShapeLen+len(message) || n > 12*maxShapeLen {
			t.Fatalf("shape(%q): got %d characters", message, n)
		}
		if strings.ContainsAny(got, "\n\t\r") || strings.HasPrefix(got, " ") {
			t.Fatalf("shape(%q): got %q, want one trimmed line", message, got)
		}
	})
}

// C64: a thousand items, four kinds of errors with ids inside the messages.
func TestCausesAreGrouped(t *testing.T) {
	s := NewStats()
	kinds := []string{"item %d is too long", "no model 'm-%d'", "bad key \"k%d\"", "upstream cf-ray %x gone"}
	for i := range 1000 {
		s.Add(&output.Result{
			ID: fmt.Appendf(nil, "%d", i), Status: output.Failed,
			Error: &output.Error{Class: "rejected", Status: 400 + i%4, Message: fmt.Sprintf(kinds[i%4], i+1000)},
		})
	}
	causes := s.Summary().Causes
	if len(causes) != 4 {
		t.Fatalf("got %d causes, want 4: %+v", len(causes), causes)
	}
	for i, c := range causes {
		if c.Count != 250 || string(c.Example) != fmt.Sprint(i) || c.HTTP != 400+i {
			t.Errorf("got %+v, want 250 of status %d, for example %d", c, 400+i, i)
		}
	}
}

// C68: an overloaded server must not look faster because its failures are left out.
func TestFailuresHaveLatencies(t *testing.T) {
	s := NewStats()
	at := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	for i := range 100 {
		r := &output.Result{ID: json.RawMessage("1"), Status: output.OK, FinishedAt: at}
		a := output.Attempt{Attempt: 1, StartedAt: at, Duration: time.Second, Status: 200, Outcome: "ok"}
		if i%2 == 0 {
			r.Status, r.Error = output.GaveUp, &output.Error{Class: "overloaded", Status: 503}
			a.Duration, a.Status, a.Outcome = 20*time.Second, 503, "overloaded"
		}
		r.Attempts = []output.Attempt{a}
		s.Add(r)
	}
	sum := s.Summary()
	want := []Latency{
		{Name: "ok", Count: 50, P50MS: 999, P95MS: 999, P99MS: 999, MaxMS: 1000, MeanMS: 1000},
		{Name: "overloaded", Count: 50, P50MS: 20_000, P95MS: 20_000, P99MS: 20_000, MaxMS: 20_000, MeanMS: 20_000},
	}
	if !slices.Equal(sum.Latency, want) {
		t.Errorf("got %+v, want %+v", sum.Latency, want)
	}
	if sum.OK != 50 || sum.GaveUp != 50 || sum.Rows != 100 { // C58
		t.Errorf("got %d ok, %d gave up of %d rows, want 50, 50 of 100", sum.OK, sum.GaveUp, sum.Rows)
	}
}

func TestQuantilesAreClose(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	var h histogram
	var all []time.Duration
	for range 20_000 {
		d := time.Duration(rnd.ExpFloat64() * float64(3*time.Second))
		all = append(all, d)
		h.add(d)
	}
	slices.Sort(all)
	for _, q := range []float64{0.01, 0.5, 0.95, 0.99, 1} {
		exact, got := all[max(int(q*float64(len(all)))-1, 0)], h.quantile(q)
		if off := float64(got-exact) / float64(exact); off > 0.035 || off < -0.035 {
			t.Errorf("quantile %v: got %v, want %v within 3.5 %%", q, got, exact)
		}
	}
}

func TestBucketsCoverAllDurations(t *testing.T) {
	for _, d := range []time.Duration{-1, 0, 1, time.Microsecond, 15 * time.Microsecond, 16 * time.Microsecond, 17 * time.Microsecond,
		time.Millisecond, time.Second, time.Hour, 24 * 365 * time.Hour, 1<<63 - 1} {
		i := bucketOf(d)
		if low, high := bucketLow(i), bucketLow(i+1); i < 0 || i >= len(histogram{}.buckets) || low > max(d, 0) || high <= max(d, 0) && high > low {
			t.Errorf("bucketOf(%v): got %d, [%v, %v)", d, i, low, high)
		}
	}
}

// Whatever the order of times, joining buckets loses nothing.
func TestSeriesKeepTheirSums(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	base := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	for range 50 {
		s := NewStats()
		var onWire, waited time.Duration
		limited, items := 0, 0
		for range 200 {
			start := base.Add(time.Duration(rnd.Int64N(int64(1) << (30 + rnd.IntN(20)))))
			a := output.Attempt{Attempt: 1, StartedAt: start, Duration: time.Duration(rnd.Int64N(int64(time.Minute))),
				Outcome: "rate_limited", Wait: time.Duration(rnd.Int64N(int64(time.Hour))), WaitReason: "backoff", Concurrency: 7}
			r := &output.Result{ID: json.RawMessage("1"), Status: output.Waiting, Attempts: []output.Attempt{a}}
			if rnd.IntN(2) == 0 {
				r.Status, r.FinishedAt = output.OK, start.Add(a.Duration)
				items++
			} else {
				waited += a.Wait
			}
			s.Add(r)
			onWire += a.Duration
			limited++
		}
		var gotWire, gotWait time.Duration
		var gotLimited, gotItems float64
		wire, wait := s.series.wire.totals(s.series.width), s.series.waiting.totals(s.series.width)
		for i := range buckets {
			gotWire, gotWait = gotWire+wire[i], gotWait+wait[i]
			gotLimited, gotItems = gotLimited+s.series.throttled[i], gotItems+s.series.ok[i]
		}
		if gotWire != onWire || gotWait != waited || int(gotLimited) != limited || int(gotItems) != items {
			t.Fatalf("got %v on the wire, %v waiting, %v refusals, %v items, want %v, %v, %d, %d",
				gotWire, gotWait, gotLimited, gotItems, onWire, waited, limited, items)
		}
	}
}

// What a hostile server can vary does not grow the tables.
func TestTablesAreBounded(t *testing.T) {
	s := NewStats()
	letters := func(n int) string { // no digits, so that every one is a shape of its own
		return strings.Map(func(r rune) rune { return r - '0' + 'a' }, fmt.Sprint(n))
	}
	for i := range 20_000 {
		w := letters(i)
		s.Add(&output.Result{
			ID: json.RawMessage("1"), Status: output.Failed, Model: w, GiveUpReason: w,
			Error:    &output.Error{Class: w, Message: w},
			Attempts: []output.Attempt{{Attempt: 1, Outcome: w, Wait: 1, WaitReason: w}, {Attempt: 2, Outcome: w}},
		})
		s.Add(&output.Result{ID: json.RawMessage("1"), Status: output.OK, StopReason: w})
	}
	sum := s.Summary()
	for name, got := range map[string][2]int{
		"causes": {len(sum.Causes), maxCauses + 1}, "models": {len(sum.Models), maxModels + 1}, "stops": {len(sum.StopReasons), maxWords + 1},
		"outcomes": {len(sum.Latency), maxWords + 1}, "waits": {len(sum.Waits), maxWords + 1}, "give-ups": {len(sum.GiveUps), maxWords + 1},
		"lanes": {len(s.series.lanes), maxLanes}, "slowest": {len(sum.Slowest), maxSlow},
	} {
		if got[0] > got[1] || got[0] == 0 {
			t.Errorf("%s: got %d places, want 1 to %d", name, got[0], got[1])
		}
	}
	total := 0
	for _, c := range sum.Causes {
		total += c.Count
	}
	if total != 20_000 {
		t.Errorf("got %d items in the causes, want 20000", total)
	}
}

// A wait that was not begun is no time waited.
func TestWaits(t *testing.T) {
	at := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	first := output.Attempt{Attempt: 1, StartedAt: at, Duration: time.Second, Outcome: "rate_limited", Wait: time.Minute, WaitReason: "retry_after"}
	second := output.Attempt{Attempt: 2, StartedAt: at.Add(31 * time.Second), Outcome: "ok"}
	late := output.Attempt{Attempt: 2, StartedAt: at.Add(time.Hour), Outcome: "ok"}
	for _, c := range []struct {
		name     string
		status   output.Status
		attempts []output.Attempt
		want     time.Duration
	}{
		{"gave up at once", output.GaveUp, []output.Attempt{first}, 0},
		{"still waiting", output.Waiting, []output.Attempt{first}, time.Minute},
		{"woken early", output.OK, []output.Attempt{first, second}, 30 * time.Second},
		{"queued afterwards", output.OK, []output.Attempt{first, late}, time.Minute},
		{"no wait", output.OK, []output.Attempt{second}, 0},
	} {
		if got := waitAfter(&output.Result{Status: c.status, Attempts: c.attempts}, 0); got != c.want {
			t.Errorf("%s: got %v, want %v", c.name, got, c.want)
		}
	}
}

func TestSummaryIsJSON(t *testing.T) {
	s := NewStats()
	for r := range night(500, time.Minute) {
		s.Add(r)
	}
	sum := s.Summary()
	sum.Run = &RunFacts{ExitCode: 1, Next: "llmbatch run x"}
	raw, err := json.Marshal(sum)
	if err != nil {
		t.Fatal(err)
	}
	var back Summary
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	again, _ := json.Marshal(back)
	if string(again) != string(raw) {
		t.Errorf("got %s, want %s", again, raw)
	}
	if empty, err := json.Marshal(NewStats().Summary()); err != nil || strings.Contains(string(empty), `"run"`) {
		t.Errorf("empty summary: got %s, %v, want no run", empty, err)
	}
}

func BenchmarkAdd(b *testing.B) {
	var rows []*output.Result
	for r := range night(4096, 3*time.Hour) {
		rows = append(rows, r)
	}
	s := NewStats()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		s.Add(rows[i%len(rows)])
	}
}
