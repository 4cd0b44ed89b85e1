package mockapi

import (
	"cmp"
	"net/http"
	"slices"
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

// body returns a whole answer as the API gives it.
func (c *call) body() []byte {
	b := make([]byte, 0, 512)
	switch c.api {
	case messages:
		b = c.messageHead(b)
		b = quote(append(b, `,"content":[{"type":"text","text":`...), c.text())
		b = quote(append(b, `}],"stop_reason":`...), cmp.Or(c.p.Stop, "end_turn"))
		return append(c.messageUsage(append(b, `,"stop_sequence":null,"usage":`...)), '}')
	case responses:
		return c.response(b, c.text(), true)
	case countTokens:
		return append(strconv.AppendInt(append(b, `{"input_tokens":`...), int64(c.entry.Bytes/4), 10), '}')
	case gemini:
		if b = c.gemini(c.text(), true); c.req.stream {
			b = slices.Concat([]byte("["), b, []byte("]")) // as it is without alt=sse
		}
		return b
	case embeddings:
		return c.embeddings(b)
	case moderations:
		return append(b, `{"id":"modr_mock","model":"mock","results":[{"flagged":false,"categories":{},"category_scores":{}}]}`...)
	case completions:
		b = c.chatHead(b, "text_completion")
		b = quote(append(b, `,"choices":[{"index":0,"text":`...), c.text())
	default:
		b = c.chatHead(b, "chat.completion")
		b = quote(append(b, `,"choices":[{"index":0,"message":{"role":"assistant","content":`...), c.text())
		b = append(b, `,"refusal":null}`...)
	}
	b = quote(append(b, `,"logprobs":null,"finish_reason":`...), cmp.Or(c.p.Stop, "stop"))
	return append(c.chatUsage(append(b, `}],"usage":`...)), '}')
}

// messageHead begins an Anthropic message with what does not change.
func (c *call) messageHead(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"id":"msg_mock_`...), int64(c.nth), 10)
	return quote(append(b, `","type":"message","role":"assistant","model":`...), c.req.model)
}

func (c *call) messageUsage(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"input_tokens":`...), int64(c.p.in()), 10)
	b = append(b, `,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":`...)
	b = strconv.AppendInt(b, int64(c.p.out()), 10)
	if c.batched {
		b = append(b, `,"service_tier":"batch"`...)
	}
	return append(b, '}')
}

// chatHead begins an OpenAI completion or a chunk of one.
func (c *call) chatHead(b []byte, object string) []byte {
	b = strconv.AppendInt(append(b, `{"id":"chatcmpl-mock-`...), int64(c.nth), 10)
	b = append(append(append(b, `","object":"`...), object...), `","created":`...)
	b = strconv.AppendInt(b, c.entry.Time.Unix(), 10)
	return quote(append(b, `,"model":`...), c.req.model)
}

func (c *call) chatUsage(b []byte) []byte {
	b = strconv.AppendInt(append(b, `{"prompt_tokens":`...), int64(c.p.in()), 10)
	b = strconv.AppendInt(append(b, `,"completion_tokens":`...), int64(c.p.out()), 10)
	return append(strconv.AppendInt(append(b, `,"total_tokens":`...), int64(c.p.in()+c.p.out()), 10), '}')
}

// response returns an OpenAI Response, complete with its output when done and in progress without it when not. A stop
// reason makes it incomplete.
func (c *call) response(b []byte, text string, done bool) []byte {
	b = strconv.AppendInt(append(b, `{"id":"resp_mock_`...), int64(c.nth), 10)
	b = strconv.AppendInt(append(b, `","object":"response","created_at":`...), c.entry.Time.Unix(), 10)
	status := "in_progress"
	if done {
		if status = "completed"; c.p.Stop != "" {
			status = "incomplete"
		}
	}
	b = quote(append(b, `,"status":`...), status)
	b = append(b, `,"error":null,"incomplete_details":`...)
	if status == "incomplete" {
		b = append(quote(append(b, `{"reason":`...), c.p.Stop), '}')
	} else {
		b = append(b, "null"...)
	}
	b = quote(append(b, `,"model":`...), c.req.model)
	b = append(b, `,"output":[`...)
	if !done {
		return append(b, `],"usage":null}`...)
	}
	b = append(c.outputItem(b, text, status), `],"usage":`...)
	b = strconv.AppendInt(append(b, `{"input_tokens":`...), int64(c.p.in()), 10)
	b = append(b, `,"input_tokens_details":{"cached_tokens":0},"output_tokens":`...)
	b = strconv.AppendInt(b, int64(c.p.out()), 10)
	b = append(b, `,"output_tokens_details":{"reasoning_tokens":0},"total_tokens":`...)
	return append(strconv.AppendInt(b, int64(c.p.in()+c.p.out()), 10), `}}`...)
}

// outputItem is the message in a Response's output.
func (c *call) outputItem(b []byte, text, status string) []byte {
	b = quote(append(b, `{"type":"message","id":"msg_mock","status":`...), status)
	b = quote(append(b, `,"role":"assistant","content":[{"type":"output_text","text":`...), text)
	return append(b, `,"annotations":[]}]}`...)
}

// embeddings returns a small vector for each input.
func (c *call) embeddings(b []byte) []byte {
	b = append(b, `{"object":"list","data":[`...)
	for i := range c.req.inputs {
		if i > 0 {
			b = append(b, ',')
		}
		b = strconv.AppendInt(append(b, `{"object":"embedding","index":`...), int64(i), 10)
		b = append(b, `,"embedding":[0.25,-0.5,0.75]}`...)
	}
	b = quote(append(b, `],"model":`...), c.req.model)
	b = strconv.AppendInt(append(b, `,"usage":{"prompt_tokens":`...), int64(c.p.in()), 10)
	return append(strconv.AppendInt(append(b, `,"total_tokens":`...), int64(c.p.in()), 10), `}}`...)
}
