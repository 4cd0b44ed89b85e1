package body

import (
	"encoding/json"

	"llmbatch/runner/provider"
)

// Reask adds an answer and a complaint about it to the list of turns that has the
// given name. A text in the list's place is the user's turn.
func Reask(c *provider.Call, turns, answer, complaint string) (json.RawMessage, bool) {
	list := Member(c.Body, turns)
	switch {
	case len(list) == 0:
		return nil, false
	case list[0] == '"':
		list = List(Turn("user", list))
	case list[0] != '[':
		return nil, false
	}
	list = Append(list, Turn("assistant", Quote(answer)))
	return Set(c.Body, turns, Append(list, Turn("user", Quote(complaint)))), true
}
