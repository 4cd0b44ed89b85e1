package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"

	"llmbatch/input/jsonl"
)

// renderer makes prompts of objects and rows. It may be used concurrently.
//
// Every action that prints is piped through a function of our own, so that
// numbers print digit for digit, objects and arrays as JSON, and null not at all.
type renderer struct {
	f      *File
	name   string
	prompt *template.Template
	system *template.Template // nil where --system has no fields
	params *template.Template // nil where --params has none
}

const printer = "_print"

// newRenderer parses the file's templates. Where the input can be read twice, a
// template without a field is refused with the names of what there is.
func newRenderer(f *File) (*renderer, error) {
	r := &renderer{f: f, name: f.o.TemplateName}
	if r.name == "" {
		r.name = "--template"
	}
	var err error
	if r.prompt, err = parseTemplate(r.name, f.o.Template, printValue); err != nil {
		return nil, err
	}
	if !usesField(r.prompt) {
		return nil, f.unused(r.name, f.o.Template)
	}
	if strings.Contains(f.o.System, "{{") {
		if r.system, err = parseTemplate("--system", f.o.System, printValue); err != nil {
			return nil, err
		}
	}
	if strings.Contains(f.o.Params, "{{") {
		if r.params, err = parseTemplate("--params", f.o.Params, printInJSON); err != nil {
			return nil, err
		}
	}
	return r, nil
}

func parseTemplate(name, text string, print func(string, any) (string, error)) (*template.Template, error) {
	t, err := template.New(name).Option("missingkey=error").Funcs(template.FuncMap{printer: print}).Parse(text)
	if err != nil {
		hint := ""
		if m := spacedField.FindStringSubmatch(text); m != nil {
			hint = fmt.Sprintf("; a name with other characters than letters, digits and _ is written {{index . %q}}", m[1])
		} else if m := bareField.FindStringSubmatch(text); m != nil && strings.Contains(err.Error(), "function") {
			hint = fmt.Sprintf("; did you mean {{.%s}}?", m[1])
		}
		return nil, fmt.Errorf("%s: %s%s", name, strings.TrimPrefix(err.Error(), "template: "+name+":"), hint)
	}
	for _, t := range t.Templates() {
		if t.Tree != nil && t.Root != nil {
			rewrite(t.Root)
		}
	}
	return t, nil
}

// How fields are written by those who know other templates.
var (
	spacedField = regexp.MustCompile(`\{\{-?\s*\.([\pL_][^{}|()"$.]*[^\pL\d_{}|()"$.][^{}|()"$.]*?)\s*-?\}\}`) // {{.Review Text}}
	bareField   = regexp.MustCompile(`\{\{-?\s*([\pL_][\pL\d_]*)\s*-?\}\}`)                                    // {{text}}
	bracedField = regexp.MustCompile(`\{([^{}]+)\}`)                                                           // {text}
)

// usesField tells whether anything in the templates depends on the data.
func usesField(t *template.Template) bool {
	for _, t := range t.Templates() {
		if t.Tree != nil && t.Root != nil && strings.Contains(dataless.ReplaceAllString(t.Root.String(), ""), "{{") {
			return true
		}
	}
	return false
}

// dataless are actions in which neither the dot nor a variable stands, and definitions.
var dataless = regexp.MustCompile(`\{\{[^.$}]*\}\}`)

// unused is the error of a template without a field: the same prompt would be paid for
// once a line.
func (f *File) unused(name, text string) error {
	fields := f.firstNames()
	msg := fmt.Sprintf("%s uses no field of the lines, so that each would get the same prompt", name)
	if len(fields) > 0 {
		msg += "; there is " + quoted(fields)
	}
	for _, m := range bracedField.FindAllStringSubmatch(text, -1) {
		if slices.Contains(fields, m[1]) || len(fields) == 0 {
			return fmt.Errorf("%s: did you mean %s instead of {%s}?", msg, fieldOf(m[1]), m[1])
		}
	}
	if len(fields) > 0 {
		msg += fmt.Sprintf(": write %s, for example", fieldOf(fields[len(fields)-1]))
	}
	return errors.New(msg)
}

// fieldOf is how a template names the field.
func fieldOf(name string) string {
	if plainName.MatchString(name) {
		return "{{." + name + "}}"
	}
	return fmt.Sprintf("{{index . %q}}", name)
}

var plainName = regexp.MustCompile(`^[\pL_][\pL\d_]*$`)

// rewrite appends the printer to the actions that print.
func rewrite(n parse.Node) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, n := range n.Nodes {
			rewrite(n)
		}
	case *parse.ActionNode:
		if len(n.Pipe.Decl) > 0 {
			return
		}
		text := n.Pipe.String()
		n.Pipe.Cmds = append(n.Pipe.Cmds, &parse.CommandNode{NodeType: parse.NodeCommand, Pos: n.Pos, Args: []parse.Node{
			parse.NewIdentifier(printer).SetPos(n.Pos),
			&parse.StringNode{NodeType: parse.NodeString, Pos: n.Pos, Quoted: strconv.Quote(text), Text: text},
		}})
	case *parse.IfNode:
		rewrite(n.List)
		rewrite(n.ElseList)
	case *parse.RangeNode:
		rewrite(n.List)
		rewrite(n.ElseList)
	case *parse.WithNode:
		rewrite(n.List)
		rewrite(n.ElseList)
	}
}

// nullError says which action came to null.
type nullError struct{ action string }

func (e *nullError) Error() string { return "{{" + e.action + "}} is null" }

func printValue(action string, v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", &nullError{action}
	case string:
		return v, nil
	case json.Number:
		return v.String(), nil
	case map[string]any, []any:
		var b bytes.Buffer
		e := json.NewEncoder(&b)
		e.SetEscapeHTML(false)
		err := e.Encode(v)
		return strings.TrimSuffix(b.String(), "\n"), err
	}
	return fmt.Sprint(v), nil
}

// printInJSON prints text as it stands inside the quotes of a JSON string.
func printInJSON(action string, v any) (string, error) {
	s, err := printValue(action, v)
	if _, text := v.(string); text {
		q := jsonl.AppendQuote(nil, s)
		s = string(q[1 : len(q)-1])
	}
	return s, err
}

// object renders the line that the parser walked.
func (r *renderer) object(p *parser, it *Item) *LineError {
	data := make(map[string]any, len(p.members))
	d := json.NewDecoder(bytes.NewReader(p.b[p.from:]))
	d.UseNumber()
	if err := d.Decode(&data); err != nil {
		return badAt(p.from, "bad JSON: %v", err)
	}
	id, ok := p.member(kID)
	if !ok {
		id, ok = p.member(kCustomID)
	}
	if name := r.f.o.IDField; name != "" {
		if id, ok = p.named(name); !ok {
			return badAt(p.from, "no %q, which --id-field names; the line has %s", name, p.names())
		}
	}
	if ok {
		if bad := p.setID(it, id); bad != nil {
			return bad
		}
	}
	p.anonymous(it)
	it.Metadata = p.raw(kMetadata)
	it.Input = p.kept()
	if p.ownOptions() {
		if bad := p.bounds(it); bad != nil {
			return bad
		}
	}
	return r.render(p, data, it)
}

// named is the line's last member of that name.
func (p *parser) named(name string) (member, bool) {
	for _, m := range slices.Backward(p.members) {
		if string(m.name) == name {
			return m, true
		}
	}
	return member{}, false
}

// kept is the object of the members that are to travel along, nil if there are none.
func (p *parser) kept() json.RawMessage {
	if p.f.all {
		return p.b[p.from:]
	}
	var b []byte
	for _, m := range p.members {
		if last, _ := p.named(string(m.name)); last.at == m.at && slices.Contains(p.f.keep, string(m.name)) {
			b = append(append(b, ','), p.b[m.at:m.end]...)
		}
	}
	if b == nil {
		return nil
	}
	b[0] = '{'
	return append(b, '}')
}

// row renders a CSV row.
func (r *renderer) row(p *parser, names, fields []string, it *Item) *LineError {
	data := make(map[string]any, len(names))
	id := -1
	for i, name := range names {
		data[name] = fields[i]
		if own := r.f.o.IDField; name == own && own != "" || own == "" && (name == "id" || name == "custom_id" && id < 0) {
			id = i
		}
		if name == "metadata" {
			it.Metadata = jsonl.AppendQuote(nil, fields[i])
		}
	}
	if id >= 0 {
		if it.Key = fields[id]; it.Key == "" {
			return &LineError{Col: 1, Msg: fmt.Sprintf("column %q, the id, is empty", names[id])}
		}
		it.ID = jsonl.AppendQuote(nil, it.Key)
		it.has = true
	}
	if r.f.all {
		it.Input = rowObject(names, fields, nil)
	} else if len(r.f.keep) > 0 {
		it.Input = rowObject(names, fields, r.f.keep)
	}
	return r.render(p, data, it)
}

func (r *renderer) render(p *parser, data map[string]any, it *Item) *LineError {
	it.Format = Prompt
	var bad *LineError
	if it.Prompt, bad = r.execute(r.prompt, data, it); bad != nil {
		return bad
	}
	if it.Prompt == "" {
		return &LineError{Col: it.at + 1, Msg: r.name + " makes an empty prompt of this line"}
	}
	if r.system != nil {
		if it.System, bad = r.execute(r.system, data, it); bad != nil {
			return bad
		}
	}
	if r.params == nil {
		return nil
	}
	text, bad := r.execute(r.params, data, it)
	if bad != nil {
		return bad
	}
	w := jsonl.Line([]byte(text))
	for w.Next() {
	}
	if err := w.Err(); err != nil {
		return &LineError{Col: it.at + 1, Msg: fmt.Sprintf("--params is no JSON object with this line's fields: %.80q", text)}
	}
	it.Params = []byte(text)
	return modelIn(it, &p.model, it.Params, it.at)
}

func (r *renderer) execute(t *template.Template, data map[string]any, it *Item) (string, *LineError) {
	var b strings.Builder
	if err := t.Execute(&b, data); err != nil {
		return "", failed(t.Name(), err, data, it)
	}
	return b.String(), nil
}

// failed puts what text/template says into the words of the line.
func failed(name string, err error, data map[string]any, it *Item) *LineError {
	bad := &LineError{Col: it.at + 1}
	msg := err.Error()
	if null, ok := errors.AsType[*nullError](err); ok {
		bad.Msg = fmt.Sprintf("%s: %s in this line", name, null.Error())
		bad.Hint = "leave the line out, give the field a value, or write {{with .x}}{{.}}{{end}}"
		return bad
	}
	const missing = "map has no entry for key "
	if i := strings.LastIndex(msg, missing); i >= 0 {
		key, err := strconv.Unquote(msg[i+len(missing):])
		if err != nil {
			key = msg[i+len(missing):]
		}
		where, fields := around(msg, key, data)
		bad.Msg = fmt.Sprintf("%s: no field %q%s; there is %s", name, key, where, quoted(fields))
		bad.Hint = fmt.Sprintf(`of a field that may be missing, {{with index . %q}}{{.}}{{end}} takes what there is`, key)
		if near := nearest(key, fields); near != "" {
			bad.Hint = fmt.Sprintf("did you mean %s?", fieldOf(near))
		}
		return bad
	}
	bad.Msg = fmt.Sprintf("%s: %s; the fields are %s", name, strings.TrimPrefix(msg, "template: "+name+":"), quoted(slices.Sorted(maps.Keys(data))))
	return bad
}

// around finds the object that lacks the key, by the path that the message
// shows (of a long one only a part: then the line's own fields are named).
func around(msg, key string, data map[string]any) (where string, fields []string) {
	_, path, _ := strings.Cut(msg, "at <.")
	path, _, whole := strings.Cut(path, ">: ")
	at := data
	walked := ""
	for _, name := range strings.Split(path, ".") {
		if !whole || name == key {
			break
		}
		inner, ok := at[name].(map[string]any)
		if !ok {
			at, walked = data, ""
			break
		}
		at, walked = inner, walked+"."+name
	}
	if walked != "" {
		where = " in " + walked
	}
	return where, slices.Sorted(maps.Keys(at))
}
