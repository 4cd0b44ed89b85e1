package output

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"iter"
	"slices"
	"strings"
)

// ExportFormat is a form that rows can be exported in.
type ExportFormat string

const (
	// CSV has a header and one record a row, quoted as RFC 4180 says. Cells are
	// written as they are, also where a spreadsheet would take one for a formula.
	CSV ExportFormat = "csv"
	// JSONL is the rows as they stand in the file.
	JSONL ExportFormat = "jsonl"
	// Text is the answers in the order of the input: line k is that of item k, empty
	// where it has none; a line end inside is written as \n or \r.
	Text ExportFormat = "text"
	// OpenAIBatch and AnthropicBatch are the lines of these providers' own batch
	// results. The answers in them are the API's bodies as they came.
	OpenAIBatch    ExportFormat = "openai-batch"
	AnthropicBatch ExportFormat = "anthropic-batch"
)

// ExportFormats returns all formats.
func ExportFormats() []ExportFormat {
	return []ExportFormat{CSV, JSONL, Text, OpenAIBatch, AnthropicBatch}
}

// ExportOptions of Export.
type ExportOptions struct {
	Format  ExportFormat
	Ordered bool // in the order of the input; Text always is
	// Columns of CSV: of Columns, or input columns, as NAME or input.NAME. nil: id, the
	// input columns, text, status, error.
	Columns []string
	// Want says of a row's key whether the row is exported; nil: all are.
	Want func(key string) bool
	// Broken is told of each broken row that was passed over; nil: the first one is
	// Export's error.
	Broken func(error)
}

// Export writes the last row of each id to w in another form. The errors are
// those of LastRows and of w, or say that a format or column is unknown. Nothing is
// written if the file can't be read.
func Export(w io.Writer, path string, o ExportOptions) error {
	if !slices.Contains(ExportFormats(), o.Format) {
		return fmt.Errorf("unknown export format %q", o.Format)
	}
	var columns []column
	if o.Format == CSV {
		names, err := inputColumns(path, o)
		if err != nil {
			return err
		}
		if columns, err = chosenColumns(o.Columns, names); err != nil {
			return err
		}
		o.Broken = func(error) {} // told by inputColumns
	}
	out := bufio.NewWriterSize(w, 64<<10)
	write, finish := exporter(out, o.Format, columns)
	for r, err := range o.rows(path, o.Ordered || o.Format == Text) {
		if err != nil {
			return cmp.Or(out.Flush(), err)
		}
		if err := write(r); err != nil {
			return err
		}
	}
	return cmp.Or(finish(), out.Flush())
}

// rows are those to export; broken ones are told.
func (o ExportOptions) rows(path string, ordered bool) iter.Seq2[*Result, error] {
	rows := LastRows(path, ordered)
	if o.Broken != nil {
		rows = SkipBroken(rows, o.Broken)
	}
	return func(yield func(*Result, error) bool) {
		for r, err := range rows {
			if err == nil && o.Want != nil && !o.Want(r.Key) {
				continue
			}
			if !yield(r, err) || err != nil {
				return
			}
		}
	}
}

// SkipBroken tells of the broken rows of LastRows and yields the others. Where all
// are broken, the first is an error.
func SkipBroken(rows iter.Seq2[*Result, error], tell func(error)) iter.Seq2[*Result, error] {
	return func(yield func(*Result, error) bool) {
		var first error
		sound := false
		for r, err := range rows {
			if _, broken := errors.AsType[*BrokenRowError](err); broken {
				first = cmp.Or(first, err)
				tell(err)
				continue
			}
			sound = true
			if !yield(r, err) {
				return
			}
		}
		if first != nil && !sound {
			yield(nil, first)
		}
	}
}

// mostEmptyLines stand in a text for items without a row, one after another.
const mostEmptyLines = 1_000_000

// exporter returns what writes one row, and what is to be called after the last.
func exporter(out *bufio.Writer, format ExportFormat, columns []column) (write func(*Result) error, finish func() error) {
	finish = func() error { return nil }
	line := func(form func([]byte, *Result) []byte) func(*Result) error {
		var buf []byte
		return func(r *Result) error {
			buf = form(buf[:0], r)
			_, err := out.Write(buf)
			return err
		}
	}
	switch format {
	case CSV:
		return csvExporter(out, columns)
	case JSONL:
		return line(func(dst []byte, r *Result) []byte {
			return append(bytes.TrimRight(append(dst, r.line...), "\r\n"), '\n')
		}), finish
	case OpenAIBatch:
		return line(appendOpenAILine), finish
	case AnthropicBatch:
		return line(appendAnthropicLine), finish
	}
	next := 0 // index
	oneLine := strings.NewReplacer("\n", `\n`, "\r", `\r`)
	return line(func(dst []byte, r *Result) []byte {
		if gap := r.Index - next; gap > 0 && gap < mostEmptyLines { // items without a row
			dst = append(dst, bytes.Repeat([]byte{'\n'}, gap)...)
		}
		next = r.Index + 1
		if r.Status == OK {
			dst = append(dst, oneLine.Replace(r.Text)...)
		}
		return append(dst, '\n')
	}), finish
}

// batchID is an identifier for a line that stays the same over exports.
func batchID(r *Result) string {
	sum := sha256.Sum256([]byte(r.RequestHash + "\n" + r.Key))
	return "batch_req_" + hex.EncodeToString(sum[:16])
}
