package openai

import (
	"llmbatch/runner/provider"
	"llmbatch/runner/provider/providertest"
)

var chatAnswers = []providertest.Answer{
	{
		Name: "text",
		Call: chatCall,
		Body: `{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"gpt-x-2026","choices":[{"index":0,` +
			`"message":{"role":"assistant","content":"OK \u00e9","refusal":null,"annotations":[]},"logprobs":null,"finish_reason":"stop"}],` +
			`"usage":{"prompt_tokens":15,"completion_tokens":4,"total_tokens":19,"prompt_tokens_details":{"cached_tokens":10,"audio_tokens":0},` +
			`"completion_tokens_details":{"reasoning_tokens":3}},"service_tier":"default"}`,
		Reply: provider.Reply{Text: "OK é", StopReason: "stop", Model: "gpt-x-2026",
			Usage: provider.Usage{InputTokens: 5, OutputTokens: 4, CacheReadTokens: 10, ReasoningTokens: 3, Known: true}},
	},
	{Name: "C65: tool calls", Call: chatCall,
		Body:  `{"choices":[{"message":{"content":null,"tool_calls":[{"id":"c","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`,
		Reply: provider.Reply{StopReason: "tool_calls"}},
	{Name: "function call", Call: chatCall,
		Body:  `{"choices":[{"message":{"content":"","function_call":{"name":"f"}},"finish_reason":"function_call"}]}`,
		Reply: provider.Reply{StopReason: "function_call"}},
	{Name: "parts", Call: chatCall,
		Body:  `{"choices":[{"message":{"content":[{"type":"text","text":"a"},{"type":"x","text":"no"},{"type":"text","text":"b"}]},"finish_reason":"stop"}]}`,
		Reply: provider.Reply{Text: "ab", StopReason: "stop"}},
	{Name: "two choices", Call: chatCall,
		Body:  `{"choices":[{"index":0,"message":{"content":"a"},"finish_reason":"length"},{"index":1,"message":{"content":""},"finish_reason":"stop"}]}`,
		Reply: provider.Reply{Text: "a", StopReason: "length", Flag: "truncated"}},
	{Name: "refusal", Call: chatCall,
		Body:  `{"choices":[{"message":{"content":null,"refusal":"I can't"},"finish_reason":"stop"}]}`,
		Reply: provider.Reply{StopReason: "stop", Flag: "refused"}},
	{Name: "content filter", Call: chatCall,
		Body:  `{"choices":[{"message":{"content":"a"},"finish_reason":"content_filter"}]}`,
		Reply: provider.Reply{Text: "a", StopReason: "content_filter", Flag: "refused"}},
	{Name: "empty", Call: chatCall,
		Body:  `{"choices":[{"message":{"content":""},"finish_reason":"stop"}],"error":null,"usage":{"prompt_tokens":7,"completion_tokens":0}}`,
		Reply: provider.Reply{StopReason: "stop", Flag: "empty", Usage: provider.Usage{InputTokens: 7, Known: true}}},
	{Name: "more cached than there was", Call: chatCall,
		Body:  `{"choices":[{"message":{"content":"a"}}],"usage":{"prompt_tokens":7,"prompt_tokens_details":{"cached_tokens":9}}}`,
		Reply: provider.Reply{Text: "a", Usage: provider.Usage{CacheReadTokens: 9, Known: true}}},

	{Name: "C18: no choices", Call: chatCall, Body: `{"id":"x","choices":[],"usage":{"prompt_tokens":1}}`, Class: provider.InvalidResponse},
	{Name: "null choices", Call: chatCall, Body: `{"choices":null}`, Class: provider.InvalidResponse},
	{Name: "other JSON", Call: chatCall, Body: `{"message":"welcome"}`, Class: provider.InvalidResponse},
	{Name: "null message", Call: chatCall, Body: `{"choices":[{"message":null}]}`, Class: provider.InvalidResponse},
	{Name: "an empty array", Call: chatCall, Body: `[]`, Class: provider.InvalidResponse},
	{Name: "C17: 502 in a 200", Call: chatCall, Body: `{"error":{"code":502,"message":"bad upstream"}}`, Class: provider.ServerError},
	{Name: "C17: 429 in a 200", Call: chatCall, Body: `{"error":{"code":429,"message":"slow"},"choices":[]}`, Class: provider.RateLimited},
	{Name: "quota in a 200", Call: chatCall, Body: `{"error":{"code":"insufficient_quota","message":"pay"}}`,
		Class: provider.SpendCap, Scope: provider.WholeRun},
	{Name: "a choice's error", Call: chatCall,
		Body:  `{"choices":[{"message":{"content":"a"},"finish_reason":"error","error":{"code":503,"message":"no capacity"}}]}`,
		Class: provider.Overloaded},
	{Name: "finish reason error", Call: chatCall, Body: `{"choices":[{"message":{"content":"a"},"finish_reason":"error"}]}`, Class: provider.ServerError},
	{Name: "finish reason abort", Call: chatCall, Body: `{"choices":[{"message":{"content":"a"},"finish_reason":"abort"}]}`, Class: provider.ServerError},
	{Name: "second choice failed", Call: chatCall,
		Body:  `{"choices":[{"message":{"content":"a"},"finish_reason":"stop"},{"message":{"content":"a"},"finish_reason":"error"}]}`,
		Class: provider.ServerError},
	{Name: "text for an error", Call: chatCall, Body: `{"error":"upstream broke"}`, Class: provider.ServerError},
	{Name: "flat error", Call: chatCall, Body: `{"object":"error","message":"too long","type":"invalid_request_error","code":400}`,
		Class: provider.Rejected, Scope: provider.ItemOnly},
	{Name: "error in an array", Call: chatCall, Body: `[{"error":{"code":503,"message":"down","status":"UNAVAILABLE"}}]`, Class: provider.Overloaded},
}

// message is a response's output with one text.
const messageItem = `{"type":"message","id":"msg_1","status":"completed","role":"assistant","content":[{"type":"output_text","annotations":[],"text":"OK"}]}`

var otherAnswers = []providertest.Answer{
	{
		Name: "response",
		Call: responseCall,
		Body: `{"id":"resp_1","object":"response","created_at":1,"status":"completed","error":null,"incomplete_details":null,"model":"gpt-x",` +
			`"output":[{"type":"reasoning","id":"rs_1","summary":[]},` + messageItem + `],"text":{"format":{"type":"text"}},` +
			`"usage":{"input_tokens":15,"input_tokens_details":{"cached_tokens":10},"output_tokens":4,"output_tokens_details":{"reasoning_tokens":2},"total_tokens":19}}`,
		Reply: provider.Reply{Text: "OK", StopReason: "completed", Model: model,
			Usage: provider.Usage{InputTokens: 5, OutputTokens: 4, CacheReadTokens: 10, ReasoningTokens: 2, Known: true}},
	},
	{Name: "response: incomplete", Call: responseCall,
		Body:  `{"status":"incomplete","incomplete_details":{"reason":"max_output_tokens"},"output":[` + messageItem + `]}`,
		Reply: provider.Reply{Text: "OK", StopReason: "max_output_tokens", Flag: "truncated"}},
	{Name: "response: filtered", Call: responseCall,
		Body:  `{"status":"incomplete","incomplete_details":{"reason":"content_filter"},"output":[]}`,
		Reply: provider.Reply{StopReason: "content_filter", Flag: "refused"}},
	{Name: "response: incomplete, no reason", Call: responseCall, Body: `{"status":"incomplete","output":[]}`,
		Reply: provider.Reply{StopReason: "incomplete", Flag: "truncated"}},
	{Name: "response: tool call", Call: responseCall,
		Body:  `{"status":"completed","output":[{"type":"function_call","name":"f","arguments":"{}"}]}`,
		Reply: provider.Reply{StopReason: "completed"}},
	{Name: "response: refusal", Call: responseCall,
		Body:  `{"status":"completed","output":[{"type":"message","content":[{"type":"refusal","refusal":"no"}]}]}`,
		Reply: provider.Reply{StopReason: "completed", Flag: "refused"}},
	{Name: "response: empty", Call: responseCall, Body: `{"status":"completed","output":[]}`,
		Reply: provider.Reply{StopReason: "completed", Flag: "empty"}},
	{Name: "response: no status", Call: responseCall, Body: `{"output":[` + messageItem + `]}`, Reply: provider.Reply{Text: "OK"}},

	{Name: "response: failed", Call: responseCall, Body: `{"status":"failed","error":{"code":"server_error","message":"oops"},"output":[]}`,
		Class: provider.ServerError},
	{Name: "response: rate limited", Call: responseCall, Body: `{"status":"failed","error":{"code":"rate_limit_exceeded","message":"slow"}}`,
		Class: provider.RateLimited},
	{Name: "response: policy", Call: responseCall, Body: `{"status":"failed","error":{"code":"invalid_prompt","message":"no"}}`,
		Class: provider.Rejected, Scope: provider.ItemOnly},
	{Name: "response: failed without an error", Call: responseCall, Body: `{"status":"failed","error":null,"output":[]}`, Class: provider.ServerError},
	{Name: "response: cancelled", Call: responseCall, Body: `{"status":"cancelled","output":[]}`, Class: provider.ServerError},
	{Name: "response: queued", Call: responseCall, Body: `{"status":"queued","output":[]}`, Class: provider.InvalidResponse},
	{Name: "response: in the background", Body: `{"status":"in_progress","output":[]}`,
		Call:  provider.Call{API: provider.OpenAIResponses, Body: []byte(`{"background":true}`)},
		Class: provider.Rejected, Scope: provider.ItemOnly},
	{Name: "response: no output", Call: responseCall, Body: `{"id":"x"}`, Class: provider.InvalidResponse},
	{Name: "response: completed, no output", Call: responseCall, Body: `{"status":"completed"}`, Class: provider.InvalidResponse},

	{Name: "embeddings", Call: otherCall,
		Body:  `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.1,-0.20]}],"model":"emb","usage":{"prompt_tokens":2,"total_tokens":2}}`,
		Reply: provider.Reply{Model: "emb", Usage: provider.Usage{InputTokens: 2, Known: true}}},
	{Name: "other: an array", Call: otherCall, Body: `[{"index":0,"score":0.5}]`},
	{Name: "other: error", Call: otherCall, Body: `{"error":{"code":503,"message":"down"}}`, Class: provider.Overloaded},
}
