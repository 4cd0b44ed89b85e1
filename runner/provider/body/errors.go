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

// NeedModel notes the call's model, where own is the value of the body's model
// member, and adds one to a body that has none.
func NeedModel(c *provider.Call, it *input.Item, d provider.Defaults, own []byte) error {
	if own != nil {
		if c.Model = Text(own); c.Model == "" {
			return LineError(it, "model is not a name", "write the model's name, or leave model out and use --model NAME")
		}
		return nil
	}
	c.Model = d.Model
	if c.Model == "" && d.Mock {
		c.Model = "mock"
	}
	if c.Model == "" {
		return missingModel(it)
	}
	c.Body = Insert(c.Body, "model", Quote(c.Model))
	return nil
}
