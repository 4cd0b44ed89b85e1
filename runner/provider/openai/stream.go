package openai

import (
	"bytes"
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

// chatAssembler builds a completion from its chunks. Members of deltas that are
// not known are merged too: strings and arrays grow, other values are replaced.
type chatAssembler struct {
	call    *provider.Call
	top     body.Fields
	choices []*choice
	err     *provider.Error
}

// choice is one of a completion's choices on its way.
type choice struct {
	index    int64
	fields   body.Fields
	message  body.Fields
	logprobs body.Fields
	calls    []*toolCall
}

// toolCall is a call whose arguments come in pieces.
type toolCall struct {
	index    int64
	id       string
	fields   body.Fields
	function body.Fields
}

// maxParts is the most choices of one answer, and the most tool calls of one choice.
const maxParts = 1_000

// Event takes one chunk. [DONE] says nothing: vLLM sends it after an error too.
func (s *chatAssembler) Event(name string, data []byte) *provider.Error {
	data = bytes.TrimSpace(data)
	if s.err != nil || len(data) == 0 && name != "error" || isDone(data) {
		return s.err
	}
	v, failure, err := event(name, data)
	switch {
	case err != nil:
		err.Usage = s.used()
		s.err = err
	case failure != nil:
		s.err = body.StreamFailed(s.call, failure, s.used())
	default:
		s.chunk(v)
	}
	return s.err
}

// isDone says that data is [DONE], or what a cut left of it.
func isDone(data []byte) bool {
	return len(data) > 0 && len(data) <= len("[DONE]") && strings.HasPrefix("[DONE]", string(data))
}

// event reads an event's data. failure is the error in it, nil if there is none.
func event(name string, data []byte) (v, failure []byte, err *provider.Error) {
	if len(data) == 0 {
		data = []byte("{}")
	}
	v, err = body.Event(data)
	if err != nil && name == "error" {
		return nil, body.Quote(string(data)), nil
	}
	if err != nil {
		return nil, nil, err
	}
	if failure = body.Wrapped(v); failure != nil {
		return v, failure, nil
	}
	if failure = body.Member(v, "error"); !body.Null(failure) {
		return v, failure, nil
	}
	if name == "error" || string(body.Member(v, "object")) == `"error"` || string(body.Member(v, "type")) == `"error"` {
		return v, v, nil
	}
	return v, nil, nil
}

// chunk takes what is one by its members; pings and what gateways add are none.
func (s *chatAssembler) chunk(v []byte) {
	if body.Member(v, "choices") == nil && body.Member(v, "usage") == nil {
		return
	}
	for w := body.Members(v); w.Next(); {
		name := string(w.Name)
		switch name {
		case "choices":
			s.top.Set(name, []byte("[]"))
			for e := body.Elements(w.Value); e.Next() && s.err == nil; {
				s.choice(e.Value)
			}
		case "object":
			kind := body.Text(w.Value)
			s.top.Set(name, body.Quote(strings.TrimSuffix(kind, ".chunk")))
		default:
			// Azure's first chunk has an empty id and model.
			if s.top.Get(name) == nil || !body.Null(w.Value) && string(w.Value) != `""` {
				s.top.Set(name, w.Value)
			}
		}
	}
}

func (s *chatAssembler) choice(v []byte) {
	c := s.find(body.Int(body.Member(v, "index")))
	if c == nil {
		return
	}
	for w := body.Members(v); w.Next(); {
		name := string(w.Name)
		switch name {
		case "error":
			if !body.Null(w.Value) {
				s.err = body.StreamFailed(s.call, w.Value, s.used())
				return
			}
		case "delta":
			c.fields.Set("message", []byte("{}"))
			if !c.delta(w.Value) {
				s.err = s.tooMany("tool calls")
				return
			}
		case "logprobs":
			c.fields.Set(name, []byte("null"))
			for l := body.Members(w.Value); l.Next(); {
				c.logprobs.Extend(string(l.Name), l.Value)
			}
		case "index":
			c.fields.Set(name, w.Value)
		case "finish_reason", "stop_reason":
			if !body.Null(w.Value) || c.fields.Get(name) == nil {
				c.fields.Set(name, w.Value)
			}
		default:
			c.fields.Extend(name, w.Value)
		}
	}
	if r := body.Text(c.fields.Get("finish_reason")); r == "error" || r == "abort" {
		s.err = body.StreamFailed(s.call, broken("finish_reason "+r), s.used())
	}
}

func (s *chatAssembler) find(index int64) *choice {
	for _, c := range s.choices {
		if c.index == index {
			return c
		}
	}
	if len(s.choices) >= maxParts {
		s.err = s.tooMany("choices")
		return nil
	}
	c := &choice{index: index}
	at := len(s.choices)
	for at > 0 && s.choices[at-1].index > index {
		at--
	}
	s.choices = append(s.choices, nil)
	copy(s.choices[at+1:], s.choices[at:])
	s.choices[at] = c
	return c
}

func (s *chatAssembler) tooMany(what string) *provider.Error {
	e := body.Invalid(provider.Answer{Status: 200}, "the stream has too many "+what)
	e.Usage = s.used()
	return e
}

// delta adds a piece to the choice's message; false if it has too many parts.
func (c *choice) delta(v []byte) bool {
	for w := body.Members(v); w.Next(); {
		name := string(w.Name)
		switch name {
		case "role":
			if c.message.Get(name) == nil && !body.Null(w.Value) {
				c.message.Set(name, w.Value)
			}
		case "tool_calls":
			if body.Null(w.Value) {
				continue
			}
			c.message.Set(name, []byte("[]"))
			for e := body.Elements(w.Value); e.Next(); {
				if !c.toolCall(e.Value) {
					return false
				}
			}
		case "function_call", "audio":
			var f body.Fields
			for _, part := range [][]byte{c.message.Get(name), w.Value} {
				for m := body.Members(part); m.Next(); {
					f.Extend(string(m.Name), m.Value)
				}
			}
			if !body.Null(w.Value) {
				c.message.Set(name, f.JSON())
			}
		default:
			c.message.Extend(name, w.Value)
		}
	}
	return true
}
