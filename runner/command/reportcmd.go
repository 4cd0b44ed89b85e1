package command

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"llmbatch/output"
	"llmbatch/output/report"
)

func reportCommand(e *env) *cli.Command {
	return &cli.Command{
		Name: "report", Usage: "totals and causes of a results file; --html draws a page", ArgsUsage: "RESULTS",
		Description: "Reads the rows of a results file, also of one that is still growing, and shows\nwhat became of the items, why, how long it took and what it cost.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "html", Usage: "`FILE`: write one self-contained page there; - is standard output"},
			&cli.BoolFlag{Name: "json", Usage: "print the figures as JSON"},
		},
		Action: func(c *cli.Context) error {
			path, err := oneArg(c, "RESULTS")
			if err != nil {
				return err
			}
			if c.IsSet("html") {
				return reportPage(e, path, c.String("html"))
			}
			return reportText(e, path, c.Bool("json"))
		},
	}
}

// reportText prints a file's figures on standard output: they are what was asked
// for.
func reportText(e *env, path string, asJSON bool) error {
	stats := report.NewStats()
	for r, err := range output.LastRows(path, false) {
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

func reportPage(e *env, path, html string) error {
	var b bytes.Buffer
	o := report.PageOptions{Name: filepath.Base(path), Now: e.now()}
	if err := report.HTML(&b, output.LastRows(path, false), o); err != nil {
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
