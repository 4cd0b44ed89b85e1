package command

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// family is a metric with its help, its type, and a series for each value of its
// label. Safe for concurrent use.
type family struct {
	name, help, kind string
	label            string         // "": none
	now              func() float64 // of a gauge; nil for others

	mu     sync.Mutex
	series map[string]*series
}

// series is a counter, or a histogram where observe made it.
type series struct {
	sum   float64
	under []int // how many values were at most each of bounds
	count int
}

func (m *metrics) family(name, help, kind, label string) *family {
	f := &family{name: name, help: help, kind: kind, label: label, series: map[string]*series{}}
	m.families = append(m.families, f)
	return f
}

// bounds are those of the buckets of durations, in seconds: 50 ms to 7 minutes.
func bounds() (b [14]float64) {
	b[0] = 0.05
	for i := range len(b) - 1 {
		b[i+1] = 2 * b[i]
	}
	return b
}

func (f *family) of(label string) *series {
	s := f.series[label]
	if s == nil {
		s = &series{}
		f.series[label] = s
	}
	return s
}

// add counts n under a value of the label.
func (f *family) add(label string, n float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.of(label).sum += n
}

// observe puts a duration into the histogram of a value of the label.
func (f *family) observe(label string, seconds float64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.of(label)
	s.sum += seconds
	s.count++
	for i, bound := range bounds() {
		if len(s.under) == i {
			s.under = append(s.under, 0)
		}
		if seconds <= bound {
			s.under[i]++
		}
	}
}

// text is all that is known, in Prometheus' text format, version 0.0.4.
func (m *metrics) text() []byte {
	var b bytes.Buffer
	for _, f := range m.families {
		f.writeTo(&b)
	}
	return b.Bytes()
}

// writeTo writes the family, nothing if it has no series yet.
func (f *family) writeTo(b *bytes.Buffer) {
	head := fmt.Sprintf("# HELP %s %s\n# TYPE %s %s\n", f.name, f.help, f.name, f.kind)
	if f.now != nil {
		fmt.Fprintf(b, "%s%s %s\n", head, f.name, number(f.now()))
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, value := range slices.Sorted(maps.Keys(f.series)) {
		b.WriteString(head)
		head = ""
		s, labels := f.series[value], f.labels(value)
		if s.under == nil {
			fmt.Fprintf(b, "%s%s %s\n", f.name, braced(labels), number(s.sum))
			continue
		}
		for i, bound := range bounds() {
			fmt.Fprintf(b, "%s_bucket%s %d\n", f.name, braced(labels, `le="`+number(bound)+`"`), s.under[i])
		}
		fmt.Fprintf(b, "%s_bucket%s %d\n", f.name, braced(labels, `le="+Inf"`), s.count)
		fmt.Fprintf(b, "%s_sum%s %s\n", f.name, braced(labels), number(s.sum))
		fmt.Fprintf(b, "%s_count%s %d\n", f.name, braced(labels), s.count)
	}
}

// labels is the label with a value as the format wants it: the value may come from
// a row that another version wrote.
func (f *family) labels(value string) string {
	if f.label == "" {
		return ""
	}
	value = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`).Replace(strings.ToValidUTF8(value, "\uFFFD"))
	return f.label + `="` + value + `"`
}

func braced(labels ...string) string {
	if all := strings.Trim(strings.Join(labels, ","), ","); all != "" {
		return "{" + all + "}"
	}
	return ""
}

func number(v float64) string { return strconv.FormatFloat(v, 'g', -1, 64) }

// ServeHTTP answers a scrape.
func (m *metrics) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	w.Write(m.text()) // an error has nobody to tell
}

// write writes the file, which another user's node_exporter reads.
func (m *metrics) write() error { return writeWholeAs(m.file, m.text(), 0o644) }
