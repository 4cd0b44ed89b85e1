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

	"llmbatch/input"
	"llmbatch/output"
)

func exportFormats() []string {
	var names []string
	for _, f := range output.ExportFormats() {
		names = append(names, string(f))
	}
	return names
}

func exportCommand(e *env) *cli.Command {
	return &cli.Command{
		Name: "export", Usage: "rows as csv, jsonl, text, or OpenAI or Anthropic batch output", ArgsUsage: "RESULTS",
		Description: "Writes one line an item: csv, the rows as they are, the answers alone (line k is\nitem k), or what the provider's own batch API would have given.",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "format", DefaultText: "by the ending of -o", Usage: "`NAME`: " + strings.Join(exportFormats(), ", ")},
			&cli.StringFlag{Name: "columns", DefaultText: "id, input columns, text, status, error",
				Usage: "`NAMES`: columns of csv, separated by commas: those of the input that --keep kept, and " + strings.Join(output.Columns(), ", ")},
			&cli.BoolFlag{Name: "ordered", Usage: "in the order of the input"},
			&cli.StringFlag{Name: "only-input", Usage: "`PROMPTS`: leave out rows whose line is no longer in that file"},
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
			if o.Want, err = onlyInput(c.String("only-input")); err != nil {
				return err
			}
			o.Broken = tellBroken(e)
			return export(e, path, c.String("out"), o)
		},
	}
}

func exportOptions(c *cli.Context) (output.ExportOptions, error) {
	format := c.String("format")
	if format == "" {
		format = formatOf(c.String("out"))
	}
	o := output.ExportOptions{Format: output.ExportFormat(format), Ordered: c.Bool("ordered")}
	if format == "" {
		return o, usagef("export: no --format given").hint("one of %s; or -o FILE with the ending .csv, .jsonl or .txt", strings.Join(exportFormats(), ", "))
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
			o.Columns = append(o.Columns, strings.TrimSpace(name))
		}
	}
	return o, nil
}

// formatOf is the format that a file's ending names, "" if it names none.
func formatOf(out string) string {
	switch strings.ToLower(filepath.Ext(out)) {
	case ".csv":
		return string(output.CSV)
	case ".jsonl", ".ndjson":
		return string(output.JSONL)
	case ".txt":
		return string(output.Text)
	}
	return ""
}

// onlyInput says of a key whether an item of the prompts has it; nil without a path.
func onlyInput(prompts string) (func(key string) bool, error) {
	if prompts == "" {
		return nil, nil
	}
	in, err := input.Open(prompts, input.Options{LetThrough: true})
	if err != nil {
		return nil, usagef("--only-input: %w", err)
	}
	defer in.Close()
	keys := map[string]bool{}
	for it, err := range in.Items() {
		if err != nil {
			return nil, usagef("--only-input: %w", err)
		}
		keys[it.Key] = true
	}
	return func(key string) bool { return keys[key] }, nil
}

// tellBroken names broken rows that are passed over.
func tellBroken(e *env) func(error) {
	return func(err error) { fmt.Fprintf(e.stderr, "llmbatch: passed over: %s\n", printable(err.Error())) }
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
	case errors.Is(err, output.ErrUnknownColumn):
		return usagef("--columns: %w", err)
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
