package anthropic

import (
	"testing"

	"llmbatch/input"
	"llmbatch/runner/provider"
	"llmbatch/runner/provider/providertest"
)

func TestContract(t *testing.T) {
	providertest.Run(t, func() provider.Provider { return New() }, providertest.Suite{
		Requests:    requests,
		Answers:     answers,
		Streams:     streams,
		Rests:       rests,
		KeyHeader:   "X-Api-Key",
		TokenHeader: "Authorization",
	})
}

const (
	path  = "/v1/messages"
	model = "claude-x"
)

// defaults are what a command names.
var defaults = provider.Defaults{Name: "anthropic", Model: model, MaxTokens: 100}

var requests = []providertest.Request{
	{
		Name:     "prompt",
		Item:     input.Item{Prompt: "Say \"hi\"\n\u2028"},
		Defaults: defaults,
		Want:     provider.Call{Path: path, Model: model, MaxTokens: 100, Plain: true},
		Body:     `{"model":"claude-x","max_tokens":100,"messages":[{"role":"user","content":"Say \"hi\"\n` + "\u2028" + `"}]}`,
	},
	{
		Name: "prompt with all options",
		Item: input.Item{Prompt: "hi", Model: "own", System: "be brief", MaxTokens: []byte("5"), Temperature: []byte("0.70")},
		Defaults: provider.Defaults{Name: "anthropic", Model: model, MaxTokens: 100, System: "other",
			Temperature: []byte("1")},
		Want: provider.Call{Path: path, Model: "own", MaxTokens: 5, Plain: true},
		Body: `{"model":"own","max_tokens":5,"system":"be brief","messages":[{"role":"user","content":"hi"}],"temperature":0.70}`,
	},
	{
		Name: "options of the command",
		Item: input.Item{Prompt: "hi"},
		Defaults: provider.Defaults{Name: "anthropic", Model: model, MaxTokens: 9, System: "be brief",
			Temperature: []byte("0.10")},
		Want: provider.Call{Path: path, Model: model, MaxTokens: 9, Plain: true},
		Body: `{"model":"claude-x","max_tokens":9,"system":"be brief","temperature":0.10,"messages":[{"role":"user","content":"hi"}]}`,
	},
	{
		Name: "params win",
		Item: input.Item{Prompt: "hi", Params: []byte(`{"top_k": 12345678901234567890, "max_tokens":7,` +
			`"thinking":{ "type" : "disabled" },"model":"other","stream":true}`)},
		Defaults: defaults,
		Want:     provider.Call{Path: path, Model: "other", MaxTokens: 7, Stream: true, Plain: true},
		Body: `{"model":"other","max_tokens":7,"messages":[{"role":"user","content":"hi"}],` +
			`"top_k":12345678901234567890,"thinking":{ "type" : "disabled" },"stream":true}`,
	},
	{
		Name: "messages pass through",
		Item: input.Item{Format: input.Messages,
			Body: []byte(`{ "x_new":1.10, "messages":[ {"role":"user","content":"hi"}],"max_tokens":1e2,"model":"own","y":9007199254740993 }`)},
		Defaults: provider.Defaults{Name: "anthropic", Model: "other", MaxTokens: 3},
		Want:     provider.Call{Path: path, Model: "own", MaxTokens: 100},
		Body:     `{ "x_new":1.10, "messages":[ {"role":"user","content":"hi"}],"max_tokens":1e2,"model":"own","y":9007199254740993 }`,
	},
	{
		Name:     "what is missing is added",
		Item:     input.Item{Format: input.Messages, Body: []byte(`{"messages":[],"temperature":1.0}`)},
		Defaults: defaults,
		Want:     provider.Call{Path: path, Model: model, MaxTokens: 100},
		Body:     `{"model":"claude-x","max_tokens":100,"messages":[],"temperature":1.0}`,
	},
	{
		Name: "all that is missing is added",
		Item: input.Item{Format: input.AnthropicBatch, Body: []byte(`{ "messages":[{"role":"user"}]}`)},
		Defaults: provider.Defaults{Name: "anthropic", Model: model, MaxTokens: 100, System: "be brief", Temperature: []byte("1"),
			Params: []byte(`{"top_k":5,"system":"no"}`)},
		Want: provider.Call{Path: path, Model: model, MaxTokens: 100,
			Filled: provider.FilledModel | provider.FilledMaxTokens | provider.FilledTemperature | provider.FilledSystem | provider.FilledParams},
		Body: `{"model":"claude-x","max_tokens":100,"system":"be brief","temperature":1,"top_k":5, "messages":[{"role":"user"}]}`,
	},
	{
		Name:     "batch line",
		Item:     input.Item{Format: input.AnthropicBatch, Body: []byte(`{"max_tokens":0,"messages":[],"stream":true}`)},
		Defaults: defaults,
		Want:     provider.Call{Path: path, Model: model, Stream: true},
		Body:     `{"model":"claude-x","max_tokens":0,"messages":[],"stream":true}`,
	},
	{
		Name:     "mock",
		Item:     input.Item{Prompt: "hi"},
		Defaults: provider.Defaults{Name: "mock", Mock: true},
		Want:     provider.Call{Path: path, Model: "mock", MaxTokens: 1024, Plain: true},
		Body:     `{"model":"mock","max_tokens":1024,"messages":[{"role":"user","content":"hi"}]}`,
	},
	{
		Name:     "Claude on Vertex",
		Item:     input.Item{Format: input.Messages, Body: []byte(`{ "model":"claude-x@1", "messages":[ ],"max_tokens":5}`)},
		Defaults: provider.Defaults{Name: "vertex-anthropic", Vertex: true},
		Want: provider.Call{Path: "/publishers/anthropic/models/claude-x@1:rawPredict", StreamPath: "/publishers/anthropic/models/claude-x@1:streamRawPredict",
			Model: "claude-x@1", MaxTokens: 5},
		Body: `{"anthropic_version":"vertex-2023-10-16","messages":[ ],"max_tokens":5}`,
	},
	{Name: "no model", Item: input.Item{Prompt: "hi"}, Defaults: provider.Defaults{MaxTokens: 5}, Err: "--model"},
	{Name: "no max_tokens", Item: input.Item{Prompt: "hi", Model: "own"}, Err: "--max-tokens"},
	{Name: "null max_tokens", Item: input.Item{Format: input.Messages, Body: []byte(`{"messages":[],"max_tokens":null}`)},
		Defaults: defaults, Err: "--max-tokens"},
	{Name: "null model", Item: input.Item{Format: input.Messages, Body: []byte(`{"messages":[],"model":null}`)},
		Defaults: defaults, Err: "--model"},
	{Name: "input", Item: input.Item{Format: input.Messages, Body: []byte(`{"input":"hi"}`)}, Defaults: defaults, Err: "messages"},
	{Name: "openai batch line", Item: input.Item{Format: input.OpenAIBatch, URL: "/v1/responses", Body: []byte(`{}`)},
		Defaults: defaults, Err: "an OpenAI batch line can't go to anthropic"},
}

var call = provider.Call{Model: model, Body: []byte(`{"model":"claude-x","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`)}

var answers = []providertest.Answer{
	{
		Name: "text",
		Call: call,
		Body: `{"id":"msg_1","type":"message","role":"assistant","model":"claude-x","content":[{"type":"text","text":"OK \u00e9\n\"x\""},` +
			`{"type":"text","text":"!"}],"stop_reason":"end_turn","stop_sequence":null,` +
			`"usage":{"input_tokens":5,"cache_creation_input_tokens":2,"cache_read_input_tokens":3,"output_tokens":1,"service_tier":"standard"}}`,
		Reply: provider.Reply{Text: "OK é\n\"x\"!", StopReason: "end_turn", Model: model,
			Usage: provider.Usage{InputTokens: 5, OutputTokens: 1, CacheReadTokens: 3, CacheWriteTokens: 2, Known: true}},
	},
	{
		Name: "tool call and thinking",
		Call: call,
		Body: `{"type":"message","content":[{"type":"thinking","thinking":"hm","signature":"s"},` +
			`{"type":"tool_use","id":"t","name":"f","input":{"text":"no"}}],"stop_reason":"tool_use","usage":null}`,
		Reply: provider.Reply{StopReason: "tool_use"},
	},
	{Name: "truncated", Call: call, Body: `{"content":[{"type":"text","text":"a"}],"stop_reason":"max_tokens"}`,
		Reply: provider.Reply{Text: "a", StopReason: "max_tokens", Flag: "truncated"}},
	{Name: "window", Call: call, Body: `{"content":[{"type":"text","text":"a"}],"stop_reason":"model_context_window_exceeded"}`,
		Reply: provider.Reply{Text: "a", StopReason: "model_context_window_exceeded", Flag: "truncated"}},
	{Name: "refusal", Call: call, Body: `{"content":[],"stop_reason":"refusal","stop_details":{"category":"cyber"}}`,
		Reply: provider.Reply{StopReason: "refusal", Flag: "refused"}},
	{Name: "paused", Call: call, Body: `{"content":[{"type":"server_tool_use","id":"s"}],"stop_reason":"pause_turn"}`,
		Reply: provider.Reply{StopReason: "pause_turn", Flag: "paused"}},
	{Name: "empty", Call: call, Body: `{"content":[{"type":"text","text":""}],"stop_reason":"end_turn","error":null}`,
		Reply: provider.Reply{StopReason: "end_turn", Flag: "empty"}},
	{Name: "escaped names, names twice", Call: call,
		Body:  `{"content":[],"\u0063ontent":[{"t\u0079pe":"te\u0078t","text":"a"}],"stop_reason":"end_turn"}`,
		Reply: provider.Reply{Text: "a", StopReason: "end_turn"}},
	{Name: "neither content nor reason", Call: call, Body: `{"content":[],"stop_reason":""}`, Class: provider.InvalidResponse},
	{Name: "vendor-envelope-200", Call: call, Body: `{"error_code":"INSUFFICIENT_BALANCE","message":"m"}`, Class: provider.SpendCap, Scope: provider.WholeRun},
	{Name: "half a surrogate pair", Call: call, Body: `{"content":[{"type":"text","text":"a\ud83d"}],"stop_reason":"end_turn"}`,
		Reply: provider.Reply{Text: "a\ufffd", StopReason: "end_turn", Response: []byte(`{"content":[{"type":"text","text":"a\ufffd"}],"stop_reason":"end_turn"}`)}},
	{Name: "invalid UTF-8", Call: call, Body: "{\"content\":[{\"type\":\"text\",\"text\":\"a\xff\xfe\"}]}",
		Reply: provider.Reply{Text: "a\ufffd\ufffd", Response: []byte("{\"content\":[{\"type\":\"text\",\"text\":\"a\ufffd\ufffd\"}]}")}},

	{Name: "no content", Call: call, Body: `{"id":"msg_1","usage":{"input_tokens":5}}`, Class: provider.InvalidResponse},
	{Name: "null content", Call: call, Body: `{"content":null}`, Class: provider.InvalidResponse},
	{Name: "an array", Call: call, Body: `[1]`, Class: provider.InvalidResponse},
	// C17: an error inside a 200 is what it names.
	{Name: "overloaded", Call: call, Body: `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`,
		Class: provider.Overloaded},
	{Name: "bad request", Call: call, Body: `{"type":"error","error":{"type":"invalid_request_error","message":"no"}}`,
		Class: provider.Rejected, Scope: provider.ItemOnly},
	{Name: "spend cap", Call: call, Body: `{"type":"error","error":{"type":"rate_limit_error","message":"x",` +
		`"details":{"error_code":"enforced_spend_limit_reached"}}}`,
		Class: provider.SpendCap, Scope: provider.WholeRun},
	{Name: "error as text", Call: call, Body: `{"content":[],"error":"something broke"}`, Class: provider.ServerError},
	{Name: "error in an array", Call: call, Body: `[{"error":{"code":503,"message":"down","status":"UNAVAILABLE"}}]`,
		Class: provider.Overloaded},
}

func TestDecodeStatus(t *testing.T) {
	r, err := New().Decode(&call, provider.Answer{Status: 529, Body: []byte(answers[0].Body)})
	if err == nil || err.Class != provider.Overloaded || err.Status != 529 {
		t.Errorf("got %+v, %+v, want overloaded", r, err)
	}
}

func TestSignVersion(t *testing.T) {
	h := map[string][]string{}
	New().Sign(h, provider.Credentials{})
	if got := h["Anthropic-Version"]; len(got) != 1 || got[0] != "2023-06-01" {
		t.Errorf("got version %q, want 2023-06-01", got)
	}
}

func FuzzDecode(f *testing.F) {
	for _, a := range answers {
		f.Add([]byte(a.Body))
	}
	for _, s := range []string{"", "\n\n", "<html>", `{"content":[`, `{"content":[{"type":"text","text":"`, "\xef\xbb\xbf{}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) { providertest.CheckAnswer(t, New(), call, data) })
}

func FuzzAssemble(f *testing.F) {
	for _, s := range streams {
		f.Add([]byte(s.Events + s.After))
	}
	f.Fuzz(func(t *testing.T, data []byte) { providertest.CheckStream(t, New(), call, data) })
}

func FuzzEncode(f *testing.F) {
	for _, r := range requests {
		f.Add(r.Item.Prompt, []byte(r.Item.Body), []byte(r.Item.Params))
	}
	f.Fuzz(providertest.CheckEncode(New(), defaults, input.Prompt, input.Messages, input.AnthropicBatch))
}

func BenchmarkEncode(b *testing.B) {
	b.Run("prompt", func(b *testing.B) { providertest.BenchEncode(b, New(), &requests[1].Item, defaults) })
	b.Run("messages", func(b *testing.B) { providertest.BenchEncode(b, New(), &requests[4].Item, defaults) })
}

func BenchmarkDecode(b *testing.B) { providertest.BenchDecode(b, New(), call, answers[0].Body) }
