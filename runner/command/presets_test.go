package command

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"llmbatch/input"
	"llmbatch/runner/provider"
)

// Each preset by its name: where requests go, which variable has the key, and which
// header carries it.
func TestPresets(t *testing.T) {
	env := map[string]string{
		"AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com", "AWS_REGION": "us-east-1", "GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "global",
		"OPENAI_API_KEY": "sk-wrong", "ANTHROPIC_API_KEY": "sk-wrong",
	}
	headers := map[string]string{
		"anthropic": "X-Api-Key", "azure": "Api-Key", "azure-anthropic": "X-Api-Key", "gemini-native": "X-Goog-Api-Key",
	}
	for _, p := range provider.Presets() {
		own := map[string]string{}
		for k, v := range env {
			own[k] = v
		}
		key := ""
		if len(p.Keys) > 0 {
			key = "key-of-" + p.Name
			own[p.Keys[0]] = key
		}
		o, e := settled(t, own, "--provider", p.Name, "--model", "m", "--max-tokens", "5")
		r, err := newRouter(o, e, nil)
		if err != nil {
			t.Errorf("%s: %v", p.Name, err)
			continue
		}
		target, err := r.route(&input.Item{Prompt: "hi"})
		if err != nil || r.requireKey(p.Name) != nil {
			t.Errorf("%s: %v, %v", p.Name, err, r.requireKey(p.Name))
			continue
		}
		base, _ := p.OwnBase(e.getenv)
		if target.Base.String() != base {
			t.Errorf("%s: got %s, want %s", p.Name, target.Base, base)
		}
		h := http.Header{}
		target.Provider.Sign(h, target.Credentials)
		name, want := orElse(headers[p.Name], "Authorization"), key
		if name == "Authorization" && key != "" {
			want = "Bearer " + key
		}
		if h.Get(name) != want {
			t.Errorf("%s: got %v, want %s: %s", p.Name, h, name, want)
		}
		call, err := target.Provider.Encode(&input.Item{Prompt: "hi"}, target.Defaults)
		if err != nil || call.Provider != p.Name || provider.Hash(call) == "" || call.Family != "" && call.Family != p.Family {
			t.Errorf("%s: got %+v, %v", p.Name, call, err)
		}
		// Without the key it is refused, with the variable's name; servers of one's own need none.
		if len(p.Keys) > 0 {
			delete(own, p.Keys[0])
		}
		r, err = newRouter(o, e, nil)
		if err == nil {
			err = r.requireKey(p.Name)
		}
		if (err == nil) != p.Local || err != nil && !strings.Contains(hintsOf(err), p.Keys[0]) {
			t.Errorf("%s: got %v without a key", p.Name, err)
		}
	}
}

func hintsOf(err error) string {
	var b bytes.Buffer
	if f, ok := err.(*failure); ok {
		for _, h := range f.hints {
			b.WriteString(h + "\n")
		}
	}
	return b.String()
}

func TestPresetSettings(t *testing.T) {
	for _, c := range []struct{ name, env, args, want string }{
		{"a missing region", "AWS_BEARER_TOKEN_BEDROCK=k", "--provider bedrock", "needs the variable AWS_REGION or AWS_DEFAULT_REGION"},
		{"--base-url wins", "", "--provider azure --base-url https://h/openai/v1", "https://h/openai/v1 max_completion_tokens"},
		{"classic Azure", "", "--provider azure --base-url https://h/openai?api-version=2024-10-21", "https://h/openai?api-version=2024-10-21 /deployments/m/chat/completions"},
		{"a base URL and no name", "", "--base-url http://localhost:9/v1", "http://localhost:9/v1"},
		{"Gemini's own", "GEMINI_API_KEY=k", "--provider gemini-native", "/v1beta /models/m:generateContent"},
		{"Ollama elsewhere", "OLLAMA_HOST=h:7", "--provider ollama", "http://h:7/v1"},
	} {
		env := map[string]string{}
		if name, value, ok := strings.Cut(c.env, "="); ok {
			env[name] = value
		}
		o, e := settled(t, env, append(strings.Fields(c.args), "--model", "m", "--max-tokens", "5")...)
		r, err := newRouter(o, e, nil)
		got := ""
		if err == nil {
			target, _ := r.route(&input.Item{Prompt: "hi"})
			call, _ := target.Provider.Encode(&input.Item{Prompt: "hi"}, target.Defaults)
			got = target.Base.String() + " " + call.Path + " " + string(call.Body)
		} else {
			got = err.Error()
		}
		for _, part := range strings.Fields(c.want) {
			if !strings.Contains(got, part) {
				t.Errorf("%s: got %s, want %s", c.name, got, part)
			}
		}
	}
}

// Without a bearer key, requests to Bedrock are signed with AWS's keys.
func TestBedrockSigns(t *testing.T) {
	env := map[string]string{"AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": "AKID", "AWS_SECRET_ACCESS_KEY": "secret-of-aws", "AWS_SESSION_TOKEN": "session-of-aws"}
	o, e := settled(t, env, "--provider", "bedrock", "--model", "m")
	r, err := newRouter(o, e, nil)
	if err != nil {
		t.Fatal(err)
	}
	target, err := r.route(&input.Item{Prompt: "hi"})
	if err != nil || target.Sign == nil || r.requireKey("bedrock") != nil {
		t.Fatalf("got %+v, %v, %v, want a signer", target, err, r.requireKey("bedrock"))
	}
	req, _ := http.NewRequest("POST", target.Base.String()+"/chat/completions", nil)
	if err := target.Sign(req, []byte("{}")); err != nil || !strings.Contains(req.Header.Get("Authorization"), "/us-east-1/bedrock/aws4_request") {
		t.Errorf("got %v, %v", req.Header, err)
	}
	if got := r.scrubber().String("secret-of-aws session-of-aws"); got != "*** ***" {
		t.Errorf("got %s, want AWS's keys hidden", got)
	}
	env["AWS_BEARER_TOKEN_BEDROCK"] = "bearer"
	if r, _ = newRouter(o, e, nil); r != nil {
		if target, _ = r.route(&input.Item{Prompt: "hi"}); target.Sign != nil || target.Credentials.Key != "bearer" {
			t.Errorf("got %+v, want the bearer key alone", target.Credentials)
		}
	}
}

func TestProvidersCommand(t *testing.T) {
	var out bytes.Buffer
	e := &env{args: []string{"providers"}, stdout: &out, getenv: func(name string) string {
		return map[string]string{"GROQ_API_KEY": "gsk-secret-123456", "VLLM_BASE_URL": "http://u:pw@h/v1?key=x"}[name]
	}}
	app := newApp(e)
	if err := app.Run([]string{"llmbatch", "providers"}); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{"groq", "https://api.groq.com/openai/v1", "{AWS_REGION|AWS_DEFAULT_REGION}", "not needed", "http://h/v1"} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing:\n%s", want, text)
		}
	}
	if strings.Contains(text, "secret") || strings.Contains(text, "pw") {
		t.Errorf("a key is shown:\n%s", text)
	}
}
