package openai

import (
	"encoding/json"
	"strings"

	"llmbatch/runner/provider"
	"llmbatch/runner/provider/body"
)

// Decode judges an answer by the API of its call.
func (Provider) Decode(c *provider.Call, a provider.Answer) (provider.Reply, *provider.Error) {
	if a.Status < 200 || a.Status > 299 {
		return provider.Reply{}, provider.Classify(a, c.Body)
	}
	raw, err := body.Answer(a)
	if err != nil {
		return provider.Reply{}, err
	}
	top := readTop(raw, c.Model)
	if top.failure != nil {
		return provider.Reply{}, body.Failed(a, c, top.failure, top.usage)
	}
	r := provider.Reply{
		Model:     top.model,
		Usage:     top.usage,
		Response:  raw,
		RequestID: provider.RequestID(a.Header),
	}
	switch c.API {
	case provider.OpenAIChat:
		err = chat(&r, top, c, a)
	case provider.OpenAIResponses:
		err = responses(&r, top, c, a)
	}
	if err != nil {
		err.Usage = top.usage
		return provider.Reply{}, err
	}
	return r, nil
}

// top holds the members of an answer's object that matter here.
type top struct {
	choices, output    []byte
	incomplete, status []byte
	model              string
	usage              provider.Usage
	failure            []byte // the error, nil if there is none
}

// readTop reads an answer's members. An error in it is one that is not null; a
// flat object may say of itself that it is one.
func readTop(raw []byte, model string) top {
	t := top{failure: body.Wrapped(raw)}
	for w := body.Members(raw); w.Next(); {
		switch string(w.Name) {
		case "error":
			if !body.Null(w.Value) {
				t.failure = w.Value
			}
		case "object", "type":
			if t.failure == nil && string(w.Value) == `"error"` {
				t.failure = raw
			}
		case "model":
			t.model = body.Word(w.Value, model)
		case "choices":
			t.choices = w.Value
		case "output":
			t.output = w.Value
		case "status":
			t.status = w.Value
		case "incomplete_details":
			t.incomplete = w.Value
		case "usage":
			t.usage = usage(w.Value)
		}
	}
	return t
}

// chat reads the choices of a chat completion. The first one's text and finish
// reason are the reply's; a failure of any of them fails the whole.
func chat(r *provider.Reply, t top, c *provider.Call, a provider.Answer) *provider.Error {
	n := 0
	empty := true
	for w := body.Elements(t.choices); w.Next(); n++ {
		var finish, msg []byte
		for m := body.Members(w.Value); m.Next(); {
			switch string(m.Name) {
			case "finish_reason":
				finish = m.Value
			case "message":
				msg = m.Value
			case "error":
				if !body.Null(m.Value) {
					return body.Failed(a, c, m.Value, t.usage)
				}
			}
		}
		reason := body.Word(finish, "stop", "length", "tool_calls", "content_filter")
		if reason == "error" || reason == "abort" {
			return body.Failed(a, c, broken("finish_reason "+reason), t.usage)
		}
		if len(msg) == 0 || msg[0] != '{' {
			return body.Invalid(a, "a choice has no message")
		}
		if n > 0 {
			continue
		}
		r.StopReason = reason
		var refused bool
		r.Text, r.Quoted, refused, empty = readMessage(msg)
		if refused {
			r.Flag = "refused"
		}
	}
	if n == 0 {
		// C18: a router's 200 with "choices": [] is no answer.
		return body.Invalid(a, "the answer has no choices")
	}
	switch {
	case reasonFlag(r.StopReason) != "":
		r.Flag = reasonFlag(r.StopReason)
	case r.Flag == "" && empty:
		r.Flag = "empty"
	}
	return nil
}

// readMessage takes the text from a chat message: its content, a string, null or
// a list of parts. empty says that it has neither text nor a tool call.
func readMessage(msg []byte) (text string, quoted json.RawMessage, refused, empty bool) {
	empty = true
	for w := body.Members(msg); w.Next(); {
		switch string(w.Name) {
		case "content":
			if len(w.Value) > 0 && w.Value[0] == '[' {
				text, quoted = partsText(w.Value), nil
			} else {
				text, quoted = body.TextOrQuoted(w.Value)
			}
		case "refusal":
			refused = body.Text(w.Value) != ""
		case "tool_calls":
			for calls := body.Elements(w.Value); calls.Next(); {
				empty = false
			}
		case "function_call", "audio":
			empty = empty && body.Null(w.Value)
		}
	}
	return text, quoted, refused, empty && text == "" && len(quoted) <= len(`""`)
}

// partsText joins the texts of a list of parts.
func partsText(parts []byte) string {
	var texts []string
	for w := body.Elements(parts); w.Next(); {
		if body.Word(body.Member(w.Value, "type"), "text") == "text" {
			texts = append(texts, body.Text(body.Member(w.Value, "text")))
		}
	}
	return strings.Join(texts, "")
}

// broken is an error object for an answer that only says that it has failed.
func broken(reason string) []byte {
	return body.Build(nil,
		body.Field{Name: "type", Value: []byte(`"server_error"`)},
		body.Field{Name: "message", Value: body.Quote("the answer ended with " + reason)})
}

// reasonFlag marks the finish reasons and incomplete reasons that deserve a look.
func reasonFlag(reason string) string {
	switch reason {
	case "length", "max_output_tokens", "max_messages", "repetition":
		return "truncated"
	case "content_filter":
		return "refused"
	}
	return ""
}

// usage reads the usage of either API. The prompt's tokens there include those
// read from a cache and written to it; a reply's don't.
func usage(v []byte) provider.Usage {
	var u provider.Usage
	for w := body.Members(v); w.Next(); {
		if body.Null(w.Value) {
			continue
		}
		switch string(w.Name) {
		case "prompt_tokens", "input_tokens":
			u.InputTokens = body.Int(w.Value)
			u.Known = true
		case "completion_tokens", "output_tokens":
			u.OutputTokens = body.Int(w.Value)
			u.Known = true
		case "prompt_tokens_details", "input_tokens_details":
			for d := body.Members(w.Value); d.Next(); {
				switch string(d.Name) {
				case "cached_tokens":
					u.CacheReadTokens = body.Int(d.Value)
				case "cache_write_tokens":
					u.CacheWriteTokens = body.Int(d.Value)
				}
			}
		case "completion_tokens_details", "output_tokens_details":
			u.ReasoningTokens = body.Int(body.Member(w.Value, "reasoning_tokens"))
		}
	}
	u.InputTokens = max(0, u.InputTokens-u.CacheReadTokens-u.CacheWriteTokens)
	return u
}
