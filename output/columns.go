package output

import (
	"cmp"
	"encoding/csv"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"llmbatch/input/jsonl"
)

// column is one of CSV. Its cell is empty where a row has no such member.
type column struct {
	name string
	cell func(*Result) string
}

// Columns returns the names of a row's own columns, in their order.
func Columns() []string {
	var names []string
	for _, c := range ownColumns() {
		names = append(names, c.name)
	}
	return names
}

func ownColumns() []column {
	e := func(r *Result) *Error { return cmp.Or(r.Error, &Error{}) }
	return []column{
		{"id", func(r *Result) string { return r.Key }},
		{"text", func(r *Result) string { return r.Text }},
		{"status", func(r *Result) string { return string(r.Status) }},
		{"error", func(r *Result) string { return cmp.Or(e(r).Message, e(r).Class) }},
		{"stop_reason", func(r *Result) string { return r.StopReason }},
		{"provider", func(r *Result) string { return r.Provider }},
		{"model", func(r *Result) string { return r.Model }},
		{"error_class", func(r *Result) string { return e(r).Class }},
		{"error_status", func(r *Result) string { return count(int64(e(r).Status)) }},
		{"error_type", func(r *Result) string { return e(r).Type }},
		{"error_code", func(r *Result) string { return e(r).Code }},
		{"error_message", func(r *Result) string { return e(r).Message }},
		{"give_up_reason", func(r *Result) string { return r.GiveUpReason }},
		{"attempts", func(r *Result) string { return strconv.Itoa(len(r.Attempts)) }},
		{"input_tokens", func(r *Result) string { return count(r.Usage.InputTokens) }},
		{"output_tokens", func(r *Result) string { return count(r.Usage.OutputTokens) }},
		{"cache_read_tokens", func(r *Result) string { return count(r.Usage.CacheReadTokens) }},
		{"cache_write_tokens", func(r *Result) string { return count(r.Usage.CacheWriteTokens) }},
		{"reasoning_tokens", func(r *Result) string { return count(r.Usage.ReasoningTokens) }},
		{"cost", func(r *Result) string {
			if !r.HasCost {
				return ""
			}
			return string(appendCost(nil, r.Cost))
		}},
		{"first_attempt_at", func(r *Result) string { return jsonl.Text(appendTime(nil, "", r.FirstAttemptAt)) }},
		{"finished_at", func(r *Result) string { return jsonl.Text(appendTime(nil, "", r.FinishedAt)) }},
		{"next_attempt_at", func(r *Result) string { return jsonl.Text(appendTime(nil, "", r.NextAttemptAt)) }},
		{"index", func(r *Result) string { return strconv.Itoa(r.Index) }},
		{"metadata", func(r *Result) string { return string(r.Metadata) }},
		{"partial_text", func(r *Result) string { return r.PartialText }},
		{"reused_from", func(r *Result) string { return r.ReusedFrom }},
		{"copied_from", func(r *Result) string { return r.CopiedFrom }},
	}
}

// count is empty for 0.
func count(n int64) string {
	if n == 0 {
		return ""
	}
	return strconv.FormatInt(n, 10)
}

// inputPrefix tells an input column from a row's own of the same name.
const inputPrefix = "input."

// inputColumn is the column of an input's member: a string's text, else JSON, null
// empty.
func inputColumn(header, member string) column {
	return column{header, func(r *Result) string {
		v := jsonl.Member(r.Input, member)
		if len(v) == 0 || v[0] == '"' {
			return jsonl.Text(v)
		}
		if string(v) == "null" {
			return ""
		}
		return string(v)
	}}
}

// inputColumns are the names of all input columns that rows have kept, in the order
// in which they first appear.
func inputColumns(path string, o ExportOptions) ([]string, error) {
	var names []string
	seen := map[string]bool{}
	for r, err := range o.rows(path, false) {
		if err != nil {
			return nil, err
		}
		for w := jsonl.Members(r.Input); w.Next(); {
			if !seen[string(w.Name)] {
				seen[string(w.Name)] = true
				names = append(names, string(w.Name))
			}
		}
	}
	return names, nil
}

// chosenColumns finds columns by their names. By default an input's id is left out,
// since the row's id is it, and an input column named as one of the others is
// called input.NAME.
func chosenColumns(chosen, inputs []string) ([]column, error) {
	own := map[string]column{}
	for _, c := range ownColumns() {
		own[c.name] = c
	}
	var list []column
	if chosen == nil {
		list = append(list, own["id"])
		for _, name := range inputs {
			header := name
			if _, taken := own[name]; taken {
				header = inputPrefix + name
			}
			if name != "id" {
				list = append(list, inputColumn(header, name))
			}
		}
		return append(list, own["text"], own["status"], own["error"]), nil
	}
	for _, name := range chosen {
		c, isOwn := own[name]
		member := strings.TrimPrefix(name, inputPrefix)
		switch {
		case isOwn:
			list = append(list, c)
		case slices.Contains(inputs, name):
			list = append(list, inputColumn(name, name))
		case slices.Contains(inputs, member):
			list = append(list, inputColumn(name, member))
		default:
			known := append(Columns(), inputs...)
			return nil, fmt.Errorf("%w %q (%s)", ErrUnknownColumn, name, strings.Join(known, ", "))
		}
	}
	return list, nil
}

// csvExporter writes the header and returns what writes one row, and what is to be
// called after the last.
func csvExporter(out io.Writer, columns []column) (write func(*Result) error, finish func() error) {
	w := csv.NewWriter(out)
	record := make([]string, len(columns))
	for i, c := range columns {
		record[i] = c.name
	}
	_ = w.Write(record) // Error says it at the end
	write = func(r *Result) error {
		for i, c := range columns {
			record[i] = c.cell(r)
		}
		return w.Write(record)
	}
	return write, func() error { w.Flush(); return w.Error() }
}
