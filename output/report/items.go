package report

import (
	"bytes"
	"compress/gzip"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"time"

	"llmbatch/output"
	"llmbatch/output/plain"
)

// Bounds of what the page holds of items. The data stays compressed until a
// reader looks at it, so that the page is drawn at once however many there are.
const (
	maxPageData  = 30 << 20 // bytes of data as they stand in the page
	chunkRows    = 256
	chunkBytes   = 1 << 20  // of details before compression; a larger item has a chunk of its own
	maxShownText = 64 << 10 // bytes of one question or answer
	previewText  = 200      // bytes of each that the search looks at
)

// items collects the rows of the page's table. Rows that are not ok come first.
// When all would be too large, the last ok rows lose their questions and answers
// first, and then their place in the table.
type items struct {
	asked  func(*output.Result) string
	room   int
	ok     pile
	others pile

	rows, bare, left int // all; without details; not in the table
}

// pile is a list of chunks, the last of which is being filled.
type pile struct {
	rows    [][]any
	details [][]any
	bytes   int // of details so far
	chunks  []chunk
}

// chunk is a part of the table: what is shown and searched, and what a row shows
// when it is opened, each as base64 of gzipped JSON.
type chunk struct {
	rows          int
	index, detail []byte // detail is nil where there was no room
}

func (c *chunk) size() int { return len(c.index) + len(c.detail) }

func newItems(asked func(*output.Result) string) *items {
	if asked == nil {
		asked = func(*output.Result) string { return "" }
	}
	return &items{asked: asked, room: maxPageData}
}

// add takes one row. r is not kept.
func (t *items) add(r *output.Result) error {
	t.rows++
	p := &t.others
	if r.Status == output.OK {
		p = &t.ok
	}
	asked := shown(t.asked(r))
	answer := shown(r.Text)
	message := ""
	if r.Error != nil {
		message = plain.Line(r.Error.Message)
	}
	finished := int64(0)
	if !r.FinishedAt.IsZero() {
		finished = r.FinishedAt.UnixMilli()
	}
	preview := message
	if preview == "" {
		preview = plain.Line(head(answer, previewText))
	}
	p.rows = append(p.rows, []any{
		idText(r.ID), word(string(r.Status)), causeName(r), plain.Line(r.StopReason), len(r.Attempts),
		itemTime(r).Milliseconds(), finished, plain.Line(r.Model), head(preview, 2*previewText), plain.Line(head(asked, previewText)),
	})
	cost := any(nil)
	if r.HasCost {
		cost = plain.Money(r.Cost)
	}
	p.details = append(p.details, []any{
		asked, answer, message, cost, r.Usage.InputTokens, r.Usage.OutputTokens, attemptRows(r),
	})
	p.bytes += len(asked) + len(answer) + len(message) + 100*len(r.Attempts)
	if len(p.rows) >= chunkRows || p.bytes >= chunkBytes {
		return t.close(p)
	}
	return nil
}

func attemptRows(r *output.Result) [][]any {
	list := make([][]any, 0, len(r.Attempts))
	for i := range r.Attempts {
		a := &r.Attempts[i]
		started := int64(0)
		if !a.StartedAt.IsZero() {
			started = a.StartedAt.UnixMilli()
		}
		wait := ""
		if a.Wait > 0 {
			wait = plain.Span(a.Wait) + " (" + word(a.WaitReason) + ")"
		}
		list = append(list, []any{a.Attempt, started, plain.Span(a.Duration), a.Status, word(a.Outcome), plain.Line(a.Error), wait, a.Concurrency, a.Unsent})
	}
	return list
}

// causeName is why a row is not ok, in a few words; "" for one that is.
func causeName(r *output.Result) string {
	switch {
	case r.Status == output.OK:
		return ""
	case r.Error == nil || r.Error.Class == "":
		return word(r.GiveUpReason)
	case r.Error.Status != 0:
		return fmt.Sprintf("%s %d", word(r.Error.Class), r.Error.Status)
	}
	return word(r.Error.Class)
}

// shown is a text as the page holds it.
func shown(s string) string {
	if len(s) > maxShownText {
		return plain.Block(head(s, maxShownText)) + fmt.Sprintf("\n… and %s bytes more, which the results file has", plain.Count(len(s)-maxShownText))
	}
	return plain.Block(s)
}

// head is the beginning of s, at most n bytes of whole characters.
func head(s string, n int) string {
	if len(s) <= n {
		return s
	}
	for n > 0 && s[n]&0xc0 == 0x80 {
		n--
	}
	return s[:n]
}

// close packs what a pile has gathered, and drops what there is no room for.
func (t *items) close(p *pile) error {
	if len(p.rows) == 0 {
		return nil
	}
	c := chunk{rows: len(p.rows)}
	var err error
	if c.index, err = packed(p.rows); err != nil {
		return err
	}
	if c.detail, err = packed(p.details); err != nil {
		return err
	}
	p.rows, p.details, p.bytes = p.rows[:0], p.details[:0], 0
	p.chunks = append(p.chunks, c)
	t.room -= c.size()
	for _, pile := range []*pile{&t.ok, &t.others} {
		t.shed(pile)
	}
	return nil
}

// shed takes details and then rows from a pile's end until all has room.
func (t *items) shed(p *pile) {
	for i := len(p.chunks) - 1; i >= 0 && t.room < 0; i-- {
		c := &p.chunks[i]
		t.room += len(c.detail)
		if c.detail != nil {
			t.bare += c.rows
		}
		c.detail = nil
	}
	for t.room < 0 && len(p.chunks) > 0 {
		last := p.chunks[len(p.chunks)-1]
		t.room += last.size()
		t.left += last.rows
		t.bare -= last.rows
		p.chunks = p.chunks[:len(p.chunks)-1]
	}
}

func packed(v any) ([]byte, error) {
	var b bytes.Buffer
	text := base64.NewEncoder(base64.StdEncoding, &b)
	z := gzip.NewWriter(text)
	if err := json.NewEncoder(z).Encode(v); err != nil {
		return nil, err
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	if err := text.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// finish packs the rest. Nothing may be added afterwards.
func (t *items) finish() error {
	for _, p := range []*pile{&t.others, &t.ok} {
		if err := t.close(p); err != nil {
			return err
		}
	}
	return nil
}

// Note says what the page leaves out; "" if it has everything.
func (t *items) Note() string {
	s := ""
	if t.bare > 0 {
		s = fmt.Sprintf("The questions and answers of %s that are ok are left out, for the page would be too large.", plain.Plural(t.bare, "item"))
	}
	if t.left > 0 {
		s += fmt.Sprintf(" %s that are ok are not in this table.", plain.Plural(t.left, "item"))
	}
	return s
}

// writeTo writes the chunks as elements that no browser runs or shows.
func (t *items) writeTo(w io.Writer) error {
	for _, p := range []*pile{&t.others, &t.ok} {
		for _, c := range p.chunks {
			if _, err := fmt.Fprintf(w, "<script type=\"text/plain\" data-index>%s</script><script type=\"text/plain\" data-detail>%s</script>\n", c.index, c.detail); err != nil {
				return err
			}
		}
	}
	return nil
}

// Zone is the difference of the page's zone to UTC for each time on it, as the
// page's script needs it: minutes at the first attempt.
func (p *page) ZoneMinutes() int {
	t := time.Unix(0, 0)
	if p.Sum.FirstAttempt != nil {
		t = *p.Sum.FirstAttempt
	}
	_, offset := t.In(p.Location).Zone()
	return offset / 60
}

//go:embed items.js
var itemsScript string

// Script is the page's own.
func (p *page) Script() template.JS { return template.JS(itemsScript) }
