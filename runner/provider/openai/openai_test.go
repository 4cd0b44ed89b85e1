package openai

import (
	"net/http"
	"testing"
	"time"

	"llmbatch/input"
	"llmbatch/runner/provider"
	"llmbatch/runner/provider/providertest"
)

func TestContract(t *testing.T) {
	providertest.Run(t, func() provider.Provider { return New() }, providertest.Suite{
		Requests:    requests,
		Answers:     append(chatAnswers, otherAnswers...),
		Streams:     append(chatStreams, responseStreams...),
		Rests:       rests,
		KeyHeader:   "Authorization",
		TokenHeader: "Authorization",
	})
}

func TestSignOrganization(t *testing.T) {
	h := map[string][]string{}
	New().Sign(h, provider.Credentials{Key: "k", Organization: "org-1", Project: "proj_1"})
	for name, want := range map[string]string{"Openai-Organization": "org-1", "Openai-Project": "proj_1", "Authorization": "Bearer k"} {
		if got := h[name]; len(got) != 1 || got[0] != want {
			t.Errorf("got %s: %q, want %q", name, got, want)
		}
	}
}

func TestDecodeStatus(t *testing.T) {
	r, err := New().Decode(&chatCall, provider.Answer{Status: 429, Body: []byte(`{"error":{"code":"rate_limit_exceeded","message":"slow"}}`)})
	if err == nil || err.Class != provider.RateLimited || err.Status != 429 {
		t.Errorf("got %+v, %+v, want rate_limited", r, err)
	}
}

const model = "gpt-x"

// defaults are what a command names; native, where the server is OpenAI's own.
var (
	defaults  = provider.Defaults{Name: "openai", Model: model, MaxTokens: 100, Endpoint: "chat"}
	native    = provider.Defaults{Name: "openai", Model: model, MaxTokens: 100, Endpoint: "chat", Native: true}
	responsed = provider.Defaults{Name: "openai", Model: model, MaxTokens: 100, Endpoint: "responses", Native: true}
)

// line is an item of the given format.
func line(format input.Format, url, body string) input.Item {
	return input.Item{Format: format, URL: url, Body: []byte(body)}
}

var requests = []providertest.Request{
	{
		Name:     "prompt",
		Item:     input.Item{Prompt: "Say \"hi\""},
		Defaults: defaults,
		Want:     provider.Call{API: provider.OpenAIChat, Path: chatPath, Model: model, MaxTokens: 100, Plain: true},
		Body:     `{"model":"gpt-x","max_tokens":100,"messages":[{"role":"user","content":"Say \"hi\""}]}`,
	},
	{
		Name:     "prompt to OpenAI itself",
		Item:     input.Item{Prompt: "hi", System: "be brief", Temperature: []byte("0.70"), MaxTokens: []byte("5")},
		Defaults: native,
		Want:     provider.Call{API: provider.OpenAIChat, Path: chatPath, Model: model, MaxTokens: 5, Plain: true},
		Body: `{"model":"gpt-x","max_completion_tokens":5,"messages":[{"role":"system","content":"be brief"},` +
			`{"role":"user","content":"hi"}],"temperature":0.70}`,
	},
	{
		Name: "prompt to responses",
		Item: input.Item{Prompt: "hi", Model: "own"},
		Defaults: provider.Defaults{Name: "openai", Endpoint: "responses", MaxTokens: 9, System: "be brief",
			Temperature: []byte("1.0")},
		Want: provider.Call{API: provider.OpenAIResponses, Path: responsesPath, Model: "own", MaxTokens: 9, Plain: true},
		Body: `{"max_output_tokens":9,"instructions":"be brief","temperature":1.0,"model":"own","input":"hi"}`,
	},
	{
		Name:     "no max_tokens",
		Item:     input.Item{Prompt: "hi"},
		Defaults: provider.Defaults{Name: "openai", Model: model},
		Want:     provider.Call{API: provider.OpenAIChat, Path: chatPath, Model: model, Plain: true},
		Body:     `{"model":"gpt-x","messages":[{"role":"user","content":"hi"}]}`,
	},
	{
		Name: "params win, and their limit is the only one",
		Item: input.Item{Prompt: "hi", Params: []byte(`{"seed": 12345678901234567890, "max_tokens":7,` +
			`"messages":[ ],"stream":true,"model":"other"}`)},
		Defaults: native,
		Want:     provider.Call{API: provider.OpenAIChat, Path: chatPath, Model: "other", MaxTokens: 7, Stream: true, Plain: true},
		Body:     `{"model":"other","messages":[ ],"seed":12345678901234567890,"max_tokens":7,"stream":true}`,
	},
	{
		Name:     "messages pass through",
		Item:     line(input.Messages, "", `{ "x_new":1.10, "n":2,"messages":[ {"role":"user"}],"max_tokens":1e2,"model":"own" }`),
		Defaults: native,
		Want:     provider.Call{API: provider.OpenAIChat, Path: chatPath, Model: "own", MaxTokens: 100},
		Body:     `{ "x_new":1.10, "n":2,"messages":[ {"role":"user"}],"max_tokens":1e2,"model":"own" }`,
	},
	{
		Name: "what the line lacks is filled",
		Item: line(input.Messages, "", `{"messages":[{"role":"user"}],"stream":false}`),
		Defaults: provider.Defaults{Name: "openai", Model: model, MaxTokens: 100, System: "be brief", Temperature: []byte("1"),
			Params: []byte(`{"seed":7,"max_tokens":3,"stream":true}`)},
		Want: provider.Call{API: provider.OpenAIChat, Path: chatPath, Model: model, MaxTokens: 100,
			Filled: provider.FilledModel | provider.FilledMaxTokens | provider.FilledTemperature | provider.FilledSystem | provider.FilledParams},
		Body: `{"model":"gpt-x","max_tokens":100,"temperature":1,"seed":7,"messages":[{"role":"system","content":"be brief"},{"role":"user"}],"stream":false}`,
	},
	{
		Name: "nothing is filled where the line has its own",
		Item: line(input.OpenAIBatch, "/v1/chat/completions", `{"model":"own","max_completion_tokens":5,"messages":[{"role":"developer"}],"temperature":null}`),
		Defaults: provider.Defaults{Name: "openai", Model: model, MaxTokens: 100, System: "be brief", Temperature: []byte("1"),
			Params: []byte(`{"temperature":2,"seed":7}`), Native: true},
		Want: provider.Call{API: provider.OpenAIChat, Path: chatPath, Model: "own", MaxTokens: 5, Filled: provider.FilledParams},
		Body: `{"seed":7,"model":"own","max_completion_tokens":5,"messages":[{"role":"developer"}],"temperature":null}`,
	},
	{
		Name: "a prompt's own values win over the command's params",
		Item: input.Item{Prompt: "hi", Temperature: []byte("0.5"), Params: []byte(`{"seed":1}`)},
		Defaults: provider.Defaults{Name: "openai", Model: model, Limit: "max_completion_tokens", MaxTokens: 9,
			Params: []byte(`{"temperature":2,"seed":7,"top_p":1}`)},
		Want: provider.Call{API: provider.OpenAIChat, Path: chatPath, Model: model, MaxTokens: 9, Plain: true},
		Body: `{"model":"gpt-x","max_completion_tokens":9,"top_p":1,"messages":[{"role":"user","content":"hi"}],"temperature":0.5,"seed":1}`,
	},
	{
		Name: "embeddings take no sampling",
		Item: line(input.OpenAIBatch, "/v1/embeddings", `{"input":"hi"}`),
		Defaults: provider.Defaults{Name: "openai", Model: model, MaxTokens: 100, System: "no", Temperature: []byte("1"),
			Params: []byte(`{"dimensions":256,"stream":true,"max_tokens":3}`)},
		Want: provider.Call{API: provider.OpenAIOther, Path: "/embeddings", Model: model, Filled: provider.FilledModel | provider.FilledParams},
		Body: `{"model":"gpt-x","dimensions":256,"input":"hi"}`,
	},
	{
		Name:     "completions have a limit and a temperature",
		Item:     line(input.OpenAIBatch, "v1/completions", `{"prompt":"hi"}`),
		Defaults: provider.Defaults{Name: "openai", Model: model, MaxTokens: 100, System: "no", Temperature: []byte("1"), Native: true},
		Want:     provider.Call{API: provider.OpenAIOther, Path: "/completions", Model: model, MaxTokens: 100},
		Body:     `{"model":"gpt-x","max_tokens":100,"temperature":1,"prompt":"hi"}`,
	},
	{
		Name:     "instructions",
		Item:     line(input.Messages, "", `{"input":[{"role":"user"}]}`),
		Defaults: provider.Defaults{Name: "openai", Model: model, MaxTokens: 100, System: "be brief"},
		Want:     provider.Call{API: provider.OpenAIResponses, Path: responsesPath, Model: model, MaxTokens: 100},
		Body:     `{"model":"gpt-x","max_output_tokens":100,"instructions":"be brief","input":[{"role":"user"}]}`,
	},
	{
		Name:     "a system's turn in the input",
		Item:     line(input.Messages, "", `{"input":[{"role":"system"}],"model":"own"}`),
		Defaults: provider.Defaults{Name: "openai", System: "be brief"},
		Want:     provider.Call{API: provider.OpenAIResponses, Path: responsesPath, Model: "own"},
		Body:     `{"input":[{"role":"system"}],"model":"own"}`,
	},
	{Name: "batch-dialects: azure", Item: line(input.OpenAIBatch, "/chat/completions", `{"model":"own","messages":[]}`), Defaults: defaults,
		Want: provider.Call{API: provider.OpenAIChat, Path: chatPath, Model: "own", MaxTokens: 100},
		Body: `{"max_tokens":100,"model":"own","messages":[]}`},
	{Name: "batch-dialects: zhipu", Item: line(input.OpenAIBatch, "/v4/chat/completions", `{"model":"own","messages":[]}`), Defaults: defaults,
		Want: provider.Call{API: provider.OpenAIChat, Path: chatPath, Model: "own", MaxTokens: 100},
		Body: `{"max_tokens":100,"model":"own","messages":[]}`},
	{Name: "batch-dialects: mistral", Item: line(input.OpenAIBatch, "", `{"messages":[]}`), Defaults: defaults,
		Want: provider.Call{API: provider.OpenAIChat, Path: chatPath, Model: model, MaxTokens: 100},
		Body: `{"model":"gpt-x","max_tokens":100,"messages":[]}`},
	{
		Name:     "input is for responses",
		Item:     line(input.Messages, "", `{"input":"hi","max_output_tokens":5,"model":"own"}`),
		Defaults: defaults,
		Want:     provider.Call{API: provider.OpenAIResponses, Path: responsesPath, Model: "own", MaxTokens: 5},
		Body:     `{"input":"hi","max_output_tokens":5,"model":"own"}`,
	},
	{
		Name:     "a stored prompt has its own model",
		Item:     line(input.Messages, "", `{"input":"hi","prompt":{"id":"pmpt_1"}}`),
		Defaults: responsed,
		Want:     provider.Call{API: provider.OpenAIResponses, Path: responsesPath, MaxTokens: 100},
		Body:     `{"max_output_tokens":100,"input":"hi","prompt":{"id":"pmpt_1"}}`,
	},
	{
		Name:     "batch line for chat, whatever the endpoint",
		Item:     line(input.OpenAIBatch, "/v1/chat/completions", `{"model":"own","messages":[],"stream":true}`),
		Defaults: responsed,
		Want:     provider.Call{API: provider.OpenAIChat, Path: chatPath, Model: "own", MaxTokens: 100, Stream: true},
		Body:     `{"max_completion_tokens":100,"model":"own","messages":[],"stream":true}`,
	},
	{
		Name:     "batch line for responses",
		Item:     line(input.OpenAIBatch, "/v1/responses?x=1", `{"input":[]}`),
		Defaults: defaults,
		Want:     provider.Call{API: provider.OpenAIResponses, Path: "/responses?x=1", Model: model, MaxTokens: 100},
		Body:     `{"model":"gpt-x","max_output_tokens":100,"input":[]}`,
	},
	{
		Name:     "embeddings need a model",
		Item:     line(input.OpenAIBatch, "/v1/embeddings", `{"input":"hi"}`),
		Defaults: defaults,
		Want:     provider.Call{API: provider.OpenAIOther, Path: "/embeddings", Model: model},
		Body:     `{"model":"gpt-x","input":"hi"}`,
	},
	{
		Name:     "moderations do not",
		Item:     line(input.OpenAIBatch, "/v1/moderations", `{"input":"hi"}`),
		Defaults: defaults,
		Want:     provider.Call{API: provider.OpenAIOther, Path: "/moderations"},
		Body:     `{"input":"hi"}`,
	},
	{Name: "an empty body", Item: line(input.Messages, "", `{ }`), Defaults: defaults, Err: "neither messages nor input"},
	{
		Name:     "mock without a model",
		Item:     line(input.Messages, "", `{"messages":[]}`),
		Defaults: provider.Defaults{Name: "mock", Mock: true},
		Want:     provider.Call{API: provider.OpenAIChat, Path: chatPath, Model: "mock"},
		Body:     `{"model":"mock","messages":[]}`,
	},
	{Name: "no model", Item: input.Item{Prompt: "hi"}, Err: "--model"},
	{Name: "no model for embeddings", Item: line(input.OpenAIBatch, "/v1/embeddings", `{}`), Err: "--model"},
	{Name: "a model that is no name", Item: line(input.Messages, "", `{"messages":[],"model":7}`), Defaults: defaults, Err: "--model"},
	{Name: "messages to responses", Item: line(input.Messages, "", `{"messages":[]}`), Defaults: responsed, Err: "--endpoint responses"},
	{Name: "anthropic batch line", Item: line(input.AnthropicBatch, "", `{}`), Defaults: defaults, Err: "an Anthropic batch line can't go to openai"},
	{Name: "url with a host", Item: line(input.OpenAIBatch, "https://evil.example/v1/x", `{}`), Defaults: defaults, Err: "without a host"},
	{Name: "url with two slashes", Item: line(input.OpenAIBatch, "/v1//evil.example/x", `{}`), Defaults: defaults, Err: "without a host"},
	{Name: "url with dots", Item: line(input.OpenAIBatch, "/v1/../x", `{}`), Defaults: defaults, Err: "without a host"},
	{Name: "url with escaped dots", Item: line(input.OpenAIBatch, "/v1/%2E%2e/x", `{}`), Defaults: defaults, Err: "without a host"},
	{Name: "url with a version alone", Item: line(input.OpenAIBatch, "/v1/", `{}`), Defaults: defaults, Err: "endpoint"},
}

var (
	chatCall     = provider.Call{API: provider.OpenAIChat, Model: model, Body: []byte(`{"model":"gpt-x","messages":[{"role":"user","content":"hi"}]}`)}
	responseCall = provider.Call{API: provider.OpenAIResponses, Model: model, Body: []byte(`{"model":"gpt-x","input":"hi"}`)}
	otherCall    = provider.Call{API: provider.OpenAIOther, Path: "/embeddings", Model: model, Body: []byte(`{"model":"gpt-x","input":"hi"}`)}
)

// C17: an error in a 200 is judged with the answer's headers and the time at which
// it came.
func TestDecodeErrorWithHeaders(t *testing.T) {
	call, at := chatCall, time.UnixMilli(1791331200000)
	daily := `{"error":{"code":429,"message":"free-models-per-day","metadata":{"headers":{"X-RateLimit-Reset":"1791331260000"}}}}`
	for _, c := range []struct {
		name, body, kind string
		hint             time.Duration
		noRetry          bool
		scope            provider.Scope
	}{
		{name: "daily, with a reset", body: daily, hint: time.Minute},
		{name: "no retry", body: `{"error":{"code":500,"message":"m"}}`, kind: "false", noRetry: true},
		{name: "retry", body: `{"error":{"code":400,"message":"m"}}`, kind: "true"},
		{name: "no retry at all", body: `{"error":{"code":400,"message":"m"}}`, scope: provider.ItemOnly},
		{name: "in a choice", body: `{"choices":[{"error":{"code":502,"message":"m"}}]}`, kind: "false", noRetry: true},
	} {
		h := http.Header{"X-Should-Retry": {c.kind}, "X-Request-Id": {"req_1"}}
		_, e := New().Decode(&call, provider.Answer{Status: 200, Header: h, Body: []byte(c.body), At: at})
		if e == nil || e.Hint != c.hint || e.NoRetry != c.noRetry || e.Scope != c.scope || e.RequestID != "req_1" {
			t.Errorf("%s: got %+v, want hint %v, no retry %v, scope %v", c.name, e, c.hint, c.noRetry, c.scope)
		}
	}
}

func FuzzDecode(f *testing.F) {
	for _, a := range append(chatAnswers, otherAnswers...) {
		f.Add([]byte(a.Body))
	}
	for _, s := range []string{"", "\n\n", "<html>", `{"choices":[`, `{"output":[{"content":"`, "\xef\xbb\xbf{}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, c := range []provider.Call{chatCall, responseCall, otherCall} {
			providertest.CheckAnswer(t, New(), c, data)
		}
	})
}

func FuzzAssemble(f *testing.F) {
	for _, s := range append(chatStreams, responseStreams...) {
		f.Add([]byte(s.Events + s.After))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, c := range []provider.Call{chatCall, responseCall, otherCall} {
			providertest.CheckStream(t, New(), c, data)
		}
	})
}

func FuzzEncode(f *testing.F) {
	for _, r := range requests {
		f.Add(r.Item.Prompt, []byte(r.Item.Body), []byte(r.Item.Params))
	}
	f.Fuzz(providertest.CheckEncode(New(), native, input.Prompt, input.Messages, input.OpenAIBatch))
}

func BenchmarkEncode(b *testing.B) {
	b.Run("prompt", func(b *testing.B) { providertest.BenchEncode(b, New(), &requests[1].Item, native) })
	b.Run("messages", func(b *testing.B) { providertest.BenchEncode(b, New(), &requests[5].Item, native) })
}

func BenchmarkDecode(b *testing.B) {
	b.Run("chat", func(b *testing.B) { providertest.BenchDecode(b, New(), chatCall, chatAnswers[0].Body) })
	b.Run("responses", func(b *testing.B) { providertest.BenchDecode(b, New(), responseCall, otherAnswers[0].Body) })
}
