package openai

import (
	"cmp"
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
	t := readTop(raw, c.Model)
	if t.failed {
		return provider.Reply{}, body.Failed(a, c, "an error", t.usage)
	}
	r := provider.Reply{
		Model:     t.model,
		Usage:     t.usage,
		Response:  raw,
		RequestID: provider.RequestID(a.Header),
	}
	switch c.API {
	case provider.OpenAIChat:
		err = chat(&r, t, c, a)
	case provider.OpenAIResponses:
		err = responses(&r, t, c, a)
	}
	if err != nil {
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
	failed             bool
}

func readTop(raw []byte, model string) top {
	t := top{failed: body.Failure(raw)}
	for w := body.Members(raw); w.Next(); {
		switch string(w.Name) {
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
					return body.Failed(a, c, "an error", t.usage)
				}
			}
		}
		reason := body.Evidence(finish)
		if reason == "error" || reason == "abort" {
			return body.Failed(a, c, "finish_reason "+reason, t.usage)
		}
		if len(msg) == 0 || msg[0] != '{' {
			return body.NoAnswer(a, c, "a choice has no message", t.usage)
		}
		text, flag := readMessage(msg)
		if flag == "empty" && reason == "" {
			return body.NoAnswer(a, c, "a choice has neither content nor a finish reason", t.usage)
		}
		if n == 0 {
			r.StopReason, r.Text, r.Flag = reason, text, cmp.Or(reasonFlag(reason), flag)
		}
	}
	if n == 0 {
		// C18: a router's 200 with "choices": [] is no answer.
		return body.NoAnswer(a, c, "the answer has no choices", t.usage)
	}
	return nil
}

// readMessage takes the text from a chat message. The flag is refused, or empty where
// it has neither text nor a tool call; "" otherwise.
func readMessage(msg []byte) (text, flag string) {
	empty := true
	for w := body.Members(msg); w.Next(); {
		switch string(w.Name) {
		case "content":
			text, _ = contentText(w.Value)
		case "refusal":
			if body.Text(w.Value) != "" {
				flag = "refused"
			}
		case "tool_calls":
			for calls := body.Elements(w.Value); calls.Next(); {
				empty = false
			}
		case "function_call", "audio":
			empty = empty && body.Null(w.Value)
		}
	}
	if flag == "" && empty && text == "" {
		flag = "empty"
	}
	return text, flag
}

// contentText joins the text of a content: a string, a part, or a list of both, among
// which others (thinking, images) may stand. open says that text is what it ends in.
func contentText(content []byte) (text string, open bool) {
	if len(content) > 0 && content[0] != '[' {
		return partText(content)
	}
	var texts strings.Builder
	for w := body.Elements(content); w.Next(); {
		text, open = partText(w.Value)
		texts.WriteString(text)
	}
	return texts.String(), open
}

func partText(part []byte) (text string, ok bool) {
	if part[0] != '{' {
		return body.Text(part), part[0] == '"'
	}
	switch body.Word(body.Member(part, "type"), "text", "output_text") {
	case "text", "output_text", "":
		return body.Text(body.Member(part, "text")), true
	}
	return "", false
}

// reasonFlag marks the finish reasons and incomplete reasons that deserve a look.
func reasonFlag(reason string) string {
	switch reason {
	case "length", "max_output_tokens", "max_messages", "repetition", "MAX_TOKENS":
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
	var total int64
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
		case "total_tokens":
			total = body.Int(w.Value)
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
	if u.InputTokens > 0 { // some count reasoning in the total only
		u.OutputTokens = max(u.OutputTokens, total-u.InputTokens)
	}
	u.InputTokens = max(0, u.InputTokens-u.CacheReadTokens-u.CacheWriteTokens)
	return u
}
