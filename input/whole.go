package input

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
)

// notLines is the error of a file that is no file of lines at all, by what it begins
// with: one message with the way out, not one a line.
func (f *File) notLines(b *bufio.Reader) *LineError {
	if _, err := b.Peek(4); err != nil && b.Buffered() == 0 {
		return nil
	}
	head, _ := b.Peek(b.Buffered()) // no more: a pipe may be slow
	bad := &LineError{File: f.name, Line: 1, Col: 1}
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		bad.Msg, bad.Hint = "this is a zip archive, not text", "unpack it first"
		if f.ext != ".zip" {
			bad.Msg, bad.Hint = "this is an Excel file (or another zip archive), not text", `save it as "CSV UTF-8" in Excel`
		}
	case bytes.HasPrefix(head, []byte("\xd0\xcf\x11\xe0")):
		bad.Msg, bad.Hint = "this is an Excel file, not text", `save it as "CSV UTF-8" in Excel`
	case bytes.HasPrefix(head, []byte{0xff, 0xfe}) || bytes.HasPrefix(head, []byte{0xfe, 0xff}) ||
		len(head) > 3 && (head[0] == 0) != (head[1] == 0) && (head[2] == 0) != (head[3] == 0):
		bad.Msg, bad.Hint = "the file is UTF-16", fmt.Sprintf("iconv -f UTF-16 -t UTF-8 %s > utf8%s", f.name, f.ext)
	case f.csv:
		return nil
	default:
		return f.notJSONL(head, bad)
	}
	return bad
}

// notJSONL completes the error of text that is not lines of JSON; nil where it may be.
func (f *File) notJSONL(head []byte, bad *LineError) *LineError {
	first, rest, _ := bytes.Cut(bytes.TrimPrefix(head, bom), []byte{'\n'})
	first = bytes.TrimSpace(first)
	inner := len(rest) > 0 && bytes.IndexByte([]byte(" \t\""), rest[0]) >= 0
	switch text := string(first); {
	case text == "[" || text == "[{" && inner:
		bad.Msg = "the file is one JSON array, not one object a line"
		bad.Hint = fmt.Sprintf("jq -c '.[]' %s > lines.jsonl", f.name)
	case text == "{" && inner:
		bad.Msg = "the file is pretty-printed JSON, not one object a line"
		bad.Hint = fmt.Sprintf("jq -c . %s > lines.jsonl", f.name)
	case (f.ext == ".txt" || f.ext == ".md") && text != "" && text[0] != '{' && text[0] != '[':
		bad.Msg = fmt.Sprintf("not lines of JSON: the file begins with %.20q", text)
		bad.Hint = fmt.Sprintf("where each line is a prompt: jq -Rc '{prompt: .}' %s > prompts.jsonl", f.name)
	case f.ext != ".csv" && f.ext != ".tsv" && f.tmpl != nil && text != "" && bytes.ContainsAny(first, ",;\t") && text[0] != '{' && text[0] != '[':
		bad.Msg = fmt.Sprintf("not lines of JSON: the file begins with %.20q", text)
		bad.Hint = "if it is CSV, name it .csv or say --delimiter"
	default:
		return nil
	}
	return bad
}

// firstNames are the columns or the first line's members, for messages; nil where they
// cannot be read without taking them from a pipe.
func (f *File) firstNames() []string {
	if f.pipe != nil {
		return nil
	}
	src, done, err := f.source(place{})
	if err != nil {
		return nil
	}
	defer done()
	if f.csv {
		return f.columns()
	}
	c, p := &chunk{}, f.parser()
	if src.next(context.Background(), c) != nil {
		return nil
	}
	defer c.release()
	var names []string
	for r := range c.each {
		if from, to := trim(r.b); r.bad == nil && p.walk(r.b[:to], from) == nil {
			for _, m := range p.members {
				names = append(names, string(m.name))
			}
			break
		}
	}
	return names
}
