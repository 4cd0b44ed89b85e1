package anthropic

import (
	"encoding/json"
	"net/http"
	"strconv"

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
		Method:   http.MethodPost,
		Path:     "/v1/messages",
	}
	switch it.Format {
	case input.Prompt:
		c.Plain = true
		c.Body = promptBody(it, d)
	case input.Messages, input.AnthropicBatch:
		c.Body = it.Body
	default:
		return nil, body.LineError(it, "an OpenAI batch line can't go to anthropic",
			"leave out --provider anthropic, or write the line as {\"custom_id\",\"params\"}")
	}
	if err := complete(c, it, d); err != nil {
		return nil, err
	}
	return c, nil
}

// promptBody makes the body of a prompt line, params merged in.
func promptBody(it *input.Item, d provider.Defaults) json.RawMessage {
	maxTokens := it.MaxTokens
	if body.Null(maxTokens) && d.MaxTokens > 0 {
		maxTokens = strconv.AppendInt(nil, int64(d.MaxTokens), 10)
	}
	messages := body.Build(nil,
		body.Field{Name: "role", Value: []byte(`"user"`)},
		body.Field{Name: "content", Value: body.Quote(it.Prompt)})
	return body.Build(it.Params,
		body.Field{Name: "model", Value: body.First(it.Model, d.Model)},
		body.Field{Name: "max_tokens", Value: maxTokens},
		body.Field{Name: "system", Value: body.First(it.System, d.System)},
		body.Field{Name: "messages", Value: body.List(messages)},
		body.Field{Name: "temperature", Value: body.FirstRaw(it.Temperature, d.Temperature)})
}

// complete adds what the API requires and the body lacks, and notes in the call
// what the body asks for.
func complete(c *provider.Call, it *input.Item, d provider.Defaults) error {
	var model, maxTokens, messages []byte
	for w := body.Members(c.Body); w.Next(); {
		switch string(w.Name) {
		case "model":
			model = w.Value
		case "max_tokens":
			maxTokens = w.Value
		case "messages":
			messages = w.Value
		case "stream":
			c.Stream = body.True(w.Value)
		}
	}
	if messages == nil {
		return body.LineError(it, "no messages, which anthropic needs", `write "prompt" or "messages" in the line`)
	}
	switch {
	case maxTokens != nil && body.Null(maxTokens):
		return body.LineError(it, "max_tokens is null", "give it a number, or leave it out and use --max-tokens")
	case maxTokens != nil:
		c.MaxTokens = int(body.Int(maxTokens))
	case d.MaxTokens > 0:
		c.MaxTokens = d.MaxTokens
	case d.Mock:
		c.MaxTokens = mockMaxTokens
	default:
		return body.LineError(it, "no max_tokens, which anthropic needs",
			`add "max_tokens" to the line, or --max-tokens N to the command`)
	}
	if maxTokens == nil {
		c.Body = body.Insert(c.Body, "max_tokens", strconv.AppendInt(nil, int64(c.MaxTokens), 10))
	}
	return body.NeedModel(c, it, d, model)
}
