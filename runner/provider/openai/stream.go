package openai

import (
	"encoding/json"
	"strings"

	"llmbatch/runner/provider"
	"llmbatch/runner/provider/body"
)

// Assemble starts the reading of a streamed answer.
func (Provider) Assemble(c *provider.Call) provider.Assembler {
	if c.API == provider.OpenAIResponses {
		return &responseAssembler{call: c}
	}
	return &chatAssembler{call: c}
}

// chatAssembler builds a completion from its chunks. Of the members of a choice and of
// its message that are not known, strings and arrays grow and others are replaced.
type chatAssembler struct {
	call *provider.Call
	top  body.Tree
	err  *provider.Error
}

// pieces are the rules for a choice, its message and its tool calls.
var pieces = body.Rules{
	"finish_reason": body.Last, "stop_reason": body.Last,
	"index": body.Last,
	"role":  body.Keep, "id": body.Keep, "type": body.Keep, "name": body.Keep,
	"content": body.Parts, "tool_calls": body.Calls,
	"function": body.Merge, "function_call": body.Merge, "audio": body.Merge, "logprobs": body.Merge, "message": body.Merge,
}

// Event takes one chunk. [DONE] says nothing: vLLM sends it after an error too.
func (s *chatAssembler) Event(name string, data []byte) *provider.Error {
	if s.err != nil {
		return s.err
	}
	v, failure, err := body.Chunk(name, data)
	switch {
	case err != nil && err.Class == provider.Truncated && s.whole():
		return nil // what was cut adds nothing to the answer
	case err != nil:
		err.Usage = s.used()
		s.err = err
	case failure != nil:
		s.err = body.StreamFailed(s.call, failure, s.used())
	case v != nil:
		s.chunk(v)
	}
	return s.err
}

// chunk takes what is one by its members; pings and what gateways add are none.
func (s *chatAssembler) chunk(v []byte) {
	if body.Member(v, "choices") == nil && body.Member(v, "usage") == nil {
		return
	}
	for w := body.Members(v); w.Next(); {
		name := string(w.Name)
		if name != "choices" {
			s.top.At(name).Add(w.Value, body.Last, nil) // Azure's first chunk has an empty id and model
			continue
		}
		list := s.top.At(name)
		if list.JSON() == nil {
			list.Set([]byte("[]"))
		}
		for e := body.Elements(w.Value); e.Next() && s.err == nil; {
			if !s.choice(list.Element(body.Int(body.Member(e.Value, "index"))), e.Value) && s.err == nil {
				s.err = body.Invalid(provider.Answer{Status: 200}, "the stream has too many choices or tool calls")
				s.err.Usage = s.used()
			}
		}
	}
}

// choice adds a piece to a choice; false if there is too much of something.
func (s *chatAssembler) choice(c *body.Tree, v []byte) bool {
	if c == nil {
		return false
	}
	for w := body.Members(v); w.Next(); {
		name := string(w.Name)
		switch {
		case name == "error" && !body.Null(w.Value):
			s.err = body.StreamFailed(s.call, w.Value, s.used())
			return false
		case name == "delta":
			name = "message"
		}
		if !c.At(name).Add(w.Value, pieces[name], pieces) {
			return false
		}
	}
	if r := body.Text(c.Get("finish_reason")); r == "error" || r == "abort" {
		s.err = body.StreamFailed(s.call, body.Broken("finish_reason "+r), s.used())
	}
	return true
}

// whole says that each choice that was asked for has a finish reason.
func (s *chatAssembler) whole() bool {
	choices := s.top.At("choices").Elements()
	for _, c := range choices {
		if body.Evidence(c.Get("finish_reason")) == "" {
			return false
		}
	}
	return len(choices) > 0 && int64(len(choices)) >= body.Int(body.Member(s.call.Body, "n"))
}

// Finish returns the completion if it is whole; how the connection ended after that
// does not matter.
func (s *chatAssembler) Finish(clean bool) (json.RawMessage, *provider.Error) {
	switch {
	case s.err != nil:
		return nil, s.err
	case !s.whole() && !clean:
		return nil, body.CutShort("the stream was cut", s.used())
	case !s.whole():
		return nil, body.CutShort("the stream ended without a finish reason", s.used())
	}
	if kind := s.top.Get("object"); kind != nil {
		s.top.At("object").Set(body.Quote(strings.TrimSuffix(body.Text(kind), ".chunk")))
	}
	for _, c := range s.top.At("choices").Elements() {
		if c.Get("message") == nil {
			continue // a completion has text
		}
		m := c.At("message")
		m.At("role").Add([]byte(`"assistant"`), body.Keep, nil)
		m.At("content").Add([]byte("null"), body.Keep, nil)
	}
	return body.Answer(provider.Answer{Status: 200, Body: s.top.JSON()})
}

// Partial tells what arrived. It may be continued while the only choice has
// nothing but text, or text after reasoning, and was not said to be finished.
func (s *chatAssembler) Partial() (text string, u provider.Usage, continuable bool) {
	choices := s.top.At("choices").Elements()
	if len(choices) == 0 {
		return "", s.used(), false
	}
	m := choices[0].At("message")
	text, open := contentText(m.Get("content"))
	continuable = len(choices) == 1 && open && body.Arrived(text) != "" && body.Evidence(choices[0].Get("finish_reason")) == ""
	for _, other := range [...]string{"tool_calls", "function_call", "audio"} {
		continuable = continuable && body.Null(m.Get(other))
	}
	return text, s.used(), continuable && body.Text(m.Get("refusal")) == ""
}

func (s *chatAssembler) used() provider.Usage { return usage(s.top.Get("usage")) }
