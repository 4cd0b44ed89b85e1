package report

import (
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"iter"
	"time"

	"llmbatch/output"
	"llmbatch/output/plain"
)

// PageOptions are the settings of a page. The zero value is a page with no name
// in local time.
type PageOptions struct {
	Name     string         // what the page is about: the results file's name
	Location *time.Location // for times of day; nil: local
	// Now is written as the time at which the page was made; zero: not written.
	Now time.Time
	// Asked is what was asked for a row, as people read it; nil: the page does not say.
	Asked func(*output.Result) string
	// Run adds what only the command that ran knows; nil: a page about a file.
	Run *RunFacts
}

//go:embed page.html
var pageTemplate string

// HTML writes one self-contained page about rows, of which there should be one an
// id: it loads nothing, from the network or elsewhere. Rows are read once; what
// the page holds of them stays compressed and below 30 MB. A row with an error is
// an error here too, and nothing is written; an unfinished last line is none.
func HTML(w io.Writer, rows iter.Seq2[*output.Result, error], o PageOptions) error {
	stats, items := NewStats(), newItems(o.Asked)
	for r, err := range rows {
		if err != nil {
			return err
		}
		stats.Add(r)
		if err := items.add(r); err != nil {
			return err
		}
	}
	if err := items.finish(); err != nil {
		return err
	}
	if o.Location == nil {
		o.Location = time.Local
	}
	o.Name = plain.Line(o.Name)
	p := &page{PageOptions: o, Sum: stats.Summary(), Items: items, stats: stats}
	p.Sum.Run = o.Run
	p.gaps = stats.series.gaps(stats.first, stats.last)
	if err := p.plots(); err != nil {
		return err
	}
	p.tiles()
	t, err := template.New("page").Funcs(p.functions()).Parse(pageTemplate)
	if err != nil {
		return fmt.Errorf("page template: %w", err)
	}
	if err := t.ExecuteTemplate(w, "page", p); err != nil {
		return err
	}
	if err := items.writeTo(w); err != nil {
		return err
	}
	return t.ExecuteTemplate(w, "end", p)
}

// page is what the template sees.
type page struct {
	PageOptions
	Sum   Summary
	Tiles []tile
	Plots []plot
	Items *items

	stats *Stats
	gaps  []gap
}

// tile is one figure at the top.
type tile struct{ Label, Value, Note, Tone string }

// latencyTable is a table of percentiles.
type latencyTable struct {
	Title string
	List  []Latency
}

func (p *page) functions() template.FuncMap {
	return template.FuncMap{
		"count":  plain.Count[int],
		"span":   span,
		"word":   word,
		"id":     idText,
		"clean":  plain.Line,
		"money":  func(c *float64) string { return plain.Money(*c) },
		"tokens": plain.Count[int64],
		"add":    func(a, b int) int { return a + b },
		"latency": func(title string, list []Latency) latencyTable {
			return latencyTable{title, list}
		},
	}
}

func (p *page) tiles() {
	sum := p.Sum
	tone := func(n int, name string) string {
		if n > 0 {
			return name
		}
		return ""
	}
	p.Tiles = []tile{
		{"Items", plain.Count(sum.Rows), "", ""},
		{"OK", plain.Count(sum.OK), plain.Percent(sum.OK, sum.Rows), tone(sum.OK, "good")},
		{"Failed", plain.Count(sum.Failed), plain.Percent(sum.Failed, sum.Rows), tone(sum.Failed, "bad")},
		{"Gave up", plain.Count(sum.GaveUp), plain.Percent(sum.GaveUp, sum.Rows), tone(sum.GaveUp, "bad")},
	}
	if n := sum.Aborted + sum.Waiting; n > 0 {
		p.Tiles = append(p.Tiles, tile{"Open", plain.Count(n), "aborted or waiting", "bad"})
	}
	p.Tiles = append(p.Tiles,
		tile{"Requests sent", plain.Count(sum.Attempts.Sent), fmt.Sprintf("%.2f attempts an item", sum.Attempts.PerItem), ""},
		tile{"Tokens out", compact(sum.Usage.OutputTokens), compact(sum.Usage.InputTokens) + " in", ""})
	if sum.Cost != nil {
		p.Tiles = append(p.Tiles, tile{"Cost", plain.Money(*sum.Cost), "an estimate, the bill rules", ""})
	}
	if sum.FirstAttempt != nil {
		p.Tiles = append(p.Tiles, tile{"Time", span(sum.LastEvent.Sub(*sum.FirstAttempt).Milliseconds()), "first request to last answer", ""})
	}
}

// Made is the sentence about when the page was made.
func (p *page) Made() string {
	if p.Now.IsZero() {
		return ""
	}
	return "Made " + p.Now.In(p.Location).Format("2006-01-02 15:04 MST") + "."
}

// Zone names the zone of all times on the page.
func (p *page) Zone() string {
	t := time.Unix(0, 0)
	if p.Sum.FirstAttempt != nil {
		t = *p.Sum.FirstAttempt
	}
	return t.In(p.Location).Format("MST (-07:00)")
}

func (p *page) clock(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.In(p.Location).Format("2006-01-02 15:04:05")
}

// compact is a count of tokens in a few characters.
func compact(n int64) string {
	if n < 10_000 {
		return plain.Count(n)
	}
	return plain.Brief(float64(n))
}
