package openai

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"

	"llmbatch/input"
	"llmbatch/runner/provider"
	"llmbatch/runner/provider/body"
)

const (
	chatPath      = "/chat/completions"
	responsesPath = "/responses"
)

// Encode turns an item into a call. A prompt goes to the endpoint of the
// defaults, a message list to the API that has such a member, and a batch line
// to its own url. A missing model that has no default is the user's error.
func (Provider) Encode(it *input.Item, d provider.Defaults) (*provider.Call, error) {
	c := &provider.Call{Provider: d.Name, Method: http.MethodPost}
	var err error
	switch it.Format {
	case input.Prompt:
		promptCall(c, it, d)
	case input.Messages:
		c.Body = it.Body
		err = messagesCall(c, it, d)
	case input.OpenAIBatch:
		c.Body = it.Body
		err = batchCall(c, it)
	default:
		err = body.LineError(it, "an Anthropic batch line can't go to openai",
			"leave out --provider openai, or write the line as {\"custom_id\",\"method\",\"url\",\"body\"}")
	}
	if err != nil {
		return nil, err
	}
	if err := complete(c, it, d); err != nil {
		return nil, err
	}
	return c, nil
}

// promptCall makes the call of a prompt line, params merged in.
func promptCall(c *provider.Call, it *input.Item, d provider.Defaults) {
	c.Plain = true
	maxTokens := it.MaxTokens
	if body.Null(maxTokens) && d.MaxTokens > 0 {
		maxTokens = strconv.AppendInt(nil, int64(d.MaxTokens), 10)
	}
	if limitsOutput(it.Params) {
		maxTokens = nil
	}
	model := body.Field{Name: "model", Value: body.First(it.Model, d.Model)}
	temperature := body.Field{Name: "temperature", Value: body.FirstRaw(it.Temperature, d.Temperature)}
	system := body.First(it.System, d.System)
	if d.Endpoint == "responses" {
		c.API, c.Path = provider.OpenAIResponses, responsesPath
		c.Body = body.Build(it.Params, model,
			body.Field{Name: "max_output_tokens", Value: maxTokens},
			body.Field{Name: "instructions", Value: system},
			body.Field{Name: "input", Value: body.Quote(it.Prompt)},
			temperature)
		return
	}
	c.API, c.Path = provider.OpenAIChat, chatPath
	limit := "max_tokens"
	if d.Native {
		limit = "max_completion_tokens"
	}
	messages := [][]byte{message("user", body.Quote(it.Prompt))}
	if system != nil {
		messages = [][]byte{message("system", system), messages[0]}
	}
	c.Body = body.Build(it.Params, model,
		body.Field{Name: limit, Value: maxTokens},
		body.Field{Name: "messages", Value: body.List(messages...)},
		temperature)
}

func message(role string, content []byte) []byte {
	return body.Build(nil,
		body.Field{Name: "role", Value: body.Quote(role)},
		body.Field{Name: "content", Value: content})
}

// limitsOutput says that the params set a limit of their own, under any of the
// names; two of them in one body are refused.
func limitsOutput(params json.RawMessage) bool {
	for w := body.Members(params); w.Next(); {
		if isLimit(w.Name) {
			return true
		}
	}
	return false
}

func isLimit(name []byte) bool {
	switch string(name) {
	case "max_tokens", "max_completion_tokens", "max_output_tokens":
		return true
	}
	return false
}

// messagesCall chooses the API by the body's own member. The endpoint decides
// only where the body has both; asking for Responses with messages is refused,
// since that API would refuse it, one request a line.
func messagesCall(c *provider.Call, it *input.Item, d provider.Defaults) error {
	messages := body.Member(it.Body, "messages") != nil
	in := body.Member(it.Body, "input") != nil
	responses := d.Endpoint == "responses"
	switch {
	case in && (responses || !messages):
		c.API, c.Path = provider.OpenAIResponses, responsesPath
	case messages && !responses:
		c.API, c.Path = provider.OpenAIChat, chatPath
	case messages:
		return body.LineError(it, "the line has messages, but the Responses API takes input",
			`write "input" in place of "messages", or leave out --endpoint responses`)
	default:
		return body.LineError(it, "neither messages nor input", `write "prompt", "messages" or "input" in the line`)
	}
	return nil
}

// batchCall takes the path from the line's url, without the /v1 that the base
// URL has.
func batchCall(c *provider.Call, it *input.Item) error {
	path, ok := strings.CutPrefix(it.URL, "/v1")
	if !ok || len(path) < 2 || path[0] != '/' || path[1] == '/' || strings.Contains(path, "..") {
		return body.LineError(it, "the url is not a path that begins with /v1/", "write a url such as /v1/chat/completions")
	}
	c.Path = path
	switch endpoint(c.Path) {
	case chatPath:
		c.API = provider.OpenAIChat
	case responsesPath:
		c.API = provider.OpenAIResponses
	default:
		c.API = provider.OpenAIOther
	}
	return nil
}

// endpoint is the path without a query.
func endpoint(path string) string {
	p, _, _ := strings.Cut(path, "?")
	return p
}

// complete adds a missing model where the API is known to need one, and notes in
// the call what the body asks for.
func complete(c *provider.Call, it *input.Item, d provider.Defaults) error {
	var model []byte
	stored := false
	for w := body.Members(c.Body); w.Next(); {
		switch string(w.Name) {
		case "model":
			model = w.Value
		case "prompt":
			stored = c.API == provider.OpenAIResponses && !body.Null(w.Value)
		case "stream":
			c.Stream = body.True(w.Value)
		default:
			if isLimit(w.Name) {
				c.MaxTokens = max(c.MaxTokens, int(body.Int(w.Value)))
			}
		}
	}
	if model == nil && (stored || optionalModel(c)) {
		return nil
	}
	return body.NeedModel(c, it, d, model)
}

// optionalModel says that a call may go without a model: moderations, images and
// paths that are not known here have defaults of their own.
func optionalModel(c *provider.Call) bool {
	if c.API != provider.OpenAIOther {
		return false
	}
	switch endpoint(c.Path) {
	case "/embeddings", "/completions":
		return false
	}
	return true
}
