package anthropic

import (
	"net/http"
	"net/url"
	"strings"

	"llmbatch/input"
	"llmbatch/runner/provider"
	"llmbatch/runner/provider/body"
)

// mockMaxTokens stands in for a missing max_tokens where the server is the mock.
const mockMaxTokens = 1024

// Encode turns an item into a call of /v1/messages. A missing model or
// max_tokens that has no default is the user's error.
func (Provider) Encode(it *input.Item, d provider.Defaults) (*provider.Call, error) {
	c := &provider.Call{
		API:      provider.AnthropicMessages,
		Provider: d.Name,
		Family:   d.Family,
		Method:   http.MethodPost,
		Path:     "/v1/messages",
	}
	switch it.Format {
	case input.Prompt:
		c.Plain, c.Files = true, it.Files
		c.Body = body.Build(it.Params,
			body.Field{Name: "model", Value: body.First(it.Model)},
			body.Field{Name: "max_tokens", Value: body.FirstRaw(it.MaxTokens)},
			body.Field{Name: "system", Value: body.First(it.System)},
			body.Field{Name: "messages", Value: body.List(body.Turn("user", body.Content(it, body.AnthropicParts)))},
			body.Field{Name: "temperature", Value: it.Temperature})
	case input.Messages, input.AnthropicBatch:
		c.Body = it.Body
	case input.Contents:
		return nil, body.LineError(it, "contents are for Gemini's own API", "use --provider gemini-native, or write messages")
	default:
		return nil, body.LineError(it, "an OpenAI batch line can't go to anthropic",
			"leave out --provider anthropic, or write the line as {\"custom_id\",\"params\"}")
	}
	if d.Mock && d.MaxTokens == 0 {
		d.MaxTokens = mockMaxTokens
	}
	body.Fill(c, d, body.Slots{Limit: "max_tokens", System: "system", Turns: "messages", Sampled: true})
	if err := complete(c, it, d); err != nil {
		return nil, err
	}
	if d.Vertex {
		toVertex(c)
	}
	return c, nil
}

// vertexVersion is the one that Google's form of the request asks for.
const vertexVersion = "vertex-2023-10-16"

// toVertex gives the call Google's form: the model stands in the URL and not in the
// body, which has the version.
func toVertex(c *provider.Call) {
	c.Path = "/publishers/anthropic/models/" + url.PathEscape(c.Model) + ":rawPredict"
	c.StreamPath = strings.TrimSuffix(c.Path, "rawPredict") + "streamRawPredict"
	if c.Body = body.Remove(c.Body, "model"); body.Member(c.Body, "anthropic_version") == nil {
		c.Body = body.Insert(c.Body, "anthropic_version", body.Quote(vertexVersion))
	}
}

// complete notes in the call what the body asks for, and refuses one that the API
// would refuse.
func complete(c *provider.Call, it *input.Item, d provider.Defaults) error {
	var maxTokens, messages []byte
	for w := body.Members(c.Body); w.Next(); {
		switch string(w.Name) {
		case "max_tokens":
			maxTokens = w.Value
		case "messages":
			messages = w.Value
		case "stream":
			c.Stream = body.True(w.Value)
		}
	}
	switch {
	case messages == nil:
		return body.LineError(it, "no messages, which anthropic needs", `write "prompt" or "messages" in the line`)
	case maxTokens == nil:
		return body.LineError(it, "no max_tokens, which anthropic needs",
			`add "max_tokens" to the line, or --max-tokens N to the command`)
	case body.Null(maxTokens):
		return body.LineError(it, "max_tokens is null", "give it a number, or leave it out and use --max-tokens")
	}
	c.MaxTokens = int(body.Int(maxTokens))
	return body.NeedModel(c, it, d)
}
