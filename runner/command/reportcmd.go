package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"llmbatch/output"
	"llmbatch/output/plain"
	"llmbatch/output/report"
)

func reportCommand(e *env) *cli.Command {
	return &cli.Command{
		Name: "report", Usage: "totals and causes of results; --html: a page of every item", ArgsUsage: "RESULTS [OTHER-RESULTS]",
		Description: "Reads the rows of a results file, also of one that is still growing, and shows\nwhat became of the items, why, how long it took and what it cost. Two files are\nshown side by side: cost, time, failures, changed answers.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "html", Usage: "`FILE`: write one self-contained page there; - is standard output"},
			&cli.BoolFlag{Name: "json", Usage: "print the figures as JSON"},
			inputFlag(),
		},
		Action: func(c *cli.Context) error {
			if c.Args().Len() == 2 {
				if c.IsSet("html") {
					return usagef("report: --html is about one file").hint("leave the second file out, or --html")
				}
				return reportBoth(e, c.Args().Get(0), c.Args().Get(1), c.Bool("json"))
			}
			path, err := oneArg(c, "RESULTS")
			if err != nil {
				return err
			}
			if c.IsSet("html") {
				return reportPage(e, path, c.String("html"), c.String("input"))
			}
			if c.IsSet("input") {
				return usagef("report: --input is for --html").hint("the figures don't say what was asked")
			}
			return reportText(e, path, c.Bool("json"))
		},
	}
}

// reportText prints a file's figures on standard output: they are what was asked
// for.
func reportText(e *env, path string, asJSON bool) error {
	stats := report.NewStats()
	for r, err := range output.SkipBroken(output.LastRows(path, false), tellBroken(e)) {
		if err != nil {
			return readError(err)
		}
		stats.Add(r)
	}
	if asJSON {
		data, err := json.MarshalIndent(stats.Summary(), "", "  ")
		if err != nil {
			return err
		}
		return writeOut(e.stdout, append(data, '\n'))
	}
	var b bytes.Buffer
	if err := stats.Summary().WriteText(&b, report.TextOptions{Detail: true}); err != nil {
		return err
	}
	return writeOut(e.stdout, b.Bytes())
}

// reportBoth prints two files side by side.
func reportBoth(e *env, a, b string, asJSON bool) error {
	c, err := report.Compare(output.SkipBroken(output.LastRows(a, false), tellBroken(e)), output.SkipBroken(output.LastRows(b, false), tellBroken(e)))
	if err != nil {
		return readError(err)
	}
	if asJSON {
		data, err := json.MarshalIndent(c, "", "  ")
		if err != nil {
			return err
		}
		return writeOut(e.stdout, append(data, '\n'))
	}
	var text bytes.Buffer
	if err := c.WriteText(&text, filepath.Base(a), filepath.Base(b)); err != nil {
		return err
	}
	return writeOut(e.stdout, text.Bytes())
}

// reportPage writes the page, and says where it is.
func reportPage(e *env, path, html, prompts string) error {
	q, err := openQuestions(prompts, path)
	if err != nil {
		return err
	}
	defer q.close()
	if err := q.find(nil); err != nil {
		return usagef("--input: %w", err)
	}
	asked := func(r *output.Result) string { return q.of(r.Key) }
	var b bytes.Buffer
	o := report.PageOptions{Name: filepath.Base(path), Now: e.now(), Asked: asked}
	if err := report.HTML(&b, output.SkipBroken(output.LastRows(path, false), tellBroken(e)), o); err != nil {
		return readError(err)
	}
	if html == "-" {
		return writeOut(e.stdout, b.Bytes())
	}
	if output.SameFile(path, html) {
		return usagef("--html: %s is the results file", html)
	}
	if err := writeWhole(html, b.Bytes()); err != nil {
		return failf(exitWrite, "--html: %w", err)
	}
	fmt.Fprintf(e.stderr, "llmbatch: the page is %s\n", plain.Line(html))
	return nil
}

// readError is about a results file that was to be read.
func readError(err error) error {
	f := usagef("%w", err)
	if _, ok := errors.AsType[*output.BrokenRowError](err); ok {
		return f.hint("mend or remove that line")
	}
	if _, ok := errors.AsType[*output.ForeignError](err); ok {
		return f.hint("the results of prompts.jsonl are in prompts.results.jsonl, unless -o says otherwise")
	}
	return f
}

// writeOut writes data to standard output.
func writeOut(w io.Writer, data []byte) error {
	if _, err := w.Write(data); err != nil {
		return failf(exitWrite, "standard output: %w", err)
	}
	return nil
}
