package input

import (
	"fmt"
	"strings"

	"llmbatch/input/jsonl"
)

var openAINames = []string{"custom_id", "id", "method", "url", "body", "metadata"}

func (p *parser) openAIBatch(it *Item) *LineError {
	if bad := p.onlyKnown(openAINames, "in an OpenAI batch line"); bad != nil {
		return bad
	}
	if bad := p.takeID(it, kCustomID, kID); bad != nil {
		return bad
	}
	v, bad := p.typed(kMethod, '"')
	if bad != nil {
		return bad
	}
	if v != nil && !strings.EqualFold(jsonl.Text(v), "POST") {
		m, _ := p.member(kMethod)
		return badAt(m.start, `"method" is %.30s, want "POST"`, v)
	}
	if v, bad = p.typed(kURL, '"'); bad != nil {
		return bad
	}
	it.Format = OpenAIBatch
	if v != nil {
		m, _ := p.member(kURL)
		it.URL = shared(&p.urlPath, v)
		if it.URL == "" || it.URL != p.goodPath {
			if bad = checkURL(m.start, it.URL); bad != nil {
				return bad
			}
			p.goodPath = it.URL
		}
	}
	return p.wholeBody(it, kBody)
}

// checkURL refuses a path that could send the key to another host, or past the
// base URL's own path. at is where the string begins in the line. Vendors write
// /v1/chat/completions, v1/chat/completions, /v4/chat/completions or /chat/completions.
func checkURL(at int, u string) *LineError {
	why := ""
	bare := strings.TrimPrefix(u, "/")
	first, rest, deeper := strings.Cut(bare, "/")
	switch odd := strings.IndexFunc(u, oddInPath); {
	case strings.Contains(u, "://") || strings.Contains(first, ":") && bare == u:
		why = "names a host"
	case strings.Contains(u, "//"):
		why = `has a "//" in it`
	case strings.Contains(u, ".."):
		why = `has a ".." in it`
	case strings.ContainsAny(u, "?#"):
		why = "has a query or a fragment"
	case odd >= 0:
		why = fmt.Sprintf("has %q in it", u[odd:odd+1])
	case bare == "" || isVersion(first) && (!deeper || rest == ""):
		why = "names no endpoint"
	default:
		return nil
	}
	bad := badAt(at, `"url" %.60q %s`, u, why)
	bad.Hint = `a path such as "/v1/chat/completions"; host and query belong to --base-url`
	return bad
}

// isVersion: v1, v4, v1beta.
func isVersion(s string) bool {
	return len(s) > 1 && s[0] == 'v' && '0' <= s[1] && s[1] <= '9'
}

func oddInPath(r rune) bool {
	return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune("/-_.~:@+,=", r))
}

var anthropicNames = []string{"custom_id", "id", "params", "metadata"}

func (p *parser) anthropicBatch(it *Item) *LineError {
	if bad := p.onlyKnown(anthropicNames, "in an Anthropic batch line"); bad != nil {
		return bad
	}
	if bad := p.takeID(it, kCustomID, kID); bad != nil {
		return bad
	}
	it.Format = AnthropicBatch
	return p.wholeBody(it, kParams)
}

// wholeBody takes member k, an object, as the body.
func (p *parser) wholeBody(it *Item, k int) *LineError {
	v, bad := p.typed(k, '{')
	if bad != nil {
		return bad
	}
	if v == nil {
		return badAt(p.from, `no "body" in an OpenAI batch line`)
	}
	m, _ := p.member(k)
	it.Body, it.BodyOffset = v, m.start
	return modelIn(it, &p.model, v, m.start)
}
