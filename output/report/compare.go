package report

import (
	"encoding/json"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"slices"
	"strings"
	"time"

	"llmbatch/output"
	"llmbatch/output/plain"
)

// Comparison is two results files side by side: two models, or two nights.
type Comparison struct {
	A Summary `json:"a"`
	B Summary `json:"b"`
	// Same and Changed count items with an answer in both files.
	Same    int `json:"same_answers"`
	Changed int `json:"changed_answers"`
	// Mended have an answer only in B, though A has their row; Broken the other way.
	Mended int `json:"answered_only_in_b"`
	Broken int `json:"answered_only_in_a"`
	// OnlyA and OnlyB have a row in one file alone.
	OnlyA int `json:"only_in_a"`
	OnlyB int `json:"only_in_b"`
	// Examples are ids of up to ten changed answers, in B's order.
	Examples []json.RawMessage `json:"changed_examples,omitempty"`
}

// maxExamples of changed answers are named.
const maxExamples = 10

// Compare reads both files once and keeps about a hundred bytes a row of a. Each
// should have one row an id. Answers are the same if their texts are, but for
// white space at both ends.
func Compare(a, b iter.Seq2[*output.Result, error]) (Comparison, error) {
	type answer struct {
		ok   bool
		text uint64
	}
	seed := maphash.MakeSeed()
	text := func(r *output.Result) uint64 { return maphash.String(seed, strings.TrimSpace(r.Text)) }
	var c Comparison
	before, left, right := map[string]answer{}, NewStats(), NewStats()
	for r, err := range a {
		if err != nil {
			return c, err
		}
		left.Add(r)
		before[r.Key] = answer{r.Status == output.OK, text(r)}
	}
	for r, err := range b {
		if err != nil {
			return c, err
		}
		right.Add(r)
		old, had := before[r.Key]
		delete(before, r.Key)
		ok := r.Status == output.OK
		switch {
		case !had:
			c.OnlyB++
		case ok && !old.ok:
			c.Mended++
		case !ok && old.ok:
			c.Broken++
		case ok && text(r) == old.text:
			c.Same++
		case ok:
			c.Changed++
			if len(c.Examples) < maxExamples {
				c.Examples = append(c.Examples, slices.Clone(r.ID))
			}
		}
	}
	c.OnlyA = len(before)
	c.A, c.B = left.Summary(), right.Summary()
	return c, nil
}

// WriteText writes the comparison for a terminal of 80 columns. The names are
// those of the files. The error is w's.
func (c Comparison) WriteText(w io.Writer, nameA, nameB string) error {
	t := &text{}
	row := func(label, a, b, note string) {
		t.line(fmt.Sprintf("%-*s %18s %18s  %s", labelWidth, label, a, b, note))
	}
	row("", plain.Clip(plain.Line(nameA), 18), plain.Clip(plain.Line(nameB), 18), "")
	counts := func(label string, a, b int) {
		if a > 0 || b > 0 {
			row(label, plain.Count(a), plain.Count(b), difference(b-a))
		}
	}
	a, b := &c.A, &c.B
	counts("items", a.Rows, b.Rows)
	counts("ok", a.OK, b.OK)
	counts("failed", a.Failed, b.Failed)
	counts("gave up", a.GaveUp, b.GaveUp)
	counts("still open", a.Aborted+a.Waiting, b.Aborted+b.Waiting)
	counts("requests", a.Attempts.Sent, b.Attempts.Sent)
	row("time", plain.Span(a.took()), plain.Span(b.took()), ratio(a.took().Seconds(), b.took().Seconds()))
	pa, pb := a.answered(), b.answered()
	row("answer p50", span(pa.P50MS), span(pb.P50MS), ratio(float64(pa.P50MS), float64(pb.P50MS)))
	row("answer p95", span(pa.P95MS), span(pb.P95MS), ratio(float64(pa.P95MS), float64(pb.P95MS)))
	row("tokens in", plain.Count(a.Usage.InputTokens), plain.Count(b.Usage.InputTokens), ratio(float64(a.Usage.InputTokens), float64(b.Usage.InputTokens)))
	row("tokens out", plain.Count(a.Usage.OutputTokens), plain.Count(b.Usage.OutputTokens), ratio(float64(a.Usage.OutputTokens), float64(b.Usage.OutputTokens)))
	if a.Cost != nil || b.Cost != nil {
		row("cost", cost(a.Cost), cost(b.Cost), ratio(value(a.Cost), value(b.Cost)))
	}
	t.line("")
	parts := []string{plain.Count(c.Same) + " the same", plain.Count(c.Changed) + " changed"}
	for _, k := range []struct {
		n    int
		what string
	}{
		{c.Mended, "answered only in the second"}, {c.Broken, "answered only in the first"},
		{c.OnlyA, "only in the first file"}, {c.OnlyB, "only in the second file"},
	} {
		if k.n > 0 {
			parts = append(parts, plain.Count(k.n)+" "+k.what)
		}
	}
	t.list("answers", parts)
	if len(c.Examples) > 0 {
		var ids []string
		for _, id := range c.Examples {
			ids = append(ids, idText(id))
		}
		if c.Changed > len(ids) {
			ids = append(ids, "…")
		}
		t.list("changed", ids)
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// took is from the first attempt to the last event; 0 if nothing was sent.
func (s *Summary) took() time.Duration {
	if s.FirstAttempt == nil {
		return 0
	}
	return s.LastEvent.Sub(*s.FirstAttempt)
}

// answered are the percentiles of attempts that gave an answer.
func (s *Summary) answered() Latency {
	for _, l := range s.Latency {
		if l.Name == "ok" {
			return l
		}
	}
	return Latency{}
}

func difference(d int) string {
	switch {
	case d == 0:
		return ""
	case d > 0:
		return "+" + plain.Count(d)
	}
	return plain.Count(d)
}

// ratio is b over a, "" where that says nothing.
func ratio(a, b float64) string {
	if a <= 0 || b <= 0 || a == b {
		return ""
	}
	return fmt.Sprintf("× %.2f", b/a)
}

func cost(c *float64) string {
	if c == nil {
		return "–"
	}
	return plain.Money(*c)
}

func value(c *float64) float64 {
	if c == nil {
		return 0
	}
	return *c
}
