package command

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/urfave/cli/v2"

	"llmbatch/output"
)

const planDescription = `Reads and checks PROMPTS as run would, with the same flags, and prints what a
run would do: items, models, sizes, tokens, cost, time, what is done already and
where results go. Nothing is sent or written, and no key is needed.`

func planCommand(e *env) *cli.Command {
	o := &options{}
	flags := append(runFlags(o), &cli.BoolFlag{Name: "json", Category: groupSeen, Usage: "print the plan as JSON"})
	return &cli.Command{
		Name: "plan", Usage: "check the file, say what a run would do and cost; sends nothing", ArgsUsage: "PROMPTS",
		Description: planDescription,
		Flags:       flags,
		Action: withSettings(e, o, func(c *cli.Context) error {
			prompts, err := oneArg(c, "PROMPTS")
			if err != nil {
				return err
			}
			return planPrompts(e, o, prompts, c.Bool("json"))
		}),
	}
}

func planPrompts(e *env, o *options, prompts string, asJSON bool) error {
	s, err := newSession(e, o, prompts)
	if err != nil {
		return err
	}
	s.dry = true
	defer s.release()
	if s.in.Pipe() {
		return usagef("plan needs a file: %s can be read only once", s.in.Name())
	}
	ctx, stop, end := listen(e)
	defer end()
	p, err := s.plan(ctx)
	s.leaveOutput()
	if err != nil {
		return s.abandon(ctx, stop, err)
	}
	if asJSON {
		data, err := json.MarshalIndent(p, "", "  ")
		if err != nil {
			return err
		}
		return writeOut(e.stdout, append(data, '\n'))
	}
	var b bytes.Buffer
	p.write(&b)
	if end, err := runEnd(o, e.start, e.now()); err != nil {
		return err
	} else if !end.IsZero() {
		fmt.Fprintf(&b, "run's end     %s\n", end.Format("2006-01-02 15:04:05 -0700"))
	}
	return writeOut(e.stdout, b.Bytes())
}

// openForPlan reads the index of results that exist, and changes nothing.
func (s *session) openForPlan() error {
	if !s.continues() {
		return nil
	}
	var err error
	if s.file, err = output.Open(s.out, output.Options{ReadOnly: true}); err != nil {
		return outputError(err)
	}
	return nil
}
