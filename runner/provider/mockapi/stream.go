package mockapi

import "cmp"

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

// event adds an event. name is its type, which Chat Completions and Gemini have none of.
func (e *events) event(name string, o ordered) {
	if name != "" {
		e.b = append(append(append(e.b, "event: "...), name...), '\n')
		head := ordered{"type", name}
		if e.api == responses {
			head = append(head, "sequence_number", e.sequence)
			e.sequence++
		}
		o = append(head, o...)
	}
	e.data(marshal(o))
}

// data adds the data of an event.
func (e *events) data(b []byte) { e.b = append(append(append(e.b, "data: "...), b...), "\n\n"...) }

// ofText is an event of a Response about its only piece of text.
func ofText(name string, value any) ordered {
	return ordered{"item_id", "msg_mock", "output_index", 0, "content_index", 0, name, value}
}

// open writes what comes before the first part.
func (e *events) open() {
	switch e.api {
	case messages:
		e.event("message_start", ordered{"message", e.message([]ordered{}, "")})
		e.event("content_block_start", ordered{"index", 0, "content_block", ordered{"type", "text", "text", ""}})
		e.event("ping", ordered{})
	case responses:
		for _, name := range []string{"response.created", "response.in_progress"} {
			e.event(name, ordered{"response", e.response("", false)})
		}
		e.event("response.output_item.added", ordered{"output_index", 0, "item", outputItem("in_progress")})
		e.event("response.content_part.added", ofText("part", outputText("")))
	case gemini: // begins with its first part
	default:
		e.chunk(ordered{"role", "assistant", "content", ""}, nil)
	}
}

// part writes a piece of the text.
func (e *events) part(text string) {
	switch e.api {
	case messages:
		e.event("content_block_delta", ordered{"index", 0, "delta", ordered{"type", "text_delta", "text", text}})
	case responses:
		e.event("response.output_text.delta", ofText("delta", text))
	case gemini:
		e.data(e.gemini(text, false))
	default:
		e.chunk(ordered{"content", text}, nil)
	}
}

// close writes what a stream needs to be whole.
func (e *events) close() {
	text := e.text()
	switch e.api {
	case messages:
		e.event("content_block_stop", ordered{"index", 0})
		e.event("message_delta", ordered{"delta", ordered{"stop_reason", cmp.Or(e.p.Stop, "end_turn"), "stop_sequence", nil},
			"usage", ordered{"output_tokens", e.p.out()}})
		e.event("message_stop", ordered{})
	case responses:
		e.event("response.output_text.done", ofText("text", text))
		e.event("response.content_part.done", ofText("part", outputText(text)))
		e.event("response.output_item.done", ordered{"output_index", 0, "item", outputItem("completed", outputText(text))})
		name := "response.completed"
		if e.p.Stop != "" {
			name = "response.incomplete"
		}
		e.event(name, ordered{"response", e.response(text, true)})
	case gemini:
		e.data(e.gemini("", true))
	default:
		e.chunk(ordered{}, cmp.Or(e.p.Stop, "stop"))
		if e.req.includeUsage {
			e.event("", append(e.completion("chat.completion.chunk"), "usage", e.chatUsage()))
		}
		e.data([]byte("[DONE]"))
	}
}

// chunk writes a chunk of a chat completion; finish is nil but in the last.
func (e *events) chunk(delta ordered, finish any) {
	o := e.completion("chat.completion.chunk", ordered{"index", 0, "delta", delta, "logprobs", nil, "finish_reason", finish})
	if e.req.includeUsage {
		o = append(o, "usage", nil)
	}
	e.event("", o)
}

// fault writes an error in the middle of a stream.
func (e *events) fault(f fault) {
	switch e.api {
	case messages:
		e.b = append(e.b, "event: error\n"...)
		e.data(f.body(e.api))
	case responses:
		e.event("error", ordered{"code", cmp.Or(f.openai.code, f.openai.typ), "message", f.openai.message, "param", nil})
	case gemini:
		e.data(f.gemini(0))
	default:
		e.data(f.body(e.api))
	}
}
