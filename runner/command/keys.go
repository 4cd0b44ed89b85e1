package command

import (
	"io"
	"net/http"
	"os"
	"strings"

	"llmbatch/runner/provider"
)

// longestKeyFile bounds what is read of a key file: a wrong name must not load
// a results file into memory.
const longestKeyFile = 64 << 10

// fileKey reads --api-key-file, "" without one.
func fileKey(o *options) (string, error) {
	if o.apiKeyFile == "" {
		return "", nil
	}
	f, err := os.Open(o.apiKeyFile)
	if err != nil {
		return "", usagef("--api-key-file: %w", err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, longestKeyFile+1))
	if err != nil {
		return "", usagef("--api-key-file: %w", err)
	}
	if len(raw) > longestKeyFile {
		return "", usagef("--api-key-file: %s is too long to be a key", o.apiKeyFile)
	}
	key, err := provider.CheckKey(string(raw), o.apiKeyFile)
	if err != nil {
		return "", usagef("%w", err)
	}
	return key, nil
}

// credentials finds what signs the calls to a family. A missing key is no error
// here. keyFile, if not "", wins over the environment.
func credentials(family, keyFile string, e *env) (provider.Credentials, error) {
	var c provider.Credentials
	p, _ := provider.FindPreset(family)
	if p.Name == openaiName {
		c.Organization, c.Project = e.getenv("OPENAI_ORG_ID"), e.getenv("OPENAI_PROJECT_ID")
	}
	if keyFile != "" {
		c.Key = keyFile
		return c, nil
	}
	name, bearer := p.KeyVariable(e.getenv)
	if name == "" {
		return c, nil
	}
	key, err := provider.CheckKey(e.getenv(name), name)
	if err != nil {
		return c, usagef("%w", err)
	}
	c.Key, c.Bearer = key, bearer
	return c, nil
}

// headers resolves the --header flags; secrets are the values that must not be
// shown. A value is never part of an error.
func headers(list []string, e *env) (h http.Header, secrets []string, err error) {
	h = http.Header{}
	for _, line := range list {
		name, value, ok := strings.Cut(line, ":")
		name, value = strings.TrimSpace(name), strings.TrimSpace(value)
		if !ok || !isToken(name) {
			return nil, nil, usagef("--header: want 'Name: value'").hint("such as --header 'X-Team: search', or --header 'api-key: env:AZURE_KEY'")
		}
		secret := provider.SecretName(name)
		if variable, ok := strings.CutPrefix(value, "env:"); ok {
			if value = strings.TrimSpace(e.getenv(variable)); value == "" {
				return nil, nil, usagef("--header %s: the variable %s is not set", name, variable)
			}
			secret = true
		}
		switch {
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }):
			return nil, nil, usagef("--header %s: the value holds a control character", name)
		case ownHeader(name):
			return nil, nil, usagef("--header %s: this header is set by the program itself", name)
		}
		if secret {
			secrets = append(secrets, withoutScheme(value))
		}
		h.Add(name, value)
	}
	return h, secrets, nil
}

// withoutScheme takes "Bearer " and the like off an Authorization value: a
// server may echo the token alone.
func withoutScheme(value string) string {
	if scheme, token, ok := strings.Cut(value, " "); ok && (strings.EqualFold(scheme, "bearer") || strings.EqualFold(scheme, "basic")) {
		return token
	}
	return value
}

// ownHeader tells those that follow from the request itself.
func ownHeader(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Host", "Content-Length", "Content-Type", "Transfer-Encoding", "Connection", "Accept-Encoding":
		return true
	}
	return false
}

// isToken says whether s can be the name of a header (RFC 9110 §5.6.2).
func isToken(s string) bool {
	return s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		alnum := r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		return !alnum && !strings.ContainsRune("!#$%&'*+-.^_`|~", r)
	})
}
