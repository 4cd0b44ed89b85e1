package body

import "testing"

func TestTree(t *testing.T) {
	rules := Rules{"reason": Last, "role": Keep, "id": Keep, "m": Merge, "calls": Calls, "content": Parts, "f": Merge}
	for _, tt := range []struct {
		name   string
		pieces []string
		want   string
	}{
		{"strings grow, halves of a pair meet", []string{`{"s":"a\ud83d"}`, `{"s":"\ude00"}`, `{"s":null}`}, `{"s":"a\ud83d\ude00"}`},
		{"arrays grow", []string{`{"l":[ 1 ]}`, `{"l":[]}`, `{"l":[{"a":2}]}`}, `{"l":[1,{"a":2}]}`},
		{"others are replaced", []string{`{"n":1,"o":{"x":1},"b":"t"}`, `{"n":2,"o":{"y":1},"b":true}`}, `{"n":2,"o":{"y":1},"b":true}`},
		{"null is taken first only", []string{`{"s":null}`, `{"s":"a"}`, `{"s":null}`}, `{"s":"a"}`},
		{"first stays", []string{`{"role":""}`, `{"role":"a"}`, `{"role":"b"}`}, `{"role":"a"}`},
		{"placeholders wipe nothing out", []string{`{"reason":""}`, `{"reason":"stop"}`, `{"reason":"null"}`, `{"reason":""}`}, `{"reason":"stop"}`},
		{"merge", []string{`{"m":null}`, `{"m":{"a":"x"}}`, `{"m":{"a":"y","b":1}}`}, `{"m":{"a":"xy","b":1}}`},
		{"calls", []string{`{"calls":[{"index":0,"id":"a","f":{"n":"x"}},{"index":1,"id":"b"}]}`, `{"calls":[{"index":0,"f":{"n":"y"}}]}`},
			`{"calls":[{"id":"a","f":{"n":"xy"}},{"id":"b"}]}`},
		{"mixed: string, list, null, string", []string{`{"content":"a"}`, `{"content":[{"type":"text","text":"b"}]}`, `{"content":null}`, `{"content":"c"}`},
			`{"content":[{"type":"text","text":"abc"}]}`},
		{"mixed: list of strings and an object", []string{`{"content":["a"]}`, `{"content":{"type":"text","text":"b"}}`}, `{"content":[{"type":"text","text":"ab"}]}`},
		{"mixed: thinking beside text", []string{`{"content":[{"type":"thinking","thinking":"t"}]}`, `{"content":"a"}`, `{"content":""}`},
			`{"content":[{"type":"thinking","thinking":"t"},{"type":"text","text":"a"}]}`},
		{"mixed: an empty string first", []string{`{"content":""}`, `{"content":[{"type":"text","text":"a","x":1}]}`, `{"content":"b"}`},
			`{"content":[{"type":"text","text":"a","x":1},{"type":"text","text":"b"}]}`},
	} {
		var tree Tree
		for _, p := range tt.pieces {
			if !tree.Merge([]byte(p), rules) {
				t.Errorf("%s: got too much", tt.name)
			}
		}
		if got := string(tree.JSON()); got != tt.want {
			t.Errorf("%s: got %s, want %s", tt.name, got, tt.want)
		}
	}
}

// A server can't make a tree grow without end.
func TestTreeBounds(t *testing.T) {
	var list Tree
	for i := range int64(maxKids) {
		if list.Element(maxKids-i) == nil {
			t.Fatal("got no element")
		}
	}
	if list.Element(-1) != nil || list.Element(maxKids) == nil || string(list.Elements()[0].JSON()) != "" {
		t.Error("got another element than those that are there")
	}
}
