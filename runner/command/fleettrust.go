package command

import (
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"llmbatch/runner/fleet"
	"llmbatch/runner/provider"
)

// Whoever reaches the NATS server can start a run, and so tell workers where to
// send requests and with which headers. A worker sends its key only to hosts that
// it knows or was told by its own flags and variables, and takes only those
// variables into headers that it was told by name.

// trust is what a worker was told by its own flags.
type trust struct {
	bases, variables []string
}

// local are the flags of run that hold for the machine where they were given: files,
// commands and addresses there. A worker never takes them from a run.
func local() []string {
	return []string{"api-key-file", "api-key-command", "api-key-ttl", "config", "out", "summary", "metrics-addr",
		"metrics-textfile", "only-ids", "template-file", "system-file", "files-root", "prices", "reuse"}
}

// allows says whether a worker may do what the run's settings ask for: o are the
// run's options with the worker's own key file, bases the base URLs of the
// coordinator's environment.
func (t trust) allows(o *options, bases map[string]string, e *env) error {
	for _, line := range o.header {
		name, value, _ := strings.Cut(line, ":")
		variable, ok := strings.CutPrefix(strings.TrimSpace(value), "env:")
		if ok && !slices.Contains(t.variables, variable) {
			return usagef("the run wants this worker's variable %s in the header %s", variable, name).
				hint("if it may have it, start the worker with --allow-env %s", variable)
		}
	}
	if !o.holdsSecret(e) {
		return nil
	}
	urls := []string{o.baseURL}
	for name, text := range bases {
		if e.getenv(name) == "" { // the worker's own wins
			urls = append(urls, text)
		}
	}
	for _, text := range urls {
		if text != "" && !t.knows(text, e) {
			return usagef("the run sends requests to %s, and this worker does not know that host: its key stays here", provider.HideURL(text)).
				hint("if the key may go there, start the worker with --allow-base-url %s", provider.HideURL(text))
		}
	}
	return nil
}

// holdsSecret says whether requests from here would carry a key or a variable.
func (o *options) holdsSecret(e *env) bool {
	if o.apiKeyFile != "" || o.apiKeyCommand != "" {
		return true
	}
	for _, family := range []string{anthropicName, openaiName} {
		if c, err := credentials(family, "", e); err != nil || c.Key != "" {
			return true
		}
	}
	return slices.ContainsFunc(o.header, func(line string) bool { return strings.Contains(line, "env:") })
}

// knows says whether a URL's host is a provider's own, or one that the worker was told.
func (t trust) knows(text string, e *env) bool {
	u, err := url.Parse(text)
	if err != nil {
		return false
	}
	own := append([]string{"https://api.anthropic.com", "https://api.openai.com"}, t.bases...)
	for _, name := range []string{"ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"} {
		own = append(own, e.getenv(name))
	}
	return slices.ContainsFunc(own, func(known string) bool {
		k, err := url.Parse(strings.TrimSpace(known))
		return err == nil && k.Host != "" && strings.EqualFold(k.Scheme, u.Scheme) && strings.EqualFold(k.Host, u.Host)
	})
}

// serverToken is the token of the file that the user names, or else that of a file
// beside the store, which is made if it is not there. Prompts and answers pass
// through the server, so it never goes without.
func serverToken(f *fleetOptions) (token, file string, err error) {
	file = f.tokenFile
	if file == "" {
		file = filepath.Join(f.store, "token")
		if err := os.MkdirAll(f.store, 0o700); err != nil {
			return "", "", usagef("fleet serve: %w", err)
		}
		if _, err := os.Stat(file); os.IsNotExist(err) {
			if err := writeWhole(file, []byte(fleet.NewToken()+"\n")); err != nil {
				return "", "", usagef("fleet serve: %w", err)
			}
		}
	}
	token, err = readToken(file)
	return token, file, err
}
