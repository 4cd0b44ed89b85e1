package command

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf8"

	"github.com/urfave/cli/v2"
)

// helpText describes a command; all includes its rare flags, which are hidden.
func helpText(name string, c *cli.Command, all bool) string {
	var b strings.Builder
	args := ""
	if c.ArgsUsage != "" {
		args = " " + c.ArgsUsage
	}
	fmt.Fprintf(&b, "llmbatch %s: %s\n\nUsage: llmbatch %s [flags]%s\n", name, c.Usage, name, args)
	if c.Description != "" {
		fmt.Fprintf(&b, "\n%s\n", strings.Trim(c.Description, "\n"))
	}
	hidden, group := 0, "\x00"
	flags := inGroups(c.Flags)
	for _, f := range flags {
		d, ok := f.(cli.DocGenerationFlag)
		if !ok {
			continue
		}
		if v, ok := f.(cli.VisibleFlag); ok && !v.IsVisible() && !all {
			hidden++
			continue
		}
		if g := categoryOf(f); g != group {
			group = g
			fmt.Fprintf(&b, "\n%s:\n", orElse(g, "Flags"))
		}
		place, usage := unquote(d.GetUsage())
		writeEntry(&b, spelled(f, place), usage+defaultOf(d))
	}
	if takesSettings(c) {
		b.WriteString("\nEvery flag can be set as LLMBATCH_… (--max-errors as LLMBATCH_MAX_ERRORS) or in\n" +
			"the file that --config names. Order: flag, environment, file, default.\n")
	} else if len(flags) > 0 {
		first := flags[0].Names()[0]
		fmt.Fprintf(&b, "\nEvery flag can be set as LLMBATCH_… (--%s as %s).\n", first, variableOf(c, first))
	}
	if hidden > 0 {
		fmt.Fprintf(&b, "llmbatch %s --help-all shows %d more flags.\n", name, hidden)
	}
	return b.String()
}

// takesSettings says whether c has the flags of run.
func takesSettings(c *cli.Command) bool { return lookup(c, "print-config") != nil }

// inGroups sorts flags by groups, in the order in which each begins; --help itself
// is left out.
func inGroups(flags []cli.Flag) []cli.Flag {
	var order []string
	for _, f := range flags {
		order = append(order, categoryOf(f))
	}
	sorted := slices.DeleteFunc(slices.Clone(flags), func(f cli.Flag) bool { return f.Names()[0] == "help" })
	slices.SortStableFunc(sorted, func(a, b cli.Flag) int {
		return slices.Index(order, categoryOf(a)) - slices.Index(order, categoryOf(b))
	})
	return sorted
}

func categoryOf(f cli.Flag) string {
	if c, ok := f.(cli.CategorizableFlag); ok {
		return c.GetCategory()
	}
	return ""
}

// spelled is how a flag is typed: "-o, --out FILE".
func spelled(f cli.Flag, place string) string {
	names := f.Names()
	s := "    --" + names[0]
	if len(names) > 1 {
		s = "-" + names[1] + ", --" + names[0]
	}
	if place != "" && takesValue(f) {
		s += " " + place
	}
	return s
}

// unquote takes the placeholder, which stands first and in backquotes, off a usage.
func unquote(usage string) (place, text string) {
	quoted, text, ok := strings.Cut(usage, "`: ")
	if !ok {
		return "", usage
	}
	return strings.TrimPrefix(quoted, "`"), text
}

// writeEntry writes a flag and what it does in two columns that fit a terminal
// of 80.
func writeEntry(b *strings.Builder, flag, text string) {
	const indent, width = 30, 80
	line := fmt.Sprintf("  %-*s", indent-2, flag)
	if 2+len(flag) >= indent { // the columns would meet
		b.WriteString(line + "\n")
		line = strings.Repeat(" ", indent)
	}
	for i, word := range strings.Fields(text) {
		if i > 0 && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			b.WriteString(line + "\n")
			line = strings.Repeat(" ", indent)
		} else if i > 0 {
			line += " "
		}
		line += word
	}
	b.WriteString(strings.TrimRight(line, " ") + "\n")
}

func defaultOf(d cli.DocGenerationFlag) string {
	if !d.TakesValue() {
		return ""
	}
	text := strings.Trim(d.GetDefaultText(), `"`)
	if t, err := time.ParseDuration(text); err == nil && t > 0 {
		text = shortDuration(t)
	}
	if text == "" || text == "0" {
		return ""
	}
	return " (default: " + text + ")"
}

// shortDuration leaves out the parts that are zero: 30m, not 30m0s.
func shortDuration(d time.Duration) string {
	s := d.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

func orElse(s, other string) string {
	if s == "" {
		return other
	}
	return s
}

// appHelp is the text of llmbatch --help.
func appHelp(app *cli.App) string {
	var b strings.Builder
	fmt.Fprintf(&b, "llmbatch: %s\n\n", app.Usage)
	b.WriteString("  llmbatch run --provider mock prompts.jsonl    try it, no key needed\n" +
		"  llmbatch run --model MODEL prompts.jsonl      results in prompts.results.jsonl\n" +
		"  llmbatch run --model MODEL prompts.jsonl      again: only what is not done yet\n\nCommands:\n")
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, c := range app.Commands {
		fmt.Fprintf(w, "  %s\t%s\n", c.Name, c.Usage)
	}
	w.Flush()
	b.WriteString("\nllmbatch help COMMAND shows its flags, llmbatch --version the version.\n\n" + exitCodes)
	return b.String()
}

// exitCodes is the list of exit.go for people.
const exitCodes = `Exit codes:
  0    every item has its answer
  1    the run finished, some rows are failed or gave_up
  2    usage or input error, or another run holds the output; nothing was sent
  3    stopped: spend cap, credit, key, base URL, closed model, guard, max-cost
  4    the run's time ended first; run again to continue
  5    results could not be written; sending stopped at once
  70   internal error; rows kept
  130  interrupted (143: terminated, 129: hung up); run again to continue
`

// manText is what the manual page says beside the commands and flags.
const manText = "    llmbatch run --provider mock prompts.jsonl    try it, no key needed\n" +
	"    llmbatch run --model MODEL prompts.jsonl      results in prompts.results.jsonl\n\n" +
	"Every flag can be set as LLMBATCH_… (--max-errors as LLMBATCH_MAX_ERRORS) or in the file that --config names. " +
	"ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, ANTHROPIC_BASE_URL, OPENAI_API_KEY, OPENAI_ORG_ID, OPENAI_PROJECT_ID and " +
	"OPENAI_BASE_URL are read as the providers' own libraries read them.\n\n# EXIT STATUS\n\n```\n" + exitCodes + "```\n"

// manPage is the manual in roff, all flags in it.
func manPage(app *cli.App) (string, error) {
	for c := range leaves(app.Commands) {
		for _, f := range c.Flags {
			reflect.ValueOf(f).Elem().FieldByName("Hidden").SetBool(false)
		}
	}
	return app.ToManWithSection(1)
}
