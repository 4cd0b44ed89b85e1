package report

import (
	"bytes"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"strings"
	"testing"
	"time"

	"llmbatch/output"
)

// unpacked are the rows in the page's elements of one kind.
func unpacked(t *testing.T, page []byte, kind string) (rows [][]any) {
	t.Helper()
	for _, m := range regexp.MustCompile(`data-`+kind+`>([^<]*)</script>`).FindAllSubmatch(page, -1) {
		if len(m[1]) == 0 {
			continue
		}
		z, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, bytes.NewReader(m[1])))
		if err != nil {
			t.Fatal(err)
		}
		var part [][]any
		if err := json.NewDecoder(z).Decode(&part); err != nil {
			t.Fatal(err)
		}
		rows = append(rows, part...)
	}
	return rows
}

func TestEveryItemIsOnThePage(t *testing.T) {
	t.Parallel()
	page := pageOf(t, night(1000, time.Hour))
	index, details := unpacked(t, page, "index"), unpacked(t, page, "detail")
	if len(index) != 1000 || len(details) != 1000 {
		t.Fatalf("got %d rows and %d details, want 1000 of each", len(index), len(details))
	}
	if got := index[0][1]; got != "failed" {
		t.Errorf("got a first row that is %v, want those that are not ok first", got)
	}
	for i, r := range index {
		if r[1] == "ok" && !strings.Contains(details[i][1].(string), fmt.Sprintf("answer %d\n", number(t, r[0]))) {
			t.Fatalf("got details %v for row %v", details[i], r)
		}
	}
}

func number(t *testing.T, id any) (n int) {
	t.Helper()
	if _, err := fmt.Sscanf(id.(string), "item-%d", &n); err != nil {
		t.Fatal(err)
	}
	return n
}

// What does not fit is left out from the end of the ok rows, details first, and
// the page says so.
func TestPageStaysSmall(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(1, 1))
	noise := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte('!' + rnd.IntN(90))
		}
		return string(b)
	}
	for _, c := range []struct {
		room       int
		bare, left bool
	}{{1 << 30, false, false}, {1 << 20, true, false}, {150_000, true, true}} {
		items := newItems(nil)
		items.room = c.room
		for i := range 4000 {
			r := &output.Result{ID: json.RawMessage(fmt.Sprint(i)), Status: output.OK, Text: noise(500)}
			if i%100 == 0 {
				r.Status, r.Text, r.Error = output.Failed, "", &output.Error{Class: "rejected", Message: noise(20)}
			}
			if err := items.add(r); err != nil {
				t.Fatal(err)
			}
		}
		if err := items.finish(); err != nil {
			t.Fatal(err)
		}
		var b bytes.Buffer
		if err := items.writeTo(&b); err != nil {
			t.Fatal(err)
		}
		index, details := unpacked(t, b.Bytes(), "index"), unpacked(t, b.Bytes(), "detail")
		if len(index) != 4000-items.left || len(details) != 4000-items.left-items.bare || (items.bare > 0) != c.bare || (items.left > 0) != c.left {
			t.Errorf("room %d: got %d rows, %d details, %d bare, %d left out", c.room, len(index), len(details), items.bare, items.left)
		}
		failed := 0
		for _, r := range index {
			if r[1] == "failed" {
				failed++
			}
		}
		if failed != 40 {
			t.Errorf("room %d: got %d failed rows, want all 40", c.room, failed)
		}
		if size := b.Len(); size > c.room+100*len(index) {
			t.Errorf("room %d: got %d bytes", c.room, size)
		}
		if (items.Note() != "") != c.bare {
			t.Errorf("room %d: got the note %q", c.room, items.Note())
		}
	}
}

// A long answer is cut and says by how much; control characters are visible.
func TestShownText(t *testing.T) {
	t.Parallel()
	if got, want := shown("a\nb\x1b[2J"), "a\nb\\x1b[2J"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	got := shown(strings.Repeat("ü", maxShownText))
	if !strings.HasSuffix(got, "ü\n… and 65,536 bytes more, which the results file has") {
		t.Errorf("got %q at the end", got[len(got)-80:])
	}
}

// A night with a pause and a restart says both.
func TestNightInASentence(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 11, 30, 22, 0, 0, 0, time.UTC)
	row := func(start, took time.Duration, wait time.Duration, status output.Status) *output.Result {
		r := &output.Result{ID: json.RawMessage(`"a"`), Status: status, FinishedAt: at.Add(start + took),
			Attempts: []output.Attempt{{Attempt: 1, StartedAt: at.Add(start), Duration: took, Outcome: "ok", Status: 200}}}
		if wait > 0 {
			first := output.Attempt{Attempt: 1, StartedAt: at.Add(start - wait - took), Duration: took, Outcome: "rate_limited", Status: 429, Wait: wait, WaitReason: "retry_after"}
			r.Attempts = append([]output.Attempt{first}, r.Attempts...)
		}
		return r
	}
	capped := row(5*time.Hour, time.Minute, 0, output.Aborted)
	capped.Error = &output.Error{Class: "spend_cap", Status: 429, Message: "You have reached your API usage limits."}
	page := string(pageOf(t, rowsOf(
		row(0, 30*time.Minute, 0, output.OK), row(time.Hour, 30*time.Minute, 30*time.Minute, output.OK),
		row(5*time.Hour, 10*time.Minute, 0, output.OK), capped)))
	for _, want := range []string{
		"3 of 4 items got an answer (75.0 %), 1 was open when the run stopped.",
		"paused once for 29m", "stopped and started again once after 3h2", "(5h10m)",
		"It stopped before all was done, a spending limit was reached: You have reached your API usage limits.",
		"Shaded: paused 2026-11-30 22:30", `class="marks rest"`,
	} {
		if !strings.Contains(page, want) {
			_, night, _ := strings.Cut(page, `class="night"`)
			t.Errorf("got %s, want %q", night[:600], want)
		}
	}
}
