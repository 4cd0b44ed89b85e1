package command

import (
	"fmt"
	"net/url"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"llmbatch/input"
	"llmbatch/runner/provider"
	"llmbatch/runner/provider/anthropic"
	"llmbatch/runner/provider/gemini"
	"llmbatch/runner/provider/openai"
)

// providerNames are the values of --provider.
func providerNames() []string {
	names := []string{"auto", mockName}
	for _, p := range provider.Presets() {
		names = append(names, p.Name)
	}
	return names
}

// candidates are the providers that lines may be for: the named one, or those between
// which auto chooses.
func (r *router) candidates() []string {
	if _, ok := provider.FindPreset(r.o.provider); ok {
		return []string{r.o.provider}
	}
	return []string{anthropicName, openaiName}
}

// signsAWS says that requests are signed with AWS's keys: there is no other key.
func (r *router) signsAWS(p provider.Preset) bool {
	return p.Signed != "" && r.keyFile == "" && len(r.keyed) == 0 && !signsItself(r.header) && provider.HasAWSKeys(r.e.getenv)
}

// adapter speaks a family's API.
func adapter(family string) provider.Provider {
	switch family {
	case provider.FamilyAnthropic:
		return anthropic.New()
	case provider.FamilyGemini:
		return gemini.New()
	}
	return openai.New()
}

// suit takes into the defaults what a preset's server wants otherwise than its family.
func suit(d *provider.Defaults, p provider.Preset, base *url.URL, native bool) {
	if p.Name != p.Family { // a run may go on at another host of the family
		d.Family = p.Family
	}
	if native || p.Name != p.Family {
		d.Limit = p.Limit
	}
	d.NoStreamOptions, d.Vertex = p.NoStreamOptions, p.Vertex
	d.Deployments = p.Family == provider.FamilyOpenAI && strings.HasSuffix(base.Path, "/openai") && base.Query().Has("api-version")
}

// lineFor says what kind of line is for one family alone.
func lineFor(f input.Format) string {
	if f == input.Contents {
		return "a line with contents is for "
	}
	return "a batch line for "
}

func noKey(name string) error {
	p, ok := provider.FindPreset(name)
	if !ok || len(p.Keys) == 0 {
		return usagef("no key for %s", name)
	}
	title := map[string]string{anthropicName: "Anthropic", openaiName: "OpenAI"}[name]
	return usagef("no key for %s", orElse(title, name)).
		hint("set %s, or name a file that holds the key: --api-key-file FILE", p.Keys[0]).
		hint("to try it without a key: --provider mock")
}

// base is the base URL of a provider: the flag's, a variable's or its own; native is
// true on the provider's own host.
func (r *router) base(name string) (base *url.URL, native bool, err error) {
	p, _ := provider.FindPreset(name)
	if r.mock != nil {
		u := *r.mock
		if p.Family == provider.FamilyOpenAI {
			u.Path += "/v1"
		}
		return &u, false, nil
	}
	own, missing := p.OwnBase(r.e.getenv)
	raw, where := r.o.baseURL, label(r.o, "base-url")
	if raw == "" {
		raw, where = p.BaseFrom(r.e.getenv)
	}
	if raw == "" {
		if missing != nil {
			return nil, false, usagef("%w", missing).hint("or name the whole base URL: --base-url URL")
		}
		raw, where = own, name
	}
	if base, err = provider.ParseBase(raw); err != nil {
		return nil, false, usagef("%s: %w", where, err)
	}
	known, err := url.Parse(own)
	return base, missing == nil && err == nil && strings.EqualFold(base.Host, known.Host) && !p.Local, nil
}

// providersCommand prints the table of presets.
func providersCommand(e *env) *cli.Command {
	return &cli.Command{
		Name: "providers", Usage: "the providers that --provider knows, and which keys are set",
		Description: "A placeholder such as {AWS_REGION} in a base URL is a variable; --base-url wins\nover it. Keys are never printed.",
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return usagef("providers takes no argument, got %q", c.Args().First())
			}
			var b strings.Builder
			w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "NAME\tAPI\tBASE URL\tKEY\tSET")
			for _, p := range provider.Presets() {
				base := p.Base
				if own, err := p.OwnBase(e.getenv); err == nil {
					base = own
				}
				base = strings.Replace(base, "{vertex}", "{GOOGLE_CLOUD_LOCATION}-aiplatform.googleapis.com", 1)
				if named, _ := p.BaseFrom(e.getenv); named != "" {
					base = named
				}
				if u, err := url.Parse(base); err == nil && (u.User != nil || u.RawQuery != "") { // may hold a password
					u.User, u.RawQuery = nil, ""
					base = u.String()
				}
				set := "no"
				switch variable, _ := p.KeyVariable(e.getenv); {
				case variable != "":
					set = variable
				case p.Local:
					set = "not needed"
				case p.Signed != "" && provider.HasAWSKeys(e.getenv):
					set = "AWS_ACCESS_KEY_ID"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\n", p.Name, p.Family, base, orElse(strings.Join(p.Keys, ", "), "-"), set)
			}
			if err := w.Flush(); err != nil {
				return err
			}
			return writeOut(e.stdout, []byte(b.String()))
		},
	}
}
