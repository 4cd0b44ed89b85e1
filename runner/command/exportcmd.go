package command

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"llmbatch/output"
)

func exportFormats() []string {
	return []string{string(output.CSV), string(output.Text), string(output.OpenAIBatch), string(output.AnthropicBatch)}
}

func exportCommand(e *env) *cli.Command {
	return &cli.Command{
		Name: "export", Usage: "rows as csv, text, or OpenAI or Anthropic batch output", ArgsUsage: "RESULTS",
		Description: "Writes one line an item: csv, the text alone, or what the provider's own batch\nAPI would have given.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "format", Usage: "`NAME`: " + strings.Join(exportFormats(), ", ")},
			&cli.StringFlag{Name: "columns", DefaultText: "all", Usage: "`NAMES`: columns of csv, separated by commas: " + strings.Join(output.Columns(), ", ")},
			&cli.BoolFlag{Name: "ordered", Usage: "in the order of the input"},
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, DefaultText: "standard output", Usage: "`FILE`: write there, whole or not at all"},
		},
		Action: func(c *cli.Context) error {
			path, err := oneArg(c, "RESULTS")
			if err != nil {
				return err
			}
			o, err := exportOptions(c)
			if err != nil {
				return err
			}
			return export(e, path, c.String("out"), o)
		},
	}
}

func exportOptions(c *cli.Context) (output.ExportOptions, error) {
	format := c.String("format")
	o := output.ExportOptions{Format: output.ExportFormat(format), Ordered: c.Bool("ordered")}
	if format == "" {
		return o, usagef("export: no --format given").hint("one of %s", strings.Join(exportFormats(), ", "))
	}
	if !slices.Contains(exportFormats(), format) {
		f := usagef("--format: %q is not one of %s", format, strings.Join(exportFormats(), ", "))
		if near := nearest(format, exportFormats()); near != "" {
			f.hint("did you mean %s?", near)
		}
		return o, f
	}
	if columns := c.String("columns"); columns != "" {
		if o.Format != output.CSV {
			return o, usagef("--columns is for --format csv")
		}
		for name := range strings.SplitSeq(columns, ",") {
			if name = strings.TrimSpace(name); !slices.Contains(output.Columns(), name) {
				return o, usagef("--columns: %q is not one of %s", name, strings.Join(output.Columns(), ", "))
			}
			o.Columns = append(o.Columns, name)
		}
	}
	return o, nil
}

func export(e *env, path, out string, o output.ExportOptions) error {
	if out == "" || out == "-" {
		return exportTo(e.stdout, path, o)
	}
	if output.SameFile(path, out) {
		return usagef("%s is both the results and the export", out).hint("choose another name with -o FILE")
	}
	f, err := os.CreateTemp(filepath.Dir(out), "."+filepath.Base(out)+".*")
	if err != nil {
		return failf(exitWrite, "export: %w", err)
	}
	err = exportTo(f, path, o)
	if closed := f.Close(); err == nil && closed != nil {
		err = failf(exitWrite, "export: %w", closed)
	}
	if err == nil {
		if err = os.Rename(f.Name(), out); err != nil {
			err = failf(exitWrite, "export: %w", err)
		}
	}
	if err != nil {
		os.Remove(f.Name())
	}
	return err
}

// exportTo tells what is wrong with the rows (2) from what is wrong with the
// writing (5).
func exportTo(w io.Writer, path string, o output.ExportOptions) error {
	sink := &errWriter{w: w}
	buffered := bufio.NewWriterSize(sink, 64<<10)
	err := output.Export(buffered, path, o)
	if err == nil {
		err = buffered.Flush()
	}
	switch {
	case sink.err != nil:
		return failf(exitWrite, "export: %w", sink.err)
	case err != nil:
		return readError(err)
	}
	return nil
}

// errWriter remembers the first error of a writer.
type errWriter struct {
	w   io.Writer
	err error
}

func (w *errWriter) Write(p []byte) (int, error) {
	n, err := w.w.Write(p)
	if err != nil && w.err == nil {
		w.err = err
	}
	return n, err
}

func mergeCommand(e *env) *cli.Command {
	return &cli.Command{
		Name: "merge", Usage: "results of run --shard i/n into one file", ArgsUsage: "RESULTS…",
		Description: "One row an item. Files that hold one id with different requests are refused.\nThe file that -o names is written whole or not at all.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "out", Aliases: []string{"o"}, Usage: "`FILE`: the merged results"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print nothing on success"},
		},
		Action: func(c *cli.Context) error {
			files, out := c.Args().Slice(), c.String("out")
			switch {
			case len(files) == 0:
				return usagef("merge: no RESULTS given").hint("llmbatch merge -o all.jsonl prompts.*-of-16.results.jsonl")
			case out == "":
				return usagef("merge: no -o FILE given")
			}
			for _, f := range files {
				if output.SameFile(f, out) {
					return usagef("%s is both merged and the output", out).hint("choose another name with -o FILE")
				}
			}
			rows, err := output.Merge(out, files)
			if err != nil {
				return mergeError(err)
			}
			if !c.Bool("quiet") {
				fmt.Fprintf(e.stderr, "llmbatch: %s of %s in %s\n", plural(rows, "row", "rows"), plural(len(files), "file", "files"), printable(out))
			}
			return nil
		},
	}
}

func mergeError(err error) error {
	if _, ok := errors.AsType[*output.ClashError](err); ok {
		return usagef("%w", err).hint("the files are of different inputs or settings")
	}
	if _, ok := errors.AsType[*output.WriteError](err); ok {
		return failf(exitWrite, "%w", err)
	}
	return readError(err)
}

func schemaCommand(e *env) *cli.Command {
	return &cli.Command{
		Name: "schema", Usage: "print the JSON Schema of a result row",
		Action: func(*cli.Context) error { return writeOut(e.stdout, output.Schema()) },
	}
}
