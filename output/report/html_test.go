package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"llmbatch/output"
)

// pageOf is a page with fixed times.
func pageOf(t *testing.T, rows iter.Seq2[*output.Result, error]) []byte {
	t.Helper()
	var b bytes.Buffer
	o := PageOptions{Name: "prompts.results.jsonl", Location: time.UTC, Now: time.Date(2026, 12, 1, 6, 0, 0, 0, time.UTC)}
	if err := HTML(&b, rows, o); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func rowsOf(list ...*output.Result) iter.Seq2[*output.Result, error] {
	return func(yield func(*output.Result, error) bool) {
		for _, r := range list {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func TestPageGolden(t *testing.T) {
	page := pageOf(t, night(60, 12*time.Second))
	golden(t, "page.html", regexp.MustCompile(`(?s)(<script type="text/plain" data-[a-z]+>)[^<]*`).ReplaceAll(page, []byte("$1")))
}

// A file that a run still writes to: superseded rows count once, a torn last
// line not at all.
func TestPageOfAGrowingFile(t *testing.T) {
	var file []byte
	for r := range night(20, time.Second) {
		if r.Index == 3 {
			early := *r
			early.Status = output.Waiting
			file = output.AppendRow(file, &early)
		}
		file = output.AppendRow(file, r)
	}
	file = append(file, file[:100]...)
	path := filepath.Join(t.TempDir(), "results.jsonl")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	want := pageOf(t, night(20, time.Second))
	// Written times are in whole milliseconds: the figures of the totals are the same.
	end := []byte(`id="plots"`)
	want, _, _ = bytes.Cut(want, end)
	got, _, _ := bytes.Cut(pageOf(t, output.LastRows(path, false)), end)
	if !bytes.Equal(got, want) {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestEmptyPage(t *testing.T) {
	page := string(pageOf(t, rowsOf()))
	for _, unwanted := range []string{"<figure", "<script", `id="all"`, "NaN"} {
		if strings.Contains(page, unwanted) {
			t.Errorf("got %q in a page about nothing", unwanted)
		}
	}
}

func TestPageOfOneInstant(t *testing.T) {
	at := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	page := string(pageOf(t, rowsOf(&output.Result{ID: json.RawMessage("1"), Status: output.OK, FinishedAt: at,
		Attempts: []output.Attempt{{Attempt: 1, StartedAt: at, Outcome: "ok", Concurrency: 4}}})))
	if strings.Contains(page, "NaN") || !strings.Contains(page, "<svg") {
		t.Error("got no plot, or NaN in it")
	}
}

// Rows without attempts or times, as other tools or an old version may leave them.
func TestPageOfBareRows(t *testing.T) {
	page := string(pageOf(t, rowsOf(&output.Result{Status: output.OK}, &output.Result{Status: output.Failed}, &output.Result{})))
	if !strings.Contains(page, ">3<") {
		t.Error("got no count of 3 rows")
	}
}

func TestPageStopsAtABadRow(t *testing.T) {
	broken := errors.New("line 2 is broken")
	var b bytes.Buffer
	err := HTML(&b, func(yield func(*output.Result, error) bool) { yield(nil, broken) }, PageOptions{})
	if !errors.Is(err, broken) || b.Len() > 0 {
		t.Errorf("got %v and %d bytes, want %v and none", err, b.Len(), broken)
	}
}

// Nothing that a server or a prompt file says becomes markup.
func TestPageEscapes(t *testing.T) {
	evil := `</script><script>alert(1)</script><img src=x onerror=alert(1)>"'` + "\x1b[2J\u202e`"
	id, _ := json.Marshal(evil)
	at := time.Date(2026, 11, 30, 0, 0, 0, 0, time.UTC)
	var b bytes.Buffer
	rows := rowsOf(&output.Result{ID: id, Status: output.Status(evil), Model: evil, Provider: evil, StopReason: evil, GiveUpReason: evil,
		Error: &output.Error{Class: evil, Message: evil}, FinishedAt: at,
		Attempts: []output.Attempt{{StartedAt: at, Outcome: evil, Wait: 1, WaitReason: evil}, {StartedAt: at, Outcome: evil}}},
		&output.Result{ID: id, Status: output.OK, StopReason: evil})
	if err := HTML(&b, rows, PageOptions{Name: evil, Run: &RunFacts{Reason: evil, Next: evil}}); err != nil {
		t.Fatal(err)
	}
	page := b.String()
	if n := strings.Count(page, "<script>"); n != 1 {
		t.Errorf("got %d scripts, want the page's own", n)
	}
	if n := strings.Count(page, "<script"); n != 5 {
		t.Errorf("got %d elements of scripts, want the page's own and the data of two piles", n)
	}
	for _, unwanted := range []string{"<img", "\x1b", "\u202e"} {
		if strings.Contains(page, unwanted) {
			t.Errorf("got %q in the page", unwanted)
		}
	}
}

// The page loads nothing: no address, no source, no import.
func TestPageIsSelfContained(t *testing.T) {
	page := string(pageOf(t, night(300, time.Hour)))
	loads := regexp.MustCompile(`(?i)https?://|\bsrc=|@import|url\(|<link[^>]*href="[^d#]|srcset|<iframe|<object|<embed`)
	if m := loads.FindString(page); m != "" {
		t.Errorf("got %q, want nothing that loads", m)
	}
	if !strings.Contains(page, "default-src 'none'") {
		t.Error("got no content security policy")
	}
}

// Everything that a drawing leaves to the page's theme has a variable there.
func TestPlotsUseThemeColours(t *testing.T) {
	page := string(pageOf(t, night(300, time.Hour)))
	light, dark, _ := themes(t)
	for _, m := range regexp.MustCompile(`var\(--([a-z0-9]+)\)`).FindAllStringSubmatch(page, -1) {
		if m[1] == "k" { // a legend's own
			continue
		}
		if light[m[1]] == "" || dark[m[1]] == "" {
			t.Fatalf("got var(--%s), which one of the themes does not set", m[1])
		}
	}
	if m := regexp.MustCompile(`rgba?\([^)]*\)`).FindString(page); m != "" {
		t.Errorf("got %s, want only colours of the theme", m)
	}
}

// themes are the variables of the light and the dark page.
func themes(t *testing.T) (light, dark map[string]string, both []map[string]string) {
	t.Helper()
	roots := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(pageTemplate, -1)
	if len(roots) != 2 {
		t.Fatalf("got %d themes, want 2", len(roots))
	}
	for _, r := range roots {
		vars := map[string]string{}
		for _, m := range regexp.MustCompile(`--([a-z0-9]+): (#[0-9a-f]{6})`).FindAllStringSubmatch(r[1], -1) {
			vars[m[1]] = m[2]
		}
		both = append(both, vars)
	}
	return both[0], both[1], both
}

// WCAG 2.2: 1.4.3 asks for 4.5:1 of text, 1.4.11 for 3:1 of lines and marks that matter.
func TestContrast(t *testing.T) {
	_, _, both := themes(t)
	for i, vars := range both {
		for _, c := range []struct {
			fore, back string
			least      float64
		}{
			{"ink", "bg", 4.5}, {"ink", "card", 4.5}, {"muted", "bg", 4.5}, {"muted", "card", 4.5}, {"good", "card", 4.5}, {"bad", "card", 4.5},
			{"c1", "card", 3}, {"c2", "card", 3}, {"c3", "card", 3}, {"axis", "card", 3}, {"focus", "bg", 3}, {"focus", "card", 3},
		} {
			if got := contrast(luminance(t, vars[c.fore]), luminance(t, vars[c.back])); got < c.least {
				t.Errorf("theme %d, %s on %s: got %.2f:1, want at least %v:1", i, c.fore, c.back, got, c.least)
			}
		}
	}
}

func contrast(a, b float64) float64 { return (max(a, b) + 0.05) / (min(a, b) + 0.05) }

// luminance is WCAG's relative luminance of #rrggbb.
func luminance(t *testing.T, colour string) float64 {
	t.Helper()
	if len(colour) != 7 {
		t.Fatalf("got colour %q, want #rrggbb", colour)
	}
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		n, err := strconv.ParseUint(colour[1+2*i:3+2*i], 16, 8)
		if err != nil {
			t.Fatal(err)
		}
		c := float64(n) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

func TestAxisFitsItsValues(t *testing.T) {
	for _, c := range []struct {
		top   float64
		max   float64
		ticks int
	}{{0, 1, 2}, {0.3, 0.3, 4}, {1, 1, 3}, {3, 3, 4}, {47, 60, 4}, {48, 60, 4}, {100, 100, 3}, {101, 150, 4}, {9_999, 10_000, 3}} {
		a := yAxis([][]float64{{c.top, noValue()}}, false)
		if fmt.Sprintf("%.6g", *a.Max) != fmt.Sprint(c.max) || a.LabelCount != c.ticks {
			t.Errorf("top %v: got %v with %d labels, want %v with %d", c.top, *a.Max, a.LabelCount, c.max, c.ticks)
		}
	}
}
