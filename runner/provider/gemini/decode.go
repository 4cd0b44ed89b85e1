package gemini

import (
	"strings"

	"llmbatch/runner/provider"
	"llmbatch/runner/provider/body"
)

// Decode judges an answer: its first candidate with a finish reason, or a prompt that
// was blocked.
func (Provider) Decode(c *provider.Call, a provider.Answer) (provider.Reply, *provider.Error) {
	if a.Status < 200 || a.Status > 299 {
		return provider.Reply{}, provider.Classify(a, c.Body)
	}
	raw, err := body.Answer(a)
	if err != nil {
		return provider.Reply{}, err
	}
	r := provider.Reply{
		Response: raw, RequestID: provider.RequestID(a.Header),
		Model: body.Text(body.Member(raw, "modelVersion")), Usage: usage(body.Member(raw, "usageMetadata")),
	}
	if body.Failure(raw) {
		return provider.Reply{}, body.Failed(a, c, "an error", r.Usage)
	}
	candidates := body.Elements(body.Member(raw, "candidates"))
	if !candidates.Next() {
		reason := evidence(body.Member(body.Member(raw, "promptFeedback"), "blockReason"))
		if reason == "" {
			return provider.Reply{}, body.NoAnswer(a, c, "the answer has no candidates", r.Usage)
		}
		r.StopReason, r.Flag = reason, "refused"
		return r, nil
	}
	text, empty := candidateText(candidates.Value)
	r.Text, r.StopReason = text, evidence(body.Member(candidates.Value, "finishReason"))
	switch flag := flagOf(r.StopReason); {
	case flag == broken:
		return provider.Reply{}, invalid(a, r)
	case flag != "":
		r.Flag = flag
	case empty && r.StopReason == "":
		return provider.Reply{}, body.NoAnswer(a, c, "a candidate has neither content nor a finish reason", r.Usage)
	case empty:
		r.Flag = "empty"
	}
	return r, nil
}

func invalid(a provider.Answer, r provider.Reply) *provider.Error {
	e := body.Invalid(a, "the answer ended with "+r.StopReason)
	e.Type, e.Usage = r.StopReason, r.Usage
	return e
}

// evidence is a reason for an answer's end, "" for none.
func evidence(v []byte) string {
	if reason := body.Evidence(v); reason != "FINISH_REASON_UNSPECIFIED" && reason != "BLOCK_REASON_UNSPECIFIED" {
		return reason
	}
	return ""
}

// broken marks finish reasons that are no answer.
const broken = "broken"

func flagOf(reason string) string {
	switch reason {
	case "MAX_TOKENS":
		return "truncated"
	case "SAFETY", "RECITATION", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "LANGUAGE":
		return "refused"
	case "OTHER", "MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL", "TOO_MANY_TOOL_CALLS":
		return broken
	}
	if strings.HasPrefix(reason, "IMAGE_") {
		return "refused"
	}
	return ""
}

// candidateText joins the text of the parts but for thoughts. empty says that there is
// nothing else either.
func candidateText(candidate []byte) (text string, empty bool) {
	var b strings.Builder
	empty = true
	for w := body.Elements(body.Member(body.Member(candidate, "content"), "parts")); w.Next(); {
		if body.True(body.Member(w.Value, "thought")) {
			continue
		}
		if t := body.Member(w.Value, "text"); t != nil {
			b.WriteString(body.Text(t))
		} else {
			empty = false // a function call, a picture
		}
	}
	return b.String(), empty && b.Len() == 0
}

// usage counts thinking as output, of which it is most of the bill.
func usage(v []byte) provider.Usage {
	n := func(name string) int64 { return body.Int(body.Member(v, name)) }
	u := provider.Usage{CacheReadTokens: n("cachedContentTokenCount"), ReasoningTokens: n("thoughtsTokenCount")}
	prompt := n("promptTokenCount") + n("toolUsePromptTokenCount")
	u.InputTokens = max(0, prompt-u.CacheReadTokens)
	u.OutputTokens = n("candidatesTokenCount") + u.ReasoningTokens
	if prompt > 0 {
		u.OutputTokens = max(u.OutputTokens, n("totalTokenCount")-prompt)
	}
	u.Known = body.Member(v, "promptTokenCount") != nil
	return u
}
