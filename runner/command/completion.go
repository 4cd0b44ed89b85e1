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

// fitsFiles is the line that complete writes where the name of a file may stand.
const fitsFiles = ":files"

// With several candidates bash shows what COMPREPLY holds, so the descriptions stand
// there; a single one is typed, so it stands alone.
const bashCompletion = `# llmbatch completion for bash: source <(llmbatch completion bash)
_llmbatch() {
  local cur=${COMP_WORDS[COMP_CWORD]} name text i
  local -a names=() texts=()
  COMPREPLY=()
  while IFS=$'\t' read -r name text; do
    if [[ $name == "` + fitsFiles + `" ]]; then compopt -o default; return; fi
    if [[ $name == "$cur"* ]]; then names+=("$name"); texts+=("$text"); fi
  done < <(llmbatch "${COMP_WORDS[@]:1:COMP_CWORD}" ` + completionFlag + ` 2>/dev/null)
  if (( ${#names[@]} <= 1 )) || [[ $COMP_TYPE == 37 || $COMP_TYPE == 42 ]]; then COMPREPLY=("${names[@]}"); return; fi
  compopt -o nosort 2>/dev/null
  for i in "${!names[@]}"; do
    if [[ -n ${texts[i]} ]]; then printf -v name '%-20s (%s)' "${names[i]}" "${texts[i]}"; else name=${names[i]}; fi
    COMPREPLY+=("$name")
  done
}
complete -F _llmbatch llmbatch
`

const zshCompletion = `#compdef llmbatch
# llmbatch completion for zsh: source <(llmbatch completion zsh)
_llmbatch() {
  local -a found
  local name text
  while IFS=$'\t' read -r name text; do
    if [[ $name == "` + fitsFiles + `" ]]; then _files; return; fi
    found+=("${name//:/\\:}${text:+:$text}")
  done < <(llmbatch "${(@)words[2,CURRENT]}" ` + completionFlag + ` 2>/dev/null)
  _describe -o llmbatch found
}
compdef _llmbatch llmbatch
`

const fishCompletion = `# llmbatch completion for fish: llmbatch completion fish | source
function __llmbatch_words
  set -l typed (commandline -opc)
  set -l word (commandline -ct)
  for line in (llmbatch $typed[2..-1] "$word" ` + completionFlag + ` 2>/dev/null)
    if test "$line" = "` + fitsFiles + `"
      __fish_complete_path "$word"
    else
      echo $line
    end
  end
end
complete -c llmbatch -f -k -a '(__llmbatch_words)'
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

// complete lists what may stand where the last of args is being typed, one a line
// with a tab and what it does; fitsFiles where that is a file, nothing where it is
// something that only the user knows.
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
			fmt.Fprintf(w, "%s\t%s\n", c.Name, c.Usage)
		}
	}
	if cmd == nil {
		return
	}
	if len(before) > n {
		if f := lookup(cmd, strings.TrimLeft(before[len(before)-1], "-")); f != nil && takesValue(f) {
			completeValue(f, w)
			return
		}
	}
	switch {
	case strings.HasPrefix(word, "-"):
		for _, f := range inGroups(cmd.Flags) {
			_, usage := unquote(f.(cli.DocGenerationFlag).GetUsage())
			fmt.Fprintf(w, "--%s\t%s\n", f.Names()[0], usage)
		}
	case cmd.Name == "completion":
		fmt.Fprintln(w, "bash\nzsh\nfish")
	case strings.HasPrefix(cmd.ArgsUsage, "PROMPTS") || strings.HasPrefix(cmd.ArgsUsage, "RESULTS"):
		fmt.Fprintln(w, fitsFiles)
	}
}

// completeValue lists the values of a flag that takes one of few, or says that it is
// a file.
func completeValue(f cli.Flag, w io.Writer) {
	name := f.Names()[0]
	switch name {
	case "format":
		fmt.Fprintln(w, strings.Join(exportFormats(), "\n"))
	case "scenario", "mock-scenario":
		for _, s := range mockapi.Scenarios() {
			fmt.Fprintf(w, "%s\t%s\n", s.Name, s.Text)
		}
	}
	for _, c := range choices(&options{}) {
		if c.flag == name {
			fmt.Fprintln(w, strings.Join(c.of, "\n"))
		}
	}
	if place, _ := unquote(f.(cli.DocGenerationFlag).GetUsage()); place == "FILE" || place == "DIR" || place == "RESULTS" {
		fmt.Fprintln(w, fitsFiles)
	}
}
