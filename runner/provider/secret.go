package provider

import (
	"encoding/base64"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// Basic is the Authorization header for a base URL's user name and password
// (RFC 7617), "" if it has none.
func Basic(base *url.URL) string {
	if base.User == nil {
		return ""
	}
	password, _ := base.User.Password()
	return "Basic " + base64.StdEncoding.EncodeToString([]byte(base.User.Username()+":"+password))
}

// Secrets are what a Scrubber has to know of a base URL: its password, or a user
// name without one, and the values of its query that look like keys.
func Secrets(base *url.URL) []string {
	var out []string
	for name, values := range base.Query() {
		if SecretName(name) {
			out = append(out, values...)
		}
	}
	if base.User != nil {
		secret, ok := base.User.Password()
		if !ok {
			secret = base.User.Username()
		}
		out = append(out, secret, Basic(base))
	}
	return out
}

// SecretName tells the names of headers and query members that carry secrets: the
// one list for what is scrubbed and what is not shown.
func SecretName(name string) bool {
	name = strings.ToLower(name)
	return slices.ContainsFunc([]string{"key", "token", "secret", "sig", "pass", "auth", "code", "cred", "session", "cookie"},
		func(word string) bool { return strings.Contains(name, word) })
}

// notShown stands in settings and commands where a secret was typed.
const notShown = "[hidden]"

// HideHeader is a header line "Name: value" without its value where that may be a
// secret. A reference to the environment, "Name: env:VARIABLE", is none.
func HideHeader(line string) string {
	name, value, ok := strings.Cut(line, ":")
	switch {
	case !ok:
		return notShown
	case strings.HasPrefix(strings.TrimSpace(value), "env:") || !SecretName(name):
		return line
	}
	return name + ": " + notShown
}

// HideURL is a URL without its user name, password and the members of its query
// that may be secrets.
func HideURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return notShown
	}
	if u.User != nil {
		u.User = url.User(notShown)
	}
	q := u.Query()
	for name := range q {
		if SecretName(name) {
			q.Set(name, notShown)
		}
	}
	if u.RawQuery != "" {
		u.RawQuery = q.Encode()
	}
	return u.String()
}

// CheckKey returns a key without the white space and byte order mark around it. It
// refuses one that no header can carry or that was pasted wrongly; from says
// where the key comes from ("OPENAI_API_KEY"). The error never shows the key.
func CheckKey(raw, from string) (string, error) {
	key := strings.TrimFunc(raw, func(r rune) bool { return unicode.IsSpace(r) || r == '\ufeff' || r == '\u200b' })
	if key == "" {
		return "", fmt.Errorf("the key in %s is empty", from)
	}
	for i, r := range key {
		what := ""
		switch {
		case r == '\n' || r == '\r':
			what = "a line break"
		case unicode.IsSpace(r):
			what = "a space"
		case unicode.IsControl(r):
			what = "a control character"
		case strings.ContainsRune("“”„‘’‚«»", r):
			what = "a typographic quote"
		case r > unicode.MaxASCII:
			what = "a character outside ASCII"
		default:
			continue
		}
		return "", fmt.Errorf("the key in %s has %s at position %d: copy it again, nothing was sent", from, what, i+1)
	}
	if first, last := key[0], key[len(key)-1]; first == last && (first == '"' || first == '\'') {
		return "", fmt.Errorf("the key in %s stands in quotes: take them away, nothing was sent", from)
	}
	return key, nil
}
