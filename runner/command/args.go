package command

import (
	"errors"
	"flag"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"

	"llmbatch/input"
)

// askedFor reads "help COMMAND" as "COMMAND --help", and "version" as --version.
func askedFor(args []string) []string {
	switch {
	case len(args) < 2:
	case args[1] == "help":
		return slices.Concat(args[:1], args[2:], []string{"--help"})
	case args[1] == "version" && len(args) == 2:
		return []string{args[0], "--version"}
	}
	return args
}

// commandLine is what was typed, in the order that the library wants: flags first.
type commandLine struct {
	name    string       // of the command, such as "fleet run"
	command *cli.Command // nil: none was named
	args    []string     // with the program's name
	help    bool         // --help stands somewhere
}

// arrange puts flags before the other arguments, as the library wants them,
// and refuses flags that the command does not have. "--" ends flags; a lone "-"
// is an argument. An argument that begins with a dash is never a file name.
func arrange(app *cli.App, args []string) (commandLine, error) {
	if len(args) < 2 {
		return commandLine{args: args}, nil
	}
	switch first := args[1]; {
	case first == "--help" || first == "-h":
		return commandLine{args: args[:1]}, nil
	case first == "--version":
		return commandLine{args: args[:2]}, nil
	case strings.HasPrefix(first, "-"):
		return commandLine{}, flagBeforeCommand(app, first)
	}
	cmd, n := find(app.Commands, args[1:])
	if cmd == nil {
		return commandLine{}, unknownCommand(app.Commands, args[1])
	}
	head, rest := args[:1+n], args[1+n:]
	line := commandLine{name: strings.Join(head[1:], " "), command: cmd}
	var flags, others []string
	for i := 0; i < len(rest); i++ {
		arg := rest[i]
		if arg == "--" {
			others = append(others, rest[i+1:]...)
			break
		}
		if len(arg) < 2 || arg[0] != '-' {
			others = append(others, arg)
			continue
		}
		name, value, inline := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		f := lookup(cmd, name)
		if f == nil {
			return line, unknownFlag(cmd, line.name, arg)
		}
		line.help = line.help || f.Names()[0] == "help" && !inline
		switch {
		case inline && !takesValue(f):
			flags = append(flags, "--"+name+"="+yesNo(value))
		case inline || !takesValue(f):
			flags = append(flags, arg)
		default:
			if i++; i == len(rest) {
				return line, usagef("flag %s needs a value", arg)
			}
			flags = append(flags, arg, rest[i])
		}
	}
	if len(cmd.Subcommands) > 0 && len(others) > 0 {
		return line, unknownCommand(cmd.Subcommands, others[0])
	}
	line.args = slices.Concat(head, flags, []string{"--"}, others)
	return line, nil
}

// find follows the names at the front of args to a command; n of them were used.
func find(commands []*cli.Command, args []string) (cmd *cli.Command, n int) {
	for n < len(args) {
		i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(args[n]) })
		if i < 0 {
			break
		}
		cmd, commands = commands[i], commands[i].Subcommands
		n++
	}
	return cmd, n
}

func lookup(cmd *cli.Command, name string) cli.Flag {
	for _, f := range cmd.Flags {
		if slices.Contains(f.Names(), name) {
			return f
		}
	}
	return nil
}

func takesValue(f cli.Flag) bool {
	d, ok := f.(cli.DocGenerationFlag)
	return ok && d.TakesValue()
}

func flagBeforeCommand(app *cli.App, arg string) error {
	f := usagef("unknown flag %s before the command", arg)
	if run, _ := find(app.Commands, []string{"run"}); lookup(run, strings.TrimLeft(arg, "-")) != nil {
		return f.hint("flags stand after the command: llmbatch run %s … PROMPTS", arg)
	}
	return f.hint("llmbatch --help lists the commands")
}

func unknownCommand(commands []*cli.Command, name string) error {
	var names []string
	for _, c := range commands {
		names = append(names, c.Names()...)
	}
	f := usagef("unknown command %q", name)
	if near := nearest(name, names); near != "" {
		return f.hint("did you mean %s?", near)
	}
	if strings.Contains(name, ".") {
		return f.hint("to run a file: llmbatch run %s", name)
	}
	return f.hint("the commands are %s", strings.Join(names, ", "))
}

// otherNames are what other programs call our flags.
func otherNames(name string) string {
	return map[string]string{
		"output": "--out", "output-file": "--out", "workers": "--concurrency", "parallel": "--concurrency", "threads": "--concurrency", "max-concurrency": "--concurrency",
		"retries": "--max-errors, or --max-attempts, which counts refusals too", "max-retries": "--max-errors, or --max-attempts, which counts refusals too",
		"dry-run": "llmbatch plan, which sends nothing", "top-p": "--params '{\"top_p\": 0.9}'", "top-k": "--params '{\"top_k\": 40}'",
		"key": "--api-key-file, or ANTHROPIC_API_KEY or OPENAI_API_KEY in the environment", "api-key": "--api-key-file, or ANTHROPIC_API_KEY or OPENAI_API_KEY in the environment",
		"prompt": "--template, which makes a prompt of each line; prompts themselves stand in the file", "url": "--base-url", "timeout": "--attempt-timeout",
		"force": "--fresh", "overwrite": "--fresh", "debug": "-vv", "silent": "--quiet", "system-prompt": "--system",
	}[name]
}

func unknownFlag(cmd *cli.Command, command, arg string) error {
	name, _, _ := strings.Cut(arg, "=")
	f := usagef("unknown flag %s", name)
	bare := strings.TrimLeft(name, "-")
	if other := otherNames(strings.ReplaceAll(bare, "_", "-")); other != "" && takesSettings(cmd) {
		return f.hint("did you mean %s?", other)
	}
	if near := nearest(bare, flagNames(cmd.Flags)); near != "" {
		f.hint("did you mean --%s?", near)
	} else {
		f.hint("llmbatch %s --help lists the flags", command)
	}
	return f.hint("a file whose name begins with a dash goes after --, or as ./%s", arg)
}

func flagNames(flags []cli.Flag) []string {
	var names []string
	for _, f := range flags {
		names = append(names, f.Names()[0])
	}
	return names
}

// flagError puts the library's message about a flag's value into our words.
func flagError(c *cli.Context, err error) error {
	if _, ok := errors.AsType[*failure](err); ok || errors.Is(err, flag.ErrHelp) {
		return err
	}
	inMessage := regexp.MustCompile(`^invalid (?:boolean )?value (".*") for (?:flag )?-?([a-z][a-z-]*):`)
	m := inMessage.FindStringSubmatch(err.Error())
	if m == nil {
		if names, ok := strings.CutPrefix(err.Error(), "Cannot use two forms of the same flag: "); ok {
			long, short, _ := strings.Cut(names, " ")
			if len(long) < len(short) {
				long, short = short, long
			}
			return usagef("--%s is given twice, once as -%s", long, short)
		}
		return usagef("%w", err)
	}
	value, unquoted := strconv.Unquote(m[1])
	if unquoted != nil {
		value = m[1]
	}
	f := lookup(c.Command, m[2])
	if f == nil {
		return usagef("%w", err)
	}
	return badValue("--"+f.Names()[0], value, f)
}

// nearest returns the candidate that word was most likely meant to be, "" if
// none is close.
func nearest(word string, candidates []string) string {
	word = strings.ReplaceAll(strings.ToLower(word), "_", "-")
	best, least := "", 1+max(1, len(word)/3)
	for _, c := range candidates {
		d := input.Distance(word, c)
		if d > 0 && len(word) > 3 && (strings.HasPrefix(c, word) || strings.HasSuffix(c, word)) {
			d = 1
		}
		if d < least {
			best, least = c, d
		}
	}
	return best
}
