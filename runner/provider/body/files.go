package body

import (
	"llmbatch/input"
	"llmbatch/runner/provider"
)

// Style is how an API writes the parts of a user's turn.
type Style int

// The styles of the APIs with a list of parts.
const (
	ChatParts Style = iota
	ResponsesParts
	AnthropicParts
)

// Content is what a prompt's turn holds: its text as a string, or, where the line has
// files, a list of parts with the files first. A file's content is a mark until
// provider.WithFiles puts it in.
func Content(it *input.Item, s Style) []byte {
	if len(it.Files) == 0 {
		return Quote(it.Prompt)
	}
	var parts [][]byte
	for _, r := range it.Files {
		parts = append(parts, filePart(r, s))
	}
	kind := "text"
	if s == ResponsesParts {
		kind = "input_text"
	}
	return List(append(parts, part(kind, Field{Name: "text", Value: Quote(it.Prompt)}))...)
}

func part(kind string, fields ...Field) []byte {
	return Build(nil, append([]Field{{Name: "type", Value: Quote(kind)}}, fields...)...)
}

func filePart(r input.FileRef, s Style) []byte {
	content, name := provider.FileMark(r), Field{Name: "filename", Value: Quote(r.Name())}
	url := Quote("data:" + r.MediaType + ";base64," + content)
	pdf := r.MediaType == "application/pdf"
	switch {
	case s == AnthropicParts:
		kind, encoding := "image", "base64"
		if pdf || r.Text() {
			kind = "document"
		}
		if r.Text() {
			encoding = "text"
		}
		source := Build(nil, Field{Name: "type", Value: Quote(encoding)}, Field{Name: "media_type", Value: Quote(r.MediaType)},
			Field{Name: "data", Value: Quote(content)})
		return part(kind, Field{Name: "source", Value: source})
	case r.Text() && s == ResponsesParts:
		return part("input_text", Field{Name: "text", Value: Quote(content)})
	case r.Text():
		return part("text", Field{Name: "text", Value: Quote(content)})
	case pdf && s == ResponsesParts:
		return part("input_file", name, Field{Name: "file_data", Value: url})
	case pdf:
		return part("file", Field{Name: "file", Value: Build(nil, name, Field{Name: "file_data", Value: url})})
	case s == ResponsesParts:
		return part("input_image", Field{Name: "image_url", Value: url})
	}
	return part("image_url", Field{Name: "image_url", Value: Build(nil, Field{Name: "url", Value: url})})
}
