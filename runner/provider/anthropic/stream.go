package anthropic

import (
	"encoding/json"

	"github.com/go-json-experiment/json/jsontext"

	"llmbatch/runner/provider"
	"llmbatch/runner/provider/body"
)

// Assemble starts the reading of a streamed message.
func (Provider) Assemble(c *provider.Call) provider.Assembler { return &assembler{call: c} }

// assembler builds a message from its events. Deltas of types that are not known
// are merged by the names of their members.
type assembler struct {
	call    *provider.Call
	message body.Fields
	usage   body.Fields
	blocks  []*block
	err     *provider.Error
}

// block is a content block on its way.
type block struct {
	index  int64
	kind   string
	fields body.Fields
	input  []byte // of a tool call: the text of its JSON so far
	closed bool
}

// maxBlocks is the most content blocks of one message.
const maxBlocks = 10_000

// Event takes one event. What it is stands in its data; events and members that
// are not known are let pass.
func (s *assembler) Event(name string, data []byte) *provider.Error {
	if s.err != nil || len(data) == 0 && name != "error" {
		return s.err
	}
	if len(data) == 0 {
		data = []byte("{}")
	}
	v, err := body.Event(data)
	switch {
	case err == nil:
	case name == "error":
		s.err = body.StreamFailed(s.call, body.Quote(string(data)), s.used())
		return s.err
	case err.Class == provider.Truncated && s.whole():
		return nil // what was cut is message_stop, which adds nothing
	default:
		err.Usage = s.used()
		s.err = err
		return err
	}
	kind := body.Text(body.Member(v, "type"))
	if kind == "" {
		kind = name
	}
	failure := body.Member(v, "error")
	switch {
	case !body.Null(failure):
		s.err = body.StreamFailed(s.call, failure, s.used())
	case kind == "error" || name == "error":
		s.err = body.StreamFailed(s.call, v, s.used())
	default:
		s.apply(kind, v)
	}
	return s.err
}

func (s *assembler) apply(kind string, v []byte) {
	switch kind {
	case "message_start":
		for w := body.Members(body.Member(v, "message")); w.Next(); {
			s.top(string(w.Name), w.Value)
		}
	case "message_delta":
		for w := body.Members(body.Member(v, "delta")); w.Next(); {
			s.top(string(w.Name), w.Value)
		}
		for w := body.Members(v); w.Next(); {
			switch string(w.Name) {
			case "type", "delta":
			default:
				s.top(string(w.Name), w.Value)
			}
		}
	case "content_block_start":
		b := s.block(v)
		if b == nil {
			return
		}
		for w := body.Members(body.Member(v, "content_block")); w.Next(); {
			b.fields.Set(string(w.Name), w.Value)
		}
		b.kind = body.Text(b.fields.Get("type"))
	case "content_block_delta":
		if b := s.block(v); b != nil {
			b.delta(body.Member(v, "delta"))
		}
	case "content_block_stop":
		if b := s.block(v); b != nil {
			b.closed = true
		}
	}
}

// top sets a member of the message. Usage counts are cumulative: a later one
// takes the place of an earlier one, and those that are not repeated stay.
func (s *assembler) top(name string, v []byte) {
	switch name {
	case "usage":
		for w := body.Members(v); w.Next(); {
			if !body.Null(w.Value) || s.usage.Get(string(w.Name)) == nil {
				s.usage.Set(string(w.Name), w.Value)
			}
		}
		s.message.Set(name, []byte("{}"))
	case "content":
		s.message.Set(name, []byte("[]"))
	default:
		s.message.Set(name, v)
	}
}

// block returns the block that an event speaks of, a new one if need be. Where
// there are too many it is nil, and the stream has failed.
func (s *assembler) block(v []byte) *block {
	index := body.Int(body.Member(v, "index"))
	for i := len(s.blocks) - 1; i >= 0; i-- {
		if s.blocks[i].index == index {
			return s.blocks[i]
		}
	}
	if len(s.blocks) >= maxBlocks {
		s.err = body.Invalid(provider.Answer{Status: 200}, "the stream has too many content blocks")
		s.err.Usage = s.used()
		return nil
	}
	b := &block{index: index}
	at := len(s.blocks)
	for at > 0 && s.blocks[at-1].index > index {
		at--
	}
	s.blocks = append(s.blocks, nil)
	copy(s.blocks[at+1:], s.blocks[at:])
	s.blocks[at] = b
	return b
}

// delta adds a piece to the block.
func (b *block) delta(v []byte) {
	switch body.Word(body.Member(v, "type"), "text_delta", "input_json_delta", "thinking_delta") {
	case "input_json_delta":
		b.input = body.AppendText(b.input, body.Member(v, "partial_json"))
	case "signature_delta":
		if sig := body.Member(v, "signature"); sig != nil {
			b.fields.Set("signature", sig)
		}
	case "citations_delta":
		if c := body.Member(v, "citation"); c != nil {
			b.fields.Extend("citations", body.List(c))
		}
	default:
		for w := body.Members(v); w.Next(); {
			if string(w.Name) != "type" {
				b.fields.Extend(string(w.Name), w.Value)
			}
		}
	}
}

// json is the block as the non-streaming API sends it.
func (b *block) json() []byte {
	if len(b.input) > 0 {
		input := b.input
		if !jsontext.Value(input).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
			// A limit on the output may end a tool call anywhere; the API's guide to
			// streamed tool calls wraps what can't be parsed in this way.
			input = body.Build(nil, body.Field{Name: "INVALID_JSON", Value: body.Quote(string(input))})
		}
		b.fields.Set("input", input)
	}
	return b.fields.JSON()
}

// Finish returns the message. Its stop reason is the evidence that it is whole;
// how the connection ended after that does not matter.
func (s *assembler) Finish(clean bool) (json.RawMessage, *provider.Error) {
	if s.err != nil {
		return nil, s.err
	}
	if !s.whole() {
		msg := "the stream ended without a stop reason"
		if !clean {
			msg = "the stream was cut before a stop reason"
		}
		return nil, body.CutShort(msg, s.used())
	}
	blocks := make([][]byte, len(s.blocks))
	for i, b := range s.blocks {
		blocks[i] = b.json()
	}
	s.message.Set("content", body.List(blocks...))
	if s.message.Get("usage") != nil {
		s.message.Set("usage", s.usage.JSON())
	}
	return body.Event(s.message.JSON())
}

// whole says that the evidence is there.
func (s *assembler) whole() bool { return !body.Null(s.message.Get("stop_reason")) }

// Partial tells what arrived. It may be continued while a text block is the last
// one, after nothing but text and thinking that has ended.
func (s *assembler) Partial() (text string, u provider.Usage, continuable bool) {
	var t []byte
	continuable = len(s.blocks) > 0 && s.blocks[len(s.blocks)-1].kind == "text"
	for _, b := range s.blocks {
		switch b.kind {
		case "text":
			t = body.AppendText(t, b.fields.Get("text"))
		case "thinking", "redacted_thinking":
			continuable = continuable && b.closed
		default:
			continuable = false
		}
	}
	text = string(t)
	return text, s.used(), continuable && body.Arrived(text) != ""
}

func (s *assembler) used() provider.Usage { return usage(s.usage.JSON()) }

// Continue asks for the rest of a message. A message whose form is bound by a
// schema can't be continued, and a prefill goes with no thinking.
func (Provider) Continue(c *provider.Call, text, style string) (json.RawMessage, bool) {
	var messages []byte
	for w := body.Members(c.Body); w.Next(); {
		switch string(w.Name) {
		case "messages":
			messages = w.Value
		case "output_format":
			if !body.Null(w.Value) {
				return nil, false
			}
		case "output_config":
			if !body.Null(body.Member(w.Value, "format")) {
				return nil, false
			}
		case "thinking":
			if style == body.Prefill && body.Text(body.Member(w.Value, "type")) != "disabled" {
				return nil, false
			}
		}
	}
	rest := body.Rest(text, style)
	if rest == nil || !body.Continuable(messages) {
		return nil, false
	}
	return body.Set(c.Body, "messages", body.Append(messages, rest)), true
}
