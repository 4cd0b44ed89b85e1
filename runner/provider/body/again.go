package body

import "strings"

// Styles of asking for the rest of an answer.
const (
	UserTurn = "user"    // a user's turn that quotes what arrived
	Prefill  = "prefill" // an assistant's turn for the model to go on with
)

// Rest returns the turn that asks for the rest of an answer of which text
// arrived: nil for a style that is not known, or without text.
func Rest(text, style string) []byte {
	if text = Arrived(text); text == "" {
		return nil
	}
	switch style {
	case UserTurn:
		return Turn("user", Quote("An answer to this was cut off on the way. This much of it arrived:\n\n<arrived>\n"+text+
			"\n</arrived>\n\nContinue it from the exact place where it stops. Write only what comes next: "+
			"repeat nothing of it, and add no remark of your own. Begin with a space or a line break if one belongs there."))
	case Prefill:
		return Turn("assistant", Quote(text))
	}
	return nil
}

// Continuable says that a turn may follow the turns: they are a list, and the
// last of them is not an assistant's, whose beginning would be lost.
func Continuable(turns []byte) bool {
	if len(turns) == 0 || turns[0] != '[' {
		return false
	}
	var last []byte
	for w := Elements(turns); w.Next(); {
		last = w.Value
	}
	return last != nil && Text(Member(last, "role")) != "assistant"
}

// Arrived is the text of a partial answer as it is shown to the model: without
// white space at its end, which APIs refuse at the end of a prefill.
func Arrived(text string) string { return strings.TrimRight(text, " \t\r\n") }
