package command

import "github.com/urfave/cli/v2"

const runDescription = `PROMPTS holds one JSON object a line: {"id": …, "prompt": …}, {"id": …, "messages": […]},
or a line of an OpenAI or Anthropic batch file. With --template any object, or CSV rows.
.gz and .zst are read as such; - is standard input. Items that have their answer in the
results file are skipped: the same command again does only the rest.`

func runCommand(e *env) *cli.Command {
	o := &options{}
	return &cli.Command{
		Name: "run", Usage: "run every prompt; continue if the output already has rows", ArgsUsage: "PROMPTS",
		Description: runDescription,
		Flags:       runFlags(o),
		Action: withSettings(e, o, func(c *cli.Context) error {
			_, err := oneArg(c, "PROMPTS")
			return err
		}),
	}
}

// withSettings settles the options before a command that has the flags of run,
// and answers --help-all and --print-config.
func withSettings(e *env, o *options, action cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.Bool("help-all") {
			_, err := e.stdout.Write([]byte(helpText(c.Command, true)))
			return err
		}
		if err := settle(c, e, o); err != nil {
			return err
		}
		if o.printConfig {
			return printConfig(e.stdout, c, o)
		}
		return action(c)
	}
}
