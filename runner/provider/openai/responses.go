package openai

import (
	"strings"

	"llmbatch/runner/provider"
	"llmbatch/runner/provider/body"
)

// responses reads a response object. A status of completed or incomplete is an
// answer; the stop reason is the status, or why it is incomplete.
func responses(r *provider.Reply, t top, c *provider.Call, a provider.Answer) *provider.Error {
	status := body.Word(t.status, "completed", "incomplete")
	if status == "null" {
		status = ""
	}
	switch status {
	case "completed", "":
		r.StopReason = status
	case "incomplete":
		r.StopReason = body.Text(body.Member(t.incomplete, "reason"))
		if r.StopReason == "" {
			r.StopReason = status
		}
		r.Flag = reasonFlag(r.StopReason)
		if r.Flag == "" {
			r.Flag = "truncated"
		}
	case "queued", "in_progress":
		e := unfinished(c, a, status)
		e.Usage = t.usage
		return e
	default:
		return body.Failed(a, c, "status "+status, t.usage)
	}
	if len(t.output) == 0 || t.output[0] != '[' {
		return body.NoAnswer(a, c, "the answer has no output", t.usage)
	}
	text, refused, empty := readOutput(t.output)
	if empty && status == "" {
		return body.NoAnswer(a, c, "the answer has neither content nor a status", t.usage)
	}
	r.Text = text
	switch {
	case r.Flag != "":
	case refused:
		r.Flag = "refused"
	case empty:
		r.Flag = "empty"
	}
	return nil
}

// unfinished is the error of an answer that is still being made. Where the line
// itself asks for that, another try would be the same.
func unfinished(c *provider.Call, a provider.Answer, status string) *provider.Error {
	e := body.Invalid(a, "the response is still "+status)
	if body.True(body.Member(c.Body, "background")) {
		e.Class = provider.Rejected
		e.Scope = provider.ItemOnly
		e.Advice = `leave "background" out of the line: the answer must come with the request`
	}
	return e
}

// readOutput joins the text of the messages. empty says that there is nothing at
// all but reasoning.
func readOutput(output []byte) (text string, refused, empty bool) {
	var texts []string
	empty = true
	for w := body.Elements(output); w.Next(); {
		switch body.Word(body.Member(w.Value, "type"), "message", "reasoning") {
		case "message":
			for p := body.Elements(body.Member(w.Value, "content")); p.Next(); {
				switch body.Word(body.Member(p.Value, "type"), "output_text", "refusal") {
				case "output_text":
					texts = append(texts, body.Text(body.Member(p.Value, "text")))
				case "refusal":
					refused = true
				}
			}
		case "reasoning":
		default:
			empty = false
		}
	}
	text = strings.Join(texts, "")
	return text, refused, empty && text == "" && !refused
}
