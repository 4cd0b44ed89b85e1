package body

import "bytes"

// Tree is a JSON value that is put together from the pieces of a stream. The zero
// value is none yet. Members keep the order in which they came.
//
// Strings grow by their escaped text, so that a surrogate pair whose halves came in
// two pieces is whole again.
type Tree struct {
	kind  byte   // its first byte: { [ " or that of another value; 0: none yet
	text  []byte // a string's escaped text, another value as it was written
	names []string
	kids  []*Tree // of the names, or the elements of an array

	// Of an element: what its pieces call it.
	index int64
	id    string
}

// How says what a further piece does to what is there. null changes nothing.
type How uint8

const (
	// Grow: a string is added to a string and an array to an array; anything else takes
	// the place of what was there.
	Grow How = iota
	// Keep: what says something first stays.
	Keep
	// Last: what says something last stays.
	Last
	// Merge: the members of an object are merged, by their rules.
	Merge
	// Calls: the array's objects are pieces of tool calls, told apart by index and id.
	Calls
	// Parts: text comes as a string or as a list of parts, in any order.
	Parts
)

// Rules say how the members of an object take further pieces, by name; Grow where a
// name is not among them.
type Rules map[string]How

// maxKids bounds the members of an object and the pieced elements of an array: more
// than any API sends.
const maxKids = 10_000

// Get returns the object's member as JSON, nil if there is none.
func (t *Tree) Get(name string) []byte {
	for i, n := range t.names {
		if n == name {
			return t.kids[i].JSON()
		}
	}
	return nil
}

// At returns the object's member, a new one if need be.
func (t *Tree) At(name string) *Tree {
	if t.kind != '{' {
		*t = Tree{kind: '{', index: t.index, id: t.id}
	}
	for i, n := range t.names {
		if n == name {
			return t.kids[i]
		}
	}
	k := &Tree{}
	if len(t.names) < maxKids {
		t.names, t.kids = append(t.names, name), append(t.kids, k)
	}
	return k
}

// Elements are the elements of an array.
func (t *Tree) Elements() []*Tree {
	if t.kind != '[' {
		return nil
	}
	return t.kids
}

// Element returns the element that pieces call by a number, a new one if need be, in
// the order of the numbers; nil where there are too many.
func (t *Tree) Element(index int64) *Tree {
	if t.kind != '[' {
		*t = Tree{kind: '['}
	}
	at := len(t.kids)
	for at > 0 && t.kids[at-1].index > index {
		at--
	}
	if at > 0 && t.kids[at-1].index == index {
		return t.kids[at-1]
	}
	if len(t.kids) >= maxKids {
		return nil
	}
	k := &Tree{index: index}
	t.kids = append(t.kids, nil)
	copy(t.kids[at+1:], t.kids[at:])
	t.kids[at] = k
	return k
}

// call returns the tool call that a piece belongs to, nil if there are too many.
// It is the one with its index, and its id too where both have one, since some
// servers number every call 0; without an index it is the one with its id, and
// without either the last one.
func (t *Tree) call(piece []byte) *Tree {
	index, id := Member(piece, "index"), Text(Member(piece, "id"))
	n, indexed := int64(len(t.kids)), !Null(index)
	if indexed {
		n = Int(index)
	}
	for i := len(t.kids) - 1; i >= 0; i-- {
		k := t.kids[i]
		same := id == "" || k.id == id || indexed && k.id == ""
		if same && (!indexed || k.index == n) {
			return k
		}
	}
	if len(t.kids) >= maxKids {
		return nil
	}
	k := &Tree{kind: '{', index: n, id: id}
	t.kids = append(t.kids, k)
	return k
}

// Merge merges the members of an object into the tree's. It is false where there is
// too much of something.
func (t *Tree) Merge(object []byte, rules Rules) bool {
	for w := Members(object); w.Next(); {
		name := string(w.Name)
		if !t.At(name).Add(w.Value, rules[name], rules) {
			return false
		}
	}
	return true
}

// Add takes a piece. It is false where there is too much of something.
func (t *Tree) Add(v []byte, how How, rules Rules) bool {
	switch {
	case Null(v) && t.kind != 0:
	case how == Merge && v[0] == '{':
		if t.kind != '{' {
			*t = Tree{kind: '{'}
		}
		return t.Merge(v, rules)
	case how == Calls && v[0] == '[':
		if t.kind != '[' {
			*t = Tree{kind: '['}
		}
		return t.addCalls(v, rules)
	case how == Parts && (v[0] == '[' || v[0] == '{' || t.kind == '['):
		return t.addParts(v)
	case t.kind == 0 || t.kind == 'n':
		t.set(v)
	case how == Keep && t.says() || how == Last && Evidence(v) == "" && v[0] == '"':
	case how == Keep || how == Last || t.kind != v[0]:
		t.set(v)
	case v[0] == '"':
		t.text = append(t.text, v[1:len(v)-1]...)
	case v[0] == '[':
		t.kids = append(t.kids, elements(v)...)
	default:
		t.set(v)
	}
	return true
}

func (t *Tree) addCalls(v []byte, rules Rules) bool {
	for e := Elements(v); e.Next(); {
		k := t.call(e.Value)
		if k == nil {
			return false
		}
		for w := Members(e.Value); w.Next(); {
			if name := string(w.Name); name != "index" && !k.At(name).Add(w.Value, rules[name], rules) {
				return false
			}
		}
	}
	return true
}

// addParts takes text or parts into a list of parts.
func (t *Tree) addParts(v []byte) bool {
	if t.kind != '[' {
		had := *t
		*t = Tree{kind: '['}
		if had.kind == '"' && len(had.text) > 0 {
			t.addPart(textPart(had.JSON()))
		}
	}
	switch v[0] {
	case '"':
		if len(v) > len(`""`) {
			t.addPart(textPart(v))
		}
	case '{':
		t.addPart(v)
	case '[':
		for e := Elements(v); e.Next(); {
			if len(e.Value) > 0 && e.Value[0] == '"' {
				t.addPart(textPart(e.Value))
			} else {
				t.addPart(e.Value)
			}
		}
	}
	return true
}

func textPart(text []byte) []byte {
	return Build(nil, Field{Name: "type", Value: []byte(`"text"`)}, Field{Name: "text", Value: text})
}

// addPart adds a part, or its text to the last part's where both have nothing else.
func (t *Tree) addPart(part []byte) {
	k := &Tree{}
	k.set(part)
	if n := len(t.kids); n > 0 && k.isText() && t.kids[n-1].isText() {
		last := t.kids[n-1].At("text")
		last.text = append(last.text, k.At("text").text...)
		return
	}
	t.kids = append(t.kids, k)
}

func (t *Tree) isText() bool {
	return t.kind == '{' && len(t.names) == 2 && string(t.Get("type")) == `"text"` && bytes.HasPrefix(t.Get("text"), []byte{'"'})
}

// says: neither null nor an empty string.
func (t *Tree) says() bool {
	return t.kind != 0 && t.kind != 'n' && !(t.kind == '"' && (len(t.text) == 0 || string(t.text) == "null"))
}

// Set gives the tree a value in place of what it has.
func (t *Tree) Set(v []byte) { t.set(v) }

func (t *Tree) set(v []byte) {
	*t = Tree{index: t.index, id: t.id}
	if len(v) == 0 {
		return
	}
	switch t.kind = v[0]; t.kind {
	case '{':
		for w := Members(v); w.Next(); {
			t.At(string(w.Name)).set(w.Value)
		}
	case '[':
		t.kids = elements(v)
	case '"':
		t.text = bytes.Clone(v[1 : len(v)-1])
	default:
		t.text = bytes.Clone(v)
	}
}

func elements(v []byte) (kids []*Tree) {
	for e := Elements(v); e.Next(); {
		k := &Tree{}
		k.set(e.Value)
		kids = append(kids, k)
	}
	return kids
}

// JSON returns the value; nil where there is none yet.
func (t *Tree) JSON() []byte {
	if t.kind == 0 {
		return nil
	}
	return t.append(nil)
}

func (t *Tree) append(out []byte) []byte {
	switch t.kind {
	case '{':
		out = append(out, '{')
		first := true
		for i, name := range t.names {
			if t.kids[i].kind == 0 {
				continue
			}
			if !first {
				out = append(out, ',')
			}
			first = false
			out = append(append(out, Quote(name)...), ':')
			out = t.kids[i].append(out)
		}
		return append(out, '}')
	case '[':
		out = append(out, '[')
		for i, k := range t.kids {
			if i > 0 {
				out = append(out, ',')
			}
			out = k.append(out)
		}
		return append(out, ']')
	case '"':
		return append(append(append(out, '"'), t.text...), '"')
	}
	return append(out, t.text...)
}
