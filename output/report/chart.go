package report

import (
	"fmt"
	"html/template"
	"regexp"
	"strconv"
	"strings"

	"llmbatch/output/plain"

	"github.com/go-analyze/charts"
)

// The plots come from go-analyze/charts as SVG with a viewBox and no fixed size.
// It writes colours as rgb(…) values; each role is drawn in a colour that stands
// for nothing else, and becomes a CSS variable afterwards, so that one drawing
// serves the light and the dark page.

// size is a drawing's own measure; text keeps the size of the page's when the
// drawing is shown at it.
type size struct{ width, height, labels int }

// Each plot is drawn twice: scaled to a phone, the wide one's text would be too small.
var (
	wide   = size{width: 960, height: 260, labels: 7}
	narrow = size{width: 360, height: 220, labels: 3}
)

// lines is a plot of values over time.
type lines struct {
	labels []string    // of the points
	values [][]float64 // of each series; as many as labels
	fill   bool        // below the first series
	marks  []mark      // stretches that are shaded
}

// mark is a shaded stretch of a plot, from and to in points.
type mark struct {
	from, to float64
	pause    bool // else nothing ran
}

// noValue is where a series has no point.
func noValue() float64 { return charts.GetNullValue() }

func (l lines) draw(s size) (template.HTML, error) {
	opt := charts.NewLineChartOptionWithData(l.values)
	opt.Theme = roles()
	opt.Padding = charts.Box{Top: 8, Right: 8, Bottom: 4, Left: 4}
	opt.XAxis.Labels = l.labels
	opt.XAxis.LabelCount = labelCount(len(l.labels), s.labels)
	opt.XAxis.BoundaryGap = charts.Ptr(false)
	opt.XAxis.LabelFontStyle = font()
	opt.YAxis[0] = yAxis(l.values, false)
	opt.Legend.Show = charts.Ptr(false)
	opt.Symbol = charts.Symbol{Shape: charts.SymbolNone}
	opt.LineStrokeWidth = 2
	if l.fill {
		opt.FillArea = charts.Ptr(true)
		opt.FillOpacity = 40
	}
	p := painter(s)
	if err := p.LineChart(opt); err != nil {
		return "", fmt.Errorf("drawing a plot: %w", err)
	}
	drawing, err := svg(p)
	return l.shade(drawing), err
}

// shade puts the marks behind the lines. Where the plot begins and ends is read
// from its axis, since the drawing library chooses it by the width of the labels.
func (l lines) shade(drawing template.HTML) template.HTML {
	axis := regexp.MustCompile(`<path d="M(\d+) (\d+)L(\d+) (\d+)" style="stroke-width:1;stroke:var\(--axis\)`).FindStringSubmatch(string(drawing))
	end := strings.Index(string(drawing), "<text")
	if axis == nil || end < 0 || axis[2] != axis[4] {
		return drawing
	}
	left, _ := strconv.ParseFloat(axis[1], 64)
	right, _ := strconv.ParseFloat(axis[3], 64)
	bottom, _ := strconv.ParseFloat(axis[2], 64)
	last := float64(len(l.labels) - 1)
	place := func(point float64) float64 { return left + (right-left)*min(max(point/last, 0), 1) }
	var b strings.Builder
	for _, m := range l.marks {
		class := "marks rest"
		if m.pause {
			class = "marks"
		}
		from, to := place(m.from), place(m.to)
		fmt.Fprintf(&b, `<rect class="%s" x="%.1f" y="8" width="%.1f" height="%.1f"/>`, class, from, max(to-from, 2), bottom-8)
	}
	return drawing[:end] + template.HTML(b.String()) + drawing[end:]
}

// bars is a plot of stacked counts by category.
type bars struct {
	labels []string
	values [][]float64
}

func (b bars) draw(s size) (template.HTML, error) {
	opt := charts.NewBarChartOptionWithData(b.values)
	opt.Theme = roles()
	opt.Padding = charts.Box{Top: 8, Right: 8, Bottom: 4, Left: 4}
	opt.CategoryAxis.Labels = thinned(b.labels, 2*s.labels)
	opt.CategoryAxis.LabelCount = len(b.labels)
	opt.CategoryAxis.LabelFontStyle = font()
	opt.ValueAxis = []charts.ValueAxisOption{yAxis(b.values, true)}
	opt.Legend.Show = charts.Ptr(false)
	opt.StackSeries = charts.Ptr(true)
	opt.BarMargin = charts.Ptr(0.1)
	p := painter(s)
	if err := p.BarChart(opt); err != nil {
		return "", fmt.Errorf("drawing a plot: %w", err)
	}
	return svg(p)
}

// thinned leaves every second, third … label, so that at most most of them are shown.
func thinned(labels []string, most int) []string {
	step := (len(labels) + most - 1) / most
	shown := make([]string, len(labels))
	for i := 0; i < len(labels); i += step {
		shown[i] = labels[i]
	}
	return shown
}

// labelCount is how many of n points have their label shown. With few points the
// labels between must stand at equal steps, or two of them meet.
func labelCount(n, most int) int {
	most = min(most, n)
	if n > 8*most {
		return most
	}
	for k := most; k > 3; k-- {
		if (n-1)%(k-1) == 0 {
			return k
		}
	}
	return min(most, 3)
}

func painter(s size) *charts.Painter {
	return charts.NewPainter(charts.PainterOptions{OutputFormat: charts.ChartOutputSVG, Width: s.width, Height: s.height})
}

// font is 13 pixels high.
func font() charts.FontStyle { return charts.FontStyle{FontSize: 10, FontColor: role(textRole)} }

// yAxis begins at zero, always: a plot that does not makes small changes large.
func yAxis(values [][]float64, stacked bool) charts.ValueAxisOption {
	top := 0.0
	for i := range values[0] {
		sum := 0.0
		for _, series := range values {
			if v := series[i]; v != noValue() {
				top = max(top, v)
				sum += v
			}
		}
		if stacked {
			top = max(top, sum)
		}
	}
	a := charts.ValueAxisOption{
		Min: charts.Ptr(0.0), LabelFontStyle: font(),
		ValueFormatter: plain.Brief,
	}
	step := niceStep(top / 4)
	n := 1
	for float64(n)*step < top {
		n++
	}
	a.Max, a.LabelCount = charts.Ptr(float64(n)*step), n+1
	a.RangeValuePaddingScale = charts.Ptr(0.0)
	return a
}

// niceStep is 1, 2 or 5 times a power of ten, at least what is asked for.
func niceStep(least float64) float64 {
	step := 1.0
	for step > least && least > 0 && step > 1e-6 {
		step /= 10
	}
	for {
		for _, m := range []float64{1, 2, 5} {
			if m*step >= least {
				return m * step
			}
		}
		step *= 10
	}
}

// The roles of colours. Series are 1 to 5.
const (
	seriesRoles = 5
	textRole    = 20
	axisRole    = 21
	gridRole    = 22
)

// role is the colour that stands for a role until it becomes a variable.
func role(n uint8) charts.Color { return charts.ColorRGB(n, n, n) }

func roles() charts.ColorPalette {
	series := make([]charts.Color, seriesRoles)
	for i := range series {
		series[i] = role(uint8(i + 1))
	}
	return charts.GetTheme(charts.ThemeLight).WithSeriesColors(series).WithBackgroundColor(charts.ColorTransparent).
		WithTextColor(role(textRole)).WithXAxisColor(role(axisRole)).WithYAxisColor(role(axisRole)).
		WithAxisSplitLineColor(role(gridRole))
}

// svg takes the drawing, with variables for the roles' colours and the page's font.
func svg(p *charts.Painter) (template.HTML, error) {
	raw, err := p.Bytes()
	if err != nil {
		return "", fmt.Errorf("drawing a plot: %w", err)
	}
	s := string(raw)
	solid := regexp.MustCompile(`(fill|stroke):rgb\((\d+),\d+,\d+\)`)
	s = solid.ReplaceAllStringFunc(s, func(m string) string {
		parts := solid.FindStringSubmatch(m)
		return parts[1] + ":var(--" + roleName(parts[2]) + ")"
	})
	clear := regexp.MustCompile(`(fill|stroke):rgba\((\d+),\d+,\d+,([\d.]+)\)`)
	s = clear.ReplaceAllStringFunc(s, func(m string) string {
		parts := clear.FindStringSubmatch(m)
		return parts[1] + ":var(--" + roleName(parts[2]) + ");" + parts[1] + "-opacity:" + parts[3]
	})
	// A fill below every line makes mud where they overlap; the first is the one to look at.
	s = regexp.MustCompile(`<path d="[^"]*" style="stroke:none;fill:var\(--c[2-9]\);fill-opacity:[^"]*"/>`).ReplaceAllString(s, "")
	s = regexp.MustCompile(`;font-family:[^;"]*`).ReplaceAllString(s, "")
	s = strings.NewReplacer("\nL ", "L", "M ", "M", ` xmlns:xlink="http://www.w3.org/1999/xlink"`, "",
		` xmlns="http://www.w3.org/2000/svg"`, ` aria-hidden="true" focusable="false"`).Replace(s)
	return template.HTML(s), nil
}

func roleName(n string) string {
	switch n {
	case "20":
		return "muted"
	case "21":
		return "axis"
	case "22":
		return "grid"
	}
	return "c" + n
}
