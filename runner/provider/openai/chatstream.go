package openai

import (
	"encoding/json"
	"slices"

	"llmbatch/runner/provider"
	"llmbatch/runner/provider/body"
)

// toolCall adds a piece to one of the message's tool calls. Its arguments grow;
// id, type and name come whole, though some servers repeat them in each piece. It
// is false where there are too many.
func (c *choice) toolCall(v []byte) bool {
	t := c.call(body.Member(v, "index"), body.Text(body.Member(v, "id")))
	if t == nil {
		return false
	}
	for w := body.Members(v); w.Next(); {
		name := string(w.Name)
		switch name {
		case "index":
		case "function":
			t.fields.Set(name, []byte("{}"))
			for f := body.Members(w.Value); f.Next(); {
				if string(f.Name) == "name" {
					setOnce(&t.function, "name", f.Value)
					continue
				}
				t.function.Extend(string(f.Name), f.Value)
			}
		case "id", "type":
			setOnce(&t.fields, name, w.Value)
		default:
			t.fields.Extend(name, w.Value)
		}
	}
	return true
}

// setOnce keeps the first value that says anything.
func setOnce(f *body.Fields, name string, v []byte) {
	if body.Text(f.Get(name)) == "" && (!body.Null(v) || f.Get(name) == nil) {
		f.Set(name, v)
	}
}

// call returns the tool call that a piece belongs to, nil if there are too many.
// It is the one with its index, and its id too where both have one, since some
// servers number every call 0; without an index it is the one with its id, and
// without either the last one.
func (c *choice) call(index []byte, id string) *toolCall {
	n := int64(len(c.calls))
	indexed := !body.Null(index)
	if indexed {
		n = body.Int(index)
	}
	for _, t := range slices.Backward(c.calls) {
		same := id == "" || t.id == "" || t.id == id
		if indexed && t.index == n && same || !indexed && (id == "" || t.id == id) {
			return t
		}
	}
	if len(c.calls) >= maxParts {
		return nil
	}
	t := &toolCall{index: n, id: id}
	c.calls = append(c.calls, t)
	return t
}

// json is the choice as the non-streaming API sends it.
func (c *choice) json() []byte {
	if c.fields.Get("message") != nil {
		if c.message.Get("role") == nil {
			c.message.Set("role", []byte(`"assistant"`))
		}
		if c.message.Get("content") == nil {
			c.message.Set("content", []byte("null"))
		}
		if len(c.calls) > 0 {
			calls := make([][]byte, len(c.calls))
			for i, t := range c.calls {
				if t.fields.Get("function") != nil {
					t.fields.Set("function", t.function.JSON())
				}
				calls[i] = t.fields.JSON()
			}
			c.message.Set("tool_calls", body.List(calls...))
		}
		c.fields.Set("message", c.message.JSON())
	}
	if l := c.logprobs.JSON(); len(l) > 2 {
		c.fields.Set("logprobs", l)
	}
	return c.fields.JSON()
}

// Finish returns the completion: each choice that was asked for has a finish
// reason, no error came, and the stream ended cleanly.
func (s *chatAssembler) Finish(clean bool) (json.RawMessage, *provider.Error) {
	if s.err != nil {
		return nil, s.err
	}
	whole := len(s.choices) > 0 && int64(len(s.choices)) >= body.Int(body.Member(s.call.Body, "n"))
	for _, c := range s.choices {
		whole = whole && !body.Null(c.fields.Get("finish_reason"))
	}
	switch {
	case !clean:
		return nil, body.CutShort("the stream was cut", s.used())
	case !whole:
		return nil, body.CutShort("the stream ended without a finish reason", s.used())
	}
	choices := make([][]byte, len(s.choices))
	for i, c := range s.choices {
		choices[i] = c.json()
	}
	s.top.Set("choices", body.List(choices...))
	return body.Event(s.top.JSON())
}

// Partial tells what arrived. It may be continued while the only choice has
// nothing but text, or text after reasoning, and was not said to be finished.
func (s *chatAssembler) Partial() (text string, u provider.Usage, continuable bool) {
	if len(s.choices) == 0 {
		return "", s.used(), false
	}
	c := s.choices[0]
	text = body.Text(c.message.Get("content"))
	continuable = len(s.choices) == 1 && len(c.calls) == 0 && c.message.Get("function_call") == nil &&
		c.message.Get("audio") == nil && body.Text(c.message.Get("refusal")) == ""
	return text, s.used(), continuable && body.Arrived(text) != "" && body.Null(c.fields.Get("finish_reason"))
}

func (s *chatAssembler) used() provider.Usage { return usage(s.top.Get("usage")) }
