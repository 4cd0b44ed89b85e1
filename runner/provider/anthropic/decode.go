package anthropic

import (
	"strings"

	"llmbatch/runner/provider"
	"llmbatch/runner/provider/body"
)

// Decode judges an answer: a 2xx with a content array and without an error is
// one to keep, whatever its stop reason.
func (Provider) Decode(c *provider.Call, a provider.Answer) (provider.Reply, *provider.Error) {
	if a.Status < 200 || a.Status > 299 {
		return provider.Reply{}, provider.Classify(a, c.Body)
	}
	raw, err := body.Answer(a)
	if err != nil {
		return provider.Reply{}, err
	}
	r := provider.Reply{Response: raw, RequestID: provider.RequestID(a.Header)}
	var content []byte
	for w := body.Members(raw); w.Next(); {
		switch string(w.Name) {
		case "model":
			r.Model = body.Word(w.Value, c.Model)
		case "content":
			content = w.Value
		case "stop_reason":
			r.StopReason = body.Evidence(w.Value)
		case "usage":
			r.Usage = usage(w.Value)
		}
	}
	if body.Failure(raw) {
		return provider.Reply{}, body.Failed(a, c, "an error", r.Usage)
	}
	if len(content) == 0 || content[0] != '[' {
		return provider.Reply{}, body.NoAnswer(a, c, "the answer has no content", r.Usage)
	}
	text, empty := contentText(content)
	if empty && r.StopReason == "" {
		return provider.Reply{}, body.NoAnswer(a, c, "the answer has neither content nor a stop reason", r.Usage)
	}
	r.Text, r.Flag = text, flag(r.StopReason, empty)
	return r, nil
}

// contentText joins the text blocks. empty says that there is nothing at all: no text
// and no block of another type.
func contentText(content []byte) (text string, empty bool) {
	var texts strings.Builder
	empty = true
	for w := body.Elements(content); w.Next(); {
		if body.Word(body.Member(w.Value, "type"), "text") == "text" {
			texts.WriteString(body.Text(body.Member(w.Value, "text")))
		} else {
			empty = false
		}
	}
	return texts.String(), empty && texts.Len() == 0
}

// flag marks stop reasons that deserve a look.
func flag(stop string, empty bool) string {
	switch stop {
	case "max_tokens", "model_context_window_exceeded":
		return "truncated"
	case "refusal":
		return "refused"
	case "pause_turn":
		return "paused"
	}
	if empty {
		return "empty"
	}
	return ""
}

// usage reads a usage object. input_tokens has neither cache reads nor writes in
// it, and output_tokens includes thinking.
func usage(v []byte) provider.Usage {
	var u provider.Usage
	for w := body.Members(v); w.Next(); {
		var to *int64
		switch string(w.Name) {
		case "input_tokens":
			to = &u.InputTokens
		case "output_tokens":
			to = &u.OutputTokens
		case "cache_read_input_tokens":
			to = &u.CacheReadTokens
		case "cache_creation_input_tokens":
			to = &u.CacheWriteTokens
		default:
			continue
		}
		if !body.Null(w.Value) {
			*to = body.Int(w.Value)
			u.Known = true
		}
	}
	return u
}
