package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"
)

const runDescription = `PROMPTS holds one JSON object a line: {"id": …, "prompt": …},
{"id": …, "messages": […]}, or a line of an OpenAI or Anthropic batch file; with
--template any object, or CSV rows. .gz and .zst are read as such; - is standard
input. Items that have their answer in the results file are skipped: the same
command again does only the rest.`

func runCommand(e *env) *cli.Command {
	o := &options{}
	return &cli.Command{
		Name: "run", Usage: "run every prompt; continue if the output already has rows", ArgsUsage: "PROMPTS",
		Description: runDescription,
		Flags:       runFlags(o),
		Action: withSettings(e, o, func(c *cli.Context) error {
			prompts, err := oneArg(c, "PROMPTS")
			if err != nil {
				return err
			}
			return runPrompts(e, o, prompts)
		}),
	}
}

// withSettings settles the options before a command that has the flags of run,
// and answers --help-all and --print-config.
func withSettings(e *env, o *options, action cli.ActionFunc) cli.ActionFunc {
	return func(c *cli.Context) error {
		if c.Bool("help-all") {
			_, err := e.stdout.Write([]byte(helpText(commandName(c), c.Command, true)))
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

func runPrompts(e *env, o *options, prompts string) error {
	s, err := newSession(e, o, prompts)
	if err != nil {
		return err
	}
	defer s.release()
	if err := s.distinct(); err != nil {
		return err
	}
	ctx, stop, end := listen(e)
	defer end()
	if err := s.noOpenBatches(); err != nil {
		return err
	}
	if err := s.prepare(ctx); err != nil {
		return s.abandon(ctx, stop, err)
	}
	if !o.quiet {
		s.announce()
	}
	execute := s.execute
	if o.batch {
		execute = s.executeBatch
	}
	x, rep, err := execute(ctx, stop)
	if err != nil {
		return s.abandon(ctx, stop, err)
	}
	return x.finish(rep, stop)
}

// abandon ends a run before its first request.
func (s *session) abandon(ctx context.Context, stop *stopper, err error) error {
	s.leaveOutput()
	if errors.Is(context.Cause(ctx), errSignal) {
		return failf(stop.signalled(), "interrupted before anything was sent")
	}
	return err
}

// announce says what was found before the first request, where it is news.
func (s *session) announce() {
	say := func(format string, args ...any) { s.say(s.e.stderr, fmt.Sprintf(format, args...)) }
	if s.file != nil {
		if repaired := s.file.Repaired(); repaired != "" {
			say("%s", printable(repaired))
		}
	}
	if said, warnings := s.fillNotes(); said != "" || warnings != nil {
		if said != "" {
			say("filled from the flags: %s", said)
		}
		for _, w := range warnings {
			say("warning: %s", w)
		}
	}
	if of, n := s.orphans(); n > 0 && n == of {
		say("none of the %s in %s belongs to a line of %s: kept, and this run's are added", plural(n, "answer", "answers"), printable(s.out), printable(s.in.Name()))
	} else if n > 0 {
		say("%s to lines that are no longer in %s; kept", plural(n, "answer belongs", "answers belong"), printable(s.in.Name()))
	}
	if n := len(s.ids) - s.found.ids; s.ids != nil && n > 0 && !s.in.Pipe() {
		say("%s of %s %s not in %s", plural(n, "id", "ids"), printable(s.o.onlyIDs), map[bool]string{true: "is", false: "are"}[n == 1], printable(s.in.Name()))
	}
	if n := s.found.bad; n > 0 {
		say("%s of %s: a failed row each", plural(n, "invalid line", "invalid lines"), printable(s.in.Name()))
	}
}
