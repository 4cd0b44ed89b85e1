// Package gemini speaks the Gemini API's own generateContent, of Google AI Studio and
// of Vertex.
//
// The model stands in the URL and not in the body. A finish reason is an answer's
// evidence, also in a stream; a prompt that was blocked is an answer too, flagged as
// refused. Thinking counts as output. Nothing here does I/O.
package gemini

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"

	"llmbatch/input"
	"llmbatch/runner/provider"
	"llmbatch/runner/provider/body"
)

// Provider is the Gemini API. The zero value is ready for use by many goroutines.
type Provider struct{}

// New returns the provider.
func New() Provider { return Provider{} }

var (
	_ provider.Provider = Provider{}
	_ provider.Streamer = Provider{}
)

// Sign sets the header that carries the key: x-goog-api-key, or Authorization for a
// token. It is never part of the URL, which errors and logs may show.
func (Provider) Sign(h http.Header, c provider.Credentials) {
	switch {
	case c.Key == "":
	case c.Bearer && c.Header == "" || strings.EqualFold(c.Header, "Authorization"):
		h.Set("Authorization", "Bearer "+c.Key)
	case c.Header != "":
		h.Set(c.Header, c.Key)
	default:
		h.Set("X-Goog-Api-Key", c.Key)
	}
}

// Encode turns an item into a call of generateContent: a prompt, or a body with
// contents. A missing model that has no default is the user's error.
func (Provider) Encode(it *input.Item, d provider.Defaults) (*provider.Call, error) {
	c := &provider.Call{API: provider.GeminiGenerate, Provider: d.Name, Family: d.Family, Method: http.MethodPost}
	var config json.RawMessage
	switch it.Format {
	case input.Prompt:
		c.Plain = true
		fields := []body.Field{
			{Name: "model", Value: body.First(it.Model)},
			{Name: "systemInstruction", Value: instruction(it.System)},
			{Name: "contents", Value: body.List(turn("user", it.Prompt))},
		}
		config = body.Build(nil, body.Field{Name: "maxOutputTokens", Value: body.FirstRaw(it.MaxTokens)},
			body.Field{Name: "temperature", Value: it.Temperature})
		if len(config) > len("{}") {
			fields = append(fields, body.Field{Name: "generationConfig", Value: config})
		}
		c.Body = body.Build(it.Params, fields...)
	case input.Contents:
		c.Body = it.Body
	default:
		return nil, body.LineError(it, "the line is not for Gemini's own API", `write "prompt" or "contents" in the line, or use --provider gemini, which speaks OpenAI's API`)
	}
	fill(c, d)
	if err := body.NeedModel(c, it, d); err != nil {
		return nil, err
	}
	c.MaxTokens = int(body.Int(body.Member(body.Member(c.Body, "generationConfig"), "maxOutputTokens")))
	c.Body = body.Remove(c.Body, "model")
	if body.True(body.Member(c.Body, "stream")) {
		c.Stream = true
	}
	c.Body = body.Remove(c.Body, "stream")
	c.Path = "/models/" + url.PathEscape(strings.TrimPrefix(c.Model, "models/")) + ":generateContent"
	c.StreamPath = strings.TrimSuffix(c.Path, "generateContent") + "streamGenerateContent?alt=sse"
	return c, nil
}

// fill adds what the line lacks and the flags have. The output's limit and the
// temperature are members of generationConfig here.
func fill(c *provider.Call, d provider.Defaults) {
	config := body.Member(c.Body, "generationConfig")
	if body.Null(config) {
		config = []byte("{}")
	}
	took := func(name string, value []byte, by provider.Filled) {
		if value != nil && body.Member(config, name) == nil {
			config = body.Set(config, name, value)
			c.Filled |= by
		}
	}
	if d.MaxTokens > 0 {
		limit, _ := json.Marshal(d.MaxTokens)
		took("maxOutputTokens", limit, provider.FilledMaxTokens)
	}
	took("temperature", body.FirstRaw(d.Temperature), provider.FilledTemperature)
	if c.Filled != 0 {
		c.Body = body.Set(c.Body, "generationConfig", config)
	}
	if d.System != "" && body.Member(c.Body, "systemInstruction") == nil && body.Member(c.Body, "system_instruction") == nil {
		c.Body = body.Set(c.Body, "systemInstruction", instruction(d.System))
		c.Filled |= provider.FilledSystem
	}
	d.MaxTokens, d.System, d.Temperature = 0, "", nil
	body.Fill(c, d, body.Slots{Sampled: true})
}

func instruction(system string) []byte {
	if system == "" {
		return nil
	}
	return body.Build(nil, body.Field{Name: "parts", Value: parts(system)})
}

func turn(role, text string) []byte {
	return body.Build(nil, body.Field{Name: "role", Value: body.Quote(role)}, body.Field{Name: "parts", Value: parts(text)})
}

func parts(text string) []byte {
	return body.List(body.Build(nil, body.Field{Name: "text", Value: body.Quote(text)}))
}

// Continue asks for the rest of an answer by a further turn; one whose form is bound by
// a schema or a type can't be continued.
func (Provider) Continue(c *provider.Call, text, style string) (json.RawMessage, bool) {
	config := body.Member(c.Body, "generationConfig")
	for _, bound := range [...]string{"responseSchema", "responseJsonSchema", "responseMimeType"} {
		if v := body.Member(config, bound); !body.Null(v) && string(v) != `"text/plain"` {
			return nil, false
		}
	}
	rest := body.Rest(text, style)
	contents := body.Member(c.Body, "contents")
	if rest == nil || len(contents) == 0 || contents[0] != '[' {
		return nil, false
	}
	role := "user"
	if style == body.Prefill {
		role = "model"
	}
	next := turn(role, body.Text(body.Member(rest, "content")))
	return body.Set(c.Body, "contents", body.Append(contents, next)), true
}
