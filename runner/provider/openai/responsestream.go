package openai

import (
	"bytes"
	"encoding/json"

	"llmbatch/runner/provider"
	"llmbatch/runner/provider/body"
)

// responseAssembler waits for the event that has the whole response, and keeps
// the text that comes before it.
type responseAssembler struct {
	call  *provider.Call
	final []byte
	items []item
	text  []byte
	usage provider.Usage
	err   *provider.Error
}

// maxParts is the most items of one output.
const maxParts = 1_000

// item is an item of the output, in the order of their beginning.
type item struct {
	index int64
	kind  string
	done  []byte // the whole item, nil until it is done
}

// Event takes one event. What it is stands in its data's type; types that are not
// known are let pass.
func (s *responseAssembler) Event(name string, data []byte) *provider.Error {
	if s.err != nil {
		return s.err
	}
	v, failure, err := body.Chunk(name, data)
	switch {
	case err != nil && err.Class == provider.Truncated && s.whole():
		return nil
	case err != nil:
		err.Usage = s.usage
		s.err = err
	case failure != nil:
		s.err = body.StreamFailed(s.call, failure, s.usage)
	case v != nil:
		s.apply(body.Text(body.Member(v, "type")), name, v)
	}
	return s.err
}

func (s *responseAssembler) apply(kind, name string, v []byte) {
	if kind == "" {
		kind = name
	}
	switch kind {
	case "response.completed", "response.incomplete":
		s.final = bytes.Clone(body.Member(v, "response"))
		s.usage = usage(body.Member(s.final, "usage"))
	case "response.failed", "response.cancelled":
		r := body.Member(v, "response")
		failure := body.Member(r, "error")
		if body.Null(failure) {
			failure = body.Broken(kind)
		}
		s.usage = usage(body.Member(r, "usage"))
		s.err = body.StreamFailed(s.call, failure, s.usage)
	case "response.output_item.added":
		s.item(v, false)
	case "response.output_item.done":
		s.item(v, true)
	case "response.output_text.delta":
		s.text = body.AppendText(s.text, body.Member(v, "delta"))
	}
}

func (s *responseAssembler) item(v []byte, done bool) {
	it := body.Member(v, "item")
	index := body.Int(body.Member(v, "output_index"))
	at := -1
	for i := range s.items {
		if s.items[i].index == index {
			at = i
		}
	}
	if at < 0 {
		if len(s.items) >= maxParts {
			s.err = body.Invalid(provider.Answer{Status: 200}, "the stream has too many items")
			s.err.Usage = s.usage
			return
		}
		s.items = append(s.items, item{index: index, kind: body.Text(body.Member(it, "type"))})
		at = len(s.items) - 1
	}
	if done {
		s.items[at].done = bytes.Clone(it)
	}
}

// Finish returns the response that the terminal event had. Some gateways leave
// its output empty; then it is the items that came before.
func (s *responseAssembler) Finish(clean bool) (json.RawMessage, *provider.Error) {
	switch {
	case s.err != nil:
		return nil, s.err
	case !s.whole() && !clean:
		return nil, body.CutShort("the stream was cut", s.usage)
	case !s.whole():
		return nil, body.CutShort("the stream ended without a completed response", s.usage)
	}
	whole := s.final
	if w := body.Elements(body.Member(whole, "output")); !w.Next() {
		var items [][]byte
		for _, it := range s.items {
			if it.done != nil {
				items = append(items, it.done)
			}
		}
		if items != nil {
			whole = body.Set(whole, "output", body.List(items...))
		}
	}
	return body.Answer(provider.Answer{Status: 200, Body: whole})
}

// whole says that the evidence is there.
func (s *responseAssembler) whole() bool { return bytes.HasPrefix(s.final, []byte("{")) }

// Partial tells what arrived. It may be continued while a message is the last
// item, after nothing but reasoning.
func (s *responseAssembler) Partial() (text string, u provider.Usage, continuable bool) {
	messages := 0
	continuable = len(s.items) > 0
	for i, it := range s.items {
		switch {
		case it.kind == "message":
			messages++
		case it.kind != "reasoning" || i == len(s.items)-1:
			continuable = false
		}
	}
	text = string(s.text)
	return text, s.usage, continuable && messages == 1 && body.Arrived(text) != ""
}
