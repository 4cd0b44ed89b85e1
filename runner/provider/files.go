package provider

import (
	"bytes"
	"encoding/base64"

	"llmbatch/input"
	"llmbatch/input/jsonl"
)

// mark and the hash of a file's content stand in a call's body for the content, so
// that the body is small until it is sent and its hash is that of the content.
const mark = "llmbatch-file-sha256-"

const sumDigits = 64

// FileMark is what stands for the file's content in a JSON string of a call's body:
// alone for text, and behind "base64," for anything else.
func FileMark(r input.FileRef) string { return mark + r.Sum }

// WithFiles returns the body with the files' contents in the place of their marks. It
// reads them now, so it is for a body that is about to be sent. A file that cannot be
// read or has changed is an error. The body itself is not changed, and is returned
// where there are no files.
func WithFiles(body []byte, files []input.FileRef) ([]byte, error) {
	if len(files) == 0 {
		return body, nil
	}
	var out []byte
	for rest := body; ; {
		i := bytes.Index(rest, []byte(mark))
		if i < 0 {
			return append(out, rest...), nil
		}
		end := min(i+len(mark)+sumDigits, len(rest))
		out = append(out, rest[:i]...)
		r := marked(rest, i, end, files)
		if r == nil { // words of the user's
			out, rest = append(out, rest[i:end]...), rest[end:]
			continue
		}
		content, err := r.Read()
		if err != nil {
			return nil, err
		}
		if r.Text() {
			q := jsonl.AppendQuote(nil, content)
			out = append(out, q[1:len(q)-1]...)
		} else {
			out = base64.StdEncoding.AppendEncode(out, content)
		}
		rest = rest[end:]
	}
}

// marked is the file whose mark stands at i: a whole string, or the end of a data URL.
func marked(b []byte, i, end int, files []input.FileRef) *input.FileRef {
	if i == 0 || b[i-1] != '"' && b[i-1] != ',' || end == len(b) || b[end] != '"' {
		return nil
	}
	for k := range files {
		if files[k].Sum == string(b[i+len(mark):end]) {
			return &files[k]
		}
	}
	return nil
}
