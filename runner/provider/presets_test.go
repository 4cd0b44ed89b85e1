package provider

import (
	"net/url"
	"strings"
	"testing"
)

// presetEnv fills every placeholder.
var presetEnv = map[string]string{
	"AZURE_OPENAI_ENDPOINT": "https://r.openai.azure.com/", "AWS_REGION": "eu-west-1", "GOOGLE_CLOUD_PROJECT": "p", "GOOGLE_CLOUD_LOCATION": "europe-west4",
}

func from(env map[string]string) func(string) string {
	return func(name string) string { return env[name] }
}

func TestPresetBases(t *testing.T) {
	for name, want := range map[string]string{
		"azure": "https://r.openai.azure.com/openai/v1", "azure-anthropic": "https://r.openai.azure.com/anthropic",
		"bedrock":           "https://bedrock-runtime.eu-west-1.amazonaws.com/openai/v1",
		"bedrock-anthropic": "https://bedrock-mantle.eu-west-1.api.aws/anthropic",
		"vertex":            "https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4/endpoints/openapi",
		"vertex-anthropic":  "https://europe-west4-aiplatform.googleapis.com/v1/projects/p/locations/europe-west4",
		"groq":              "https://api.groq.com/openai/v1", "gemini": "https://generativelanguage.googleapis.com/v1beta/openai",
		"ollama": "http://127.0.0.1:11434/v1", "deepseek": "https://api.deepseek.com",
	} {
		p, ok := FindPreset(name)
		if got, err := p.OwnBase(from(presetEnv)); !ok || got != want || err != nil {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, want)
		}
	}
	for _, c := range []struct{ name, variable, value, want string }{
		{"azure", "AZURE_OPENAI_ENDPOINT", "r.openai.azure.com", "https://r.openai.azure.com/openai/v1"},
		{"azure", "AZURE_OPENAI_ENDPOINT", "https://r.openai.azure.com/openai/v1/", "https://r.openai.azure.com/openai/v1"},
		{"vertex", "GOOGLE_CLOUD_LOCATION", "global", "https://aiplatform.googleapis.com/v1/projects/p/locations/global/endpoints/openapi"},
		{"vertex", "GOOGLE_CLOUD_LOCATION", "eu", "https://aiplatform.eu.rep.googleapis.com/v1/projects/p/locations/eu/endpoints/openapi"},
		{"bedrock", "AWS_REGION", "e@evil/x?", "AWS_REGION or AWS_DEFAULT_REGION"},
		{"bedrock", "AWS_REGION", "", "AWS_REGION or AWS_DEFAULT_REGION"},
		{"azure", "AZURE_OPENAI_ENDPOINT", "", "AZURE_OPENAI_ENDPOINT"},
	} {
		env := map[string]string{"GOOGLE_CLOUD_PROJECT": "p", c.variable: c.value}
		p, _ := FindPreset(c.name)
		got, err := p.OwnBase(from(env))
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, c.want) || err == nil && got != c.want {
			t.Errorf("%s, %s=%s: got %q, want %q", c.name, c.variable, c.value, got, c.want)
		}
	}
	for value, want := range map[string]string{
		"h:1": "http://h:1/v1", "0.0.0.0": "http://127.0.0.1:11434/v1", "https://h:2/": "https://h:2/v1", "": "",
	} {
		p, _ := FindPreset("ollama")
		if got, _ := p.BaseFrom(from(map[string]string{"OLLAMA_HOST": value})); got != want {
			t.Errorf("OLLAMA_HOST=%s: got %q, want %q", value, got, want)
		}
	}
}

// The table is sound: each has a base URL, and a key or no need of one.
func TestPresetTable(t *testing.T) {
	seen := map[string]bool{}
	for _, p := range Presets() {
		base, err := p.OwnBase(from(presetEnv))
		if _, parsed := ParseBase(base); err != nil || parsed != nil || seen[p.Name] {
			t.Errorf("%s: got the base %q, %v, %v", p.Name, base, err, parsed)
		}
		seen[p.Name] = true
		if u, _ := url.Parse(base); !p.Local && u.Scheme != "https" || p.Local && u.Hostname() != "127.0.0.1" {
			t.Errorf("%s: got %q, want https, or this machine", p.Name, base)
		}
		if len(p.Keys) == 0 && !p.Local {
			t.Errorf("%s: no variable for its key", p.Name)
		}
		switch p.Family {
		case FamilyAnthropic, FamilyOpenAI, FamilyGemini:
		default:
			t.Errorf("%s: family %q", p.Name, p.Family)
		}
		for _, key := range p.Keys {
			if got, _ := p.KeyVariable(from(map[string]string{key: "k"})); got != key {
				t.Errorf("%s: got the variable %q, want %q", p.Name, got, key)
			}
		}
	}
}

// A run goes on at another host of the family: the hash is the same.
func TestHashOfFamily(t *testing.T) {
	own := &Call{Provider: "openai", Method: "POST", Path: "/chat/completions", Body: []byte(`{}`)}
	other := &Call{Provider: "groq", Family: FamilyOpenAI, Method: "POST", Path: "/chat/completions", Body: []byte(`{}`)}
	if Hash(own) != Hash(other) {
		t.Errorf("got %s and %s, want one hash", Hash(own), Hash(other))
	}
}
