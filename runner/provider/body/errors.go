package body

import (
	"llmbatch/input"
	"llmbatch/runner/provider"
)

// missingModel says that neither the line nor the command names a model.
func missingModel(it *input.Item) error {
	return LineError(it, "no model", `add "model" to the line, or --model NAME to the command`)
}

// LineError is an error about an item's body. File and Line are left to the
// caller, who knows them.
func LineError(it *input.Item, msg, hint string) error {
	e := &input.LineError{Msg: msg, Hint: hint}
	if it.BodyOffset > 0 {
		e.Col = it.BodyOffset + 1
	}
	return e
}

// NeedModel notes the model that the body names. A body without one is the user's
// error, but for the mock, where it gets one.
func NeedModel(c *provider.Call, it *input.Item, d provider.Defaults) error {
	own := Member(c.Body, "model")
	if own == nil && d.Mock {
		own = []byte(`"mock"`)
		c.Body = Insert(c.Body, "model", own)
	}
	if own == nil {
		return missingModel(it)
	}
	if c.Model = Text(own); c.Model == "" {
		return LineError(it, "model is not a name", "write the model's name, or leave model out and use --model NAME")
	}
	return nil
}
