// Package input turns a file of prompts into items.
//
// A line is read in one of five formats, told apart line by line: a prompt with
// options, a message list, an OpenAI batch line (in the dialects of other vendors too),
// an Anthropic batch line, or any object (or row of CSV) rendered through a template. What the user wrote as a
// request body passes through as bytes: unknown members, key order and the
// digits of numbers survive. Ids are kept digit for digit.
//
// A member that would go nowhere is an error: in format 1 and around a batch
// line's body only the documented names may stand. null counts as absent, but for
// an id, a prompt and what is part of a body.
//
// Lines end at LF only (CR before it is white space); a line may begin with a BOM.
// Blank lines are skipped. The bound of a line is Options.MaxLine, 256 MiB.
// A file may be gzip or zstd. Files are read in chunks of 64 KB, and no more than
// two long lines at a time; besides them the check holds a hash of each id, about 12 bytes.
//
// A regular file can be checked whole (Check) before its items are used (Items);
// a pipe is read once, and its bad lines are items with Bad set.
package input

import (
	"encoding/json"
	"fmt"
	"strings"
)

// Format says how a line was written.
type Format uint8

const (
	// Prompt is {"id","prompt",…}; templates and CSV rows become this too.
	Prompt Format = iota
	// Messages is {"id","messages"|"input",…}: the rest is the request body.
	Messages
	// OpenAIBatch is {"custom_id","method","url","body"}.
	OpenAIBatch
	// AnthropicBatch is {"custom_id","params"}.
	AnthropicBatch
	// Contents is {"id","contents",…} of Gemini's own API: the rest is the request body.
	Contents
)

// Item is one line of the input. Its byte slices belong to the item.
type Item struct {
	// Index counts items from 0; blank lines are not counted.
	Index int
	// Line is the line's number from 1, Offset the position of its first byte in
	// the decompressed input, Size its length in bytes without the line end. (Of a
	// CSV row they take in the blank lines before it and its line end.)
	Line   int
	Offset int64
	Size   int

	// ID is the id as it was written, a JSON string or number. A line without
	// one has its content id, as a JSON string. Never empty.
	ID json.RawMessage
	// Key is what ids are compared by: the string's text, or the number's digits.
	// 1 and "1" have the same key.
	Key string

	Format Format
	// Model is the line's own model, "" if it names none.
	Model string
	// URL is an OpenAI batch line's own path, such as /v1/chat/completions or
	// chat/completions; "" if it has none.
	URL string

	// Prompt, System, MaxTokens, Temperature, Params and Files are set for Format Prompt
	// only. MaxTokens and Temperature are numbers as written, nil if absent.
	Prompt      string
	System      string
	MaxTokens   json.RawMessage
	Temperature json.RawMessage
	Params      json.RawMessage
	Files       []FileRef

	// Body is the request body as written for the other formats: a JSON object
	// without the line's id and metadata.
	Body json.RawMessage
	// BodyOffset of Body in the line, for messages about it; 0 if unknown. Where an
	// id stood in front, the byte there is no brace but a comma or a space.
	BodyOffset int

	// Metadata is carried to the result, nil if absent.
	Metadata json.RawMessage
	// Input are the columns or members that Options.Keep names, as a JSON object in
	// their order; nil if there are none.
	Input json.RawMessage
	// Bounds are the line's own budgets, nil if it has none. They are no part of the
	// request.
	Bounds *Bounds

	// Bad is set where a bad line is let through (a pipe, --skip-invalid): the
	// item has then only Index, Line, Offset, Size, ID and Key.
	Bad *LineError

	idAt int    // of the id in the line, for messages
	at   int    // of the object in the line: behind a BOM and white space
	sum  uint64 // of the content, where the line has no id or may turn bad
	has  bool   // the line has an id of its own

	scattered bool       // Body is no piece of the line: BodyOffset is unknown
	refused   *LineError // by Check's Prepare
}

// LineError is what is wrong with one line.
type LineError struct {
	// File, Line and Col locate it; Col counts bytes from 1, 0 if unknown.
	File string
	Line int
	Col  int
	// Msg says what is wrong and Hint what to do, which may be "".
	Msg  string
	Hint string

	repeats string // the id that an earlier line has too
}

// Error is file:line:col: message, without the hint.
func (e *LineError) Error() string {
	var at strings.Builder
	if e.File != "" {
		at.WriteString(e.File + ":")
	}
	if e.Line > 0 {
		fmt.Fprintf(&at, "%d:", e.Line)
		if e.Col > 0 {
			fmt.Fprintf(&at, "%d:", e.Col)
		}
	}
	if at.Len() > 0 {
		at.WriteByte(' ')
	}
	return at.String() + e.Msg
}

// Errors is what Check found wrong with the lines of a file.
type Errors struct {
	// Count is the number of all bad lines.
	Count int
	// First has the first ten of them, in order.
	First []*LineError
}

// Error names the first bad lines, one a line, with a hint below the last of those
// that share it.
func (e *Errors) Error() string {
	var b strings.Builder
	for i, l := range e.First {
		if i > 0 {
			b.WriteByte('\n')
		}
		b.WriteString(l.Error())
		if l.Hint != "" && (i+1 == len(e.First) || e.First[i+1].Hint != l.Hint) {
			b.WriteString("\n    hint: " + l.Hint)
		}
	}
	if more := e.Count - len(e.First); more > 0 {
		fmt.Fprintf(&b, "\n… and %d more", more)
	}
	return b.String()
}
