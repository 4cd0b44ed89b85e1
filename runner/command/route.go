package command

import (
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"

	"llmbatch/input"
	"llmbatch/runner"
	"llmbatch/runner/provider"
	"llmbatch/runner/provider/sigv4"
)

const (
	anthropicName = "anthropic"
	openaiName    = "openai"
	geminiName    = "gemini-native"
	mockName      = "mock"
)

// router finds the target of each line. It builds one target a family, when the
// first line needs it. Safe for concurrent use.
type router struct {
	o       *options
	e       *env
	mock    *url.URL // the in-process server, nil for real ones
	keyFile string
	keys    *runner.KeySource // of --api-key-command; nil: none
	keyed   []string          // the families whose key is in the environment
	header  http.Header
	secrets []string
	pipe    bool // lines are not checked beforehand

	mu      sync.Mutex
	targets map[string]*runner.Target
}

// newRouter reads keys and headers; mock is the in-process server's address or
// nil.
func newRouter(o *options, e *env, mock *url.URL) (*router, error) {
	r := &router{o: o, e: e, mock: mock, targets: map[string]*runner.Target{}}
	var err error
	if r.header, r.secrets, err = headers(o.header, e); err != nil {
		return nil, err
	}
	if o.temperature != "" && !isNumber(o.temperature) {
		return nil, usagef("%s: %q is not a number", label(o, "temperature"), o.temperature)
	}
	if o.params != "" && !o.rendered(o.params) {
		var members map[string]json.RawMessage
		if err := json.Unmarshal([]byte(o.params), &members); err != nil || members == nil {
			return nil, usagef("%s: want a JSON object, such as '{\"top_p\": 0.9}'", label(o, "params")).hint("@FILE reads it from a file")
		}
	}
	if mock != nil {
		return r, nil
	}
	if r.keyFile, err = fileKey(o); err != nil {
		return nil, err
	}
	r.keys = o.keySource()
	r.secrets = append(r.secrets, r.keyFile)
	for _, family := range r.candidates() {
		c, err := credentials(family, r.keyFile, e)
		if err != nil {
			return nil, err
		}
		if c.Key != "" {
			r.keyed = append(r.keyed, family)
			r.secrets = append(r.secrets, c.Key)
		}
		base, _, err := r.base(family)
		if err != nil {
			return nil, err
		}
		r.secrets = append(r.secrets, provider.Secrets(base)...)
		if p, _ := provider.FindPreset(family); r.signsAWS(p) {
			r.secrets = append(r.secrets, sigv4.Secrets(e.getenv)...)
		}
	}
	return r, nil
}

// rendered says that text, of --system or --params, holds fields: each item has its own.
func (o *options) rendered(text string) bool {
	return (o.template != "" || o.templateFile != "") && strings.Contains(text, "{{")
}

func isNumber(s string) bool {
	var n json.Number
	return json.Unmarshal([]byte(s), &n) == nil && !strings.HasPrefix(s, `"`)
}

// scrubber hides what the router knows to be secret.
func (r *router) scrubber() *provider.Scrubber {
	var secrets []string
	for _, s := range r.secrets {
		if s != "" {
			secrets = append(secrets, s)
		}
	}
	return provider.NewScrubber(secrets...)
}

// route is runner.Config.Route. An *input.LineError is about the line alone, a
// *failure is about the settings.
func (r *router) route(it *input.Item) (*runner.Target, error) {
	family, err := r.family(it)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if t := r.targets[family]; t != nil {
		return t, nil
	}
	t, err := r.target(family)
	if err != nil {
		return nil, err
	}
	if len(r.targets) > 0 && r.pipe {
		if err := r.twoProviders(family, it.Line); err != nil {
			return nil, err
		}
	}
	r.targets[family] = t
	return t, nil
}

// twoProviders refuses settings that are for one provider where a line is for
// another one than those before it; nil if there are none.
func (r *router) twoProviders(family string, line int) error {
	switch {
	case r.mock != nil:
		return nil
	case r.o.baseURL != "":
		return usagef("--base-url is for one provider, and the lines are for two: line %d is for %s", line, family).
			hint("add --provider %s, or split the file", family)
	case r.keys != nil:
		return usagef("--api-key-command makes one key, and the lines are for two providers: line %d is for %s", line, family).
			hint("split the file by provider")
	case r.keyFile != "":
		return usagef("--api-key-file holds one key, and the lines are for two providers: line %d is for %s", line, family).
			hint("set ANTHROPIC_API_KEY and OPENAI_API_KEY instead")
	}
	return nil
}

// family decides which API a line is for: by --provider, its format, its
// model's name, the one key that is set.
func (r *router) family(it *input.Item) (string, error) {
	byFormat := map[input.Format]string{
		input.AnthropicBatch: anthropicName, input.OpenAIBatch: openaiName, input.Contents: provider.FamilyGemini,
	}[it.Format]
	p := r.o.provider
	if preset, ok := provider.FindPreset(p); ok {
		if byFormat != "" && byFormat != preset.Family {
			return "", &input.LineError{Line: it.Line, Msg: lineFor(it.Format) + byFormat + ", but --provider is " + p,
				Hint: "leave --provider out, or split the file"}
		}
		return p, nil
	}
	if byFormat == provider.FamilyGemini {
		return geminiName, nil
	}
	if byFormat != "" {
		return byFormat, nil
	}
	if f := modelFamily(orElse(it.Model, r.o.model)); f != "" {
		return f, nil
	}
	if p == mockName {
		if r.o.endpoint == "responses" {
			return openaiName, nil
		}
		return anthropicName, nil
	}
	if r.keyFile == "" && len(r.keyed) == 1 {
		return r.keyed[0], nil
	}
	if r.o.baseURL != "" && len(r.keyed) == 0 { // nearly all compatible servers speak OpenAI's API
		if base, err := provider.ParseBase(r.o.baseURL); err == nil && !strings.EqualFold(base.Host, "api.anthropic.com") {
			return openaiName, nil
		}
	}
	return "", r.undecided(it)
}

func (r *router) undecided(it *input.Item) error {
	model := orElse(it.Model, r.o.model)
	what := "it names no model"
	if model != "" {
		what = "its model is " + model
	}
	f := usagef("can't tell which provider line %d is for: %s", it.Line, what)
	switch {
	case len(r.keyed) == 2 || r.keyFile != "":
		f.hint("add --provider anthropic or --provider openai")
	case r.o.baseURL != "":
		f.hint("add --provider openai (most compatible servers) or --provider anthropic")
	default:
		f.hint("set ANTHROPIC_API_KEY or OPENAI_API_KEY, or add --provider anthropic or openai")
	}
	return f.hint("to try it without a key: --provider mock")
}

// modelFamily knows the names that a vendor gives its models.
func modelFamily(model string) string {
	prefixes := []struct{ prefix, family string }{
		{"claude-", anthropicName}, {"gpt-", openaiName}, {"chatgpt-", openaiName}, {"ft:gpt-", openaiName},
		{"text-embedding-", openaiName}, {"omni-moderation-", openaiName},
	}
	for _, p := range prefixes {
		if strings.HasPrefix(model, p.prefix) {
			return p.family
		}
	}
	// o1, o3-mini, o4-mini-2025-04-16, …
	if len(model) >= 2 && model[0] == 'o' && model[1] >= '1' && model[1] <= '9' && (len(model) == 2 || model[2] == '-') {
		return openaiName
	}
	return ""
}

// target builds what all lines of a family share.
func (r *router) target(family string) (*runner.Target, error) {
	base, native, err := r.base(family)
	if err != nil {
		return nil, err
	}
	t := &runner.Target{
		Base:   base,
		Header: r.header,
		Defaults: provider.Defaults{
			Model: r.o.model, MaxTokens: r.o.maxTokens, Temperature: json.RawMessage(r.o.temperature),
			System: r.o.system, Params: json.RawMessage(r.o.params), Endpoint: r.o.endpoint, Native: native, Name: family,
		},
	}
	if r.o.temperature == "" {
		t.Defaults.Temperature = nil
	}
	if r.o.params == "" || r.o.rendered(r.o.params) {
		t.Defaults.Params = nil
	}
	preset, _ := provider.FindPreset(family)
	if r.o.rendered(r.o.system) {
		t.Defaults.System = ""
	}
	t.Provider = adapter(preset.Family)
	suit(&t.Defaults, preset, base, native)
	if r.mock != nil {
		t.Defaults.Mock, t.Defaults.Name = true, mockName
		return t, nil
	}
	if t.Credentials, err = credentials(family, r.keyFile, r.e); err != nil {
		return nil, err
	}
	if t.Credentials.Header = preset.Header; r.o.authHeader != "" {
		t.Credentials.Header = r.o.authHeader
	}
	r.signBasic(t, base)
	if r.signsAWS(preset) {
		if t.Sign, err = sigv4.New(preset.Signed, r.e.getenv, r.e.now); err != nil {
			return nil, usagef("%w", err)
		}
	}
	t.Keys = r.keys
	return t, nil
}

// signBasic sends a base URL's user name and password where nothing else is sent
// in their place.
func (r *router) signBasic(t *runner.Target, base *url.URL) {
	h := http.Header{}
	t.Provider.Sign(h, t.Credentials)
	if base.User == nil || h.Get("Authorization") != "" || r.header.Get("Authorization") != "" {
		return
	}
	t.Header = r.header.Clone()
	t.Header.Set("Authorization", provider.Basic(base))
}

// requireKey refuses a family on its own host without a key.
func (r *router) requireKey(family string) error {
	if r.mock != nil || r.keyFile != "" || r.keys != nil || slices.Contains(r.keyed, family) || signsItself(r.header) {
		return nil
	}
	if p, _ := provider.FindPreset(family); r.signsAWS(p) {
		return nil
	}
	_, native, err := r.base(family)
	if err == nil && native {
		return noKey(family)
	}
	return err
}

// requireAnyKey is for a pipe, whose lines are not known beforehand.
func (r *router) requireAnyKey() error {
	var err error
	for _, family := range r.candidates() {
		if err = r.requireKey(family); err == nil {
			return nil
		}
	}
	return err
}

// signsItself says whether the user's own headers carry the key.
func signsItself(h http.Header) bool {
	return h.Get("Authorization") != "" || h.Get("X-Api-Key") != "" || h.Get("Api-Key") != ""
}
