package input

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/template"
	"text/template/parse"

	"github.com/go-json-experiment/json/jsontext"
)

// renderer makes prompts of objects and rows. It may be used concurrently.
//
// Every action that prints is piped through a function of our own, so that
// numbers print digit for digit, objects and arrays as JSON, and null not at all.
type renderer struct {
	t       *template.Template
	name    string
	idField string
}

const printer = "_print"

func newRenderer(o Options) (*renderer, error) {
	name := o.TemplateName
	if name == "" {
		name = "--template"
	}
	t, err := template.New(name).Option("missingkey=error").Funcs(template.FuncMap{printer: printValue}).Parse(o.Template)
	if err != nil {
		return nil, fmt.Errorf("%s: %s", name, strings.TrimPrefix(err.Error(), "template: "+name+":"))
	}
	for _, t := range t.Templates() {
		if t.Tree != nil && t.Root != nil {
			rewrite(t.Root)
		}
	}
	return &renderer{t: t, name: name, idField: o.IDField}, nil
}

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

// object renders the line that the parser walked.
func (r *renderer) object(p *parser, it *Item) *LineError {
	data := make(map[string]any, len(p.members))
	d := json.NewDecoder(bytes.NewReader(p.b[p.from:p.end]))
	d.UseNumber()
	if err := d.Decode(&data); err != nil {
		return p.badAt(p.from, "bad JSON: %v", err)
	}
	id, ok := p.member(kID)
	if !ok {
		id, ok = p.member(kCustomID)
	}
	if r.idField != "" {
		ok = false
		for _, m := range p.members {
			if string(m.name) == r.idField {
				id, ok = m, true
			}
		}
		if !ok {
			return p.badAt(p.from, "no %q, which --id-field names; the line has %s", r.idField, p.names())
		}
	}
	if ok {
		if bad := p.setID(it, id); bad != nil {
			return bad
		}
	}
	p.anonymous(it)
	it.Metadata = p.raw(kMetadata)
	return r.render(data, it)
}

// row renders a CSV row.
func (r *renderer) row(names, fields []string, it *Item) *LineError {
	data := make(map[string]any, len(names))
	id := -1
	for i, name := range names {
		data[name] = fields[i]
		if name == r.idField && r.idField != "" || r.idField == "" && (name == "id" || name == "custom_id" && id < 0) {
			id = i
		}
		if name == "metadata" {
			it.Metadata, _ = jsontext.AppendQuote(nil, fields[i])
		}
	}
	if id >= 0 {
		if it.Key = fields[id]; it.Key == "" {
			return &LineError{Col: 1, Msg: fmt.Sprintf("column %q, the id, is empty", names[id])}
		}
		it.ID, _ = jsontext.AppendQuote(nil, it.Key)
		it.has = true
	}
	return r.render(data, it)
}

func (r *renderer) render(data map[string]any, it *Item) *LineError {
	var b strings.Builder
	if err := r.t.Execute(&b, data); err != nil {
		return r.failed(err, data, it)
	}
	it.Format, it.Prompt = Prompt, b.String()
	if it.Prompt == "" {
		return &LineError{Col: it.at + 1, Msg: r.name + " makes an empty prompt of this line"}
	}
	return nil
}

// failed puts what text/template says into the words of the line.
func (r *renderer) failed(err error, data map[string]any, it *Item) *LineError {
	bad := &LineError{Col: it.at + 1}
	msg := err.Error()
	if null, ok := errors.AsType[*nullError](err); ok {
		bad.Msg = fmt.Sprintf("%s: %s in this line", r.name, null.Error())
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
		bad.Msg = fmt.Sprintf("%s: no field %q%s; there is %s", r.name, key, where, quoted(fields))
		bad.Hint = fmt.Sprintf(`of a field that may be missing, {{with index . %q}}{{.}}{{end}} takes what there is`, key)
		if near := nearest(key, fields); near != "" {
			bad.Hint = fmt.Sprintf("did you mean {{.%s}}?", near)
		}
		return bad
	}
	bad.Msg = fmt.Sprintf("%s: %s; the fields are %s", r.name, strings.TrimPrefix(msg, "template: "+r.name+":"), quoted(slices.Sorted(maps.Keys(data))))
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
