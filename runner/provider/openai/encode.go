package openai

import (
	"net/http"
	"net/url"
	"strings"

	"llmbatch/input"
	"llmbatch/runner/provider"
	"llmbatch/runner/provider/body"
)

const (
	chatPath        = "/chat/completions"
	responsesPath   = "/responses"
	completionsPath = "/completions"
)

// Encode turns an item into a call. A prompt goes to the endpoint of the
// defaults, a message list to the API that has such a member, and a batch line
// to its own url. A missing model that has no default is the user's error.
func (Provider) Encode(it *input.Item, d provider.Defaults) (*provider.Call, error) {
	c := &provider.Call{Provider: d.Name, Family: d.Family, Method: http.MethodPost}
	var err error
	switch it.Format {
	case input.Prompt:
		promptCall(c, it, d)
	case input.Messages:
		c.Body = it.Body
		err = messagesCall(c, it, d)
	case input.OpenAIBatch:
		c.Body = it.Body
		err = batchCall(c, it, d)
	case input.Contents:
		err = body.LineError(it, "contents are for Gemini's own API", "use --provider gemini-native, or write messages")
	default:
		err = body.LineError(it, "an Anthropic batch line can't go to openai",
			"leave out --provider openai, or write the line as {\"custom_id\",\"method\",\"url\",\"body\"}")
	}
	if err != nil {
		return nil, err
	}
	if stored(c) { // a stored prompt has a model and instructions of its own
		d.Model, d.System = "", ""
	}
	if optionalModel(c) {
		d.Model = ""
	}
	body.Fill(c, d, slots(c, d))
	if err := complete(c, it, d); err != nil {
		return nil, err
	}
	c.Plain = c.Plain && !d.NoStreamOptions
	if d.Deployments && c.Model != "" && c.API != provider.OpenAIResponses { // Azure's classic URL
		c.Path = "/deployments/" + url.PathEscape(c.Model) + c.Path
	}
	return c, nil
}

// slots are what the flags may fill at the call's endpoint.
func slots(c *provider.Call, d provider.Defaults) body.Slots {
	switch {
	case c.API == provider.OpenAIResponses:
		return body.Slots{Limit: "max_output_tokens", System: "instructions", Turns: "input", Sampled: true}
	case c.API == provider.OpenAIChat:
		return body.Slots{Limit: limitName(d), Turns: "messages", Sampled: true}
	case endpoint(c.Path) == completionsPath:
		return body.Slots{Limit: "max_tokens", Sampled: true}
	}
	return body.Slots{}
}

// limitName is the member that bounds the output of Chat Completions.
func limitName(d provider.Defaults) string {
	switch {
	case d.Limit != "":
		return d.Limit
	case d.Native:
		return "max_completion_tokens"
	}
	return "max_tokens"
}

// promptCall makes the call of a prompt line, params merged in.
func promptCall(c *provider.Call, it *input.Item, d provider.Defaults) {
	c.Plain, c.Files = true, it.Files
	maxTokens := body.FirstRaw(it.MaxTokens)
	for w := body.Members(it.Params); w.Next(); {
		if body.IsLimit(string(w.Name)) {
			maxTokens = nil
		}
	}
	model := body.Field{Name: "model", Value: body.First(it.Model)}
	temperature := body.Field{Name: "temperature", Value: it.Temperature}
	if d.Endpoint == "responses" {
		c.API, c.Path = provider.OpenAIResponses, responsesPath
		in := body.Content(it, body.ResponsesParts)
		if len(it.Files) > 0 {
			in = body.List(body.Turn("user", in))
		}
		c.Body = body.Build(it.Params, model,
			body.Field{Name: "max_output_tokens", Value: maxTokens},
			body.Field{Name: "instructions", Value: body.First(it.System)},
			body.Field{Name: "input", Value: in},
			temperature)
		return
	}
	c.API, c.Path = provider.OpenAIChat, chatPath
	messages := [][]byte{body.Turn("user", body.Content(it, body.ChatParts))}
	if it.System != "" {
		messages = [][]byte{body.Turn("system", body.Quote(it.System)), messages[0]}
	}
	c.Body = body.Build(it.Params, model,
		body.Field{Name: limitName(d), Value: maxTokens},
		body.Field{Name: "messages", Value: body.List(messages...)},
		temperature)
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

// batchCall takes the path from the line's url, without the version that the base URL
// has. Vendors write it as /v1/chat/completions, v1/…, /v4/…, /chat/completions, or
// not at all: then the endpoint is the command's.
func batchCall(c *provider.Call, it *input.Item, d provider.Defaults) error {
	path := "/" + strings.TrimPrefix(it.URL, "/")
	if it.URL == "" {
		path = chatPath
		if d.Endpoint == "responses" {
			path = responsesPath
		}
	}
	low := strings.ToLower(path)
	if strings.Contains(low, "//") || strings.Contains(strings.ReplaceAll(low, "%2e", "."), "..") || strings.ContainsAny(low, `\#`) {
		return body.LineError(it, "the url is not a path of the API", "write a url such as /v1/chat/completions, without a host")
	}
	if first, rest, ok := strings.Cut(path[1:], "/"); ok && isVersion(first) {
		path = "/" + rest
	}
	if c.Path = path; len(path) < 2 {
		return body.LineError(it, "the url names no endpoint", "write a url such as /v1/chat/completions")
	}
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

// isVersion: v1, v4, v1beta.
func isVersion(s string) bool {
	return len(s) > 1 && s[0] == 'v' && s[1] >= '0' && s[1] <= '9' && !strings.Contains(s, ".")
}

// endpoint is the path without a query.
func endpoint(path string) string {
	p, _, _ := strings.Cut(path, "?")
	return p
}

// stored says that the call uses a prompt that is kept by the provider.
func stored(c *provider.Call) bool {
	return c.API == provider.OpenAIResponses && !body.Null(body.Member(c.Body, "prompt"))
}

// complete notes in the call what the body asks for, and refuses a body without a
// model where the API is known to need one.
func complete(c *provider.Call, it *input.Item, d provider.Defaults) error {
	named := false
	for w := body.Members(c.Body); w.Next(); {
		switch name := string(w.Name); {
		case name == "model":
			named = true
		case name == "stream":
			c.Stream = body.True(w.Value)
		case body.IsLimit(name):
			c.MaxTokens = max(c.MaxTokens, int(body.Int(w.Value)))
		}
	}
	if !named && (stored(c) || optionalModel(c)) {
		return nil
	}
	return body.NeedModel(c, it, d)
}

// optionalModel says that a call may go without a model: moderations, images and
// paths that are not known here have defaults of their own.
func optionalModel(c *provider.Call) bool {
	if c.API != provider.OpenAIOther {
		return false
	}
	switch endpoint(c.Path) {
	case "/embeddings", completionsPath:
		return false
	}
	return true
}
