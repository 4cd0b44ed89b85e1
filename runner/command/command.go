// Package command is the command line of llmbatch: one file a subcommand, from
// flags to structs to calls.
//
// Data goes to standard output and nothing else does; everything for people
// goes to standard error, errors as "llmbatch: …" followed by "hint: …" lines
// that name the next step. Main is the whole program as a function of its
// arguments and streams: it never exits the process and keeps no state between
// calls, so it can be called from tests, also several times at once. The two
// things it shares with the process are its environment and its signals.
//
// Settings come from flags, then LLMBATCH_… variables, then the file that
// --config names, then defaults. Nothing is read from the current folder. Keys
// come from the providers' own variables or from --api-key-file, never from a
// flag.
package command

import (
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// env is what the program sees of the world, a seam for tests.
type env struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
	environ        func() []string // NAME=value each, as os.Environ; nil: none
	// signals begins to listen to signals; commands that don't call it die of
	// them as usual.
	signals func() signals
	now     func() time.Time
	// args are those after the program's name.
	args []string
	// start is when the program began: the run's budget counts from here.
	start time.Time
}

// Main runs the command that args name (args[0] is the program's name) and
// returns its exit code, one of the list in exit.go.
func Main(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	defer dumpOnQuit(stderr)()
	return run(args, &env{
		stdin: stdin, stdout: stdout, stderr: stderr,
		getenv: os.Getenv, environ: os.Environ, signals: catchSignals,
		now: time.Now, start: time.Now(),
	})
}

func run(args []string, e *env) (code int) {
	defer func() {
		if p := recover(); p != nil {
			fmt.Fprintf(e.stderr, "llmbatch: internal error: %v\n%s", p, debug.Stack())
			fmt.Fprintln(e.stderr, "hint: this is a fault of llmbatch, not of your input; rows that were written are kept, run again to continue")
			code = exitInternal
		}
	}()
	if len(args) > 0 {
		e.args = args[1:]
	}
	app := newApp(e)
	if len(args) > 1 && args[len(args)-1] == completionFlag {
		complete(app, args[1:len(args)-1], e.stdout)
		return exitOK
	}
	line, err := arrange(app, askedFor(args))
	switch {
	case err != nil:
	case line.help:
		err = writeOut(e.stdout, []byte(helpText(line.name, line.command, false)))
	default:
		err = app.RunContext(context.Background(), line.args)
	}
	return tell(e.stderr, err)
}

// newApp describes the command line. It is built anew for each call, because the
// library keeps what it parsed in it.
func newApp(e *env) *cli.App {
	app := &cli.App{
		Name:        "llmbatch",
		Usage:       "run a file of prompts against an LLM API, to the end",
		UsageText:   "llmbatch COMMAND [flags] FILE",
		Description: manText,
		Version:     version(),
		Writer:      e.stdout,
		ErrWriter:   e.stderr,
		Reader:      e.stdin,
		Commands: []*cli.Command{
			runCommand(e), planCommand(e), batchCommand(e), reportCommand(e), showCommand(e), exportCommand(e), providersCommand(e), mergeCommand(e),
			mockCommand(e), fleetCommand(e), schemaCommand(e), completionCommand(e), manCommand(e),
		},
		Flags:                     []cli.Flag{helpFlag(), &cli.BoolFlag{Name: "version", Usage: "print the version"}},
		HideHelp:                  true, // the library's own flags are variables that
		HideVersion:               true, // it writes to: calls could not run side by side
		HideHelpCommand:           true,
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {},
	}
	for c := range leaves(app.Commands) {
		c.Flags = append(c.Flags, helpFlag())
		c.HideHelp, c.HideHelpCommand = true, true
		c.OnUsageError = func(c *cli.Context, err error, _ bool) error { return flagError(c, err) }
		if !takesSettings(c) {
			c.Before = func(ctx *cli.Context) error {
				_, err := fromEnvironment(ctx, e)
				return err
			}
		}
	}
	app.Action = func(c *cli.Context) error {
		if c.Bool("version") {
			return writeOut(e.stdout, []byte("llmbatch version "+app.Version+"\n"))
		}
		return writeOut(e.stdout, []byte(appHelp(app)))
	}
	return app
}

// leaves are the commands and their subcommands.
func leaves(commands []*cli.Command) iter.Seq[*cli.Command] {
	return func(yield func(*cli.Command) bool) {
		for _, c := range commands {
			if !yield(c) {
				return
			}
			for _, sub := range c.Subcommands {
				if !yield(sub) {
					return
				}
			}
		}
	}
}

func helpFlag() cli.Flag {
	return &cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "show help", DisableDefaultText: true}
}

// version is what the build recorded, "(devel)" for a build from a checkout
// without version information.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "(devel)"
	}
	return info.Main.Version
}

// oneArg returns the single argument a command takes, or a usage error that
// says what is missing or too much.
func oneArg(c *cli.Context, what string) (string, error) {
	name := commandName(c)
	switch args := c.Args(); args.Len() {
	case 0:
		return "", usagef("%s: no %s given", name, what).hint("llmbatch %s [flags] %s", name, what)
	case 1:
		if args.First() == "" {
			return "", usagef("%s: the name of %s is empty", name, what)
		}
		return args.First(), nil
	default:
		return "", usagef("%s takes one %s, got %d: %q", name, what, args.Len(), args.Slice()).
			hint("quote a name that contains spaces")
	}
}

// noArgs refuses arguments.
func noArgs(c *cli.Context) error {
	if c.Args().Len() > 0 {
		return usagef("%s takes no argument, got %q", commandName(c), c.Args().First())
	}
	return nil
}

// commandName is what is typed after the program's name, such as "fleet limit".
func commandName(c *cli.Context) string {
	return strings.TrimPrefix(c.Command.HelpName, c.App.Name+" ")
}
