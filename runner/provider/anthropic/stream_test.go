package anthropic

import (
	"strings"

	"llmbatch/runner/provider"
	"llmbatch/runner/provider/providertest"
)

// events writes a stream as the API does: each event by the name that its data has.
func events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		name, _, _ := strings.Cut(strings.TrimPrefix(d, `{"type":"`), `"`)
		b.WriteString("event: " + name + "\ndata: " + d + "\n\n")
	}
	return b.String()
}

const (
	start = `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],` +
		`"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":5,"cache_read_input_tokens":3,"output_tokens":1}}}`
	ping     = `{"type":"ping"}`
	textOpen = `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`
	hello    = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hello \ud83d"}}`
	world    = `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"\ude00\n\"w\" "}}`
	close0   = `{"type":"content_block_stop","index":0}`
	ended    = `{"type":"message_delta","delta":{"stop_reason":"end_turn","stop_sequence":null},"usage":{"output_tokens":12}}`
	stop     = `{"type":"message_stop"}`
	toolOpen = `{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t1","name":"f","input":{}}}`
	toolPart = `{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":"{\"a\":[1,"}}`
	overload = `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`
)

// soFar is what message_start said was used.
var soFar = provider.Usage{InputTokens: 5, OutputTokens: 1, CacheReadTokens: 3, Known: true}

var streams = []providertest.Stream{
	{
		Name:   "text",
		Call:   call,
		Events: events(start, ping, textOpen, hello, ping, world, close0, ended),
		After:  events(stop),
		Whole: `{"id":"msg_1","type":"message","role":"assistant","model":"claude-x",` +
			`"content":[{"type":"text","text":"Hello \ud83d\ude00\n\"w\" "}],"stop_reason":"end_turn","stop_sequence":null,` +
			`"usage":{"input_tokens":5,"cache_read_input_tokens":3,"output_tokens":12}}`,
		Check: true, Text: "Hello 😀\n\"w\" ", Rest: true,
	},
	{
		Name: "thinking, citations, tools, and what is new",
		Call: call,
		Events: events(start, `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"","signature":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"h"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"m"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"signature_delta","signature":"c2ln"}}`, close0,
			toolOpen, toolPart, `{"type":"tea_time","cups":2}`,
			`{"type":"content_block_delta","index":1,"delta":{"type":"input_json_delta","partial_json":" 2.50]}"}}`,
			`{"type":"content_block_start","index":2,"content_block":{"type":"text","text":"","citations":[]}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"text_delta","text":"x"}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{"cited_text":"a"}}}`,
			`{"type":"content_block_delta","index":2,"delta":{"type":"citations_delta","citation":{"cited_text":"b"}}}`,
			`{"type":"content_block_start","index":3,"content_block":{"type":"novel","verse":"a"}}`,
			`{"type":"content_block_delta","index":3,"delta":{"type":"novel_delta","verse":"b","n":1}}`,
			`{"type":"message_delta","delta":{"stop_reason":"tool_use","container":{"id":"c"}},"usage":{"output_tokens":3}}`),
		After: events(`{"type":"message_delta","delta":{},"usage":{"output_tokens":4},"context_management":{"applied":[]}}`, stop),
		Whole: `{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[` +
			`{"type":"thinking","thinking":"hm","signature":"c2ln"},{"type":"tool_use","id":"t1","name":"f","input":{"a":[1,2.50]}},` +
			`{"type":"text","text":"x","citations":[{"cited_text":"a"},{"cited_text":"b"}]},{"type":"novel","verse":"ab","n":1}],` +
			`"stop_reason":"tool_use","stop_sequence":null,"container":{"id":"c"},"context_management":{"applied":[]},` +
			`"usage":{"input_tokens":5,"cache_read_input_tokens":3,"output_tokens":4}}`,
	},
	{
		Name: "a limit inside a tool call",
		Call: call,
		Events: events(start, textOpen, toolOpen, toolPart,
			`{"type":"message_delta","delta":{"stop_reason":"max_tokens"},"usage":{"output_tokens":9}}`),
		Whole: `{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{"type":"text","text":""},` +
			`{"type":"tool_use","id":"t1","name":"f","input":{"INVALID_JSON":"{\"a\":[1,"}}],"stop_reason":"max_tokens",` +
			`"stop_sequence":null,"usage":{"input_tokens":5,"cache_read_input_tokens":3,"output_tokens":9}}`,
	},
	{
		Name: "a refusal without content",
		Call: call,
		Events: events(start, `{"type":"message_delta","delta":{"stop_reason":"refusal","stop_details":{"category":"bio"}},`+
			`"usage":{"output_tokens":2}}`),
		After: events(stop),
		Whole: `{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[],"stop_reason":"refusal",` +
			`"stop_sequence":null,"stop_details":{"category":"bio"},` +
			`"usage":{"input_tokens":5,"cache_read_input_tokens":3,"output_tokens":2}}`,
	},
	// C20: a clean end proves nothing.
	{Name: "clean end", Call: call, Events: events(start, textOpen, hello, world), Class: provider.Truncated, Usage: soFar,
		Check: true, Text: "Hello 😀\n\"w\" ", Rest: true},
	{Name: "stop without a reason", Call: call, Events: events(start, textOpen, hello, close0, stop), Class: provider.Truncated, Usage: soFar},
	{Name: "nothing", Call: call, Class: provider.Truncated, Check: true},
	{Name: "comments", Call: call, Events: ": keep-alive\n\n\n\n", Class: provider.Truncated},
	// C21: an error event is what it names, first or late.
	{Name: "error first", Call: call, Events: events(overload), Class: provider.Overloaded},
	{Name: "error late", Call: call, Events: events(start, textOpen, hello, overload), Class: provider.Overloaded, Usage: soFar},
	{Name: "error after the stop reason", Call: call, Events: events(start, ended, overload), Class: provider.Overloaded,
		Usage: provider.Usage{InputTokens: 5, OutputTokens: 12, CacheReadTokens: 3, Known: true}},
	{Name: "rate limit", Call: call, Events: events(start, `{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`),
		Class: provider.RateLimited, Usage: soFar},
	{Name: "error without data", Call: call, Events: "event: error\n\n", Class: provider.ServerError},
	{Name: "error in words", Call: call, Events: "event: error\ndata: upstream connect error\n\n", Class: provider.ServerError},
	{Name: "error without a name", Call: call, Events: "data: {\"error\":\"broke\"}\n\n", Class: provider.ServerError},
	{Name: "broken JSON", Call: call, Events: events(start) + "data: {hello\n\n", Class: provider.InvalidResponse, Usage: soFar},
	{
		Name: "data-keepalive, and placeholders after the reason", Call: call,
		Events: "data: : keepalive\n\ndata: null\n\n" + events(start, textOpen, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"Hi"}}`, ended),
		After:  "data: [done]\n\n" + events(`{"type":"message_delta","delta":{"stop_reason":null}}`, `{"type":"message_delta","delta":{"stop_reason":""}}`, stop),
		Whole: `{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{"type":"text","text":"Hi"}],"stop_reason":"end_turn",` +
			`"stop_sequence":null,"usage":{"input_tokens":5,"cache_read_input_tokens":3,"output_tokens":12}}`,
	},
	{Name: "empty-finish-reason", Call: call, Events: events(start, textOpen, hello, `{"type":"message_delta","delta":{"stop_reason":""}}`, stop),
		Class: provider.Truncated, Usage: soFar},
	{Name: "empty-finish-reason: null in words", Call: call, Events: events(start, textOpen, hello, `{"type":"message_delta","delta":{"stop_reason":"null"}}`),
		Class: provider.Truncated, Usage: soFar},
	// A part of a tool call or of thinking can't be gone on with.
	{Name: "inside a tool call", Call: call, Events: events(start, textOpen, hello, close0, toolOpen, toolPart),
		Class: provider.Truncated, Usage: soFar, Check: true, Text: "Hello \ufffd"},
	{Name: "inside thinking", Call: call, Events: events(start, `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":"a"}}`),
		Class: provider.Truncated, Usage: soFar, Check: true},
}

// turn is what asks for the rest of "Hel<lo".
const turn = `{"role":"user","content":"An answer to this was cut off on the way. This much of it arrived:\n\n<arrived>\nHel<lo\n` +
	`</arrived>\n\nContinue it from the exact place where it stops. Write only what comes next: repeat nothing of it, ` +
	`and add no remark of your own. Begin with a space or a line break if one belongs there."}`

var rests = []providertest.Rest{
	{
		Name: "user", Call: provider.Call{Body: []byte(`{ "messages":[ {"role":"user","content":"hi"} ],"x":1.0}`)}, Text: "Hel<lo", Style: "user",
		Body: `{"messages":[{"role":"user","content":"hi"},` + turn + `],"x":1.0}`,
	},
	{
		Name: "prefill", Call: call, Text: "Hello", Style: "prefill",
		Body: `{"model":"claude-x","max_tokens":9,"messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"Hello"}]}`,
	},
	{
		Name: "thinking takes a user's turn", Text: "Hel<lo", Style: "user",
		Call: provider.Call{Body: []byte(`{"thinking":{"type":"enabled"},"messages":[{"role":"user"}]}`)},
		Body: `{"thinking":{"type":"enabled"},"messages":[{"role":"user"},` + turn + `]}`,
	},
	{Name: "thinking takes no prefill", Text: "Hello", Style: "prefill",
		Call: provider.Call{Body: []byte(`{"thinking":{"type":"enabled"},"messages":[{"role":"user"}]}`)}},
	{Name: "own prefill", Text: "Hello", Style: "user",
		Call: provider.Call{Body: []byte(`{"messages":[{"role":"user"},{"role":"assistant","content":"{"}]}`)}},
	{Name: "schema", Text: "Hello", Style: "user",
		Call: provider.Call{Body: []byte(`{"output_config":{"format":{"type":"json_schema"}},"messages":[{"role":"user"}]}`)}},
	{Name: "nothing arrived", Call: call, Style: "user"},
	{Name: "no such style", Call: call, Text: "Hello", Style: "verse"},
	{Name: "no messages", Call: provider.Call{Body: []byte(`{}`)}, Text: "Hello", Style: "user"},
}
