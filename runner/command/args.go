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

// arrange puts flags before the other arguments, as the library wants them,
// and refuses flags that the command does not have. "--" ends flags; a lone "-"
// is an argument. An argument that begins with a dash is never a file name.
func arrange(app *cli.App, args []string) ([]string, error) {
	if len(args) < 2 {
		return args, nil
	}
	if strings.HasPrefix(args[1], "-") {
		return args, rootFlag(app, args[1])
	}
	cmd, n := find(app.Commands, args[1:])
	if cmd == nil {
		return nil, unknownCommand(app.Commands, args[1])
	}
	head, rest := args[:1+n], args[1+n:]
	known := byName(cmd.Flags)
	var flags, others []string
	help := false
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
		name, _, inline := strings.Cut(strings.TrimPrefix(arg[1:], "-"), "=")
		f := known[name]
		if f == nil {
			return nil, unknownFlag(cmd, strings.Join(head[1:], " "), arg)
		}
		help = help || (name == "help" || name == "h") && !inline
		flags = append(flags, arg)
		if inline || !takesValue(f) {
			continue
		}
		i++
		if i == len(rest) {
			return nil, usagef("flag %s needs a value", arg)
		}
		flags = append(flags, rest[i])
	}
	if len(cmd.Subcommands) > 0 && len(others) > 0 {
		return nil, unknownCommand(cmd.Subcommands, others[0])
	}
	if help { // the library would take an argument for the name of a topic
		others = nil
	}
	return slices.Concat(head, flags, []string{"--"}, others), nil
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

// byName are the flags under each of their names.
func byName(flags []cli.Flag) map[string]cli.Flag {
	m := make(map[string]cli.Flag, 2*len(flags))
	for _, f := range flags {
		for _, name := range f.Names() {
			m[name] = f
		}
	}
	return m
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

func rootFlag(app *cli.App, arg string) error {
	known := []string{"--help", "-h", "--version"}
	if slices.Contains(known, arg) {
		return nil
	}
	f := usagef("unknown flag %s before the command", arg)
	if run, _ := find(app.Commands, []string{"run"}); run != nil && lookup(run, strings.TrimLeft(arg, "-")) != nil {
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

func unknownFlag(cmd *cli.Command, command, arg string) error {
	name, _, _ := strings.Cut(arg, "=")
	f := usagef("unknown flag %s", name)
	if near := nearest(strings.TrimLeft(name, "-"), flagNames(cmd.Flags)); near != "" {
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
