package input

import (
	"bufio"
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"llmbatch/input/jsonl"
)

// csvSource reads rows as RFC 4180 has them. The first row is the header; rows of
// another width are bad lines. A row may span lines and counts as the first of
// them. Rows whose cells are all empty, as Excel leaves them at the end, are skipped.
type csvSource struct {
	f     *File
	r     *csv.Reader
	bound *bound
	batch int   // rows a chunk
	base  int64 // bytes before the reader's first
	line  int   // lines before it
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

func newCSVReader(r io.Reader, comma rune) *csv.Reader {
	c := csv.NewReader(r)
	c.Comma = comma
	c.FieldsPerRecord = -1 // checked here, with words of our own
	return c
}

func newCSVSource(f *File, b *bufio.Reader) (*csvSource, error) {
	s := &csvSource{f: f, batch: 256}
	if f.pipe != nil {
		s.batch = 1
	}
	f.blank.Store(0)
	if head, _ := b.Peek(len(bom)); bytes.Equal(head, bom) {
		b.Discard(len(bom))
		s.base = int64(len(bom))
	}
	comma, skip := delimiter(b, f.o.Delimiter, f.ext)
	if skip > 0 { // Excel's line sep=;
		b.Discard(skip)
		s.base, s.line = s.base+int64(skip), 1
	}
	f.comma.Store(comma)
	s.bound = &bound{r: b, most: f.o.MaxLine}
	s.r = newCSVReader(s.bound, comma)
	header, err := s.r.Read()
	if err == io.EOF {
		return s, nil
	}
	if err == nil {
		err = f.checkHeader(header)
	}
	if err != nil {
		return nil, f.headerError(err, s.line+1)
	}
	f.header.Store(&header)
	return s, nil
}

// delimiter is what stands between the cells: as asked, as a line sep=; says, or what
// is found most often in the header outside of quotes. skip is the length of such a
// line.
func delimiter(b *bufio.Reader, asked, ext string) (comma rune, skip int) {
	var head []byte
	for n, err := 1, error(nil); err == nil && bytes.IndexByte(head, '\n') < 0; n = b.Buffered() + 1 {
		_, err = b.Peek(n) // a pipe may bring the header in pieces
		head, _ = b.Peek(b.Buffered())
	}
	head, _, _ = bytes.Cut(head, []byte{'\n'})
	line := bytes.TrimSuffix(head, []byte{'\r'})
	comma = ','
	if rest, ok := bytes.CutPrefix(bytes.ToLower(line), []byte("sep=")); ok && len(rest) == 1 {
		comma, skip = rune(rest[0]), len(head)+1
	} else if ext == ".tsv" {
		comma = '\t'
	} else {
		counts, quoted := map[byte]int{}, false
		for _, c := range line {
			if c == '"' {
				quoted = !quoted
			} else if !quoted {
				counts[c]++
			}
		}
		for _, c := range []byte(";\t") {
			if counts[c] > counts[byte(comma)] {
				comma = rune(c)
			}
		}
	}
	if asked != "" {
		comma, _ = utf8.DecodeRuneInString(asked)
	}
	return comma, skip
}

// checkDelimiter returns the delimiter that the user names.
func checkDelimiter(s string) (string, error) {
	switch strings.ToLower(s) {
	case "tab", `\t`:
		s = "\t"
	case "comma":
		s = ","
	case "semicolon":
		s = ";"
	}
	if r, n := utf8.DecodeRuneInString(s); n != len(s) || r == utf8.RuneError && n == 1 || strings.ContainsAny(s, "\"\r\n") {
		return "", fmt.Errorf("--delimiter %q is not one character: write , or ; or tab", s)
	}
	return s, nil
}

func (f *File) headerError(err error, line int) error {
	bad, ok := errors.AsType[*LineError](err)
	if !ok {
		if _, parse := errors.AsType[*csv.ParseError](err); !parse && err != errTooLong {
			return err
		}
		bad = badRow(err, f.o.MaxLine)
	}
	bad.File, bad.Line = f.name, line
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
	asked := []struct{ name, flag string }{{f.o.IDField, "--id-field"}}
	for _, name := range f.keep {
		asked = append(asked, struct{ name, flag string }{name, "--keep"})
	}
	for _, a := range asked {
		if a.name != "" && !seen[a.name] {
			return &LineError{Col: 1, Msg: fmt.Sprintf("no column %q, which %s names; there is %s", a.name, a.flag, quoted(header))}
		}
	}
	return nil
}

func (s *csvSource) next(ctx context.Context, c *chunk) error {
	c.buf, c.rows = nil, c.rows[:0]
	if err := ctx.Err(); err != nil {
		return err
	}
	from := s.r.InputOffset()
	for len(c.rows) < s.batch && (s.r.InputOffset()-from <= chunkSize || len(c.rows) == 0) {
		start := s.r.InputOffset()
		s.bound.read = 0
		fields, err := s.r.Read()
		r := record{off: s.base + start, size: int(s.r.InputOffset() - start), fields: fields}
		parse, bad := errors.AsType[*csv.ParseError](err)
		switch {
		case bad:
			r.line, r.bad, r.sum = s.line+parse.StartLine, badRow(err, s.bound.most), contentSum([]byte(strings.Join(fields, "\x00")))
		case err == io.EOF && len(c.rows) > 0:
			return nil
		case err != nil:
			return err
		case strings.TrimSpace(strings.Join(fields, "")) == "":
			s.f.blank.Add(1)
			continue
		default:
			r.line, _ = s.r.FieldPos(0)
			r.line += s.line
		}
		c.rows = append(c.rows, r)
	}
	return nil
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
	names := p.f.columns()
	if p.f.o.LetThrough {
		it.sum = contentSum(rowObject(names, r.fields, nil))
	}
	if len(r.fields) != len(names) {
		plural := "s"
		if len(r.fields) == 1 {
			plural = ""
		}
		bad := &LineError{Col: 1, Msg: fmt.Sprintf("%d field%s, the header has %d", len(r.fields), plural, len(names)),
			Hint: "a comma inside a field needs quotes around the field"}
		if comma := p.f.comma.Load(); comma != ',' {
			bad.Hint = fmt.Sprintf("cells are told apart by %q, as the header has it; --delimiter names another", comma)
		} else if len(names) == 1 {
			bad.Hint = "a comma inside a field needs quotes around the field; --delimiter names what else stands between cells"
		}
		return bad
	}
	for i, v := range r.fields {
		if !utf8.ValidString(v) {
			return &LineError{Col: 1, Msg: fmt.Sprintf("invalid UTF-8 in column %.40q", names[i]), Hint: utf8Hint}
		}
	}
	bad := p.f.tmpl.row(p, names, r.fields, it)
	if bad == nil && !it.has && !p.f.o.LetThrough {
		it.sum = contentSum(rowObject(names, r.fields, nil))
	}
	return bad
}

// rowObject is the row as a JSON object, of the names to be kept where there are any.
func rowObject(names, fields, keep []string) []byte {
	b := []byte{'{'}
	for i, v := range fields {
		if keep != nil && (i >= len(names) || !slices.Contains(keep, names[i])) {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		if i < len(names) {
			b = append(jsonl.AppendQuote(b, names[i]), ':')
		}
		b = jsonl.AppendQuote(b, v)
	}
	return append(b, '}')
}
