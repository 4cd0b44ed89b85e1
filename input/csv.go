package input

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// csvSource reads rows as RFC 4180 has them. The first row is the header; rows of
// another width are bad lines. A row may span lines and counts as the first of
// them.
type csvSource struct {
	r     *csv.Reader
	bound *bound
	batch int   // rows a chunk
	line  int   // lines before the reader's first
	base  int64 // bytes before it
}

// bound ends the reading of a row that is too long: an open quote would
// otherwise take the rest of the file.
type bound struct {
	r    io.Reader
	read int64
	most int64
}

var errTooLong = errors.New("row too long")

func (b *bound) Read(p []byte) (int, error) {
	if b.read > b.most {
		return 0, errTooLong
	}
	n, err := b.r.Read(p)
	b.read += int64(n)
	return n, err
}

func newCSVReader(r io.Reader) *csv.Reader {
	c := csv.NewReader(r)
	c.FieldsPerRecord = -1 // checked here, with words of our own
	return c
}

func newCSVSource(f *File, r io.Reader, line int, off int64) (*csvSource, error) {
	s := &csvSource{batch: 256, line: line - 1, base: off}
	if f.pipe != nil {
		s.batch = 1
	}
	b := bufio.NewReaderSize(r, chunkSize)
	if head, _ := b.Peek(len(bom)); off == 0 && bytes.Equal(head, bom) {
		b.Discard(len(bom))
		s.base = int64(len(bom))
	}
	s.bound = &bound{r: b, most: f.o.MaxLine}
	s.r = newCSVReader(s.bound)
	if off > 0 {
		return s, nil
	}
	header, err := s.r.Read()
	if err == io.EOF {
		return s, nil
	}
	if err == nil {
		err = f.checkHeader(header)
	}
	if err != nil {
		return nil, f.headerError(err)
	}
	f.header.Store(&header)
	return s, nil
}

func (f *File) headerError(err error) error {
	bad, ok := errors.AsType[*LineError](err)
	if !ok {
		if _, parse := errors.AsType[*csv.ParseError](err); !parse && err != errTooLong {
			return err
		}
		bad = badRow(err, f.o.MaxLine)
	}
	bad.File, bad.Line = f.name, 1
	return bad
}

func (f *File) checkHeader(header []string) error {
	seen := map[string]bool{}
	for _, name := range header {
		switch {
		case !utf8.ValidString(name):
			return &LineError{Col: 1, Msg: "invalid UTF-8 in the header", Hint: utf8Hint}
		case seen[name]:
			return &LineError{Col: 1, Msg: fmt.Sprintf("two columns are called %.40q", name), Hint: "a template could not tell them apart: rename one"}
		}
		seen[name] = true
	}
	if f.o.IDField != "" && !seen[f.o.IDField] {
		return &LineError{Col: 1, Msg: fmt.Sprintf("no column %q, which --id-field names; there is %s", f.o.IDField, quoted(header))}
	}
	return nil
}

func (s *csvSource) next(ctx context.Context, c *chunk) error {
	c.data, c.rows = nil, c.rows[:0]
	if err := ctx.Err(); err != nil {
		return err
	}
	from := s.base + s.r.InputOffset()
	for len(c.rows) < s.batch {
		start := s.r.InputOffset()
		if start+s.base-from > chunkSize && len(c.rows) > 0 {
			break
		}
		s.bound.read = 0
		fields, err := s.r.Read()
		r := record{off: s.base + start, size: int(s.r.InputOffset() - start), fields: fields}
		parse, bad := errors.AsType[*csv.ParseError](err)
		switch {
		case err == errTooLong:
			return err
		case bad:
			r.line, r.bad, r.sum = s.line+parse.StartLine, badRow(err, s.bound.most), contentSum([]byte(strings.Join(fields, "\x00")))
		case err == io.EOF && len(c.rows) > 0:
			return s.first(c, nil)
		case err != nil:
			return err
		default:
			r.line, _ = s.r.FieldPos(0)
			r.line += s.line
		}
		c.rows = append(c.rows, r)
	}
	return s.first(c, nil)
}

func (s *csvSource) first(c *chunk, err error) error {
	c.line, c.off = c.rows[0].line, c.rows[0].off
	return err
}

const utf8Hint = "save the file as UTF-8, e.g. iconv -f WINDOWS-1252 -t UTF-8"

func badRow(err error, most int64) *LineError {
	if err == errTooLong {
		return &LineError{Col: 1, Msg: fmt.Sprintf("the row is longer than %d bytes", most), Hint: "is there a quote that is never closed?"}
	}
	bad := &LineError{Col: 1, Msg: "bad CSV: " + err.Error()}
	if parse, ok := errors.AsType[*csv.ParseError](err); ok {
		bad.Msg = fmt.Sprintf("bad CSV: %v", parse.Err)
		if parse.Line == parse.StartLine {
			bad.Col = max(parse.Column, 1)
		} else {
			bad.Msg += fmt.Sprintf(" (in a row that goes on to line %d)", parse.Line)
		}
		bad.Hint = `a field with quotes in it is written "say ""hi"""`
	}
	return bad
}

// row reads a CSV row, or returns what the source found wrong.
func (p *parser) row(r record, it *Item) *LineError {
	it.sum = r.sum
	if r.bad != nil {
		return r.bad
	}
	names := p.header()
	if p.sumAll {
		it.sum = rowSum(names, r.fields)
	}
	if len(r.fields) != len(names) {
		plural := "s"
		if len(r.fields) == 1 {
			plural = ""
		}
		return &LineError{Col: 1, Msg: fmt.Sprintf("%d field%s, the header has %d", len(r.fields), plural, len(names)),
			Hint: "a comma inside a field needs quotes around the field"}
	}
	for i, v := range r.fields {
		if !utf8.ValidString(v) {
			return &LineError{Col: 1, Msg: fmt.Sprintf("invalid UTF-8 in column %.40q", names[i]), Hint: utf8Hint}
		}
	}
	bad := p.tmpl.row(names, r.fields, it)
	if bad == nil && !it.has && !p.sumAll {
		it.sum = rowSum(names, r.fields)
	}
	return bad
}

// rowSum is the content sum of a row: that of the row as a JSON object.
func rowSum(names, fields []string) uint64 {
	b := []byte{'{'}
	for i, v := range fields {
		if i > 0 {
			b = append(b, ',')
		}
		if i < len(names) {
			b, _ = jsontext.AppendQuote(b, names[i])
			b = append(b, ':')
		}
		b, _ = jsontext.AppendQuote(b, v)
	}
	return contentSum(append(b, '}'))
}

// reread reads the one row that b holds.
func reread(b []byte) ([]string, error) { return newCSVReader(bytes.NewReader(b)).Read() }
