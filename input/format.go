package input

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"llmbatch/input/jsonl"
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
	case p.has(kContents):
		return p.contents(it)
	}
	return p.noPrompt()
}

// both is the error of a line with member a and one of the others.
func (p *parser) both(a int, others ...int) *LineError {
	m, _ := p.member(a)
	for _, k := range others {
		if p.has(k) {
			o, _ := p.member(k)
			bad := badAt(max(m.at, o.at), "both %q and %q in one line", m.name, o.name)
			bad.Hint = "keep the one that is meant; carry other data in \"metadata\""
			return bad
		}
	}
	return nil
}

func (p *parser) noPrompt() *LineError {
	for _, k := range []int{kPrompt, kMessages, kInput, kBody, kParams} {
		if m, ok := p.member(k); ok {
			return badAt(m.start, "%q is null", m.name)
		}
	}
	bad := badAt(p.from, "no prompt: the line has %s", p.names())
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

var promptNames = []string{"id", "prompt", "system", "model", "max_tokens", "temperature", "params", "files", "options", "metadata"}

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
		return badAt(m.start, "the prompt is empty")
	}
	it.Format, it.Prompt = Prompt, jsonl.Text(v)
	if v, bad = p.typed(kSystem, '"'); bad != nil {
		return bad
	}
	if v != nil {
		it.System = jsonl.Text(v)
	}
	if it.Params, bad = p.typed(kParams, '{'); bad != nil {
		return bad
	}
	if it.Params != nil {
		m, _ := p.member(kParams)
		if bad = modelIn(it, &p.model, it.Params, m.start); bad != nil {
			return bad
		}
	}
	if bad = p.files(it); bad != nil {
		return bad
	}
	if bad = p.bounds(it); bad != nil {
		return bad
	}
	return p.numbers(it)
}

// numbers reads a prompt's model and numbers.
func (p *parser) numbers(it *Item) *LineError {
	v, bad := p.typed(kModel, '"')
	if bad != nil {
		return bad
	}
	if v != nil {
		if it.Model = shared(&p.model, v); it.Model == "" {
			m, _ := p.member(kModel)
			return badAt(m.start, `"model" is empty`)
		}
	}
	if it.MaxTokens, bad = p.typed(kMaxTokens, '0'); bad != nil {
		return bad
	}
	if n := it.MaxTokens; n != nil && (bytes.ContainsAny(n, "-.eE") || n[0] == '0') {
		m, _ := p.member(kMaxTokens)
		return badAt(m.start, `"max_tokens" is %.30s, want a positive whole number`, n)
	}
	it.Temperature, bad = p.typed(kTemperature, '0')
	return bad
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
		bad := badAt(m.at, "unknown member %.40q %s", m.name, where)
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

// modelIn takes the model from the object v, which begins at the line's byte at.
func modelIn(it *Item, last *string, v []byte, at int) *LineError {
	for w := jsonl.Members(v); w.Next(); {
		if string(w.Name) != "model" {
			continue
		}
		if w.Value[0] != '"' {
			return badAt(at+w.At, `"model" is %s, want a string`, jsonl.Kind(w.Value))
		}
		it.Model = shared(last, w.Value)
	}
	return nil
}

func (p *parser) messages(it *Item) *LineError {
	if m, ok := p.member(kCustomID); ok {
		bad := badAt(m.at, `"custom_id" beside "messages"`)
		bad.Hint = `no request has such a field; here the id is called "id"`
		return bad
	}
	if m, ok := p.member(kMessages); ok && p.has(kMessages) {
		v := p.raw(kMessages)
		if v[0] != '[' {
			return badAt(m.start, `"messages" is %s, want an array`, jsonl.Kind(v))
		}
		if w := jsonl.Elements(v); !w.Next() {
			return badAt(m.start, `"messages" is empty`)
		}
	} else if v := p.raw(kInput); v[0] != '[' && v[0] != '"' {
		m, _ := p.member(kInput)
		return badAt(m.start, `"input" is %s, want a string or an array`, jsonl.Kind(v))
	}
	if bad := p.dataSet(); bad != nil {
		return bad
	}
	return p.request(it, Messages)
}

// contents reads a line of Gemini's own API.
func (p *parser) contents(it *Item) *LineError {
	m, _ := p.member(kContents)
	v := p.raw(kContents)
	if v[0] != '[' {
		return badAt(m.start, `"contents" is %s, want an array`, jsonl.Kind(v))
	}
	if w := jsonl.Elements(v); !w.Next() {
		return badAt(m.start, `"contents" is empty`)
	}
	return p.request(it, Contents)
}

// request takes the line's members but for llmbatch's own as a request's body.
func (p *parser) request(it *Item, format Format) *LineError {
	if m, ok := p.member(kModel); ok {
		v := p.raw(kModel)
		if v[0] != '"' {
			return badAt(m.start, `"model" is %s, want a string`, jsonl.Kind(v))
		}
		it.Model = shared(&p.model, v)
	}
	if bad := p.takeID(it, kID, kID); bad != nil {
		return bad
	}
	it.Format = format
	if p.ownOptions() {
		if bad := p.bounds(it); bad != nil {
			return bad
		}
	}
	p.cut(it)
	return nil
}

// dataNames are members that data sets have and no request: of Alpaca's, of evals', of
// labelled rows.
var dataNames = []string{"instruction", "output", "outputs", "completion", "label", "labels", "target", "targets", "answer", "answers",
	"response", "expected", "expected_output", "ideal", "ground_truth", "question"}

// dataSet refuses a line of a data set that would pass for a request body.
func (p *parser) dataSet() *LineError {
	for _, m := range p.members {
		if !slices.Contains(dataNames, string(m.name)) {
			continue
		}
		field := "input"
		if p.has(kMessages) {
			field = "messages"
		}
		bad := badAt(m.at, "no request has a member %q: the line looks like one of a data set, not like a request", m.name)
		bad.Hint = fmt.Sprintf(`make prompts of the lines with --template, such as -t '{{.%s}}'; what is only to travel along goes into "metadata"`, field)
		if string(m.name) == "instruction" {
			bad.Hint = `make prompts of the lines with --template, such as -t '{{.instruction}} {{.input}}'`
		}
		return bad
	}
	if v := p.raw(kInput); string(v) == `""` && !p.has(kMessages) {
		m, _ := p.member(kInput)
		return badAt(m.start, `"input" is empty`)
	}
	return nil
}

// ours tells whether the member is for llmbatch, and no part of a request's body.
func (p *parser) ours(m member, it *Item) bool {
	k := kindOfName(m.name)
	return k == kID || k == kMetadata || k == kOptions && it.Bounds != nil
}

// cut makes the body of the members that are the request's. Where
// they stand together no byte of them is moved or copied: the comma, brace or
// space before and behind them gives way to a brace.
func (p *parser) cut(it *Item) {
	first, last, runs := -1, -1, 0
	for i, m := range p.members {
		if p.ours(m, it) {
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
		if p.ours(m, it) {
			continue
		}
		if len(body) > 1 {
			body = append(body, ',')
		}
		body = append(body, p.b[m.at:m.end]...)
	}
	it.Body, it.scattered = append(body, '}'), true
}
