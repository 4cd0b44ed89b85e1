package report

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"llmbatch/output/plain"
)

// TextOptions say how much of a summary is written. The zero value is the small
// table at the end of a run.
type TextOptions struct {
	// Detail adds what `report` shows and the end of a run does not: models, times
	// of items, throughput over time, the slowest items, all causes.
	Detail bool
}

// The table's measures, in columns, and how many causes the short form names.
const (
	textWidth   = 80
	labelWidth  = 13
	shortCauses = 8
)

// WriteText writes the summary as plain text of at most 80 columns, without
// control characters. The next command, if there is one, stands alone on its
// line and is never cut. The error is w's.
func (s Summary) WriteText(w io.Writer, o TextOptions) error {
	t := &text{}
	s.writeItems(t)
	s.writeCauses(t, o)
	s.writeAttempts(t)
	if o.Detail {
		s.writeDetail(t)
	}
	s.writeMoney(t)
	s.writeEnd(t)
	_, err := io.WriteString(w, t.String())
	return err
}

func (s Summary) writeItems(t *text) {
	total := s.Rows
	if s.Run != nil && s.Run.Items >= 0 {
		total = s.Run.Items
	}
	parts := []string{plain.Plural(total, "item")}
	if s.OK > 0 || s.Run == nil || s.Run.Skipped == 0 || s.Rows > 0 {
		parts = append(parts, plain.Count(s.OK)+" ok")
	}
	for _, p := range []struct {
		n    int
		name string
	}{{s.Failed, "failed"}, {s.GaveUp, "gave up"}, {s.Aborted, "aborted"}, {s.Waiting, "waiting"}} {
		if p.n > 0 {
			parts = append(parts, plain.Count(p.n)+" "+p.name)
		}
	}
	if r := s.Run; r != nil {
		if r.Untouched > 0 {
			parts = append(parts, plain.Count(r.Untouched)+" not sent")
		}
		if r.Skipped > 0 {
			before := plain.Count(r.Skipped) + " done before"
			if r.SkippedNotOK > 0 {
				before += " (" + plain.Count(r.SkippedNotOK) + " of them not ok)"
			}
			parts = append(parts, before)
		}
		if r.Invalid > 0 {
			parts = append(parts, plain.Count(r.Invalid)+" invalid")
		}
	}
	t.list("items", parts)
	if len(s.StopReasons) > 0 {
		t.list("stop reasons", countWords(s.StopReasons))
	}
}

func countWords(list []Count) []string {
	words := make([]string, len(list))
	for i, c := range list {
		words[i] = word(c.Name) + " " + plain.Count(c.Count)
	}
	return words
}

func (s Summary) writeCauses(t *text, o TextOptions) {
	if len(s.Causes) == 0 {
		return
	}
	t.line("")
	t.line("not ok        status    cause")
	shown := s.Causes
	if !o.Detail && len(shown) > shortCauses {
		shown = shown[:shortCauses]
	}
	for _, c := range shown {
		class := word(c.Class)
		if c.HTTP != 0 {
			class += " " + strconv.Itoa(c.HTTP)
		}
		t.line(plain.Clip(fmt.Sprintf("%12s  %-8s  %s", plain.Count(c.Count), word(c.Status), class+", for example "+idText(c.Example)), textWidth))
		if c.Message != "" {
			for _, l := range plain.Wrap(plain.Line(c.Message), textWidth-24, 3) {
				t.line(strings.Repeat(" ", 24) + l)
			}
		}
	}
	if n := len(s.Causes) - len(shown); n > 0 {
		t.line(fmt.Sprintf("%24sand %d more causes: see the report command", "", n))
	}
	if len(s.GiveUps) > 0 {
		t.list("gave up for", countWords(s.GiveUps))
	}
}

func (s Summary) writeAttempts(t *text) {
	t.line("")
	a := s.Attempts
	if a.Total == 0 {
		t.field("attempts", "none: nothing was sent")
		return
	}
	parts := []string{plain.Count(a.Sent) + " sent"}
	if a.Unsent > 0 {
		parts = append(parts, plain.Count(a.Unsent)+" never reached the wire")
	}
	parts = append(parts, fmt.Sprintf("%.2f an item", a.PerItem))
	if a.Retried > 0 {
		parts = append(parts, plain.Plural(a.Retried, "item")+" retried")
	}
	if s.Run != nil && s.Run.PeakInFlight > 0 {
		parts = append(parts, fmt.Sprintf("at most %d in flight", s.Run.PeakInFlight))
	} else if s.PeakInFlight > 0 {
		parts = append(parts, fmt.Sprintf("about %d in flight at most", s.PeakInFlight))
	}
	t.list("attempts", parts)
	if len(s.Waits) > 0 {
		var waits []string
		for _, w := range s.Waits {
			waits = append(waits, fmt.Sprintf("%s %s (%s)", word(w.Reason), span(w.TotalMS), plain.Times(w.Count)))
		}
		t.list("waited", append(waits, "summed over items"))
	}
	writeLatency(t, "latency", s.Latency)
}

// writeLatency is a table of percentiles: failures have lines of their own.
func writeLatency(t *text, title string, list []Latency) {
	if len(list) == 0 {
		return
	}
	t.line(fmt.Sprintf("%-*s%-18s %9s %8s %8s %8s %8s", labelWidth, title, "", "count", "p50", "p95", "p99", "max"))
	for _, l := range list {
		t.line(fmt.Sprintf("%*s%-18s %9s %8s %8s %8s %8s", labelWidth, "", plain.Clip(word(l.Name), 18), plain.Count(l.Count),
			span(l.P50MS), span(l.P95MS), span(l.P99MS), span(l.MaxMS)))
	}
}

func (s Summary) writeDetail(t *text) {
	writeLatency(t, "item time", s.ItemTime)
	if len(s.Slowest) > 0 {
		t.line("")
		t.line("slowest       took      attempts  status    id")
		for _, i := range s.Slowest {
			t.line(plain.Clip(fmt.Sprintf("%*s %-9s %8d  %-8s  %s", labelWidth, "", span(i.MS), i.Attempts, word(i.Status), idText(i.ID)), textWidth))
		}
	}
	s.writeThroughput(t)
	if len(s.Models) > 0 {
		t.line("")
		for i, m := range s.Models {
			label := ""
			if i == 0 {
				label = "models"
			}
			parts := []string{plain.Clip(word(m.Name), 34) + ": " + plain.Count(m.OK) + " of " + plain.Plural(m.Items, "item") + " ok",
				plain.Count(m.Usage.OutputTokens) + " tokens out"}
			if m.Cost != nil {
				parts = append(parts, "cost "+plain.Money(*m.Cost))
			}
			t.list(label, parts)
		}
	}
}

// writeThroughput draws a bar for each stretch of time, at most sixteen.
func (s Summary) writeThroughput(t *text) {
	list := s.Throughput
	if len(list) < 2 {
		return
	}
	step := (len(list) + 15) / 16
	t.line("")
	t.line("throughput    from                   items ok  not ok    429s")
	layout := time.DateTime
	if list[0].Seconds*float64(step) < 1 {
		layout = "15:04:05.00"
	}
	most := 1
	for i := range list {
		if i%step == 0 {
			ok, _, _ := sumBuckets(list[i:min(i+step, len(list))])
			most = max(most, ok)
		}
	}
	for i := 0; i < len(list); i += step {
		ok, bad, limited := sumBuckets(list[i:min(i+step, len(list))])
		bar := strings.Repeat("#", (ok*16+most-1)/most)
		t.line(strings.TrimRight(fmt.Sprintf("%*s %-19s %11s %7s %7s  %s", labelWidth, "",
			list[i].At.Local().Format(layout), plain.Count(ok), plain.Count(bad), plain.Count(limited), bar), " "))
	}
}

func sumBuckets(list []ThroughputBucket) (ok, bad, limited int) {
	for _, b := range list {
		ok, bad, limited = ok+b.OK, bad+b.NotOK, limited+b.RateLimited
	}
	return ok, bad, limited
}

func (s Summary) writeMoney(t *text) {
	t.line("")
	u := s.Usage
	parts := []string{plain.Count(u.InputTokens) + " in"}
	spent := s.Attempts.Total > 0
	if u.CacheReadTokens > 0 {
		parts = append(parts, plain.Count(u.CacheReadTokens)+" from cache")
	}
	if u.CacheWriteTokens > 0 {
		parts = append(parts, plain.Count(u.CacheWriteTokens)+" to cache")
	}
	out := plain.Count(u.OutputTokens) + " out"
	if u.ReasoningTokens > 0 {
		out += " (" + plain.Count(u.ReasoningTokens) + " of it reasoning)"
	}
	if spent {
		t.list("tokens", append(parts, out))
	}
	if spent && s.Cost != nil {
		t.list("cost", []string{plain.Money(*s.Cost)})
	}
	if s.Run != nil {
		t.list("time", []string{span(s.Run.WallMS)})
	} else if s.FirstAttempt != nil {
		t.list("time", []string{fmt.Sprintf("%s to %s", s.FirstAttempt.Local().Format(time.DateTime),
			s.LastEvent.Local().Format(time.DateTime)), span(s.LastEvent.Sub(*s.FirstAttempt).Milliseconds())})
	}
}

func (s Summary) writeEnd(t *text) {
	r := s.Run
	if r == nil {
		return
	}
	if r.Output != "" {
		t.field("results", plain.Line(r.Output))
	}
	for _, n := range r.Notes {
		t.field("note", plain.Line(n))
	}
	if r.Reason != "" {
		t.field("ended", plain.Line(r.Reason))
	}
	if r.Next != "" {
		t.line("")
		t.line("next: " + plain.Line(r.Next))
	}
}

// text is lines under way.
type text struct{ strings.Builder }

func (t *text) line(s string) {
	t.WriteString(strings.TrimRight(s, " "))
	t.WriteByte('\n')
}

// list writes a label and parts with commas between, broken between parts.
func (t *text) list(label string, parts []string) { t.field(label, strings.Join(parts, ", ")) }

// field writes a label and text, broken between words.
func (t *text) field(label, s string) {
	for i, l := range plain.Wrap(s, textWidth-labelWidth-1, 0) {
		if i > 0 {
			label = ""
		}
		t.line(fmt.Sprintf("%-*s %s", labelWidth, label, l))
	}
}
