package output

import (
	"bufio"
	"cmp"
	"crypto/sha256"
	"encoding/csv"
	"encoding/hex"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// ExportFormat is a form that rows can be exported in.
type ExportFormat string

const (
	// CSV has a header and one record a row, quoted as RFC 4180 says. Cells are
	// written as they are, also where a spreadsheet would take one for a formula.
	CSV ExportFormat = "csv"
	// Text is the text of each row that is ok, each followed by a newline, as
	// jq -r 'select(.status=="ok").text' prints it.
	Text ExportFormat = "text"
	// OpenAIBatch and AnthropicBatch are the lines of these providers' own batch
	// results. The answers in them are the API's bodies as they came.
	OpenAIBatch    ExportFormat = "openai-batch"
	AnthropicBatch ExportFormat = "anthropic-batch"
)

// ExportOptions of Export.
type ExportOptions struct {
	Format  ExportFormat
	Ordered bool // in the order of the input
	// Columns of CSV, nil for all that Columns names.
	Columns []string
}

// Columns returns the names that ExportOptions.Columns may hold, in their order.
func Columns() []string {
	return []string{"id", "status", "text", "stop_reason", "provider", "model",
		"error_class", "error_status", "error_type", "error_code", "error_message", "give_up_reason", "attempts",
		"input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "reasoning_tokens", "cost",
		"first_attempt_at", "finished_at", "next_attempt_at", "index", "metadata"}
}

// Export writes the last row of each id to w in another form. The errors are
// those of LastRows and of w, or say that a format or column is unknown.
func Export(w io.Writer, path string, o ExportOptions) error {
	out := bufio.NewWriterSize(w, 64<<10)
	write, finish, err := exporter(out, o)
	if err != nil {
		return err
	}
	for r, err := range LastRows(path, o.Ordered) {
		if err != nil {
			return cmp.Or(out.Flush(), err)
		}
		if err := write(r); err != nil {
			return err
		}
	}
	return cmp.Or(finish(), out.Flush())
}

// exporter returns what writes one row, and what is to be called after the last.
func exporter(out *bufio.Writer, o ExportOptions) (write func(*Result) error, finish func() error, err error) {
	finish = func() error { return nil }
	line := func(form func([]byte, *Result) []byte) func(*Result) error {
		var buf []byte
		return func(r *Result) error {
			buf = form(buf[:0], r)
			_, err := out.Write(buf)
			return err
		}
	}
	switch o.Format {
	case CSV:
		return csvExporter(out, o.Columns)
	case Text:
		return line(appendTextLine), finish, nil
	case OpenAIBatch:
		return line(appendOpenAILine), finish, nil
	case AnthropicBatch:
		return line(appendAnthropicLine), finish, nil
	}
	return nil, nil, fmt.Errorf("unknown export format %q (csv, text, openai-batch or anthropic-batch)", o.Format)
}

func appendTextLine(dst []byte, r *Result) []byte {
	if r.Status != OK {
		return dst
	}
	return append(append(dst, r.Text...), '\n')
}

func csvExporter(out io.Writer, columns []string) (write func(*Result) error, finish func() error, err error) {
	if columns == nil {
		columns = Columns()
	}
	for _, c := range columns {
		if !slices.Contains(Columns(), c) {
			return nil, nil, fmt.Errorf("unknown column %q (%s)", c, strings.Join(Columns(), ", "))
		}
	}
	w := csv.NewWriter(out)
	record := make([]string, len(columns))
	if err := w.Write(columns); err != nil {
		return nil, nil, err
	}
	write = func(r *Result) error {
		for i, c := range columns {
			record[i] = cell(r, c)
		}
		return w.Write(record)
	}
	return write, func() error { w.Flush(); return w.Error() }, nil
}

// cell is empty where the row has no such member.
func cell(r *Result, column string) string {
	e := cmp.Or(r.Error, &Error{})
	switch column {
	case "id":
		return r.Key
	case "status":
		return string(r.Status)
	case "text":
		return r.Text
	case "stop_reason":
		return r.StopReason
	case "provider":
		return r.Provider
	case "model":
		return r.Model
	case "error_class":
		return e.Class
	case "error_status":
		return count(int64(e.Status))
	case "error_type":
		return e.Type
	case "error_code":
		return e.Code
	case "error_message":
		return e.Message
	case "give_up_reason":
		return r.GiveUpReason
	case "attempts":
		return strconv.Itoa(len(r.Attempts))
	case "index":
		return strconv.Itoa(r.Index)
	case "metadata":
		return string(r.Metadata)
	}
	return figure(r, column)
}

// figure is a cell of numbers or times.
func figure(r *Result, column string) string {
	switch column {
	case "input_tokens":
		return count(r.Usage.InputTokens)
	case "output_tokens":
		return count(r.Usage.OutputTokens)
	case "cache_read_tokens":
		return count(r.Usage.CacheReadTokens)
	case "cache_write_tokens":
		return count(r.Usage.CacheWriteTokens)
	case "reasoning_tokens":
		return count(r.Usage.ReasoningTokens)
	case "cost":
		if r.HasCost {
			return string(appendCost(nil, r.Cost))
		}
	case "first_attempt_at":
		return strings.Trim(string(appendTime(nil, "", r.FirstAttemptAt)), `"`)
	case "finished_at":
		return strings.Trim(string(appendTime(nil, "", r.FinishedAt)), `"`)
	case "next_attempt_at":
		return strings.Trim(string(appendTime(nil, "", r.NextAttemptAt)), `"`)
	}
	return ""
}

func count(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// batchID is an identifier for a line that stays the same over exports.
func batchID(r *Result) string {
	sum := sha256.Sum256([]byte(r.RequestHash + "\n" + r.Key))
	return "batch_req_" + hex.EncodeToString(sum[:16])
}
