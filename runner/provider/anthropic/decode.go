package anthropic

import (
	"encoding/json"
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
	failure := body.Wrapped(raw)
	for w := body.Members(raw); w.Next(); {
		switch string(w.Name) {
		case "type":
			if failure == nil && string(w.Value) == `"error"` {
				failure = raw
			}
		case "error":
			if !body.Null(w.Value) {
				failure = w.Value
			}
		case "model":
			r.Model = body.Word(w.Value, c.Model)
		case "content":
			content = w.Value
		case "stop_reason":
			r.StopReason = body.Word(w.Value, "end_turn", "max_tokens", "tool_use", "stop_sequence")
		case "usage":
			r.Usage = usage(w.Value)
		}
	}
	if failure != nil {
		return provider.Reply{}, body.Failed(a, c, failure, r.Usage)
	}
	if len(content) == 0 || content[0] != '[' {
		e := body.Invalid(a, "the answer has no content")
		e.Usage = r.Usage
		return provider.Reply{}, e
	}
	var empty bool
	r.Text, r.Quoted, empty = contentText(content)
	r.Flag = flag(r.StopReason, empty)
	return r, nil
}

// contentText joins the text blocks; a single one may come as it is written. empty
// says that there is nothing at all: no text and no block of another type.
func contentText(content []byte) (text string, quoted json.RawMessage, empty bool) {
	var texts strings.Builder
	var only []byte // the text of a single block
	blocks := 0
	empty = true
	for w := body.Elements(content); w.Next(); {
		var kind, t []byte
		for m := body.Members(w.Value); m.Next(); {
			switch string(m.Name) {
			case "type":
				kind = m.Value
			case "text":
				t = m.Value
			}
		}
		if body.Word(kind, "text") != "text" {
			empty = false
			continue
		}
		if blocks++; blocks > 1 {
			texts.WriteString(body.Text(only))
		}
		only = t
	}
	if blocks == 1 {
		text, quoted = body.TextOrQuoted(only)
	} else {
		texts.WriteString(body.Text(only))
		text = texts.String()
	}
	return text, quoted, empty && text == "" && len(quoted) <= len(`""`)
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
