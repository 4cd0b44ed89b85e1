package input

import (
	"bytes"
	"fmt"
	"strings"
)

// formats tells the line's format and reads it as that.
func (p *parser) formats(it *Item) *LineError {
	messages := p.has(kMessages) || p.has(kInput)
	prompt := p.has(kPrompt)
	if v := p.raw(kPrompt); messages && prompt && v[0] == '{' {
		prompt = false // a stored prompt of the Responses API, part of the body
	}
	batch := p.has(kBody) || p.has(kURL) && !messages && !prompt
	switch {
	case prompt && messages:
		return p.both(kPrompt, kMessages, kInput)
	case prompt && batch:
		return p.both(kPrompt, kBody)
	case messages && batch:
		return p.both(kBody, kMessages, kInput)
	case prompt:
		return p.prompt(it)
	case messages:
		return p.messages(it)
	case batch:
		return p.openAIBatch(it)
	case p.has(kParams):
		return p.anthropicBatch(it)
	}
	return p.noPrompt()
}

// both is the error of a line with member a and one of the others.
func (p *parser) both(a int, others ...int) *LineError {
	m, _ := p.member(a)
	for _, k := range others {
		if p.has(k) {
			o, _ := p.member(k)
			bad := p.badAt(max(m.at, o.at), "both %q and %q in one line", m.name, o.name)
			bad.Hint = "keep the one that is meant; carry other data in \"metadata\""
			return bad
		}
	}
	return nil
}

func (p *parser) noPrompt() *LineError {
	for _, k := range []int{kPrompt, kMessages, kInput, kBody, kParams} {
		if m, ok := p.member(k); ok {
			return p.badAt(m.start, "%q is null", m.name)
		}
	}
	bad := p.badAt(p.from, "no prompt: the line has %s", p.names())
	bad.Hint = `a line needs "prompt" or "messages" (or a batch line's "body" or "params"); for other data use --template`
	for _, m := range p.members {
		if kindOfName(m.name) < 0 {
			if near := nearest(string(m.name), []string{"prompt", "messages", "params", "body", "input"}); near != "" {
				bad.Col, bad.Hint = m.at+1, fmt.Sprintf("%q looks like %q misspelt", m.name, near)
				break
			}
		}
	}
	return bad
}

// names lists the line's members for a message.
func (p *parser) names() string {
	list := make([]string, 0, len(p.members))
	for _, m := range p.members {
		list = append(list, string(m.name))
	}
	return quoted(list)
}

// quoted lists names for a message: the first dozen, none longer than a word.
func quoted(names []string) string {
	if len(names) == 0 {
		return "nothing"
	}
	var b strings.Builder
	for i, n := range names {
		if i == 12 {
			fmt.Fprintf(&b, " and %d more", len(names)-i)
			break
		}
		if i > 0 {
			b.WriteString(", ")
		}
		fmt.Fprintf(&b, "%.40q", n)
	}
	return b.String()
}

var promptNames = []string{"id", "prompt", "system", "model", "max_tokens", "temperature", "params", "metadata"}

func (p *parser) prompt(it *Item) *LineError {
	if bad := p.onlyKnown(promptNames, "beside \"prompt\""); bad != nil {
		return bad
	}
	if bad := p.takeID(it, kID, kID); bad != nil {
		return bad
	}
	v, bad := p.typed(kPrompt, '"')
	if bad != nil {
		if v[0] == '[' {
			bad.Hint = `a list of messages is called "messages"`
		}
		return bad
	}
	if len(v) == 2 {
		m, _ := p.member(kPrompt)
		return p.badAt(m.start, "the prompt is empty")
	}
	it.Format, it.Prompt = Prompt, p.text(v)
	if v, bad = p.typed(kSystem, '"'); bad != nil {
		return bad
	}
	if v != nil {
		it.System = p.text(v)
	}
	if it.Params, bad = p.typed(kParams, '{'); bad != nil {
		return bad
	}
	if it.Params != nil {
		m, _ := p.member(kParams)
		if bad = p.modelIn(it, m); bad != nil {
			return bad
		}
	}
	return p.options(it)
}

// options reads a prompt's model and numbers.
func (p *parser) options(it *Item) *LineError {
	v, bad := p.typed(kModel, '"')
	if bad != nil {
		return bad
	}
	if v != nil {
		if it.Model = p.shared(&p.model, v); it.Model == "" {
			m, _ := p.member(kModel)
			return p.badAt(m.start, `"model" is empty`)
		}
	}
	if it.MaxTokens, bad = p.typed(kMaxTokens, '0'); bad != nil {
		return bad
	}
	if n := it.MaxTokens; n != nil && (bytes.ContainsAny(n, "-.eE") || n[0] == '0') {
		m, _ := p.member(kMaxTokens)
		return p.badAt(m.start, `"max_tokens" is %.30s, want a positive whole number`, n)
	}
	it.Temperature, bad = p.typed(kTemperature, '0')
	return bad
}

// typed returns the value of member k, nil if it is absent or null. A value of
// another kind than that of first is an error ('0' stands for a number).
func (p *parser) typed(k int, first byte) ([]byte, *LineError) {
	v := p.raw(k)
	if v == nil || v[0] == 'n' {
		return nil, nil
	}
	ok := v[0] == first
	if first == '0' {
		ok = v[0] == '-' || '0' <= v[0] && v[0] <= '9'
	}
	if !ok {
		m, _ := p.member(k)
		return v, p.badAt(m.start, "%q is %s, want %s", m.name, kindOf(v), kindOf([]byte{first}))
	}
	return v, nil
}

// takeID takes the id from member k, or else from member other.
func (p *parser) takeID(it *Item, k, other int) *LineError {
	m, ok := p.member(k)
	if !ok {
		m, ok = p.member(other)
	}
	if ok {
		if bad := p.setID(it, m); bad != nil {
			return bad
		}
	}
	p.anonymous(it)
	it.Metadata = p.raw(kMetadata)
	return nil
}

func (p *parser) onlyKnown(names []string, where string) *LineError {
next:
	for _, m := range p.members {
		for _, n := range names {
			if string(m.name) == n {
				continue next
			}
		}
		bad := p.badAt(m.at, "unknown member %.40q %s", m.name, where)
		bad.Hint = `fields of the request go into "params" (or a batch line's body), data to carry along into "metadata"`
		if string(m.name) == "custom_id" {
			bad.Hint = `beside "prompt" the id is called "id"`
		} else if near := nearest(string(m.name), names); near != "" {
			bad.Hint = fmt.Sprintf("did you mean %q? Other fields of the request go into \"params\"", near)
		}
		return bad
	}
	return nil
}

// modelIn takes the model from the object in member m.
func (p *parser) modelIn(it *Item, m member) *LineError {
	if p.innerAt != m.start {
		p.inner = p.inner[:0]
		p.object(m.start, 1, &p.inner)
	}
	for _, in := range p.inner {
		if string(in.name) != "model" {
			continue
		}
		v := p.b[in.start:in.end]
		if v[0] != '"' {
			return p.badAt(in.start, `"model" is %s, want a string`, kindOf(v))
		}
		it.Model = p.shared(&p.model, v)
	}
	return nil
}

func (p *parser) messages(it *Item) *LineError {
	if m, ok := p.member(kCustomID); ok {
		bad := p.badAt(m.at, `"custom_id" beside "messages"`)
		bad.Hint = `no request has such a field; here the id is called "id"`
		return bad
	}
	if m, ok := p.member(kMessages); ok && p.has(kMessages) {
		if v := p.raw(kMessages); v[0] != '[' {
			return p.badAt(m.start, `"messages" is %s, want an array`, kindOf(v))
		}
		if p.b[p.skip(m.start+1)] == ']' {
			return p.badAt(m.start, `"messages" is empty`)
		}
	} else if v := p.raw(kInput); v[0] != '[' && v[0] != '"' {
		m, _ := p.member(kInput)
		return p.badAt(m.start, `"input" is %s, want a string or an array`, kindOf(v))
	}
	if m, ok := p.member(kModel); ok {
		v := p.raw(kModel)
		if v[0] != '"' {
			return p.badAt(m.start, `"model" is %s, want a string`, kindOf(v))
		}
		it.Model = p.shared(&p.model, v)
	}
	if bad := p.takeID(it, kID, kID); bad != nil {
		return bad
	}
	it.Format = Messages
	p.cut(it)
	return nil
}

// cut makes the body of the members that are neither id nor metadata. Where
// they stand together no byte of them is moved or copied: the comma, brace or
// space before and behind them gives way to a brace.
func (p *parser) cut(it *Item) {
	first, last, runs := -1, -1, 0
	for i, m := range p.members {
		if k := kindOfName(m.name); k == kID || k == kMetadata {
			continue
		}
		if first < 0 {
			first = i
		}
		if last != i-1 || runs == 0 {
			runs++
		}
		last = i
	}
	from, to := p.members[first].at-1, p.members[last].end+1
	if runs == 1 {
		p.b[from], p.b[to-1] = '{', '}'
		it.Body, it.BodyOffset = p.b[from:to:to], from
		return
	}
	body := append(make([]byte, 0, to-from), '{')
	for _, m := range p.members[first : last+1] {
		if k := kindOfName(m.name); k == kID || k == kMetadata {
			continue
		}
		if len(body) > 1 {
			body = append(body, ',')
		}
		body = append(body, p.b[m.at:m.end]...)
	}
	it.Body, it.scattered = append(body, '}'), true
}

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
	if v != nil && string(v) != `"POST"` {
		m, _ := p.member(kMethod)
		return p.badAt(m.start, `"method" is %.30s, want "POST"`, v)
	}
	if v, bad = p.typed(kURL, '"'); bad != nil {
		return bad
	}
	if v == nil {
		bad = p.badAt(p.from, `no "url" in an OpenAI batch line`)
		bad.Hint = `e.g. "url":"/v1/chat/completions"`
		return bad
	}
	m, _ := p.member(kURL)
	it.Format, it.URL = OpenAIBatch, p.shared(&p.urlPath, v)
	if it.URL == "" || it.URL != p.goodPath {
		if bad = p.checkURL(m.start, it.URL); bad != nil {
			return bad
		}
		p.goodPath = it.URL
	}
	return p.wholeBody(it, kBody)
}

// checkURL refuses a path that could send the key to another host, or past the
// base URL's own path. at is where the string begins in the line.
func (p *parser) checkURL(at int, u string) *LineError {
	why := ""
	switch odd := strings.IndexFunc(u, oddInPath); {
	case strings.Contains(u, "://"):
		why = "names a host"
	case !strings.HasPrefix(u, "/v1/") || u == "/v1/":
		why = "does not begin with /v1/ and an endpoint"
	case strings.Contains(u, "//"):
		why = `has a "//" in it`
	case strings.Contains(u, ".."):
		why = `has a ".." in it`
	case strings.ContainsAny(u, "?#"):
		why = "has a query or a fragment"
	case odd >= 0:
		why = fmt.Sprintf("has %q in it", u[odd:odd+1])
	default:
		return nil
	}
	bad := p.badAt(at, `"url" %.60q %s`, u, why)
	bad.Hint = `a path such as "/v1/chat/completions"; host and query belong to --base-url`
	return bad
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
		return p.badAt(p.from, `no "body" in an OpenAI batch line`)
	}
	m, _ := p.member(k)
	it.Body, it.BodyOffset = v, m.start
	return p.modelIn(it, m)
}
