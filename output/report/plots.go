package report

import (
	"fmt"
	"html/template"
	"math"
	"slices"
	"time"

	"llmbatch/output/plain"
)

// plot is one figure of the page: the drawing in two sizes, its words for those
// who do not see it, and its values as a table.
type plot struct {
	Title, Text  string
	Legend       []string
	Wide, Narrow template.HTML
	Head         []string
	Rows         [][]string
}

// drawing is what lines and bars have in common.
type drawing interface {
	draw(size) (template.HTML, error)
}

// The number of points of a plot over time, and of rows of the table below it.
const (
	minPoints    = 16
	maxPoints    = 128
	maxTableRows = 24
)

// timeline is the part of the series that has something in it, in points of one
// or more buckets.
type timeline struct {
	s        *series
	from, to int // buckets
	step     int
}

func (p *page) timeline() (t timeline, ok bool) {
	s := &p.stats.series
	if s.width == 0 {
		return t, false
	}
	from, to := s.at(p.stats.first), s.at(p.stats.last)
	// A rate over very few items is noise: some of them to a point, on average.
	points := min(max(p.stats.rows/8, minPoints), maxPoints)
	return timeline{s, from, to, (to-from)/points + 1}, true
}

// points joins buckets by f, which gets the first and the one after the last.
func (t timeline) points(f func(i, j int) float64) []float64 {
	var v []float64
	for i := t.from; i <= t.to; i += t.step {
		v = append(v, f(i, min(i+t.step, buckets)))
	}
	if len(v) == 1 { // a line needs two points
		v = append(v, v[0])
	}
	return v
}

// per is the sum of counts in each point as a rate per unit of time.
func (t timeline) per(counts *[buckets]float64, unit time.Duration) []float64 {
	return t.points(func(i, j int) float64 {
		sum := 0.0
		for _, n := range counts[i:j] {
			sum += n
		}
		return sum * float64(unit) / float64(time.Duration(j-i)*t.s.width)
	})
}

// mean is the average level of each point.
func (t timeline) mean(l *level) []float64 {
	totals := l.totals(t.s.width)
	return t.points(func(i, j int) float64 {
		var sum time.Duration
		for _, n := range totals[i:j] {
			sum += n
		}
		return round2(float64(sum) / float64(time.Duration(j-i)*t.s.width))
	})
}

// limit is the sum of the lanes' limits, each the last one seen; no value before
// the first.
func (t timeline) limit() []float64 {
	last := make([]int, len(t.s.lanes))
	for i := range t.from {
		for l, lane := range t.s.lanes {
			if lane.limit[i] > 0 {
				last[l] = lane.limit[i]
			}
		}
	}
	return t.points(func(i, j int) float64 {
		sum := 0
		for l, lane := range t.s.lanes {
			if m := slices.Max(lane.limit[i:j]); m > 0 {
				last[l] = m
			}
			sum += last[l]
		}
		if sum == 0 {
			return noValue()
		}
		return float64(sum)
	})
}

// marks are the gaps in points.
func (t timeline) marks(gaps []gap) []mark {
	point := func(at time.Time) float64 {
		return float64(at.Sub(t.s.edge(t.from))) / float64(time.Duration(t.step)*t.s.width)
	}
	var list []mark
	for _, g := range gaps {
		list = append(list, mark{point(g.from), point(g.to), g.pause})
	}
	return list
}

// labels are the points' times, as short as the whole span allows.
func (t timeline) labels(loc *time.Location) []string {
	layout := "15:04:05"
	switch span := time.Duration(t.to-t.from+1) * t.s.width; {
	case span > 20*time.Hour:
		layout = "Jan 2 15:04"
	case span > 10*time.Minute:
		layout = "15:04"
	case span < 10*time.Second:
		layout = "15:04:05.0"
	}
	var labels []string
	for i := t.from; i <= t.to; i += t.step {
		labels = append(labels, t.s.edge(i).In(loc).Format(layout))
	}
	if len(labels) == 1 {
		labels = append(labels, t.s.edge(t.to+1).In(loc).Format(layout))
	}
	return labels
}

// unit is the rate's unit that gives numbers people can read.
func (t timeline) unit() (time.Duration, string) {
	if time.Duration(t.to-t.from+1)*t.s.width > 5*time.Minute {
		return time.Minute, "per minute"
	}
	return time.Second, "per second"
}

func (p *page) plots() error {
	t, ok := p.timeline()
	if !ok {
		return nil
	}
	unit, per := t.unit()
	s := t.s
	wire, limit := t.mean(&s.wire), t.limit()
	over := []overTime{
		{
			title: "Requests on the wire", names: []string{"on the wire", "limit"}, fill: true,
			values: [][]float64{wire, limit},
			text:   fmt.Sprintf("At most about %s at once; the limit went up to %s.", whole(wire), whole(limit)),
		}, {
			title: "Throughput", names: []string{"ok", "not ok"}, fill: true,
			values: [][]float64{t.per(&s.ok, unit), t.per(&s.failed, unit)},
			text:   "Items finished " + per + ".",
		}, {
			title: "Refusals " + per, names: []string{"429 rate limited", "503 and 529 overloaded"}, fill: true,
			values: [][]float64{t.per(&s.throttled, unit), t.per(&s.overloaded, unit)},
			text:   "Answers that asked for patience, " + per + ".",
		}, {
			title: "Items waiting between attempts", names: []string{"waiting"}, fill: true,
			values: [][]float64{t.mean(&s.waiting)},
			text:   "Waits that were decided after an attempt; time in the queue for a first one is not in it.",
		}, {
			title: "Tokens", names: []string{"output", "input"}, fill: true,
			values: [][]float64{t.per(&s.tokensOut, unit), t.per(&s.tokensIn, unit)},
			text:   "Tokens of finished items, " + per + ", counted when the item ended.",
		},
	}
	for _, o := range over {
		if err := p.overTime(t, o); err != nil {
			return err
		}
	}
	return p.latencyPlot()
}

// overTime is a plot of series over the page's time.
type overTime struct {
	title, text string
	names       []string
	values      [][]float64
	fill        bool
}

func (p *page) overTime(t timeline, o overTime) error {
	labels := t.labels(p.Location)
	if !slices.ContainsFunc(o.values, some) {
		p.Plots = append(p.Plots, plot{Title: o.title, Text: o.text + " There were none."})
		return nil
	}
	pl := plot{Title: o.title, Text: o.text, Legend: o.names, Head: append([]string{"from"}, o.names...)}
	step := (len(labels) + maxTableRows - 1) / maxTableRows
	for i := 0; i < len(labels); i += step {
		row := []string{labels[i]}
		for _, v := range o.values {
			row = append(row, meanOf(v[i:min(i+step, len(v))]))
		}
		pl.Rows = append(pl.Rows, row)
	}
	return p.draw(pl, lines{labels: labels, values: o.values, fill: o.fill, marks: t.marks(p.gaps)})
}

func (p *page) draw(pl plot, d drawing) (err error) {
	if pl.Wide, err = d.draw(wide); err != nil {
		return err
	}
	if pl.Narrow, err = d.draw(narrow); err != nil {
		return err
	}
	p.Plots = append(p.Plots, pl)
	return nil
}

// some tells whether a series has anything but zeros.
func some(v []float64) bool {
	return slices.ContainsFunc(v, func(x float64) bool { return x != 0 && x != noValue() })
}

func meanOf(v []float64) string {
	sum, n := 0.0, 0
	for _, x := range v {
		if x != noValue() {
			sum, n = sum+x, n+1
		}
	}
	if n == 0 {
		return "–"
	}
	return plain.Brief(round2(sum / float64(n)))
}

// whole is the largest value, rounded.
func whole(v []float64) string {
	most := 0.0
	for _, x := range v {
		if x != noValue() {
			most = max(most, x)
		}
	}
	return plain.Brief(math.Round(most))
}

func round2(f float64) float64 { return math.Round(f*100) / 100 }

// edges are the upper ends of the latency plot's bars.
func edges() []time.Duration {
	var list []time.Duration
	for decade := time.Millisecond; decade <= 1000*time.Second; decade *= 10 {
		for _, m := range []float64{1, 1.5, 2, 3, 5, 7} {
			list = append(list, time.Duration(m*float64(decade)))
		}
	}
	return list
}

// latencyPlot shows how long attempts took: those that gave an answer, those
// that were refused, and the rest.
func (p *page) latencyPlot() error {
	list := edges()
	values := make([][]float64, 3)
	for i := range values {
		values[i] = make([]float64, len(list))
	}
	for name, o := range p.stats.outcomes.vals {
		kind := 2
		switch name {
		case "ok":
			kind = 0
		case "rate_limited", "overloaded":
			kind = 1
		}
		for i, n := range (*o).latency.buckets {
			if n == 0 {
				continue
			}
			at, _ := slices.BinarySearch(list, (bucketLow(i)+bucketLow(i+1))/2)
			values[kind][min(at, len(list)-1)] += float64(n)
		}
	}
	used := func(i int) bool { return values[0][i]+values[1][i]+values[2][i] > 0 }
	from, to := 0, len(list)
	for from < to && !used(from) {
		from++
	}
	for to > from && !used(to-1) {
		to--
	}
	if from == to {
		return nil
	}
	names := []string{"answered", "refused (429, 503, 529)", "other failures"}
	pl := plot{
		Title: "How long attempts took", Legend: names, Head: append([]string{"up to"}, names...),
		Text: "Attempts by duration, failures included; each bar's label is its upper end.",
	}
	b := bars{values: make([][]float64, 3)}
	for i := from; i < to; i++ {
		label := edgeLabel(list[i])
		b.labels = append(b.labels, label)
		row := []string{label}
		for k := range values {
			b.values[k] = append(b.values[k], values[k][i])
			row = append(row, plain.Count(int(values[k][i])))
		}
		pl.Rows = append(pl.Rows, row)
	}
	return p.draw(pl, b)
}

// edgeLabel is a bar's upper end: 700ms, 1.5s, 2m.
func edgeLabel(d time.Duration) string {
	switch {
	case d < time.Second:
		return plain.Brief(float64(d)/float64(time.Millisecond)) + "ms"
	case d < 2*time.Minute:
		return plain.Brief(d.Seconds()) + "s"
	}
	return plain.Brief(d.Minutes()) + "m"
}
