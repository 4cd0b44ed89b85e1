package openai

import (
	"strings"

	"llmbatch/runner/provider"
	"llmbatch/runner/provider/providertest"
)

// chunks writes a chat stream: nameless events.
func chunks(data ...string) string {
	return "data: " + strings.Join(data, "\n\ndata: ") + "\n\n"
}

// chunk is one with a choice; its rest is what follows the choice's index.
func chunk(rest string) string {
	return `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"gpt-x","choices":[{"index":0,` + rest + `}],"usage":null}`
}

// whole is the completion that the chunks stand for.
func whole(message, finish, usage string) string {
	return `{"id":"c1","object":"chat.completion","created":1,"model":"gpt-x","choices":[{"index":0,"message":` + message +
		`,"logprobs":null,"finish_reason":"` + finish + `"}],"usage":` + usage + `}`
}

const (
	usageChunk = `{"id":"c1","object":"chat.completion.chunk","created":1,"model":"gpt-x","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":2}}`
	usageBoth  = `{"prompt_tokens":5,"completion_tokens":2}`
	done       = "[DONE]"
)

var (
	role    = chunk(`"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null`)
	hello   = chunk(`"delta":{"content":"Hello \ud83d"},"logprobs":null,"finish_reason":null`)
	world   = chunk(`"delta":{"content":"\ude00\n\"w\" "},"logprobs":null,"finish_reason":null`)
	stop    = chunk(`"delta":{},"logprobs":null,"finish_reason":"stop"`)
	failure = `{"error":{"message":"engine died","type":"InternalServerError","code":500}}`
)

var chatStreams = []providertest.Stream{
	{
		Name: "text", Call: chatCall, Events: chunks(role, hello, world, stop), After: chunks(usageChunk, done),
		Whole: whole(`{"role":"assistant","content":"Hello \ud83d\ude00\n\"w\" ","refusal":null}`, "stop", usageBoth),
	},
	{
		Name: "no done, no usage, a ping", Call: chatCall, Events: chunks(hello, `{"type":"ping"}`, `{"cost":1}`, stop),
		Whole: whole(`{"role":"assistant","content":"Hello \ud83d"}`, "stop", "null"),
	},
	{
		Name: "tool calls",
		Call: chatCall,
		Events: chunks(
			chunk(`"delta":{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"a","type":"function","function":{"name":"f","arguments":""}}]}`),
			chunk(`"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":"}}]}`),
			chunk(`"delta":{"tool_calls":[{"index":1,"id":"b","type":"function","function":{"name":"g","arguments":"{"}}]}`),
			chunk(`"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"}"}},{"index":0,"function":{"arguments":"1}"}}]}`),
			chunk(`"delta":{},"logprobs":null,"finish_reason":"tool_calls"`)),
		After: chunks(done),
		Whole: whole(`{"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{\"x\":1}"}},`+
			`{"id":"b","type":"function","function":{"name":"g","arguments":"{}"}}]}`, "tool_calls", "null"),
	},
	{
		Name: "tool calls that are all number 0, or have no number",
		Call: chatCall,
		Events: chunks(
			chunk(`"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"1"}},{"index":0,"id":"b","function":{"name":"g","arguments":"2"}}]}`),
			chunk(`"delta":{"tool_calls":[{"id":"c","function":{"name":"h","arguments":"3"}}]}`),
			chunk(`"delta":{"tool_calls":[{"function":{"arguments":"4"}}]},"logprobs":null,"finish_reason":"tool_calls"`)),
		Whole: whole(`{"role":"assistant","content":null,"tool_calls":[{"id":"a","function":{"name":"f","arguments":"1"}},`+
			`{"id":"b","function":{"name":"g","arguments":"2"}},{"id":"c","function":{"name":"h","arguments":"34"}}]}`, "tool_calls", "null"),
	},
	{
		Name: "reasoning, logprobs, what is new, and Azure's first chunk",
		Call: chatCall,
		Events: chunks(`{"id":"","object":"","created":0,"model":"","choices":[],"prompt_filter_results":[{"n":1}]}`,
			chunk(`"delta":{"role":"assistant","reasoning_content":"h"},"logprobs":{"content":[{"token":"a"}]}`),
			chunk(`"delta":{"reasoning_content":"m","content":"x"},"logprobs":{"content":[{"token":"b"}]},"mood":"good"`),
			chunk(`"delta":{"function_call":{"name":"f","arguments":"{"}}`), chunk(`"delta":{"function_call":{"arguments":"}"}}`),
			chunk(`"delta":{},"finish_reason":"length"`)),
		After: chunks(usageChunk),
		Whole: `{"id":"c1","object":"chat.completion","created":1,"model":"gpt-x","prompt_filter_results":[{"n":1}],"choices":[{"index":0,` +
			`"message":{"role":"assistant","content":"x","reasoning_content":"hm","function_call":{"name":"f","arguments":"{}"}},` +
			`"logprobs":{"content":[{"token":"a"},{"token":"b"}]},"mood":"good","finish_reason":"length"}],"usage":` + usageBoth + `}`,
	},
	{
		Name: "two choices, out of order",
		Call: provider.Call{API: provider.OpenAIChat, Model: model, Body: []byte(`{"n":2,"messages":[]}`)},
		Events: chunks(`{"choices":[{"index":1,"delta":{"content":"b"},"finish_reason":"stop"}]}`,
			`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"length"}]}`),
		Whole: `{"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"length"},` +
			`{"index":1,"message":{"role":"assistant","content":"b"},"finish_reason":"stop"}]}`,
	},
	{
		Name: "refusal", Call: chatCall,
		Events: chunks(chunk(`"delta":{"role":"assistant","content":null,"refusal":"I "}`), chunk(`"delta":{"refusal":"won't"},"logprobs":null,"finish_reason":"stop"`)),
		Whole:  whole(`{"role":"assistant","content":null,"refusal":"I won't"}`, "stop", "null"),
		Check:  true,
	},
	{
		Name: "completions", Call: otherCall,
		Events: chunks(`{"object":"text_completion","choices":[{"index":0,"text":"a"}]}`, `{"object":"text_completion","choices":[{"index":0,"text":"b","finish_reason":"stop"}]}`),
		Whole:  `{"object":"text_completion","choices":[{"index":0,"text":"ab","finish_reason":"stop"}]}`,
	},
	// C20: neither a clean end nor [DONE] proves anything.
	{Name: "clean end", Call: chatCall, Events: chunks(role, hello, world), Class: provider.Truncated,
		Check: true, Text: "Hello 😀\n\"w\" ", Rest: true},
	{Name: "done without a finish reason", Call: chatCall, Events: chunks(hello, usageChunk, done), Class: provider.Truncated,
		Usage: provider.Usage{InputTokens: 5, OutputTokens: 2, Known: true}},
	{Name: "done alone", Call: chatCall, Events: chunks(done), Class: provider.Truncated, Check: true},
	{Name: "one of two choices", Call: provider.Call{API: provider.OpenAIChat, Body: []byte(`{"n":2}`)}, Events: chunks(hello, stop),
		Class: provider.Truncated},
	// C22: [DONE] after an error does not make it an answer.
	{Name: "C22", Call: chatCall, Events: chunks(hello, failure, done), Class: provider.ServerError},
	{Name: "error after the finish reason", Call: chatCall, Events: chunks(hello, stop, failure), Class: provider.ServerError},
	{Name: "null error", Call: chatCall, Events: chunks(`{"error":null,"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}]}`),
		Whole: `{"error":null,"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}]}`},
	{Name: "finish reason error", Call: chatCall, Events: chunks(hello, chunk(`"delta":{},"finish_reason":"error"`)), Class: provider.ServerError},
	{Name: "finish reason abort", Call: chatCall, Events: chunks(hello, chunk(`"delta":{},"finish_reason":"abort"`), done), Class: provider.ServerError},
	{Name: "a choice's error", Call: chatCall, Events: chunks(chunk(`"delta":{},"error":{"code":429,"message":"slow"}`)), Class: provider.RateLimited},
	{Name: "named error event", Call: chatCall, Events: "event: error\ndata: {\"message\":\"down\",\"code\":503}\n\n", Class: provider.Overloaded},
	{Name: "error in words", Call: chatCall, Events: "event: error\ndata: upstream connect error\n\n", Class: provider.ServerError},
	{Name: "quota", Call: chatCall, Events: chunks(`{"error":{"code":"insufficient_quota","message":"pay"}}`),
		Class: provider.SpendCap, Scope: provider.WholeRun},
	{Name: "broken JSON", Call: chatCall, Events: chunks(hello, "{oops"), Class: provider.InvalidResponse},
	{
		Name: "data-keepalive", Call: chatCall,
		Events: chunks(": keepalive", "null", ": OPENROUTER PROCESSING", role, "[done]", chunk(`"delta":{"content":"Hi"},"finish_reason":"stop"`)),
		After:  chunks(": keepalive", done),
		Whole:  whole(`{"role":"assistant","content":"Hi","refusal":null}`, "stop", "null"),
	},
	{Name: "empty-finish-reason", Call: chatCall, Events: chunks(chunk(`"delta":{"content":"a"},"finish_reason":""`)), Class: provider.Truncated,
		Check: true, Text: "a", Rest: true},
	{Name: "empty-finish-reason: null in words", Call: chatCall, Events: chunks(chunk(`"delta":{"content":"a"},"finish_reason":"null"`), done),
		Class: provider.Truncated},
	{
		Name: "empty-finish-reason: a late placeholder", Call: chatCall,
		Events: chunks(chunk(`"delta":{"role":"assistant","content":"a"},"logprobs":null,"finish_reason":"length"`)),
		After:  chunks(chunk(`"delta":{},"finish_reason":""`), chunk(`"delta":{},"finish_reason":"null"`), chunk(`"delta":{},"finish_reason":null`)),
		Whole:  whole(`{"role":"assistant","content":"a"}`, "length", "null"),
	},
	{
		Name: "mixed pieces", Call: chatCall,
		Events: chunks(chunk(`"delta":{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]}`),
			chunk(`"delta":{"content":"a"}`), chunk(`"delta":{"content":null}`), chunk(`"delta":{"content":[{"type":"text","text":"b"}]}`),
			chunk(`"delta":{"content":"c"},"logprobs":null,"finish_reason":"stop"`)),
		Whole: whole(`{"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]},{"type":"text","text":"abc"}],"role":"assistant"}`, "stop", "null"),
		Check: true, Text: "abc",
	},
	{Name: "mixed pieces, cut in thinking", Call: chatCall, Class: provider.Truncated, Check: true, Text: "a",
		Events: chunks(chunk(`"delta":{"content":"a"}`), chunk(`"delta":{"content":[{"type":"thinking","thinking":"hm"}]}`))},
	{Name: "vendor-envelope-200: in a stream", Call: chatCall, Class: provider.SpendCap, Scope: provider.WholeRun,
		Events: chunks(`{"id":"x","choices":null,"base_resp":{"status_code":1008,"status_msg":"insufficient balance"}}`)},
	{Name: "vendor-envelope-200: all is well", Call: chatCall,
		Events: chunks(`{"choices":[{"index":0,"delta":{"content":"a"},"finish_reason":"stop"}],"base_resp":{"status_code":0,"status_msg":""}}`),
		Whole:  `{"choices":[{"index":0,"message":{"role":"assistant","content":"a"},"finish_reason":"stop"}],"base_resp":{"status_code":0,"status_msg":""}}`},
	{Name: "inside a tool call", Call: chatCall, Class: provider.Truncated, Check: true, Text: "Hello \ufffd",
		Events: chunks(hello, chunk(`"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}`))},
}

// events writes a Responses stream.
func events(data ...string) string {
	var b strings.Builder
	for _, d := range data {
		name, _, _ := strings.Cut(strings.TrimPrefix(d, `{"type":"`), `"`)
		b.WriteString("event: " + name + "\ndata: " + d + "\n\n")
	}
	return b.String()
}

const (
	created    = `{"type":"response.created","response":{"id":"r1","status":"in_progress","output":[],"usage":null}}`
	itemAdded  = `{"type":"response.output_item.added","output_index":1,"item":{"type":"message","content":[]}}`
	textDelta  = `{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"O"}`
	textDelta2 = `{"type":"response.output_text.delta","output_index":1,"content_index":0,"delta":"K "}`
	itemDone   = `{"type":"response.output_item.done","output_index":1,"item":` + messageItem + `}`
	reasoning  = `{"type":"response.output_item.added","output_index":0,"item":{"type":"reasoning"}}`
	finished   = `{"id":"r1","status":"completed","error":null,"output":[` + messageItem + `],"usage":{"input_tokens":5,"output_tokens":1}}`
	cutShort   = `{"id":"r1","status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[` + messageItem + `]}`
)

var responseStreams = []providertest.Stream{
	{
		Name: "response", Call: responseCall, Whole: finished,
		Events: events(created, `{"type":"keepalive","sequence_number":3}`, reasoning, itemAdded, textDelta, textDelta2, itemDone,
			`{"type":"response.completed","response":`+finished+`}`),
		After: events(`{"type":"response.tea"}`),
		Check: true, Text: "OK ", Rest: true,
	},
	{Name: "response: incomplete", Call: responseCall, Whole: cutShort,
		Events: events(created, `{"type":"response.incomplete","response":`+cutShort+`}`)},
	{Name: "response: output from the items", Call: responseCall,
		Events: events(itemAdded, itemDone, `{"type":"response.completed","response":{"id":"r1","status":"completed","output":[]}}`),
		Whole:  `{"id":"r1","status":"completed","output":[` + messageItem + `]}`},
	{Name: "response: clean end", Call: responseCall, Events: events(created, itemAdded, textDelta, itemDone), Class: provider.Truncated,
		Check: true, Text: "O", Rest: true},
	{Name: "response: failed", Call: responseCall, Class: provider.RateLimited, Usage: provider.Usage{InputTokens: 3, Known: true},
		Events: events(created, `{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow"},"usage":{"input_tokens":3}}}`)},
	{Name: "response: failed without an error", Call: responseCall, Events: events(`{"type":"response.failed","response":{}}`), Class: provider.ServerError},
	{Name: "response: error event", Call: responseCall, Events: events(created, `{"type":"error","code":"server_error","message":"oops","param":null}`), Class: provider.ServerError},
	{Name: "response: policy", Call: responseCall, Events: events(`{"type":"error","code":"invalid_prompt","message":"no"}`),
		Class: provider.Rejected, Scope: provider.ItemOnly},
	{Name: "response: inside a tool call", Call: responseCall, Class: provider.Truncated, Check: true, Text: "O",
		Events: events(itemAdded, textDelta, `{"type":"response.output_item.added","output_index":2,"item":{"type":"function_call"}}`)},
	{Name: "response: broken JSON", Call: responseCall, Events: chunks("{oops"), Class: provider.InvalidResponse},
	{Name: "response: an image's fault", Call: responseCall, Class: provider.Rejected, Scope: provider.ItemOnly,
		Events: events(`{"type":"response.failed","response":{"status":"failed","error":{"code":"image_parse_error","message":"no"}}}`)},
}

// turn is what asks for the rest of "Hel<lo".
const turn = `{"role":"user","content":"An answer to this was cut off on the way. This much of it arrived:\n\n<arrived>\nHel<lo\n` +
	`</arrived>\n\nContinue it from the exact place where it stops. Write only what comes next: repeat nothing of it, ` +
	`and add no remark of your own. Begin with a space or a line break if one belongs there."}`

// restCall is a call with the body.
func restCall(api provider.API, body string) provider.Call {
	return provider.Call{API: api, Body: []byte(body)}
}

var rests = []providertest.Rest{
	{Name: "user", Call: chatCall, Text: "Hel<lo", Style: "user",
		Body: `{"model":"gpt-x","messages":[{"role":"user","content":"hi"},` + turn + `]}`},
	{Name: "prefill", Call: restCall(provider.OpenAIChat, `{ "x":1.0,"messages":[{"role":"user"}],"response_format":{"type":"text"} }`), Text: "Hello", Style: "prefill",
		Body: `{"x":1.0,"messages":[{"role":"user"},{"role":"assistant","content":"Hello"}],"response_format":{"type":"text"}}`},
	{Name: "responses", Call: responseCall, Text: "Hel<lo", Style: "user",
		Body: `{"model":"gpt-x","input":[{"role":"user","content":"hi"},` + turn + `]}`},
	{Name: "responses with a list", Call: restCall(provider.OpenAIResponses, `{"input":[{"role":"user"}],"n":1}`), Text: "Hello", Style: "prefill",
		Body: `{"input":[{"role":"user"},{"role":"assistant","content":"Hello"}],"n":1}`},
	{Name: "schema", Call: restCall(provider.OpenAIChat, `{"messages":[{"role":"user"}],"response_format":{"type":"json_object"}}`), Text: "{", Style: "user"},
	{Name: "responses with a schema", Call: restCall(provider.OpenAIResponses, `{"input":"hi","text":{"format":{"type":"json_schema"}}}`), Text: "{", Style: "user"},
	{Name: "several choices", Call: restCall(provider.OpenAIChat, `{"messages":[{"role":"user"}],"n":2}`), Text: "a", Style: "user"},
	{Name: "other", Call: otherCall, Text: "a", Style: "user"},
	{Name: "own prefill", Call: restCall(provider.OpenAIChat, `{"messages":[{"role":"assistant"}]}`), Text: "a", Style: "user"},
	{Name: "no input", Call: restCall(provider.OpenAIResponses, `{}`), Text: "a", Style: "user"},
}
