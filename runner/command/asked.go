package command

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"llmbatch/input"
)

// questions finds what was asked for an item, in the file of prompts.
type questions struct {
	in    *input.File
	items map[string]*input.Item
}

// mostQuestions bounds how many lines are found again for one page.
const mostQuestions = 300_000

// promptsOf is the file that results are named after, "" if there is none.
func promptsOf(results string) string {
	dir, name := filepath.Split(results)
	ends := regexp.MustCompile(`(\.\d+-of-\d+)?\.(results|mock)\.jsonl$`)
	stem := ends.ReplaceAllString(name, "")
	if stem == name {
		return ""
	}
	for _, ending := range []string{".jsonl", "", ".ndjson", ".json", ".jsonl.gz", ".jsonl.zst"} {
		if s, err := os.Stat(dir + stem + ending); err == nil && s.Mode().IsRegular() {
			return dir + stem + ending
		}
	}
	return ""
}

// openQuestions opens the prompts named, or else those that the results are named
// after. nil without an error means that there are none.
func openQuestions(named, results string) (*questions, error) {
	path := named
	if path == "" {
		if path = promptsOf(results); path == "" {
			return nil, nil
		}
	}
	in, err := input.Open(path, input.Options{LetThrough: true})
	if err != nil {
		if named == "" {
			return nil, nil
		}
		return nil, usagef("--input: %w", err)
	}
	return &questions{in: in, items: map[string]*input.Item{}}, nil
}

// find reads the file for the items that are wanted; nil: all of them.
func (q *questions) find(want func(key string) bool) error {
	if q == nil {
		return nil
	}
	for it, err := range q.in.Items() {
		if err != nil {
			return err
		}
		if it.Bad != nil || want != nil && !want(it.Key) {
			continue
		}
		if want == nil && q.in.CanReload() {
			it.Forget()
		}
		q.items[it.Key] = it
		if len(q.items) >= mostQuestions {
			break
		}
	}
	return nil
}

// of is what was asked for the item with that key; "" if it is not known.
func (q *questions) of(key string) string {
	if q == nil {
		return ""
	}
	it, ok := q.items[key]
	if !ok {
		return ""
	}
	if it.Prompt == "" && it.Body == nil && q.in.CanReload() {
		if q.in.Reload(it) != nil {
			return ""
		}
		defer it.Forget()
	}
	return askedText(it)
}

func (q *questions) close() {
	if q != nil {
		q.in.Close()
	}
}

// askedText is an item's request as people read it: who says what.
func askedText(it *input.Item) string {
	if it.Format == input.Prompt {
		if it.System != "" {
			return "system: " + it.System + "\n\n" + it.Prompt
		}
		return it.Prompt
	}
	var body struct {
		System, Instructions, Input json.RawMessage
		Messages                    []message
	}
	if json.Unmarshal(it.Body, &body) == nil {
		said := []string{}
		say := func(role string, content json.RawMessage) {
			if text := contentText(content); text != "" {
				said = append(said, role+": "+text)
			}
		}
		say("system", body.System)
		say("system", body.Instructions)
		for _, m := range body.Messages {
			say(m.Role, m.Content)
		}
		var turns []message
		if json.Unmarshal(body.Input, &turns) == nil {
			for _, m := range turns {
				say(m.Role, m.Content)
			}
		} else {
			say("user", body.Input)
		}
		if len(said) > 0 {
			return strings.Join(said, "\n\n")
		}
	}
	var b bytes.Buffer
	if json.Indent(&b, it.Body, "", "  ") != nil {
		return string(it.Body)
	}
	return b.String()
}

// message is a turn of a conversation, as all APIs have it.
type message struct {
	Role    string
	Content json.RawMessage
}

// contentText is a text, or the texts of a list of parts; other parts are named.
func contentText(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct{ Type, Text string }
	if json.Unmarshal(content, &parts) != nil {
		return ""
	}
	var said []string
	for _, p := range parts {
		if p.Text == "" {
			p.Text = fmt.Sprintf("[%s]", p.Type)
		}
		said = append(said, p.Text)
	}
	return strings.Join(slices.DeleteFunc(said, func(s string) bool { return s == "[]" }), "\n")
}
