package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
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
	parts := []string{plural(total, "item"), plain(s.OK) + " ok"}
	for _, p := range []struct {
		n    int
		name string
	}{{s.Failed, "failed"}, {s.GaveUp, "gave up"}, {s.Aborted, "aborted"}, {s.Waiting, "waiting"}} {
		if p.n > 0 {
			parts = append(parts, plain(p.n)+" "+p.name)
		}
	}
	if r := s.Run; r != nil {
		if r.Untouched > 0 {
			parts = append(parts, plain(r.Untouched)+" not sent")
		}
		if r.Skipped > 0 {
			before := plain(r.Skipped) + " done before"
			if r.SkippedNotOK > 0 {
				before += " (" + plain(r.SkippedNotOK) + " of them not ok)"
			}
			parts = append(parts, before)
		}
		if r.Invalid > 0 {
			parts = append(parts, plain(r.Invalid)+" invalid")
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
		words[i] = word(c.Name) + " " + plain(c.Count)
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
		t.line(cut(fmt.Sprintf("%12s  %-8s  %s", plain(c.Count), word(c.Status), class+", for example "+idText(c.Example)), textWidth))
		if c.Message != "" {
			for _, l := range wrap(clean(c.Message), textWidth-24, 3) {
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
	parts := []string{plain(a.Sent) + " sent"}
	if a.Unsent > 0 {
		parts = append(parts, plain(a.Unsent)+" never reached the wire")
	}
	parts = append(parts, fmt.Sprintf("%.2f an item", a.PerItem))
	if a.Retried > 0 {
		parts = append(parts, plural(a.Retried, "item")+" retried")
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
			waits = append(waits, fmt.Sprintf("%s %s (%s)", word(w.Reason), span(w.TotalMS), times(w.Count)))
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
		t.line(fmt.Sprintf("%*s%-18s %9s %8s %8s %8s %8s", labelWidth, "", cut(word(l.Name), 18), plain(l.Count),
			span(l.P50MS), span(l.P95MS), span(l.P99MS), span(l.MaxMS)))
	}
}

func (s Summary) writeDetail(t *text) {
	writeLatency(t, "item time", s.ItemTime)
	if len(s.Slowest) > 0 {
		t.line("")
		t.line("slowest       took      attempts  status    id")
		for _, i := range s.Slowest {
			t.line(cut(fmt.Sprintf("%*s %-9s %8d  %-8s  %s", labelWidth, "", span(i.MS), i.Attempts, word(i.Status), idText(i.ID)), textWidth))
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
			t.list(label, []string{cut(word(m.Name), 34) + ": " + plain(m.OK) + " of " + plural(m.Items, "item") + " ok",
				tokens(m.Usage.OutputTokens) + " tokens out"})
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
			list[i].At.Local().Format(layout), plain(ok), plain(bad), plain(limited), bar), " "))
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
	parts := []string{tokens(u.InputTokens) + " in"}
	if u.CacheReadTokens > 0 {
		parts = append(parts, tokens(u.CacheReadTokens)+" from cache")
	}
	if u.CacheWriteTokens > 0 {
		parts = append(parts, tokens(u.CacheWriteTokens)+" to cache")
	}
	out := tokens(u.OutputTokens) + " out"
	if u.ReasoningTokens > 0 {
		out += " (" + tokens(u.ReasoningTokens) + " of it reasoning)"
	}
	t.list("tokens", append(parts, out))
	if s.Cost != nil {
		t.list("cost", []string{money(*s.Cost)})
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
		t.field("results", clean(r.Output))
	}
	for _, n := range r.Notes {
		t.field("note", clean(n))
	}
	if r.Reason != "" {
		t.field("ended", clean(r.Reason))
	}
	if r.Next != "" {
		t.line("")
		t.line("next: " + clean(r.Next))
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
	for i, l := range wrap(s, textWidth-labelWidth-1, 0) {
		if i > 0 {
			label = ""
		}
		t.line(fmt.Sprintf("%-*s %s", labelWidth, label, l))
	}
}

// wrap breaks s between words into lines of at most width columns, a longer word
// where it must; most > 0: at most that many lines, the last with an ellipsis.
func wrap(s string, width, most int) []string {
	var lines []string
	line := ""
	for _, w := range strings.Fields(s) {
		for utf8.RuneCountInString(w) > width {
			if line != "" {
				lines, line = append(lines, line), ""
			}
			r := []rune(w)
			lines, w = append(lines, string(r[:width])), string(r[width:])
		}
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(w) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += w
	}
	if line != "" {
		lines = append(lines, line)
	}
	if most > 0 && len(lines) > most {
		lines = lines[:most]
		lines[most-1] = cut(lines[most-1]+"…", width)
		if !strings.HasSuffix(lines[most-1], "…") {
			lines[most-1] += "…"
		}
	}
	return lines
}

// cut is s in at most n columns, the last an ellipsis if it is cut.
func cut(s string, n int) string {
	r := []rune(s)
	if len(r) <= n {
		return s
	}
	return string(r[:n-1]) + "…"
}

// clean makes a server's or a user's text one line without control or format
// characters: they become visible escapes.
func clean(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n' || r == '\t' || r == '\r':
			b.WriteByte(' ')
		case r < 0x80 && unicode.IsControl(r):
			fmt.Fprintf(&b, `\x%02x`, r)
		case r != 0x200c && r != 0x200d && !unicode.IsPrint(r) && r != 0xa0:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

// word is a name, "(none)" if it is empty.
func word(s string) string {
	if s == "" {
		return "(none)"
	}
	return clean(strings.ReplaceAll(s, "gave_up", "gave up"))
}

// idText is an id as people write it: a string without its quotes.
func idText(id json.RawMessage) string {
	var s string
	if json.Unmarshal(id, &s) == nil {
		return clean(s)
	}
	return clean(string(id))
}

// plain is a count with a comma each three digits.
func plain(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return plain(n) + " " + noun + "s"
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return plain(n) + " times"
}

func tokens(n int64) string { return plain(int(n)) }

// money shows four decimals while it is small, two later.
func money(c float64) string {
	if c < 1 {
		return strconv.FormatFloat(c, 'f', 4, 64)
	}
	return strconv.FormatFloat(c, 'f', 2, 64)
}

// span is a duration in milliseconds as people say it: 412ms, 4.2s, 3m05s, 2h10m.
func span(ms int64) string {
	s := (ms + 500) / 1000
	switch {
	case ms < 1000:
		return strconv.FormatInt(ms, 10) + "ms"
	case ms < 59_950:
		return strconv.FormatFloat(float64(ms)/1000, 'f', 1, 64) + "s"
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 100*3600:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd%02dh", s/86400, s/3600%24)
}
