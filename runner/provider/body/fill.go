package body

import (
	"encoding/json"
	"strconv"

	"llmbatch/runner/provider"
)

// Slots are the members of an endpoint's body that the command's flags may fill.
type Slots struct {
	// Limit is the member that bounds the output; "" where there is none.
	Limit string
	// System is the member for the system prompt; Turns is the list of messages, of
	// which one may be the system's. Where System is "", the system prompt becomes the
	// first message. Both are "" where the endpoint has neither.
	System, Turns string
	// Sampled says that the endpoint generates text: it has a temperature and may stream.
	Sampled bool
}

// Fill adds to the call's body what it lacks and the defaults have, and notes in the
// call which of them it took. What the body has is never changed, null too; of the
// names for the output's limit, one is enough.
func Fill(c *provider.Call, d provider.Defaults, s Slots) {
	var missing []Field
	lacks := func(name string) bool {
		for _, f := range missing {
			if f.Name == name || IsLimit(f.Name) && IsLimit(name) {
				return false
			}
		}
		return IsLimit(name) && !limited(c.Body) || !IsLimit(name) && Member(c.Body, name) == nil
	}
	add := func(name string, value []byte, by provider.Filled) {
		if name != "" && value != nil && lacks(name) {
			missing = append(missing, Field{Name: name, Value: value})
			c.Filled |= by
		}
	}
	add("model", First(d.Model), provider.FilledModel)
	if d.MaxTokens > 0 {
		add(s.Limit, strconv.AppendInt(nil, int64(d.MaxTokens), 10), provider.FilledMaxTokens)
	}
	if d.System != "" && (s.System != "" || s.Turns != "") && !hasSystem(c.Body, s) {
		if s.System != "" {
			add(s.System, Quote(d.System), provider.FilledSystem)
		} else if body := prepend(c.Body, s.Turns, Turn("system", Quote(d.System))); body != nil {
			c.Body = body
			c.Filled |= provider.FilledSystem
		}
	}
	if s.Sampled {
		add("temperature", FirstRaw(d.Temperature), provider.FilledTemperature)
	}
	for w := Members(d.Params); w.Next(); {
		if name := string(w.Name); s.Sampled || !sampling(name) {
			add(name, w.Value, provider.FilledParams)
		}
	}
	c.Body = insert(c.Body, missing)
}

// sampling names what only endpoints that generate text take.
func sampling(name string) bool {
	switch name {
	case "temperature", "top_p", "top_k", "stop", "seed", "stream", "stream_options", "reasoning", "reasoning_effort",
		"response_format", "tools", "tool_choice", "system", "messages":
		return true
	}
	return IsLimit(name)
}

// IsLimit says that a member bounds the output; two of them in one body are refused.
func IsLimit(name string) bool {
	switch name {
	case "max_tokens", "max_completion_tokens", "max_output_tokens":
		return true
	}
	return false
}

func limited(obj []byte) bool {
	for w := Members(obj); w.Next(); {
		if IsLimit(string(w.Name)) {
			return true
		}
	}
	return false
}

// hasSystem says that the body has a system prompt of its own, also as a message.
func hasSystem(obj []byte, s Slots) bool {
	if s.System != "" && Member(obj, s.System) != nil {
		return true
	}
	for w := Elements(Member(obj, s.Turns)); w.Next(); {
		switch Word(Member(w.Value, "role"), "user", "assistant") {
		case "system", "developer":
			return true
		}
	}
	return false
}

// Turn is a message of the role.
func Turn(role string, content []byte) []byte {
	return Build(nil, Field{Name: "role", Value: Quote(role)}, Field{Name: "content", Value: content})
}

// prepend returns the object with an element put first into its list of that name, nil
// where there is none. All other bytes stay.
func prepend(obj json.RawMessage, list string, element []byte) json.RawMessage {
	var v []byte
	at := 0
	for w := Members(obj); w.Next(); {
		if string(w.Name) == list {
			v, at = w.Value, w.At+1
		}
	}
	if len(v) == 0 || v[0] != '[' {
		return nil
	}
	out := make([]byte, 0, len(obj)+len(element)+1)
	out = append(append(out, obj[:at]...), element...)
	if w := Elements(v); w.Next() {
		out = append(out, ',')
	}
	return append(out, obj[at:]...)
}

// insert returns the object with the fields put in front of its members.
func insert(obj json.RawMessage, fields []Field) json.RawMessage {
	for i := len(fields) - 1; i >= 0; i-- {
		obj = Insert(obj, fields[i].Name, fields[i].Value)
	}
	return obj
}
