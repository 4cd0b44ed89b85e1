package command

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/urfave/cli/v2"

	"llmbatch/input"
	"llmbatch/runner"
)

// settled are the options of a command line of run.
func settled(t *testing.T, vars map[string]string, args ...string) (*options, *env) {
	t.Helper()
	e := &env{getenv: func(name string) string { return vars[name] }, now: time.Now}
	o := &options{}
	app := newApp(&env{args: []string{"x"}, getenv: e.getenv, now: time.Now})
	app.Commands[0].Flags, app.Commands[0].Before = runFlags(o), nil
	app.Commands[0].Action = withSettings(e, o, func(*cli.Context) error { return nil })
	all, err := arrange(app, append([]string{"llmbatch", "run", "x"}, args...))
	if err == nil {
		err = app.Run(all.args)
	}
	if err != nil {
		t.Fatalf("%q: %v", args, err)
	}
	return o, e
}

func TestRoute(t *testing.T) {
	const both = "ANTHROPIC_API_KEY=a OPENAI_API_KEY=o"
	for _, c := range []struct {
		name string
		env  string
		args string
		item input.Item
		want string // family and base URL, or part of the error
	}{
		{"anthropic batch line", "", "", input.Item{Format: input.AnthropicBatch}, "anthropic https://api.anthropic.com"},
		{"openai batch line", "", "", input.Item{Format: input.OpenAIBatch}, "openai https://api.openai.com/v1"},
		{"format before model", "", "", input.Item{Format: input.OpenAIBatch, Model: "claude-x"}, "openai https://api.openai.com/v1"},
		{"claude", both, "", input.Item{Model: "claude-x"}, "anthropic https://api.anthropic.com"},
		{"gpt", both, "", input.Item{Model: "gpt-x"}, "openai https://api.openai.com/v1"},
		{"chatgpt", both, "", input.Item{Model: "chatgpt-4o-latest"}, "openai https://api.openai.com/v1"},
		{"o1", both, "", input.Item{Model: "o1"}, "openai https://api.openai.com/v1"},
		{"o3-mini", both, "", input.Item{Model: "o3-mini"}, "openai https://api.openai.com/v1"},
		{"line's model before --model", both, "--model gpt-x", input.Item{Model: "claude-x"}, "anthropic https://api.anthropic.com"},
		{"--model", both, "--model gpt-x", input.Item{}, "openai https://api.openai.com/v1"},
		{"one key", "OPENAI_API_KEY=o", "", input.Item{Model: "llama"}, "openai https://api.openai.com/v1"},
		{"auth token", "ANTHROPIC_AUTH_TOKEN=o", "", input.Item{Model: "llama"}, "anthropic https://api.anthropic.com"},
		{"key of white space is none", "ANTHROPIC_API_KEY=_ OPENAI_API_KEY=o", "", input.Item{}, "openai https://api.openai.com/v1"},
		{"two keys", both, "", input.Item{Model: "llama"}, "can't tell which provider line 0 is for: its model is llama"},
		{"olive is no o1", both, "", input.Item{Model: "olive-7b"}, "can't tell"},
		{"no key", "", "", input.Item{}, "can't tell which provider line 0 is for: it names no model"},
		{"explicit", "", "--provider openai", input.Item{Model: "claude-x"}, "openai https://api.openai.com/v1"},
		{"explicit, its batch", "", "--provider openai", input.Item{Format: input.OpenAIBatch}, "openai https://api.openai.com/v1"},
		{"explicit, other batch", "", "--provider openai", input.Item{Format: input.AnthropicBatch}, "a batch line for anthropic, but --provider is openai"},
		{"explicit, other batch", "", "--provider anthropic", input.Item{Format: input.OpenAIBatch}, "a batch line for openai, but --provider is anthropic"},
		{"base url", "", "--provider openai --base-url http://h:1/v1/?api-version=3", input.Item{}, "openai http://h:1/v1?api-version=3"},
		{"base url of the environment", "OPENAI_BASE_URL=http://h/v1", "--provider openai", input.Item{}, "openai http://h/v1"},
		{"flag before environment", "ANTHROPIC_BASE_URL=http://h", "--base-url https://g", input.Item{Model: "claude-x"}, "anthropic https://g"},
		{"other's base url", "ANTHROPIC_BASE_URL=http://h", "--provider openai", input.Item{}, "openai https://api.openai.com/v1"},
	} {
		env := map[string]string{}
		for _, pair := range strings.Fields(c.env) {
			name, value, _ := strings.Cut(pair, "=")
			env[name] = strings.ReplaceAll(value, "_", " ")
		}
		o, e := settled(t, env, strings.Fields(c.args)...)
		r, err := newRouter(o, e, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		target, err := r.route(&c.item)
		got := ""
		if err != nil {
			got = err.Error()
			if le, ok := errors.AsType[*input.LineError](err); ok {
				got = le.Msg
			}
		} else {
			got = target.Defaults.Name + " " + target.Base.String()
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.name, got, c.want)
		}
	}
}

func TestNeedsKey(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		args string
		want string // part of the error
	}{
		{nil, "--provider anthropic", "no key for Anthropic"},
		{nil, "--provider openai", "no key for OpenAI"},
		{map[string]string{"OPENAI_API_KEY": "k"}, "--provider openai", ""},
		{nil, "--provider openai --base-url http://h/v1", ""},
		{nil, "--provider openai --header Authorization:x", ""},
		{nil, "--provider openai --header api-key:x", ""},
	} {
		o, e := settled(t, c.env, strings.Fields(c.args)...)
		r, err := newRouter(o, e, nil)
		if err != nil {
			t.Fatal(err)
		}
		err = r.requireKey(o.provider)
		if got := errText(err); !strings.HasPrefix(got, c.want) || (err == nil) != (c.want == "") {
			t.Errorf("%s: got %q, want %q", c.args, got, c.want)
		}
		if anyErr := r.requireAnyKey(); (anyErr == nil) != (err == nil) {
			t.Errorf("%s: any key: got %v, want as %v", c.args, anyErr, err)
		}
	}
}

func TestCredentials(t *testing.T) {
	key := file(t, "key", "\n  sk-file \n")
	env := map[string]string{"ANTHROPIC_API_KEY": " sk-a\n", "ANTHROPIC_AUTH_TOKEN": "tok", "OPENAI_API_KEY": "sk-o",
		"OPENAI_ORG_ID": "org", "OPENAI_PROJECT_ID": "proj"}
	for _, c := range []struct {
		args, family string
		drop         string
		want         string
	}{
		{"", "anthropic", "", "sk-a false  "},
		{"", "anthropic", "ANTHROPIC_API_KEY", "tok true  "},
		{"", "openai", "", "sk-o false org proj"},
		{"--api-key-file " + key, "openai", "", "sk-file false org proj"},
		{"--api-key-file " + key, "anthropic", "", "sk-file false  "},
	} {
		o, e := settled(t, env, append([]string{"--provider", c.family}, strings.Fields(c.args)...)...)
		e.getenv = func(name string) string {
			if name == c.drop {
				return ""
			}
			return env[name]
		}
		r, err := newRouter(o, e, nil)
		if err != nil {
			t.Fatal(err)
		}
		target, err := r.route(&input.Item{})
		if err != nil {
			t.Fatal(err)
		}
		k := target.Credentials
		got := k.Key + " " + map[bool]string{true: "true", false: "false"}[k.Bearer] + " " + k.Organization + " " + k.Project
		if got != c.want {
			t.Errorf("%v: got %q, want %q", c, got, c.want)
		}
	}
}

// C50: a key that can't be sent is refused before sending and never shown.
func TestKeyErrors(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		args []string
		want string
	}{
		{map[string]string{"OPENAI_API_KEY": "sk-secret\nsk-secret"}, nil, "OPENAI_API_KEY"},
		{map[string]string{"OPENAI_API_KEY": "sk-secret“"}, nil, "OPENAI_API_KEY"},
		{nil, []string{"--api-key-file", "/does/not/exist"}, "--api-key-file: "},
		{nil, []string{"--api-key-file", file(t, "empty", " \n")}, "empty"},
		{nil, []string{"--api-key-file", file(t, "long", strings.Repeat("sk-secret", 10_000))}, "too long"},
		{nil, []string{"--base-url", "http://u:sk-secret@:80/v1"}, "--base-url: the base URL has no host"},
		{nil, []string{"--base-url", "ftp://sk-secret"}, `--base-url: the base URL's scheme is "ftp"`},
		{nil, []string{"--base-url", "http://sk-secret\x7f"}, "--base-url: the base URL can't be read"},
		{nil, []string{"--base-url", "http://h#sk-secret"}, "--base-url: "},
		{map[string]string{"OPENAI_BASE_URL": "api.openai.com"}, nil, "OPENAI_BASE_URL: the base URL has no scheme"},
		{nil, []string{"--header", "sk-secret"}, "--header: want 'Name: value'"},
		{nil, []string{"--header", "a b: sk-secret"}, "--header: want 'Name: value'"},
		{nil, []string{"--header", "A: sk-secret\r\nB: 1"}, "--header A: the value holds a control character"},
		{nil, []string{"--header", "A: env:NOT_SET"}, "--header A: the variable NOT_SET is not set"},
		{nil, []string{"--header", "Host: sk-secret"}, "--header Host: "},
		{nil, []string{"--temperature", "warm"}, "--temperature: \"warm\" is not a number"},
	} {
		o, e := settled(t, c.env, append([]string{"--provider", "openai"}, c.args...)...)
		_, err := newRouter(o, e, nil)
		got := errText(err)
		if !strings.Contains(got, c.want) {
			t.Errorf("%q: got %q, want something with %q", c.args, got, c.want)
		}
		if strings.Contains(got, "sk-secret") {
			t.Errorf("%q: got the secret in %q", c.args, got)
		}
	}
}

// C51: a password in the base URL is sent as any client sends it, and known as a
// secret; a key wins.
func TestPasswordInBaseURL(t *testing.T) {
	for _, c := range []struct {
		env  map[string]string
		args string
		want string
	}{
		{nil, "--provider openai", "Basic dTpwdy1zZWNyZXQ="},
		{nil, "--provider anthropic", "Basic dTpwdy1zZWNyZXQ="},
		{map[string]string{"OPENAI_API_KEY": "sk-1"}, "--provider openai", ""},
		{map[string]string{"ANTHROPIC_API_KEY": "sk-1"}, "--provider anthropic", "Basic dTpwdy1zZWNyZXQ="},
		{nil, "--provider openai --header Authorization:x", "x"},
	} {
		o, e := settled(t, c.env, append(strings.Fields(c.args), "--base-url", "http://u:pw-secret@h/v1")...)
		r, err := newRouter(o, e, nil)
		if err != nil {
			t.Fatal(err)
		}
		target, err := r.route(&input.Item{})
		if err != nil {
			t.Fatal(err)
		}
		if got := target.Header.Get("Authorization"); got != c.want {
			t.Errorf("%v: got %q, want %q", c, got, c.want)
		}
		if got := r.scrubber().String("u:pw-secret, dTpwdy1zZWNyZXQ="); got != "u:***, ***" {
			t.Errorf("%v: got %q", c, got)
		}
	}
}

func TestHeaders(t *testing.T) {
	e := &env{getenv: func(name string) string { return map[string]string{"K": "secret-1"}[name] }}
	h, secrets, err := headers([]string{"A: 1,2", "a: 3", "api-key: env:K", "Authorization: Bearer secret-2", "X:"}, e)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(h.Values("A"), "|"); got != "1,2|3" {
		t.Errorf("A: got %q, want 1,2|3", got)
	}
	if got := h.Get("Api-Key"); got != "secret-1" {
		t.Errorf("api-key: got %q, want secret-1", got)
	}
	if got := strings.Join(secrets, " "); got != "secret-1 secret-2" {
		t.Errorf("secrets: got %q, want secret-1 secret-2", got)
	}
}

func TestPrice(t *testing.T) {
	config := file(t, "c.yaml", "price-input: 1\nprice-output: 2\nprices:\n  m: {input: 3, output: 4, cache-read: 0.3}\n")
	plain := file(t, "d.yaml", "prices:\n  m: {input: 3, output: 4}\n")
	for _, c := range []struct {
		args, model string
		want        runner.Price
		ok          bool
	}{
		{"", "m", runner.Price{}, false},
		{"--price-input 1 --price-output 2", "m", runner.Price{Input: 1, Output: 2, CacheRead: 1, CacheWrite: 1}, true},
		{"--price-input 1 --price-cache-read 0", "m", runner.Price{Input: 1, CacheWrite: 1}, true},
		{"--config " + config, "m", runner.Price{Input: 3, Output: 4, CacheRead: 0.3, CacheWrite: 3}, true},
		{"--config " + config, "other", runner.Price{Input: 1, Output: 2, CacheRead: 1, CacheWrite: 1}, true},
		{"--config " + config + " --price-input 9", "m", runner.Price{Input: 9, Output: 2, CacheRead: 9, CacheWrite: 9}, true},
		{"--config " + plain, "other", runner.Price{}, false},
		{"--config " + plain, "m-20260131", runner.Price{Input: 3, Output: 4, CacheRead: 3, CacheWrite: 3}, true},
		{"--config " + plain, "m-2026-01-31", runner.Price{Input: 3, Output: 4, CacheRead: 3, CacheWrite: 3}, true},
		{"--config " + plain, "m-mini", runner.Price{}, false},
	} {
		o, _ := settled(t, nil, strings.Fields(c.args)...)
		if got, ok := o.price(c.model); got != c.want || ok != c.ok {
			t.Errorf("%s %s: got %+v %v, want %+v %v", c.args, c.model, got, ok, c.want, c.ok)
		}
	}
}
