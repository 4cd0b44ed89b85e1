package provider

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// WithStream returns the body with "stream": true added at its end, and for a chat
// body that llmbatch made itself with the option that makes the stream tell its
// usage. A body with a stream member of its own is returned as it is, and so is one
// for an endpoint that generates no text, or whose stream has a path of its own. The
// call's body is not changed.
func WithStream(c *Call) json.RawMessage {
	if path, _, _ := strings.Cut(c.Path, "?"); c.API == OpenAIOther && path != "/completions" || c.API == GeminiGenerate {
		return c.Body
	}
	body := bytes.TrimRight(c.Body, " \t\r\n")
	if len(body) < 2 || body[len(body)-1] != '}' || hasMember(body, "stream") {
		return c.Body
	}
	inside := body[:len(body)-1]
	out := make([]byte, 0, len(body)+64)
	out = append(out, inside...)
	if t := bytes.TrimRight(inside, " \t\r\n"); t[len(t)-1] != '{' {
		out = append(out, ',')
	}
	out = append(out, `"stream":true`...)
	if c.Plain && c.API == OpenAIChat && !hasMember(body, "stream_options") {
		out = append(out, `,"stream_options":{"include_usage":true}`...)
	}
	return append(out, '}')
}

// PathOf is the path of a call; stream says that its answer is to be streamed.
func PathOf(c *Call, stream bool) string {
	if c.StreamPath != "" && (stream || c.Stream) {
		return c.StreamPath
	}
	return c.Path
}

// hasMember says whether an object has a member at its top level.
func hasMember(object []byte, name string) bool {
	if !bytes.Contains(object, []byte(name)) { // most bodies: no walk
		return false
	}
	d := jsontext.NewDecoder(bytes.NewReader(object), jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	if t, err := d.ReadToken(); err != nil || t.Kind() != '{' {
		return false
	}
	for d.PeekKind() == '"' {
		t, err := d.ReadToken()
		if err != nil {
			return false
		}
		if t.String() == name {
			return true
		}
		if d.SkipValue() != nil {
			return false
		}
	}
	return false
}

// ParseBase reads a base URL: http or https, a host, and what follows it. A query
// (?api-version=…) is kept, a slash at its path's end is not. A user name and password are for Basic. Its errors
// never show the URL, which may hold secrets.
func ParseBase(raw string) (*url.URL, error) {
	raw = strings.TrimSpace(raw)
	if raw == "" {
		return nil, errors.New("the base URL is empty")
	}
	u, err := url.Parse(raw)
	switch {
	case !strings.Contains(raw, "://"):
		return nil, errors.New("the base URL has no scheme: write https://… or http://…")
	case err != nil:
		return nil, errors.New("the base URL can't be read as a URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("the base URL's scheme is %q: only https and http are spoken", u.Scheme)
	case u.Hostname() == "":
		return nil, errors.New("the base URL has no host")
	case strings.Contains(raw, "#"):
		return nil, errors.New("the base URL has a fragment (#…), which is never sent: take it away")
	}
	u.Path, u.RawPath = strings.TrimRight(u.Path, "/"), strings.TrimRight(u.RawPath, "/")
	return u, nil
}

// JoinURL joins a base URL and a call's path. The base's query is kept, a slash at
// its end makes no difference, and /v1 is not doubled where the base ends in it
// and the path begins with it.
func JoinURL(base *url.URL, path string) string {
	root := strings.TrimRight(base.EscapedPath(), "/")
	path, query, _ := strings.Cut(path, "?")
	if rest, ok := strings.CutPrefix(path, "/v1"); ok && strings.HasSuffix(root, "/v1") && (rest == "" || rest[0] == '/') {
		path = rest
	}
	var b strings.Builder
	b.WriteString(base.Scheme)
	b.WriteString("://")
	b.WriteString(base.Host)
	b.WriteString(root)
	b.WriteString(path)
	for mark, q := range [...]string{base.RawQuery, query} {
		switch {
		case q == "":
			continue
		case mark == 1 && base.RawQuery != "":
			b.WriteByte('&')
		default:
			b.WriteByte('?')
		}
		b.WriteString(q)
	}
	return b.String()
}
