package openai

import (
	"encoding/json"

	"llmbatch/runner/provider"
	"llmbatch/runner/provider/body"
)

// Continue asks for the rest of an answer. An answer whose form is bound by a
// schema can't be continued, nor can one of several.
func (Provider) Continue(c *provider.Call, text, style string) (json.RawMessage, bool) {
	turns := "messages"
	switch c.API {
	case provider.OpenAIChat:
	case provider.OpenAIResponses:
		turns = "input"
	default:
		return nil, false
	}
	var list []byte
	for w := body.Members(c.Body); w.Next(); {
		switch string(w.Name) {
		case turns:
			list = w.Value
		case "n":
			if body.Int(w.Value) > 1 {
				return nil, false
			}
		case "response_format":
			if bound(w.Value) {
				return nil, false
			}
		case "text":
			if bound(body.Member(w.Value, "format")) {
				return nil, false
			}
		}
	}
	if c.API == provider.OpenAIResponses && body.Text(list) != "" {
		list = body.List(body.Turn("user", list))
	}
	rest := body.Rest(text, style)
	if rest == nil || !body.Continuable(list) {
		return nil, false
	}
	return body.Set(c.Body, turns, body.Append(list, rest)), true
}

// bound says that a format asks for more than plain text.
func bound(format []byte) bool {
	return !body.Null(format) && body.Text(body.Member(format, "type")) != "text"
}

// Reask asks for a better answer.
func (Provider) Reask(c *provider.Call, answer, complaint string) (json.RawMessage, bool) {
	switch c.API {
	case provider.OpenAIChat:
		return body.Reask(c, "messages", answer, complaint)
	case provider.OpenAIResponses:
		return body.Reask(c, "input", answer, complaint)
	}
	return nil, false
}
