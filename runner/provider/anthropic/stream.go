package anthropic

import (
	"bytes"
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
	message body.Tree
	blocks  body.Tree // the content, an array by the blocks' numbers
	states  map[*body.Tree]*state
	err     *provider.Error
}

// state is what is known of a block beside its members.
type state struct {
	input  []byte // of a tool call: the text of its JSON so far
	closed bool
}

// pieces are the rules for a message's members and its blocks. Usage counts are
// cumulative: a later one takes the place of an earlier one, the others stay.
var pieces = body.Rules{
	"stop_reason": body.Last, "stop_sequence": body.Last, "id": body.Last, "model": body.Last, "role": body.Last, "type": body.Keep,
	"usage": body.Merge, "signature": body.Last,
}

// Event takes one event. What it is stands in its data; events and members that
// are not known are let pass.
func (s *assembler) Event(name string, data []byte) *provider.Error {
	if s.err != nil {
		return s.err
	}
	v, failure, err := body.Chunk(name, data)
	switch {
	case err != nil && err.Class == provider.Truncated && s.whole():
		return nil // what was cut is message_stop, which adds nothing
	case err != nil:
		err.Usage = s.used()
		s.err = err
	case failure != nil:
		s.err = body.StreamFailed(s.call, failure, s.used())
	case v != nil:
		if kind := body.Text(body.Member(v, "type")); kind != "" {
			name = kind
		}
		s.apply(name, v)
	}
	return s.err
}

func (s *assembler) apply(kind string, v []byte) {
	switch kind {
	case "message_start":
		s.message.Merge(body.Member(v, "message"), pieces)
	case "message_delta":
		s.message.Merge(body.Member(v, "delta"), pieces)
		for w := body.Members(v); w.Next(); {
			if name := string(w.Name); name != "type" && name != "delta" {
				s.message.At(name).Add(w.Value, pieces[name], pieces)
			}
		}
	case "content_block_start":
		if b, _ := s.block(v); b != nil {
			b.Merge(body.Member(v, "content_block"), pieces)
		}
	case "content_block_delta":
		if b, st := s.block(v); b != nil {
			st.delta(b, body.Member(v, "delta"))
		}
	case "content_block_stop":
		if _, st := s.block(v); st != nil {
			st.closed = true
		}
	}
}

// block returns the block that an event speaks of, a new one if need be. Where
// there are too many it is nil, and the stream has failed.
func (s *assembler) block(v []byte) (*body.Tree, *state) {
	b := s.blocks.Element(body.Int(body.Member(v, "index")))
	if b == nil {
		s.err = body.Invalid(provider.Answer{Status: 200}, "the stream has too many content blocks")
		s.err.Usage = s.used()
		return nil, nil
	}
	st := s.states[b]
	if st == nil {
		if s.states == nil {
			s.states = map[*body.Tree]*state{}
		}
		st = &state{}
		s.states[b] = st
	}
	return b, st
}

// delta adds a piece to the block b.
func (st *state) delta(b *body.Tree, v []byte) {
	switch body.Word(body.Member(v, "type"), "text_delta", "input_json_delta", "thinking_delta") {
	case "input_json_delta":
		st.input = body.AppendText(st.input, body.Member(v, "partial_json"))
	case "citations_delta":
		if c := body.Member(v, "citation"); c != nil {
			b.At("citations").Add(body.List(c), body.Grow, nil)
		}
	default:
		for w := body.Members(v); w.Next(); {
			if name := string(w.Name); name != "type" {
				b.At(name).Add(w.Value, pieces[name], pieces)
			}
		}
	}
}

// end gives a tool call its input, as the non-streaming API sends it.
func (st *state) end(b *body.Tree) {
	if len(st.input) == 0 {
		return
	}
	input := st.input
	if !jsontext.Value(input).IsValid(jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true)) {
		// A limit on the output may end a tool call anywhere; the API's guide to
		// streamed tool calls wraps what can't be parsed in this way.
		input = body.Build(nil, body.Field{Name: "INVALID_JSON", Value: body.Quote(string(input))})
	}
	b.At("input").Set(bytes.TrimSpace(input))
}

// Finish returns the message. Its stop reason is the evidence that it is whole;
// how the connection ended after that does not matter.
func (s *assembler) Finish(clean bool) (json.RawMessage, *provider.Error) {
	switch {
	case s.err != nil:
		return nil, s.err
	case !s.whole() && clean:
		return nil, body.CutShort("the stream ended without a stop reason", s.used())
	case !s.whole():
		return nil, body.CutShort("the stream was cut before a stop reason", s.used())
	}
	for b, st := range s.states {
		st.end(b)
	}
	content := s.blocks.JSON()
	if content == nil {
		content = []byte("[]")
	}
	s.message.At("content").Set(content)
	return body.Answer(provider.Answer{Status: 200, Body: s.message.JSON()})
}

// whole says that the evidence is there.
func (s *assembler) whole() bool { return body.Evidence(s.message.Get("stop_reason")) != "" }

// Partial tells what arrived. It may be continued while a text block is the last
// one, after nothing but text and thinking that has ended.
func (s *assembler) Partial() (text string, u provider.Usage, continuable bool) {
	var t []byte
	kind := ""
	continuable = true
	for _, b := range s.blocks.Elements() {
		switch kind = body.Text(b.Get("type")); kind {
		case "text":
			t = body.AppendText(t, b.Get("text"))
		case "thinking", "redacted_thinking":
			continuable = continuable && s.states[b].closed
		default:
			continuable = false
		}
	}
	text = string(t)
	return text, s.used(), continuable && kind == "text" && body.Arrived(text) != ""
}

func (s *assembler) used() provider.Usage { return usage(s.message.Get("usage")) }

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

// Reask asks for a better answer.
func (Provider) Reask(c *provider.Call, answer, complaint string) (json.RawMessage, bool) {
	return body.Reask(c, "messages", answer, complaint)
}
