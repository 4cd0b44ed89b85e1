package command

import (
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"llmbatch/runner/provider/mockapi"
)

// completionFlag as the last argument asks for what may come next.
const completionFlag = "--generate-bash-completion"

const bashCompletion = `# llmbatch completion for bash: source <(llmbatch completion bash)
_llmbatch() {
  local cur=${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=($(compgen -W "$(llmbatch "${COMP_WORDS[@]:1:COMP_CWORD}" ` + completionFlag + ` 2>/dev/null)" -- "$cur"))
}
complete -o bashdefault -o default -F _llmbatch llmbatch
`

const zshCompletion = `#compdef llmbatch
# llmbatch completion for zsh: source <(llmbatch completion zsh)
_llmbatch() {
  local -a words_known
  words_known=("${(@f)$(llmbatch "${(@)words[2,CURRENT]}" ` + completionFlag + ` 2>/dev/null)}")
  if [[ -n "${words_known[1]}" ]]; then compadd -- "${words_known[@]}"; fi
  [[ "${words[CURRENT]}" == -* ]] || _files
}
compdef _llmbatch llmbatch
`

// The library's own script for fish offers no files and no values.
const fishCompletion = `# llmbatch completion for fish: llmbatch completion fish | source
function __llmbatch_words
  set -l typed (commandline -opc)
  set -l word (commandline -ct)
  llmbatch $typed[2..-1] "$word" ` + completionFlag + ` 2>/dev/null
end
complete -c llmbatch -k -a '(__llmbatch_words)'
`

func completionCommand(e *env) *cli.Command {
	return &cli.Command{
		Name: "completion", Usage: "print the shell completion for bash, zsh or fish", ArgsUsage: "SHELL",
		Description: "  bash: source <(llmbatch completion bash)\n  zsh:  source <(llmbatch completion zsh)\n  fish: llmbatch completion fish | source",
		Action: func(c *cli.Context) error {
			shell, err := oneArg(c, "SHELL")
			if err != nil {
				return err
			}
			script := ""
			switch shell {
			case "bash":
				script = bashCompletion
			case "zsh":
				script = zshCompletion
			case "fish":
				script = fishCompletion
			default:
				return usagef("no completion for %q", shell).hint("the shells are bash, zsh and fish")
			}
			_, err = io.WriteString(e.stdout, script)
			return err
		},
	}
}

func manCommand(e *env) *cli.Command {
	return &cli.Command{
		Name: "man", Usage: "print the manual page", Description: "  llmbatch man | man -l -",
		Action: func(*cli.Context) error {
			page, err := manPage(newApp(e))
			if err != nil {
				return err
			}
			return writeOut(e.stdout, []byte(page))
		},
	}
}

// complete lists what may stand where the last of args is being typed, one a
// line; nothing where that is a file.
func complete(app *cli.App, args []string, w io.Writer) {
	if len(args) == 0 {
		args = []string{""}
	}
	before, word := args[:len(args)-1], args[len(args)-1]
	cmd, n := find(app.Commands, before)
	commands := app.Commands
	if cmd != nil {
		commands = cmd.Subcommands
	}
	if len(before) == 1 && before[0] == "help" {
		n = 1
	}
	if n == len(before) && !strings.HasPrefix(word, "-") {
		for _, c := range commands {
			fmt.Fprintln(w, c.Name)
		}
	}
	if cmd == nil {
		return
	}
	if len(before) > n {
		if f := lookup(cmd, strings.TrimLeft(before[len(before)-1], "-")); f != nil && takesValue(f) {
			completeValue(f.Names()[0], w)
			return
		}
	}
	if strings.HasPrefix(word, "-") {
		for _, name := range flagNames(cmd.Flags) {
			fmt.Fprintln(w, "--"+name)
		}
	}
	if cmd.Name == "completion" {
		fmt.Fprintln(w, "bash\nzsh\nfish")
	}
}

// completeValue lists the values of a flag that takes one of few.
func completeValue(flag string, w io.Writer) {
	switch flag {
	case "format":
		fmt.Fprintln(w, strings.Join(exportFormats(), "\n"))
	case "scenario", "mock-scenario":
		for _, s := range mockapi.Scenarios() {
			fmt.Fprintln(w, s.Name)
		}
	}
	for _, c := range choices(&options{}) {
		if c.flag == flag {
			fmt.Fprintln(w, strings.Join(c.of, "\n"))
		}
	}
}
