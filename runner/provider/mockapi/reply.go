package mockapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// in and out are the tokens of an answer.
func (p *Params) in() int  { return cmp.Or(p.In, 5) }
func (p *Params) out() int { return cmp.Or(p.Out, 1) }

// fail answers with a fault.
func (c *call) fail(f fault) {
	body := f.body(c.api)
	if c.api == gemini {
		body = f.gemini(c.retryInfo())
	}
	c.write(f.status, "application/json", body, "error")
}

// header writes status and headers. n is the body's length, -1 when it is not known.
func (c *call) header(status int, contentType string, n int) {
	h := c.w.Header()
	h.Set("Content-Type", contentType)
	h.Set("Request-Id", "req_mock")
	if !c.api.anthropic() {
		h.Set("X-Request-Id", "req_mock")
	}
	if n >= 0 {
		h.Set("Content-Length", strconv.Itoa(n))
	}
	c.entry.Status = status
	c.w.WriteHeader(status)
}

// write gives a whole answer.
func (c *call) write(status int, contentType string, body []byte, outcome string) {
	c.header(status, contentType, len(body))
	c.server.finish(c, outcome)
	_, _ = c.w.Write(body) // a client that has gone shows in the context
}

// flush sends what was written; a writer that can't is a test's recorder and needs none.
func (c *call) flush() { _ = http.NewResponseController(c.w).Flush() }

// hangUp closes the connection in the middle of whatever was being said.
func (c *call) hangUp(outcome string) {
	c.server.finish(c, outcome)
	panic(http.ErrAbortHandler)
}

// play gives the answer.
func (c *call) play(st step) {
	if !c.streams() {
		st.act = st.act.plain()
	}
	switch st.act {
	case refuse:
		if st.name != "" {
			c.w.Header().Set(st.name, st.value)
		}
		c.fail(st.fault)
	case drop:
		c.hangUp("drop")
	case page:
		c.write(200, "text/html; charset=utf-8", []byte("<!DOCTYPE html>\n<html><body><h1>Welcome</h1></body></html>\n"), "html")
	case streamErr, streamCut, streamEOF:
		c.stream(st)
	case cut:
		if c.streams() {
			c.stream(step{act: streamCut})
			return
		}
		body := c.body()
		c.header(200, "application/json", len(body))
		_, _ = c.w.Write(body[:len(body)/2])
		c.flush()
		c.hangUp("cut")
	case answer:
		if c.streams() {
			c.stream(st)
			return
		}
		c.plain()
	}
}

// plain returns what comes closest to an act of a stream where the API has none.
func (a act) plain() act {
	switch a {
	case streamErr:
		return refuse
	case streamCut, streamEOF:
		return cut
	}
	return a
}

// streams reports whether the answer is a stream.
func (c *call) streams() bool {
	if c.api == gemini {
		return c.req.stream && c.r.URL.Query().Get("alt") == "sse"
	}
	return (c.req.stream || c.p.Stream) && (c.api == messages || c.api == chat || c.api == responses)
}

// plain gives the whole answer, in parts when there is a gap.
func (c *call) plain() {
	body := c.body()
	if c.p.Gap == 0 {
		c.write(200, "application/json", body, "ok")
		return
	}
	c.header(200, "application/json", len(body))
	parts := split(string(body), c.p.parts())
	for i, part := range parts {
		if i > 0 && !c.wait(c.p.Gap) {
			return
		}
		if i == len(parts)-1 {
			c.server.finish(c, "ok")
		}
		_, _ = c.w.Write([]byte(part))
		c.flush()
	}
}

func (p *Params) parts() int { return cmp.Or(p.Parts, 2) }

// split cuts s into n parts that differ by at most a byte, not through a rune.
func split(s string, n int) []string {
	parts := make([]string, 0, n)
	start := 0
	for i := 1; i <= n; i++ {
		end := max(start, len(s)*i/n)
		for end < len(s) && s[end]&0xc0 == 0x80 {
			end++
		}
		parts = append(parts, s[start:end])
		start = end
	}
	return parts
}

// text returns the answer's text.
func (c *call) text() string {
	t := "OK"
	if c.p.Echo {
		t = c.req.prompt
	}
	if n := c.p.Size - len(t); n > 0 {
		const filler = " All is well and the mock has nothing else to say."
		t += strings.Repeat(filler, n/len(filler)+1)[:n]
	}
	return t
}

// ordered is a JSON object as names and values by turns, in the order of the vendors' own answers.
type ordered []any

// MarshalJSON writes the members in their order.
func (o ordered) MarshalJSON() ([]byte, error) {
	b := []byte{'{'}
	for i := 0; i < len(o); i += 2 {
		if i > 0 {
			b = append(b, ',')
		}
		v, err := json.Marshal(o[i+1])
		if err != nil {
			return nil, err
		}
		b = append(append(append(b, '"'), o[i].(string)...), '"', ':')
		b = append(b, v...)
	}
	return append(b, '}'), nil
}

// marshal writes an answer; names, strings and numbers can always be written.
func marshal(v any) []byte {
	b, _ := json.Marshal(v)
	return b
}

// body returns a whole answer as the API gives it.
func (c *call) body() []byte {
	text, finish := c.text(), cmp.Or(c.p.Stop, "stop")
	switch c.api {
	case messages:
		return marshal(c.message([]ordered{{"type", "text", "text", text}}, cmp.Or(c.p.Stop, "end_turn")))
	case responses:
		return marshal(c.response(text, true))
	case countTokens:
		return marshal(ordered{"input_tokens", c.entry.Bytes / 4})
	case gemini:
		if b := c.gemini(text, true); !c.req.stream {
			return b
		}
		return marshal([]json.RawMessage{c.gemini(text, true)}) // as it is without alt=sse
	case embeddings:
		data := make([]ordered, c.req.inputs)
		for i := range data {
			data[i] = ordered{"object", "embedding", "index", i, "embedding", []float64{0.25, -0.5, 0.75}}
		}
		return marshal(ordered{"object", "list", "data", data, "model", c.req.model,
			"usage", ordered{"prompt_tokens", c.p.in(), "total_tokens", c.p.in()}})
	case moderations:
		return marshal(ordered{"id", "modr_mock", "model", "mock",
			"results", []ordered{{"flagged", false, "categories", ordered{}, "category_scores", ordered{}}}})
	}
	kind, choice := "chat.completion", ordered{"index", 0, "message", ordered{"role", "assistant", "content", text, "refusal", nil}}
	if c.api == completions {
		kind, choice = "text_completion", ordered{"index", 0, "text", text}
	}
	choice = append(choice, "logprobs", nil, "finish_reason", finish)
	return marshal(append(c.completion(kind, choice), "usage", c.chatUsage()))
}

// message returns an Anthropic message; an empty stop means that it has only begun.
func (c *call) message(content []ordered, stop string) ordered {
	var reason any
	out := 0
	if stop != "" {
		reason, out = stop, c.p.out()
	}
	usage := ordered{"input_tokens", c.p.in(), "cache_creation_input_tokens", 0, "cache_read_input_tokens", 0, "output_tokens", out}
	if c.batched {
		usage = append(usage, "service_tier", "batch")
	}
	return ordered{"id", fmt.Sprintf("msg_mock_%d", c.nth), "type", "message", "role", "assistant", "model", c.req.model,
		"content", content, "stop_reason", reason, "stop_sequence", nil, "usage", usage}
}

// completion returns an OpenAI completion or a chunk of one, without usage.
func (c *call) completion(kind string, choices ...ordered) ordered {
	return ordered{"id", fmt.Sprintf("chatcmpl-mock-%d", c.nth), "object", kind, "created", c.entry.Time.Unix(), "model", c.req.model, "choices", append([]ordered{}, choices...)}
}

func (c *call) chatUsage() ordered {
	return ordered{"prompt_tokens", c.p.in(), "completion_tokens", c.p.out(), "total_tokens", c.p.in() + c.p.out()}
}

// response returns an OpenAI Response, complete with its output when done and in progress without it when not. A stop
// reason makes it incomplete.
func (c *call) response(text string, done bool) ordered {
	status, details, output, usage := "in_progress", any(nil), []ordered{}, any(nil)
	if done {
		if status = "completed"; c.p.Stop != "" {
			status, details = "incomplete", ordered{"reason", c.p.Stop}
		}
		output = []ordered{outputItem(status, outputText(text))}
		usage = ordered{"input_tokens", c.p.in(), "input_tokens_details", ordered{"cached_tokens", 0}, "output_tokens", c.p.out(),
			"output_tokens_details", ordered{"reasoning_tokens", 0}, "total_tokens", c.p.in() + c.p.out()}
	}
	return ordered{"id", fmt.Sprintf("resp_mock_%d", c.nth), "object", "response", "created_at", c.entry.Time.Unix(), "status", status,
		"error", nil, "incomplete_details", details, "model", c.req.model, "output", output, "usage", usage}
}

// outputItem is the message in a Response's output, outputText a part of it.
func outputItem(status string, content ...ordered) ordered {
	if content == nil {
		content = []ordered{}
	}
	return ordered{"type", "message", "id", "msg_mock", "status", status, "role", "assistant", "content", content}
}

func outputText(text string) ordered {
	return ordered{"type", "output_text", "text", text, "annotations", []ordered{}}
}
