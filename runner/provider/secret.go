package provider

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"unicode"
)

// shortSecret: a shorter value may be part of a word, so it is replaced only where
// it stands alone.
const shortSecret = 8

// hidden is what stands in a secret's place.
const hidden = "***"

// Scrubber replaces known secrets by "***": as they are, and as JSON and URLs
// escape them. The zero value knows none. Safe for concurrent use.
//
// A value of fewer than 8 bytes is replaced only where no letter or digit is
// beside it, and one that is also all letters (EMPTY, ollama) not at all: local
// servers take such words for a key, and answers are full of them.
type Scrubber struct {
	secrets []secret
}

type secret struct {
	value []byte
	alone bool // replaced only where it stands alone
}

// NewScrubber makes a Scrubber of keys, header values, passwords and the secrets
// of a URL. Of "Bearer x" both the whole and x are known. Empty ones are left out.
func NewScrubber(secrets ...string) *Scrubber {
	var values []string
	for _, v := range secrets {
		v = strings.TrimSpace(v)
		values = append(values, v)
		if scheme, rest, ok := strings.Cut(v, " "); ok && (strings.EqualFold(scheme, "Bearer") || strings.EqualFold(scheme, "Basic")) {
			values = append(values, strings.TrimSpace(rest))
		}
	}
	s := &Scrubber{}
	for _, v := range values {
		if !worthHiding(v) {
			continue
		}
		for _, form := range forms(v) {
			s.secrets = append(s.secrets, secret{[]byte(form), len(v) < shortSecret})
		}
	}
	// The longer first: a secret may be part of another.
	slices.SortStableFunc(s.secrets, func(a, b secret) int { return len(b.value) - len(a.value) })
	s.secrets = slices.CompactFunc(s.secrets, func(a, b secret) bool { return bytes.Equal(a.value, b.value) })
	return s
}

// worthHiding leaves out what can't be a secret.
func worthHiding(v string) bool {
	if len(v) >= shortSecret {
		return true
	}
	return len(v) >= 4 && strings.ContainsFunc(v, func(r rune) bool { return !unicode.IsLetter(r) })
}

// forms are the ways in which v may be written.
func forms(v string) []string {
	out := []string{v}
	add := func(f string) {
		if !slices.Contains(out, f) {
			out = append(out, f)
		}
	}
	for _, escaped := range [...]string{quoted(v, false), quoted(v, true)} {
		add(escaped)
		add(strings.ReplaceAll(escaped, "/", `\/`))
		add(quoted(escaped, false)) // JSON in a JSON string
	}
	add(url.QueryEscape(v))
	add(url.PathEscape(v))
	return out
}

// quoted is v as it stands inside a JSON string.
func quoted(v string, html bool) string {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(html)
	if e.Encode(v) != nil {
		return v
	}
	line := strings.TrimSuffix(b.String(), "\n")
	return line[1 : len(line)-1]
}

// Bytes returns b without the secrets: b itself where there are none, a copy
// otherwise.
func (s *Scrubber) Bytes(b []byte) []byte {
	for _, x := range s.secrets {
		if bytes.Contains(b, x.value) {
			b = x.replace(b)
		}
	}
	return b
}

// String returns v without the secrets.
func (s *Scrubber) String(v string) string {
	for _, x := range s.secrets {
		if strings.Contains(v, string(x.value)) {
			return string(s.Bytes([]byte(v)))
		}
	}
	return v
}

// replace writes b anew, with the secret hidden.
func (x secret) replace(b []byte) []byte {
	var out []byte
	kept := 0 // what is in out of b
	for from := 0; ; {
		i := bytes.Index(b[from:], x.value)
		if i < 0 {
			if out == nil {
				return b
			}
			return append(out, b[kept:]...)
		}
		i += from
		end := i + len(x.value)
		if x.alone && (i > 0 && wordEnds(b[:i]) || end < len(b) && wordByte(b[end])) || inEscape(b[:i], b[i]) {
			from = i + 1
			continue
		}
		out = append(append(out, b[kept:i]...), hidden...)
		kept, from = end, end
	}
}

// wordEnds says that b ends in a word, and not in the letter of an escape.
func wordEnds(b []byte) bool {
	last := len(b) - 1
	return wordByte(b[last]) && !(strings.IndexByte("bfnrt", b[last]) >= 0 && slashes(b[:last])%2 == 1)
}

// inEscape says that c, which follows before, belongs to an escape of a JSON
// string: what it begins is then no secret, and hiding it would break the string.
func inEscape(before []byte, c byte) bool {
	if bytes.IndexByte([]byte(`"\/bfnrtu`), c) >= 0 && slashes(before)%2 == 1 {
		return true
	}
	for n := 0; n < 4 && n < len(before); n++ {
		switch d := before[len(before)-1-n]; {
		case d == 'u':
			return slashes(before[:len(before)-1-n])%2 == 1 && hexByte(c)
		case !hexByte(d):
			return false
		}
	}
	return false
}

// slashes counts the backslashes at the end of b.
func slashes(b []byte) int { return len(b) - len(bytes.TrimRight(b, `\\`)) }

func hexByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'f' || c >= 'A' && c <= 'F'
}

func wordByte(c byte) bool {
	return c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= 0x80
}

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
