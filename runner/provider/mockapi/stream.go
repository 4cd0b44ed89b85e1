package mockapi

import (
	"cmp"
	"strconv"
)

// stream answers with server-sent events: the answer's text in parts, then what the step does to the end.
func (c *call) stream(st step) {
	c.w.Header().Set("Cache-Control", "no-cache")
	c.header(200, "text/event-stream; charset=utf-8", -1)
	e := events{call: c}
	parts := split(c.text(), c.p.parts())
	if st.act != answer {
		parts = split(c.text(), max(c.p.parts(), 2))[:2]
	}
	e.open()
	for i, part := range parts {
		if i > 0 && !c.wait(c.p.Gap) {
			return
		}
		e.part(part)
		e.send()
	}
	switch st.act {
	case streamErr:
		e.fault(st.fault)
		c.server.finish(c, "stream_error")
		e.send()
	case streamCut:
		c.hangUp("cut")
	case streamEOF:
		c.server.finish(c, "eof")
	default:
		e.close()
		c.server.finish(c, "ok")
		e.send()
	}
}

// events writes the events of one stream in the call's API.
type events struct {
	*call
	b        []byte
	sequence int
}

// send writes what has gathered and flushes it.
func (e *events) send() {
	_, _ = e.w.Write(e.b) // a client that has gone shows in the context
	e.flush()
	e.b = e.b[:0]
}

// begin starts an event; name is its type, which Chat Completions have none of.
func (e *events) begin(name string) {
	if name != "" {
		e.b = append(append(append(e.b, "event: "...), name...), '\n')
	}
	e.b = append(e.b, "data: "...)
	if name != "" {
		e.b = append(append(append(e.b, `{"type":"`...), name...), '"')
	}
	if name != "" && e.api == responses {
		e.b = strconv.AppendInt(append(e.b, `,"sequence_number":`...), int64(e.sequence), 10)
		e.sequence++
	}
}

// rest closes an event with the rest of its JSON.
func (e *events) rest(rest string) { e.b = append(append(e.b, rest...), "\n\n"...) }

// event is a whole event whose JSON has nothing to quote.
func (e *events) event(name, rest string) {
	e.begin(name)
	e.rest(rest)
}

// open writes what comes before the first part.
func (e *events) open() {
	switch e.api {
	case messages:
		e.begin("message_start")
		e.b = e.messageHead(append(e.b, `,"message":`...))
		e.b = strconv.AppendInt(append(e.b, `,"content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":`...), int64(e.p.in()), 10)
		e.rest(`,"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"output_tokens":0}}}`)
		e.event("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}}`)
		e.event("ping", `}`)
	case responses:
		for _, name := range []string{"response.created", "response.in_progress"} {
			e.begin(name)
			e.b = e.response(append(e.b, `,"response":`...), "", false)
			e.rest("}")
		}
		e.event("response.output_item.added", `,"output_index":0,"item":{"type":"message","id":"msg_mock","status":"in_progress","role":"assistant","content":[]}}`)
		e.event("response.content_part.added", `,"item_id":"msg_mock","output_index":0,"content_index":0,"part":{"type":"output_text","text":"","annotations":[]}}`)
	case gemini: // begins with its first part
	default:
		e.chunk(`{"role":"assistant","content":""}`, "")
	}
}

// part writes a piece of the text.
func (e *events) part(text string) {
	switch e.api {
	case messages:
		e.begin("content_block_delta")
		e.b = quote(append(e.b, `,"index":0,"delta":{"type":"text_delta","text":`...), text)
		e.rest(`}}`)
	case responses:
		e.begin("response.output_text.delta")
		e.b = quote(append(e.b, `,"item_id":"msg_mock","output_index":0,"content_index":0,"delta":`...), text)
		e.rest(`}`)
	case gemini:
		e.event("", string(e.gemini(text, false)))
	default:
		e.chunk(string(quote([]byte(`{"content":`), text))+"}", "")
	}
}

// close writes what a stream needs to be whole.
func (e *events) close() {
	text := e.text()
	switch e.api {
	case messages:
		e.event("content_block_stop", `,"index":0}`)
		e.begin("message_delta")
		e.b = quote(append(e.b, `,"delta":{"stop_reason":`...), cmp.Or(e.p.Stop, "end_turn"))
		e.b = strconv.AppendInt(append(e.b, `,"stop_sequence":null},"usage":{"output_tokens":`...), int64(e.p.out()), 10)
		e.rest(`}}`)
		e.event("message_stop", `}`)
	case responses:
		e.begin("response.output_text.done")
		e.b = quote(append(e.b, `,"item_id":"msg_mock","output_index":0,"content_index":0,"text":`...), text)
		e.rest(`}`)
		e.begin("response.content_part.done")
		e.b = quote(append(e.b, `,"item_id":"msg_mock","output_index":0,"content_index":0,"part":{"type":"output_text","text":`...), text)
		e.rest(`,"annotations":[]}}`)
		e.begin("response.output_item.done")
		e.b = e.outputItem(append(e.b, `,"output_index":0,"item":`...), text, "completed")
		e.rest(`}`)
		name := "response.completed"
		if e.p.Stop != "" {
			name = "response.incomplete"
		}
		e.begin(name)
		e.b = e.response(append(e.b, `,"response":`...), text, true)
		e.rest(`}`)
	case gemini:
		e.event("", string(e.gemini("", true)))
	default:
		e.chunk(`{}`, cmp.Or(e.p.Stop, "stop"))
		if e.req.includeUsage {
			e.begin("")
			e.b = e.chatHead(e.b, "chat.completion.chunk")
			e.b = e.chatUsage(append(e.b, `,"choices":[],"usage":`...))
			e.rest(`}`)
		}
		e.event("", "[DONE]")
	}
}

// chunk writes a chunk of a chat completion; an empty finish is null.
func (e *events) chunk(delta, finish string) {
	e.begin("")
	e.b = e.chatHead(e.b, "chat.completion.chunk")
	e.b = append(append(e.b, `,"choices":[{"index":0,"delta":`...), delta...)
	e.b = append(e.b, `,"logprobs":null,"finish_reason":`...)
	if finish == "" {
		e.b = append(e.b, "null"...)
	} else {
		e.b = quote(e.b, finish)
	}
	e.b = append(e.b, `}]`...)
	if e.req.includeUsage {
		e.b = append(e.b, `,"usage":null`...)
	}
	e.rest(`}`)
}

// fault writes an error in the middle of a stream.
func (e *events) fault(f fault) {
	switch e.api {
	case messages:
		e.b = append(append(append(e.b, "event: error\ndata: "...), f.body(e.api)...), "\n\n"...)
	case gemini:
		e.event("", string(f.gemini(0)))
	case responses:
		e.begin("error")
		e.b = quote(append(e.b, `,"code":`...), cmp.Or(f.openai.code, f.openai.typ))
		e.b = quote(append(e.b, `,"message":`...), f.openai.message)
		e.rest(`,"param":null}`)
	default:
		e.b = append(append(append(e.b, "data: "...), f.body(e.api)...), "\n\n"...)
	}
}
