package command

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"
)

// manPage is the manual in roff: each command's --help-all as it stands, which is
// made for a terminal of 80 columns.
func manPage(app *cli.App) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH LLMBATCH 1 \"\" \"llmbatch %s\"\n.nh\n.SH NAME\n", roff(app.Version))
	fmt.Fprintf(&b, "llmbatch \\- %s\n.SH SYNOPSIS\n%s\n", roff(app.Usage), roff(app.UsageText))
	b.WriteString(".SH COMMANDS\n")
	for _, c := range app.Commands {
		fmt.Fprintf(&b, ".TP\n.B %s\n%s\n", roff(c.Name), roff(c.Usage))
	}
	for _, c := range app.Commands {
		section(&b, c.Name, helpText(c, true))
	}
	section(&b, "exit status", strings.TrimPrefix(exitCodes, "Exit codes:\n"))
	section(&b, "environment", "LLMBATCH_… sets a flag. ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, ANTHROPIC_BASE_URL,\n"+
		"OPENAI_API_KEY, OPENAI_ORG_ID, OPENAI_PROJECT_ID and OPENAI_BASE_URL are read as the\nproviders' own libraries read them.")
	return b.String()
}

// section writes text under a heading, line by line as it is.
func section(b *strings.Builder, name, text string) {
	fmt.Fprintf(b, ".SH %s\n.in 0\n.nf\n%s\n.fi\n.in\n", strings.ToUpper(name), roff(strings.TrimRight(text, "\n")))
}

// roff keeps text from being read as requests and escapes.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`, "'", `\(aq`, "`", `\(ga`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, l := range lines {
		if strings.HasPrefix(l, ".") {
			lines[i] = `\&` + l
		}
	}
	return strings.Join(lines, "\n")
}
