package command

import (
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"
)

// printConfig writes the effective settings, each with where it came from, as a
// file that --config would take. What may be a key is hidden.
func printConfig(w io.Writer, c *cli.Context, o *options) error {
	for _, f := range inGroups(c.Command.Flags) {
		name := f.Names()[0]
		from, ok := o.from[name]
		if !ok || name == "config" {
			continue
		}
		comment := ""
		if from == fromDefault && isUnset(c, name) {
			comment = "# "
		}
		fmt.Fprintf(w, "%s%s: %s  # %s\n", comment, name, shownValue(c, o, name), from)
	}
	if len(o.prices) > 0 {
		fmt.Fprintln(w, "prices:")
	}
	for _, model := range slices.Sorted(keysOf(o.prices)) {
		p := o.prices[model]
		fmt.Fprintf(w, "  %s: {input: %g, output: %g, cache-read: %g, cache-write: %g}  # %s\n",
			quoteYAML(model), p.input, p.output, p.cacheRead, p.cacheWrite, o.config)
	}
	return nil
}

func keysOf[V any](m map[string]V) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// isUnset tells values that mean "none": such a line is printed as a comment.
func isUnset(c *cli.Context, name string) bool {
	switch v := c.Value(name).(type) {
	case string:
		return v == ""
	case int:
		return v == 0
	case uint64:
		return v == 0
	case float64:
		return v == 0
	case time.Duration:
		return v == 0
	case cli.StringSlice:
		return len(v.Value()) == 0
	}
	return false
}

func shownValue(c *cli.Context, o *options, name string) string {
	switch name {
	case "header":
		var shown []string
		for _, h := range o.header.Value() {
			shown = append(shown, doubleQuoted(hideHeader(h)))
		}
		return "[" + strings.Join(shown, ", ") + "]"
	case "base-url":
		return quoteYAML(hideURL(o.baseURL))
	}
	switch v := c.Value(name).(type) {
	case time.Duration:
		return shortDuration(v)
	case string:
		return quoteYAML(v)
	default:
		return fmt.Sprint(v)
	}
}

// quoteYAML writes s as one YAML scalar on one line.
func quoteYAML(s string) string {
	if s == "" || strings.ContainsAny(s, "\n,[]{}#") {
		return doubleQuoted(s)
	}
	return marshalled(s)
}

func doubleQuoted(s string) string {
	return marshalled(&yaml.Node{Kind: yaml.ScalarNode, Value: s, Style: yaml.DoubleQuotedStyle})
}

func marshalled(v any) string {
	out, err := yaml.Marshal(v)
	if err != nil {
		return "?"
	}
	return strings.TrimRight(string(out), "\n")
}

// hidden stands where a secret was.
const hidden = "[hidden]"

// hideHeader hides the value of a header that looks like one with a key.
// References to the environment are shown: they hold no secret.
func hideHeader(h string) string {
	name, value, ok := strings.Cut(h, ":")
	value = strings.TrimSpace(value)
	if !ok {
		return hidden
	}
	if strings.HasPrefix(value, "env:") || !secretName(name) {
		return h
	}
	return name + ": " + hidden
}

// secretName tells the names of headers and query members that carry secrets.
func secretName(name string) bool {
	name = strings.ToLower(name)
	for _, word := range []string{"auth", "key", "token", "secret", "cookie", "password", "credential", "signature", "sig", "session"} {
		if strings.Contains(name, word) {
			return true
		}
	}
	return false
}

// hideURL hides userinfo and the query members that look like keys.
func hideURL(raw string) string {
	u, err := url.Parse(raw)
	if err != nil {
		return hidden
	}
	if u.User != nil {
		u.User = url.User(hidden)
	}
	q := u.Query()
	for name := range q {
		if secretName(name) {
			q.Set(name, hidden)
		}
	}
	if u.RawQuery != "" {
		u.RawQuery = q.Encode()
	}
	return u.String()
}
