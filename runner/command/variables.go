package command

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// withVariables lets LLMBATCH_… variables set the flags of a command that has no
// settings file, where the command line does not.
func withVariables(e *env, c *cli.Command) {
	action := c.Action
	c.Action = func(ctx *cli.Context) error {
		typed := ctx.LocalFlagNames()
		for _, name := range flagNames(c.Flags) {
			if name == "help" || slices.Contains(typed, name) {
				continue
			}
			if _, err := setFrom(e, ctx, variableOf(c.Name, name), name); err != nil {
				return err
			}
		}
		return action(ctx)
	}
}

// variableOf is the variable of a command's flag: LLMBATCH_HTML for report --html.
// One command's file is not the other's: LLMBATCH_OUT names a run's results, and
// LLMBATCH_EXPORT_OUT what they are exported to.
func variableOf(command, flag string) string {
	if flag == "out" {
		flag = command + "-" + flag
	}
	return envName(flag)
}

// setFrom sets a flag from a variable and reports whether it did; an empty one
// counts as unset. Repeatable flags take one value a line.
func setFrom(e *env, c *cli.Context, variable, name string) (bool, error) {
	value := e.getenv(variable)
	if value == "" {
		return false, nil
	}
	values := []string{value}
	if repeatable(lookup(c.Command, name)) {
		values = strings.Split(strings.TrimRight(value, "\n"), "\n")
	}
	for _, v := range values {
		if err := c.Set(name, v); err != nil {
			return false, badValue(variable, v, lookup(c.Command, name))
		}
	}
	return true, nil
}
