package gemini

import (
	"encoding/json"

	"llmbatch/runner/provider"
	"llmbatch/runner/provider/body"
)

// Assemble starts the reading of a streamed answer.
func (Provider) Assemble(c *provider.Call) provider.Assembler { return &assembler{call: c} }

// assembler joins answers that each have a piece of the parts.
type assembler struct {
	call  *provider.Call
	top   body.Tree
	parts body.Tree
	err   *provider.Error
}

// Event takes one event: a whole answer with a piece of the text.
func (s *assembler) Event(name string, data []byte) *provider.Error {
	if s.err != nil {
		return s.err
	}
	v, failure, err := body.Chunk(name, data)
	switch {
	case err != nil && err.Class == provider.Truncated && s.whole():
		return nil
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

func (s *assembler) chunk(v []byte) {
	for w := body.Members(v); w.Next(); {
		if name := string(w.Name); name != "candidates" {
			s.top.At(name).Add(w.Value, body.Last, nil)
		}
	}
	first := body.Elements(body.Member(v, "candidates"))
	if !first.Next() {
		return
	}
	candidate := s.top.At("candidates").Element(0)
	for w := body.Members(first.Value); w.Next(); {
		if name := string(w.Name); name != "content" {
			candidate.At(name).Add(w.Value, body.Last, nil)
		}
	}
	content := body.Member(first.Value, "content")
	for w := body.Members(content); w.Next(); {
		if name := string(w.Name); name != "parts" {
			candidate.At("content").At(name).Add(w.Value, body.Keep, nil)
		}
	}
	for w := body.Elements(body.Member(content, "parts")); w.Next(); {
		s.part(w.Value)
	}
}

// part adds a part, or its text to the last one's where both are text of a kind.
func (s *assembler) part(v []byte) {
	if parts := s.parts.Elements(); len(parts) > 0 && body.Member(v, "text") != nil {
		last := parts[len(parts)-1]
		same := last.Get("text") != nil && body.True(last.Get("thought")) == body.True(body.Member(v, "thought"))
		if same {
			last.Merge(v, nil)
			return
		}
	}
	s.parts.Add(body.List(v), body.Grow, nil)
}

// whole says that the evidence is there.
func (s *assembler) whole() bool {
	if evidence(body.Member(s.top.Get("promptFeedback"), "blockReason")) != "" {
		return true
	}
	candidates := s.top.At("candidates").Elements()
	return len(candidates) > 0 && evidence(candidates[0].Get("finishReason")) != ""
}

// Finish returns the answer if it has a finish reason.
func (s *assembler) Finish(clean bool) (json.RawMessage, *provider.Error) {
	switch {
	case s.err != nil:
		return nil, s.err
	case !s.whole() && !clean:
		return nil, body.CutShort("the stream was cut", s.used())
	case !s.whole():
		return nil, body.CutShort("the stream ended without a finish reason", s.used())
	}
	if parts := s.parts.JSON(); parts != nil {
		s.top.At("candidates").Element(0).At("content").At("parts").Set(parts)
	}
	return body.Answer(provider.Answer{Status: 200, Body: s.top.JSON()})
}

// Partial tells what arrived. It may be continued while text is what it ends in, and
// nothing but text and thoughts came.
func (s *assembler) Partial() (text string, u provider.Usage, continuable bool) {
	candidate := body.Build(nil, body.Field{Name: "content", Value: body.Build(nil, body.Field{Name: "parts", Value: s.parts.JSON()})})
	text, empty := candidateText(candidate)
	continuable = !empty && !s.whole() && body.Arrived(text) != ""
	for _, p := range s.parts.Elements() {
		thought := body.True(p.Get("thought"))
		continuable = continuable && (thought || p.Get("text") != nil)
	}
	if parts := s.parts.Elements(); len(parts) > 0 && body.True(parts[len(parts)-1].Get("thought")) {
		continuable = false
	}
	return text, s.used(), continuable
}

func (s *assembler) used() provider.Usage { return usage(s.top.Get("usageMetadata")) }
