package command

import (
	"fmt"
	"strings"

	"github.com/urfave/cli/v2"

	"llmbatch/output"
	"llmbatch/output/plain"
)

func showCommand(e *env) *cli.Command {
	return &cli.Command{
		Name: "show", Usage: "one item: what was asked, the answer, each attempt", ArgsUsage: "RESULTS ID",
		Description: "What was asked is read from the file that the results are named after, and from\nthe columns that the row has kept.",
		Flags: []cli.Flag{
			inputFlag(),
			&cli.BoolFlag{Name: "json", Usage: "print the row as it is"},
		},
		Action: func(c *cli.Context) error {
			if n := c.Args().Len(); n != 2 {
				return usagef("show takes RESULTS and an ID, got %s", plain.Plural(n, "argument")).hint("llmbatch show prompts.results.jsonl q1")
			}
			return show(e, c.Args().Get(0), c.Args().Get(1), c.String("input"), c.Bool("json"))
		},
	}
}

func inputFlag() cli.Flag {
	return &cli.StringFlag{Name: "input", DefaultText: "the file that RESULTS is named after", Usage: "`PROMPTS`: where what was asked is read"}
}

// show prints one item of a results file.
func show(e *env, path, id, prompts string, asJSON bool) error {
	r, err := findRow(path, id)
	if err != nil {
		return err
	}
	if asJSON {
		return writeOut(e.stdout, output.AppendRow(nil, r))
	}
	q, err := openQuestions(prompts, path)
	if err != nil {
		return err
	}
	defer q.close()
	if err := q.find(func(key string) bool { return key == r.Key }); err != nil {
		return usagef("--input: %w", err)
	}
	return writeOut(e.stdout, []byte(shownItem(r, q.of(r.Key))))
}

// findRow is the last row of an id, as it stands in the file or as its text.
func findRow(path, id string) (*output.Result, error) {
	var some string
	n := 0
	for r, err := range output.LastRows(path, false) {
		if err != nil {
			return nil, readError(err)
		}
		if r.Key == id || string(r.ID) == id {
			return r, nil
		}
		if n++; n == 1 {
			some = r.Key
		}
	}
	f := usagef("%s has no row with the id %q", path, id)
	if n > 0 {
		f.hint("it has %s, such as %s", plain.Plural(n, "row"), plain.Line(some))
	}
	return nil, f
}

// shownItem is an item as people read it.
func shownItem(r *output.Result, asked string) string {
	var b strings.Builder
	part := func(title, text string) {
		if text != "" {
			fmt.Fprintf(&b, "\n%s\n  %s\n", title, strings.ReplaceAll(plain.Block(strings.TrimRight(text, "\n")), "\n", "\n  "))
		}
	}
	fmt.Fprintf(&b, "%s: %s\n", plain.Line(r.Key), strings.Join(itemFacts(r), ", "))
	part("asked", asked)
	part("answer", r.Text)
	if r.Error != nil {
		part("why not", strings.TrimSpace(fmt.Sprintf("%s %s", errorName(r.Error), r.Error.Message)))
	}
	if len(r.Attempts) > 0 {
		b.WriteString("\nattempts\n")
	}
	for i := range r.Attempts {
		a := &r.Attempts[i]
		fmt.Fprintf(&b, "  %2d  %s  %8s  %3s  %s\n", a.Attempt, a.StartedAt.Local().Format("2006-01-02 15:04:05"), plain.Span(a.Duration), statusText(a.Status), attemptText(a))
	}
	return b.String()
}

func itemFacts(r *output.Result) []string {
	facts := []string{strings.ReplaceAll(string(r.Status), "_", " ")}
	for _, f := range []struct{ name, value string }{
		{"", r.Model}, {"stop reason ", r.StopReason}, {"because of ", strings.ReplaceAll(r.GiveUpReason, "_", " ")},
	} {
		if f.value != "" {
			facts = append(facts, f.name+plain.Line(f.value))
		}
	}
	if r.Usage != (output.Usage{}) {
		facts = append(facts, plain.Count(r.Usage.InputTokens)+" tokens in", plain.Count(r.Usage.OutputTokens)+" out")
	}
	if r.HasCost {
		facts = append(facts, "cost "+plain.Money(r.Cost))
	}
	if !r.NextAttemptAt.IsZero() {
		facts = append(facts, "next try not before "+r.NextAttemptAt.Local().Format("2006-01-02 15:04:05"))
	}
	return facts
}

func errorName(e *output.Error) string {
	name := strings.ReplaceAll(e.Class, "_", " ")
	if e.Status > 0 {
		name += fmt.Sprintf(" (HTTP %d)", e.Status)
	}
	return name + ":"
}

func statusText(status int) string {
	if status == 0 {
		return "–"
	}
	return fmt.Sprint(status)
}

// attemptText is what became of an attempt and what was waited for afterwards.
func attemptText(a *output.Attempt) string {
	s := strings.ReplaceAll(plain.Line(a.Outcome), "_", " ")
	if a.Unsent {
		s += ", not sent"
	}
	if a.Error != "" {
		s += ": " + plain.Clip(plain.Line(a.Error), 200)
	}
	if a.Wait > 0 {
		s += fmt.Sprintf("; then waited %s (%s)", plain.Span(a.Wait), strings.ReplaceAll(plain.Line(a.WaitReason), "_", " "))
	}
	return s
}
