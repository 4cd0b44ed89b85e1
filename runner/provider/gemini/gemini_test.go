package gemini

import (
	"testing"

	"llmbatch/input"
	"llmbatch/runner/provider"
	"llmbatch/runner/provider/providertest"
)

func TestContract(t *testing.T) {
	providertest.Run(t, func() provider.Provider { return New() }, providertest.Suite{
		Requests: requests, Answers: answers, Streams: streams, Rests: rests,
		KeyHeader: "X-Goog-Api-Key", TokenHeader: "Authorization",
	})
}

const (
	path       = "/models/gem-x:generateContent"
	streamPath = "/models/gem-x:streamGenerateContent?alt=sse"
	user       = `{"role":"user","parts":[{"text":"hi"}]}`
)

var defaults = provider.Defaults{Name: "gemini-native", Model: "gem-x"}

func contents(body string) input.Item { return input.Item{Format: input.Contents, Body: []byte(body)} }

func called(max int) provider.Call {
	return provider.Call{API: provider.GeminiGenerate, Path: path, StreamPath: streamPath, Model: "gem-x", MaxTokens: max}
}

func plain(max int) provider.Call {
	c := called(max)
	c.Plain = true
	return c
}

var requests = []providertest.Request{
	{Name: "prompt", Item: input.Item{Prompt: "hi"}, Defaults: defaults, Want: plain(0), Body: `{"contents":[` + user + `]}`},
	{
		Name:     "prompt with options",
		Item:     input.Item{Prompt: "hi", System: "be brief", MaxTokens: []byte("5"), Temperature: []byte("0.70"), Params: []byte(`{"safetySettings":[ ]}`)},
		Defaults: defaults, Want: plain(5),
		Body: `{"systemInstruction":{"parts":[{"text":"be brief"}]},"contents":[` + user + `],"generationConfig":{"maxOutputTokens":5,"temperature":0.70},"safetySettings":[ ]}`,
	},
	{Name: "contents pass through", Item: contents(`{ "contents":[ ` + user + `], "x":1.0 }`), Defaults: defaults, Want: called(0),
		Body: `{"contents":[ ` + user + `],"x":1.0}`},
	{
		Name: "what is missing is added", Item: contents(`{"contents":[` + user + `],"generationConfig":{"topK":3,"temperature":0},"model":"models/gem-x"}`),
		Defaults: provider.Defaults{Name: "gemini-native", MaxTokens: 9, Temperature: []byte("1"), System: "be brief", Params: []byte(`{"labels":{}}`)},
		Want: provider.Call{API: provider.GeminiGenerate, Path: path, StreamPath: streamPath, Model: "models/gem-x", MaxTokens: 9,
			Filled: provider.FilledMaxTokens | provider.FilledSystem | provider.FilledParams},
		Body: `{"labels":{},"contents":[` + user + `],"generationConfig":{"topK":3,"temperature":0,"maxOutputTokens":9},"systemInstruction":{"parts":[{"text":"be brief"}]}}`,
	},
	{Name: "no model", Item: input.Item{Prompt: "hi"}, Err: "--model"},
	{Name: "messages", Item: input.Item{Format: input.Messages, Body: []byte(`{"messages":[]}`)}, Defaults: defaults, Err: "contents"},
}

var call = provider.Call{API: provider.GeminiGenerate, Model: "gem-x", Body: []byte(`{"contents":[` + user + `]}`)}

// answer has a candidate with the parts and the finish reason.
func answer(parts, finish string) string {
	return `{"candidates":[{"content":{"parts":[` + parts + `],"role":"model"},"finishReason":"` + finish + `","index":0}],` +
		`"usageMetadata":{"promptTokenCount":13,"candidatesTokenCount":1,"thoughtsTokenCount":43,"totalTokenCount":57},"modelVersion":"gem-x","responseId":"r"}`
}

var used = provider.Usage{InputTokens: 13, OutputTokens: 44, ReasoningTokens: 43, Known: true}

var answers = []providertest.Answer{
	{Name: "text, thoughts apart", Call: call, Body: answer(`{"text":"hm","thought":true},{"text":"O"},{"text":"K"}`, "STOP"),
		Reply: provider.Reply{Text: "OK", StopReason: "STOP", Model: "gem-x", Usage: used}},
	{Name: "a limit", Call: call, Body: answer(`{"text":"O"}`, "MAX_TOKENS"),
		Reply: provider.Reply{Text: "O", StopReason: "MAX_TOKENS", Model: "gem-x", Usage: used, Flag: "truncated"}},
	{Name: "safety", Call: call, Body: `{"candidates":[{"finishReason":"SAFETY"}]}`, Reply: provider.Reply{StopReason: "SAFETY", Flag: "refused"}},
	{Name: "an image's", Call: call, Body: `{"candidates":[{"finishReason":"IMAGE_SAFETY"}]}`, Reply: provider.Reply{StopReason: "IMAGE_SAFETY", Flag: "refused"}},
	{Name: "a blocked prompt", Call: call, Body: `{"promptFeedback":{"blockReason":"PROHIBITED_CONTENT"},"usageMetadata":{"promptTokenCount":4,"cachedContentTokenCount":1,"totalTokenCount":4}}`,
		Reply: provider.Reply{StopReason: "PROHIBITED_CONTENT", Flag: "refused", Usage: provider.Usage{InputTokens: 3, CacheReadTokens: 1, Known: true}}},
	{Name: "a function call", Call: call, Body: answer(`{"functionCall":{"name":"f","args":{}}}`, "STOP"),
		Reply: provider.Reply{StopReason: "STOP", Model: "gem-x", Usage: used}},
	{Name: "empty", Call: call, Body: `{"candidates":[{"finishReason":"STOP"}]}`, Reply: provider.Reply{StopReason: "STOP", Flag: "empty"}},
	{Name: "a broken call", Call: call, Body: `{"candidates":[{"finishReason":"MALFORMED_FUNCTION_CALL"}]}`, Class: provider.InvalidResponse},
	{Name: "no candidates", Call: call, Body: `{"candidates":[]}`, Class: provider.InvalidResponse},
	{Name: "neither content nor reason", Call: call, Body: `{"candidates":[{"content":{"parts":[]},"finishReason":"FINISH_REASON_UNSPECIFIED"}]}`, Class: provider.InvalidResponse},
	{Name: "an error in a 200", Call: call, Body: `[{"error":{"code":503,"message":"down","status":"UNAVAILABLE"}}]`, Class: provider.Overloaded},
}

// piece is an event with a part.
func piece(part, rest string) string {
	return `data: {"candidates":[{"content":{"parts":[` + part + `],"role":"model"}` + rest + `,"index":0}],"modelVersion":"gem-x","responseId":"r"}` + "\n\n"
}

var streams = []providertest.Stream{
	{
		Name: "text after thoughts", Call: call,
		Events: piece(`{"text":"h","thought":true}`, "") + piece(`{"text":"m","thought":true}`, "") + piece(`{"text":"O"}`, "") + piece(`{"text":"K"}`, "") +
			`data: {"candidates":[{"content":{"parts":[{"text":"!"}],"role":"model"},"finishReason":"STOP","index":0}],` +
			`"usageMetadata":{"promptTokenCount":13,"candidatesTokenCount":1,"thoughtsTokenCount":43,"totalTokenCount":57},"modelVersion":"gem-x","responseId":"r"}` + "\n\n",
		Whole: answer(`{"text":"hm","thought":true},{"text":"OK!"}`, "STOP"),
	},
	{Name: "blocked", Call: call, Events: `data: {"promptFeedback":{"blockReason":"SAFETY"}}` + "\n\n", Whole: `{"promptFeedback":{"blockReason":"SAFETY"}}`},
	{Name: "no finish reason", Call: call, Events: piece(`{"text":"O"}`, ""), Class: provider.Truncated, Check: true, Text: "O", Rest: true},
	{Name: "inside thoughts", Call: call, Events: piece(`{"text":"O","thought":true}`, ""), Class: provider.Truncated, Check: true},
	{Name: "inside a call", Call: call, Events: piece(`{"text":"O"}`, "") + piece(`{"functionCall":{"name":"f"}}`, ""), Class: provider.Truncated, Check: true, Text: "O"},
	{Name: "an error late", Call: call, Events: piece(`{"text":"O"}`, "") + "data: " + `{"error":{"code":429,"message":"slow","status":"RESOURCE_EXHAUSTED"}}` + "\n\n",
		Class: provider.RateLimited},
}

var rests = []providertest.Rest{
	{Name: "prefill", Call: call, Text: "Hello", Style: "prefill", Body: `{"contents":[` + user + `,{"role":"model","parts":[{"text":"Hello"}]}]}`},
	{Name: "a schema", Call: provider.Call{Body: []byte(`{"contents":[` + user + `],"generationConfig":{"responseMimeType":"application/json"}}`)}, Text: "{", Style: "user"},
	{Name: "no contents", Call: provider.Call{Body: []byte(`{}`)}, Text: "a", Style: "user"},
}

// RetryInfo is the wait, a quota per day closes the lane.
func TestErrors(t *testing.T) {
	body := `{"error":{"code":429,"message":"m","status":"RESOURCE_EXHAUSTED","details":[{"@type":"type.googleapis.com/google.rpc.RetryInfo","retryDelay":"38.2s"}]}}`
	_, err := New().Decode(&call, provider.Answer{Status: 429, Body: []byte(body)})
	if err == nil || err.Class != provider.RateLimited || err.Hint.Milliseconds() != 38200 {
		t.Errorf("got %+v, want a wait of 38.2 s", err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, a := range answers {
		f.Add([]byte(a.Body))
	}
	f.Fuzz(func(t *testing.T, data []byte) { providertest.CheckAnswer(t, New(), call, data) })
}

func FuzzAssemble(f *testing.F) {
	for _, s := range streams {
		f.Add([]byte(s.Events))
	}
	f.Fuzz(func(t *testing.T, data []byte) { providertest.CheckStream(t, New(), call, data) })
}
