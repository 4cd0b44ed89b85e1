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
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
)

// env is what the program sees of the world, a seam for tests.
type env struct {
	stdin          io.Reader
	stdout, stderr io.Writer
	getenv         func(string) string
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
	return run(args, &env{
		stdin: stdin, stdout: stdout, stderr: stderr,
		getenv: os.Getenv, signals: catchSignals,
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
	args, err := arrange(app, askedFor(args))
	if err == nil {
		err = app.RunContext(context.Background(), args)
	}
	return tell(e.stderr, err)
}

// newApp describes the command line. It is built anew for each call, because the
// library keeps what it parsed in it.
func newApp(e *env) *cli.App {
	app := &cli.App{
		Name:                      "llmbatch",
		Usage:                     "run a file of prompts against an LLM API, to the end",
		UsageText:                 "llmbatch COMMAND [flags] FILE",
		Version:                   version(),
		Writer:                    e.stdout,
		ErrWriter:                 e.stderr,
		Reader:                    e.stdin,
		Commands:                  commands(e),
		Flags:                     []cli.Flag{helpFlag(), &cli.BoolFlag{Name: "version", Usage: "print the version"}},
		HideHelp:                  true, // the library's own flags are variables that
		HideVersion:               true, // it writes to: calls could not run side by side
		HideHelpCommand:           true,
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {},
		OnUsageError:              func(c *cli.Context, err error, _ bool) error { return flagError(c, err) },
	}
	for _, c := range app.Commands {
		c.Flags = append(c.Flags, helpFlag())
		c.HideHelp, c.HideHelpCommand = true, true
		c.OnUsageError = app.OnUsageError
		for _, leaf := range append([]*cli.Command{c}, c.Subcommands...) {
			if len(leaf.Subcommands) == 0 && !takesSettings(leaf) {
				withVariables(e, leaf)
			}
		}
	}
	if asksHelp(e.args) {
		for _, c := range app.Commands {
			c.CustomHelpTemplate = helpTemplate(c)
		}
		app.CustomAppHelpTemplate = appHelpTemplate(app)
	}
	setUp(app)
	app.Action = func(c *cli.Context) error {
		if c.Bool("version") {
			return writeOut(e.stdout, []byte("llmbatch version "+app.Version+"\n"))
		}
		return cli.ShowAppHelp(c)
	}
	return app
}

func helpFlag() cli.Flag {
	return &cli.BoolFlag{Name: "help", Aliases: []string{"h"}, Usage: "show help", DisableDefaultText: true}
}

// commands are those of the program, in the order of --help. Where the first
// argument names one, the others are not built: that is most of what the command
// line costs a start.
func commands(e *env) []*cli.Command {
	all := []struct {
		name  string
		build func(*env) *cli.Command
	}{
		{"run", runCommand}, {"plan", planCommand}, {"report", reportCommand}, {"show", showCommand}, {"export", exportCommand}, {"merge", mergeCommand},
		{"mock", mockCommand}, {"fleet", fleetCommand}, {"schema", schemaCommand}, {"completion", completionCommand}, {"man", manCommand},
	}
	named := ""
	if n := len(e.args); n > 0 && e.args[0] != "man" && e.args[n-1] != completionFlag {
		named = e.args[0]
	}
	var built []*cli.Command
	for _, c := range all {
		if c.name == named {
			return []*cli.Command{c.build(e)}
		}
	}
	for _, c := range all {
		built = append(built, c.build(e))
	}
	return built
}

// setUp has the library prepare app without the two things that it does for each
// of the flags, and that are of no use here: the categories of its own help, and,
// between parsing and the action, the search for flags with an action, which asks
// each whether it is set by way of all others.
func setUp(app *cli.App) {
	flags := make([][]cli.Flag, len(app.Commands))
	for i, c := range app.Commands {
		flags[i], c.Flags = c.Flags, nil
	}
	app.Setup()
	for i, c := range app.Commands {
		c.Flags = flags[i]
		withoutFlagActions(c)
		for _, sub := range c.Subcommands {
			withoutFlagActions(sub)
		}
	}
}

func withoutFlagActions(c *cli.Command) {
	flags, action := c.Flags, c.Action
	c.Before = func(*cli.Context) error {
		c.Flags = nil
		return nil
	}
	c.Action = func(ctx *cli.Context) error {
		c.Flags = flags
		return action(ctx)
	}
}

// asksHelp says whether the help texts may be wanted: making them costs as much
// as all else of the command line.
func asksHelp(args []string) bool {
	return len(args) == 0 || args[0] == "help" || slices.ContainsFunc(args, func(a string) bool {
		name, _, _ := strings.Cut(strings.TrimLeft(a, "-"), "=")
		return strings.HasPrefix(a, "-") && (name == "h" || name == "help")
	})
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
