package provider

import (
	"fmt"
	"slices"
	"strings"
)

// Families: the shapes of requests and answers, and what a request is hashed as, so
// that a run may go on at another host of the same family.
const (
	FamilyAnthropic = "anthropic"
	FamilyOpenAI    = "openai"
	FamilyGemini    = "gemini"
)

// Preset is what is known of a provider by its name.
type Preset struct {
	Name, Family string
	// Base is the base URL. {A|B} stands for the first of the variables that is set,
	// {vertex} for the host of a location of Google's.
	Base string
	// BaseVariables may hold another base URL, in the order tried; a host and a port
	// alone (OLLAMA_HOST) get the rest of Base.
	BaseVariables []string
	// Keys are the variables that may hold the key, in the order tried; Tokens are those
	// of them whose value goes into Authorization.
	Keys, Tokens []string
	// Header carries the key, "" for the family's own.
	Header string
	// Limit is the member that bounds the output of Chat Completions, "" for the usual.
	Limit string
	// NoStreamOptions: stream_options is refused.
	NoStreamOptions bool
	// Local servers need no key.
	Local bool
	// Signed: without a key, requests are signed with AWS's keys (SigV4) for this service.
	Signed string
	// Vertex: Claude's requests take Google's form.
	Vertex bool
	// Batch is the dialect of the Batch API, "" for none that is known.
	Batch string
}

// presets is the table, in the order in which it is shown.
var presets = []Preset{
	{Name: "anthropic", Family: FamilyAnthropic, Base: "https://api.anthropic.com", BaseVariables: []string{"ANTHROPIC_BASE_URL"},
		Keys: []string{"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN"}, Tokens: []string{"ANTHROPIC_AUTH_TOKEN"}, Batch: "anthropic"},
	{Name: "openai", Family: FamilyOpenAI, Base: "https://api.openai.com/v1", BaseVariables: []string{"OPENAI_BASE_URL"},
		Keys: []string{"OPENAI_API_KEY"}, Limit: "max_completion_tokens", Batch: "openai"},
	{Name: "azure", Family: FamilyOpenAI, Base: "{AZURE_OPENAI_ENDPOINT}/openai/v1", BaseVariables: []string{"AZURE_OPENAI_BASE_URL"},
		Keys: []string{"AZURE_OPENAI_API_KEY", "AZUREAI_OPENAI_API_KEY", "AZURE_API_KEY"}, Header: "api-key", Limit: "max_completion_tokens", Batch: "openai"},
	{Name: "azure-anthropic", Family: FamilyAnthropic, Base: "{AZURE_ANTHROPIC_ENDPOINT|AZURE_OPENAI_ENDPOINT}/anthropic",
		BaseVariables: []string{"AZURE_ANTHROPIC_BASE_URL", "AZUREAI_ANTHROPIC_BASE_URL"}, Keys: []string{"AZURE_ANTHROPIC_API_KEY", "AZUREAI_ANTHROPIC_API_KEY"}},
	{Name: "gemini", Family: FamilyOpenAI, Base: "https://generativelanguage.googleapis.com/v1beta/openai", Keys: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"}},
	{Name: "gemini-native", Family: FamilyGemini, Base: "https://generativelanguage.googleapis.com/v1beta", Keys: []string{"GEMINI_API_KEY", "GOOGLE_API_KEY"},
		Header: "x-goog-api-key", Batch: "gemini"},
	{Name: "bedrock", Family: FamilyOpenAI, Base: "https://bedrock-runtime.{AWS_REGION|AWS_DEFAULT_REGION}.amazonaws.com/openai/v1",
		Keys: []string{"AWS_BEARER_TOKEN_BEDROCK"}, Signed: "bedrock"},
	{Name: "bedrock-anthropic", Family: FamilyAnthropic, Base: "https://bedrock-mantle.{AWS_REGION|AWS_DEFAULT_REGION}.api.aws/anthropic",
		Keys: []string{"AWS_BEARER_TOKEN_BEDROCK", "ANTHROPIC_AWS_API_KEY"}, Header: "Authorization", Signed: "bedrock-mantle"},
	{Name: "vertex", Family: FamilyOpenAI, Keys: []string{"VERTEX_ACCESS_TOKEN", "GOOGLE_ACCESS_TOKEN"},
		Base: "https://{vertex}/v1/projects/{GOOGLE_CLOUD_PROJECT}/locations/{GOOGLE_CLOUD_LOCATION|CLOUD_ML_REGION}/endpoints/openapi"},
	{Name: "vertex-anthropic", Family: FamilyAnthropic, Keys: []string{"VERTEX_ACCESS_TOKEN", "GOOGLE_ACCESS_TOKEN"}, Header: "Authorization", Vertex: true,
		Base: "https://{vertex}/v1/projects/{ANTHROPIC_VERTEX_PROJECT_ID|GOOGLE_CLOUD_PROJECT}/locations/{GOOGLE_CLOUD_LOCATION|CLOUD_ML_REGION}"},
	{Name: "openrouter", Family: FamilyOpenAI, Base: "https://openrouter.ai/api/v1", Keys: []string{"OPENROUTER_API_KEY"}, Batch: "openrouter"},
	{Name: "groq", Family: FamilyOpenAI, Base: "https://api.groq.com/openai/v1", Keys: []string{"GROQ_API_KEY"}, Batch: "groq"},
	{Name: "together", Family: FamilyOpenAI, Base: "https://api.together.xyz/v1", Keys: []string{"TOGETHER_API_KEY"}, Batch: "together"},
	{Name: "fireworks", Family: FamilyOpenAI, Base: "https://api.fireworks.ai/inference/v1", Keys: []string{"FIREWORKS_API_KEY"}},
	{Name: "deepseek", Family: FamilyOpenAI, Base: "https://api.deepseek.com", Keys: []string{"DEEPSEEK_API_KEY"}},
	{Name: "xai", Family: FamilyOpenAI, Base: "https://api.x.ai/v1", Keys: []string{"XAI_API_KEY", "GROK_API_KEY"}},
	{Name: "mistral", Family: FamilyOpenAI, Base: "https://api.mistral.ai/v1", Keys: []string{"MISTRAL_API_KEY"}, NoStreamOptions: true, Batch: "mistral"},
	{Name: "cohere", Family: FamilyOpenAI, Base: "https://api.cohere.ai/compatibility/v1", Keys: []string{"COHERE_API_KEY", "CO_API_KEY"}},
	{Name: "perplexity", Family: FamilyOpenAI, Base: "https://api.perplexity.ai", Keys: []string{"PERPLEXITY_API_KEY"}},
	{Name: "sambanova", Family: FamilyOpenAI, Base: "https://api.sambanova.ai/v1", Keys: []string{"SAMBANOVA_API_KEY"}},
	{Name: "cerebras", Family: FamilyOpenAI, Base: "https://api.cerebras.ai/v1", Keys: []string{"CEREBRAS_API_KEY"}},
	{Name: "moonshot", Family: FamilyOpenAI, Base: "https://api.moonshot.ai/v1", Keys: []string{"MOONSHOT_API_KEY"}},
	{Name: "zai", Family: FamilyOpenAI, Base: "https://api.z.ai/api/paas/v4", Keys: []string{"ZAI_API_KEY"}},
	{Name: "minimax", Family: FamilyOpenAI, Base: "https://api.minimax.io/v1", Keys: []string{"MINIMAX_API_KEY"}},
	{Name: "meta", Family: FamilyOpenAI, Base: "https://api.meta.ai/v1", Keys: []string{"MODEL_API_KEY"}},
	{Name: "github", Family: FamilyOpenAI, Base: "https://models.github.ai/inference", Keys: []string{"GITHUB_TOKEN"}},
	{Name: "hf", Family: FamilyOpenAI, Base: "https://router.huggingface.co/v1", Keys: []string{"HF_TOKEN"}},
	{Name: "nebius", Family: FamilyOpenAI, Base: "https://api.studio.nebius.com/v1", Keys: []string{"NEBIUS_API_KEY"}},
	{Name: "nvidia", Family: FamilyOpenAI, Base: "https://integrate.api.nvidia.com/v1", Keys: []string{"NVIDIA_API_KEY"}},
	{Name: "ollama", Family: FamilyOpenAI, Base: "http://127.0.0.1:11434/v1", BaseVariables: []string{"OLLAMA_HOST"}, Local: true},
	{Name: "llamacpp", Family: FamilyOpenAI, Base: "http://127.0.0.1:8080/v1", Local: true},
	{Name: "vllm", Family: FamilyOpenAI, Base: "http://127.0.0.1:8000/v1", BaseVariables: []string{"VLLM_BASE_URL"}, Keys: []string{"VLLM_API_KEY"}, Local: true},
	{Name: "sglang", Family: FamilyOpenAI, Base: "http://127.0.0.1:30000/v1", BaseVariables: []string{"SGLANG_BASE_URL"}, Local: true},
	{Name: "lmstudio", Family: FamilyOpenAI, Base: "http://127.0.0.1:1234/v1", Local: true},
}

// Presets lists them all.
func Presets() []Preset { return slices.Clone(presets) }

// FindPreset finds one by its name.
func FindPreset(name string) (Preset, bool) {
	i := slices.IndexFunc(presets, func(p Preset) bool { return p.Name == name })
	if i < 0 {
		return Preset{}, false
	}
	return presets[i], true
}

// OwnBase is the provider's own base URL, its placeholders filled. The error names the
// variables that are missing.
func (p Preset) OwnBase(getenv func(string) string) (string, error) {
	out := p.Base
	for {
		before, rest, ok := strings.Cut(out, "{")
		if !ok {
			return out, nil
		}
		names, after, _ := strings.Cut(rest, "}")
		value := ""
		if names == "vertex" {
			value = vertexHost(firstSet(getenv, "GOOGLE_CLOUD_LOCATION", "CLOUD_ML_REGION"))
		} else if value = firstSet(getenv, strings.Split(names, "|")...); value == "" {
			return "", fmt.Errorf("the base URL of %s needs the variable %s", p.Name, strings.ReplaceAll(names, "|", " or "))
		}
		if value = strings.TrimRight(value, "/"); before == "" { // a whole endpoint
			if !strings.Contains(value, "://") {
				value = "https://" + value
			}
			value = strings.TrimSuffix(value, after)
		} else if strings.ContainsAny(value, "/?#@:\\ ") {
			return "", fmt.Errorf("the variable %s holds what can't be part of a URL", strings.ReplaceAll(names, "|", " or "))
		}
		out = before + value + after
	}
}

// BaseFrom is the base URL that a variable names, and the variable's name; "" if none
// is set.
func (p Preset) BaseFrom(getenv func(string) string) (base, variable string) {
	for _, name := range p.BaseVariables {
		v := strings.TrimSpace(getenv(name))
		if v == "" {
			continue
		}
		if name == "OLLAMA_HOST" {
			v = strings.TrimRight(v, "/")
			if !strings.Contains(v, "://") {
				v = "http://" + v
			}
			if host := v[strings.Index(v, "://")+3:]; !strings.Contains(host, ":") {
				v += ":11434"
			}
			v = strings.Replace(v, "://0.0.0.0", "://127.0.0.1", 1) + "/v1"
		}
		return v, name
	}
	return "", ""
}

// KeyVariable is the first variable that holds a key, "" if none is set; bearer says
// that it is a token for Authorization.
func (p Preset) KeyVariable(getenv func(string) string) (name string, bearer bool) {
	for _, name := range p.Keys {
		if strings.TrimSpace(getenv(name)) != "" {
			return name, slices.Contains(p.Tokens, name)
		}
	}
	return "", false
}

func firstSet(getenv func(string) string, names ...string) string {
	for _, name := range names {
		if v := strings.TrimSpace(getenv(name)); v != "" {
			return v
		}
	}
	return ""
}

// vertexHost is the host of a location.
func vertexHost(location string) string {
	switch location {
	case "", "global":
		return "aiplatform.googleapis.com"
	case "us", "eu":
		return "aiplatform." + location + ".rep.googleapis.com"
	}
	return location + "-aiplatform.googleapis.com"
}

// HasAWSKeys says that the environment holds what signs requests to AWS.
func HasAWSKeys(getenv func(string) string) bool {
	return getenv("AWS_ACCESS_KEY_ID") != "" && getenv("AWS_SECRET_ACCESS_KEY") != ""
}
