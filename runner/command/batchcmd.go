package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/url"

	"github.com/urfave/cli/v2"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/runner"
	"llmbatch/runner/batch"
	"llmbatch/runner/provider"
)

const batchDescription = `Shows the batches of a results file that are open at the provider, and how they
stand. What they bring is collected by the same run --batch again, also after
--cancel: what was done until then is paid for.`

func batchCommand(e *env) *cli.Command {
	o := &options{}
	flags := append(runFlags(o),
		&cli.BoolFlag{Name: "cancel", Category: groupBatch, Usage: "ask the provider to stop them"},
		&cli.BoolFlag{Name: "json", Category: groupSeen, Usage: "print them as JSON"})
	return &cli.Command{
		Name: "batch", Usage: "open batches of the provider's Batch API; --cancel stops them", ArgsUsage: "RESULTS",
		Description: batchDescription, Flags: flags,
		Action: withSettings(e, o, func(c *cli.Context) error {
			path, err := oneArg(c, "RESULTS")
			if err != nil {
				return err
			}
			return showBatches(e, o, path, c.Bool("cancel"), c.Bool("json"))
		}),
	}
}

func showBatches(e *env, o *options, path string, cancel, asJSON bool) error {
	head, views, err := batch.Read(batch.JournalName(path))
	if err != nil {
		return journalError(err)
	}
	var note string
	if len(views) > 0 {
		if views, note, err = askBatches(e, o, path, head, views, cancel); err != nil {
			return err
		}
	}
	if asJSON {
		if views == nil {
			views = []batch.View{}
		}
		data, err := json.MarshalIndent(views, "", "  ")
		if err != nil {
			return err
		}
		return writeOut(e.stdout, append(data, '\n'))
	}
	var b bytes.Buffer
	writeBatches(&b, path, views)
	if note != "" {
		fmt.Fprintln(&b, printable(note))
	}
	return writeOut(e.stdout, b.Bytes())
}

func writeBatches(w io.Writer, path string, views []batch.View) {
	if len(views) == 0 {
		fmt.Fprintf(w, "no batch of %s is open\n", printable(path))
		return
	}
	fmt.Fprintf(w, "%-34s %-24s %8s  %-16s %s\n", "batch", "state", "n", "since", "expires")
	for _, v := range views {
		id, state := v.ID, v.State
		if id == "" {
			id = fmt.Sprintf("(part %d)", v.Part)
		}
		if v.Stuck != "" {
			state = v.Stuck
		}
		since, expires := "", ""
		if !v.Since.IsZero() {
			since = v.Since.Local().Format("2006-01-02 15:04")
		}
		if !v.Expires.IsZero() {
			expires = v.Expires.Local().Format("2006-01-02 15:04")
		}
		fmt.Fprintf(w, "%-34s %-24s %8d  %-16s %s\n", printable(id), printable(state), v.N, since, expires)
	}
}

// askBatches asks the provider how batches stand, and to cancel them. While a run is
// at them only its journal is read.
func askBatches(e *env, o *options, path string, head *batch.Head, known []batch.View, cancel bool) (views []batch.View, note string, err error) {
	file, err := output.Open(path, output.Options{})
	if locked, ok := errors.AsType[*output.LockedError](err); ok && !cancel {
		return known, "a run is at them: " + locked.Error(), nil
	}
	if err != nil {
		return nil, "", outputError(err)
	}
	defer file.Close(output.CloseOptions{})
	engine, err := batchEngine(e, o, path, head, file)
	if err != nil {
		return nil, "", err
	}
	ctx, stop, end := listen(e)
	defer end()
	act := engine.Look
	if cancel {
		act = engine.Cancel
	}
	rep := act(ctx)
	views = engine.Views()
	if err := engine.Close(); err != nil {
		return nil, "", failf(exitWrite, "%w", err)
	}
	switch {
	case errors.Is(context.Cause(ctx), errSignal):
		return nil, "", failf(stop.signalled(), "interrupted")
	case rep.Reason == runner.Aborted:
		return nil, "", failf(exitAborted, "%s", rep.Message)
	case cancel:
		note = "asked to stop; run the same run --batch again to collect what was done"
	}
	return views, note, nil
}

// batchEngine is an engine that only looks: it has no items.
func batchEngine(e *env, o *options, path string, head *batch.Head, file *output.File) (*batch.Engine, error) {
	if head.Base == mockName {
		return nil, usagef("the batches of %s were made by --provider mock, and are gone with it", path)
	}
	o.provider = head.Provider
	if o.baseURL == "" {
		if _, err := url.Parse(head.Base); err == nil {
			o.baseURL = head.Base
		}
	}
	r, err := newRouter(o, e, nil)
	if err != nil {
		return nil, err
	}
	target, err := r.target(head.Provider)
	if err != nil {
		return nil, err
	}
	engine, err := batch.Open(batch.Config{
		Journal: batch.JournalName(path), Target: target, Vendor: head.Vendor,
		Items:  func() iter.Seq2[*input.Item, error] { return func(func(*input.Item, error) bool) {} },
		Encode: func(*input.Item) (*provider.Call, error) { return nil, errors.New("nothing is sent") },
		Done:   func(string) bool { return true }, Write: file.Write, Then: "batch",
		Size: 1, Open: 1, Poll: o.batchPoll, Drain: o.drain,
		Transport: runner.NewTransport(4, 0), Agent: "llmbatch/" + version(), Scrub: r.scrubber(), Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, journalError(err)
	}
	return engine, nil
}
