package command

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/runner"
	"llmbatch/runner/fleet"
)

const fleetRunDescription = `PROMPTS is a file of prompts as on one machine, but no pipe: what the queue
loses is read again. Without --nats a server is started here, with one worker:
one command, nothing to install. With it the requests are made by workers, each
a "fleet worker" on any host. The same command again does only the rest.`

func fleetRunCommand(e *env) *cli.Command {
	o, f := &options{}, &fleetOptions{}
	flags := withoutFlag(withoutFlag(withoutFlag(runFlags(o), "shard"), "reuse"), "dedupe")
	flags = append(flags, natsFlags(f)...)
	flags = append(flags,
		&cli.DurationFlag{Category: groupFleet, Name: "lease", Value: 30 * time.Second, Destination: &f.lease, Usage: "`DURATION`: after it a silent worker's items go to others"},
		&cli.IntFlag{Category: groupFleet, Name: "window", Destination: &f.window, DefaultText: "by the limit", Usage: "`N`: items in the queue of a lane"},
		&cli.BoolFlag{Category: groupFleet, Name: "standby", Destination: &f.standby, Usage: "wait for the coordinator that runs now to end, and take over"},
		&cli.DurationFlag{Category: groupFleet, Name: "retain-results", Value: time.Minute, Destination: &f.retain, Usage: "`DURATION`: how long collected results stay in NATS"},
		&cli.IntFlag{Category: groupFleet, Name: "replicas", Value: 1, Destination: &f.replicas, Usage: "`N`: copies of the streams, in a cluster of NATS servers"},
	)
	return &cli.Command{
		Name: "run", Usage: "feed and collect a run; without --nats also do its work", ArgsUsage: "PROMPTS",
		Description: fleetRunDescription,
		Flags:       flags,
		Action: withSettings(e, o, func(c *cli.Context) error {
			prompts, err := oneArg(c, "PROMPTS")
			if err != nil {
				return err
			}
			f.fromEnv(e)
			return fleetRun(e, o, f, prompts)
		}),
	}
}

func withoutFlag(flags []cli.Flag, name string) []cli.Flag {
	var rest []cli.Flag
	for _, f := range flags {
		if f.Names()[0] != name {
			rest = append(rest, f)
		}
	}
	return rest
}

// fleetRun is runPrompts with the requests made by workers.
func fleetRun(e *env, o *options, f *fleetOptions, prompts string) error {
	if o.batch {
		return usagef("--batch is not for a fleet: the provider does the work").hint("llmbatch run --batch does it from one machine")
	}
	s, err := newSession(e, o, prompts)
	if err != nil {
		return err
	}
	defer s.release()
	if err := f.allowed(s); err != nil {
		return err
	}
	ctx, stop, end := listen(e)
	defer end()
	h, err := f.open(ctx, s)
	if err != nil {
		return s.abandon(ctx, stop, err)
	}
	defer h.close()
	s.elsewhere = h.hook
	s.dry = f.nats != "" && o.provider != mockName // no key is needed where nothing is sent from
	if err := s.prepare(ctx); err != nil {
		return s.abandon(ctx, stop, err)
	}
	if err := h.settings(); err != nil {
		return s.abandon(ctx, stop, err)
	}
	if !o.quiet {
		s.announce()
	}
	h.begun = true
	x, rep, err := s.execute(ctx, stop)
	if err != nil {
		return s.abandon(ctx, stop, err)
	}
	// Rows that could not be written are still in the store.
	h.clean = rep.Reason != runner.WriteFailed && rep.Reason != runner.Internal
	return x.finish(rep, stop)
}

// allowed refuses what a fleet can't do.
func (f *fleetOptions) allowed(s *session) error {
	switch {
	case s.in.Pipe():
		return usagef("fleet run needs a file of prompts that can be read again")
	case s.out == "-":
		return usagef("fleet run needs a results file").hint("name one with -o FILE")
	case f.lease < time.Second:
		return usagef("--lease %v: want 1s or more", f.lease)
	case f.nats != "" && f.run == "":
		return usagef("no name for the run").hint("add --run NAME: workers find the run by it")
	case f.nats != "" && (s.o.rpm > 0 || s.o.tpm > 0):
		return usagef("--rpm and --tpm are for one machine: a fleet shares requests on the wire, not a rate").
			hint("leave them out: the fleet learns its limit; or cap it with --concurrency")
	case f.window < 0 || f.replicas < 1 || f.replicas > 5:
		return usagef("--window can't be negative, --replicas is 1 to 5")
	}
	return nil
}

// fleetHandle is what a fleet run has open.
type fleetHandle struct {
	f      *fleetOptions
	s      *session
	server *fleet.Server // nil with --nats
	store  string
	conn   *fleet.Conn
	lead   *fleet.Lead
	sync   *os.File
	plain  json.RawMessage // settings for other workers
	made   bool            // the store was not there before
	begun  bool            // something may be in it
	clean  bool            // the run has ended in an orderly way
}

// open reaches the server, or starts one, and takes the lead. Rows that a
// coordinator which died had not collected are written first.
//
// The embedded server's store lies beside the results, so that after a crash paid
// answers in it are not lost; it is removed at an orderly end.
func (f *fleetOptions) open(ctx context.Context, s *session) (*fleetHandle, error) {
	h := &fleetHandle{f: f, s: s}
	o := fleet.Options{URL: f.nats, Creds: f.creds, CA: f.ca, Run: f.run, Replicas: f.replicas}
	var err error
	if f.nats == "" {
		if err := h.serve(); err != nil {
			return nil, err
		}
		o.Server, o.Run = h.server, orElse(f.run, "run")
	} else if o.Token, err = readToken(f.tokenFile); err != nil {
		return nil, err
	}
	if h.conn, err = fleet.Connect(ctx, o); err == nil {
		h.lead, err = h.conn.Lead(ctx, f.standby)
	}
	if err == nil {
		err = h.recover(ctx)
	}
	if err == nil {
		return h, nil
	}
	h.close()
	if _, ok := errors.AsType[*fleet.LedError](err); ok {
		return nil, usagef("%w", err).hint("--standby waits for its end and takes over")
	}
	if _, ok := errors.AsType[*failure](err); ok {
		return nil, err
	}
	return nil, usagef("%w", err)
}

// serve starts the embedded server, with a random token: others on this machine
// must not read the prompts. Workers on it find the URL in a file.
func (h *fleetHandle) serve() error {
	file, err := output.Open(h.s.out, output.Options{ReadOnly: true}) // a foreign or broken file is refused before anything is made
	if err != nil {
		return outputError(err)
	}
	if err := file.Close(output.CloseOptions{}); err != nil {
		return outputError(err)
	}
	h.store = h.s.out + ".fleet"
	if _, err := os.Stat(h.store); errors.Is(err, fs.ErrNotExist) {
		h.made = true
	}
	if h.server, err = fleet.Serve(fleet.ServeOptions{Store: h.store, Token: fleet.NewToken()}); err != nil {
		return usagef("%w", err).hint("is another fleet run writing to %s?", h.s.out)
	}
	return writeWhole(filepath.Join(h.store, "url"), []byte(h.server.URL()+"\n"))
}

// recover writes the rows that are in NATS and not in the file.
func (h *fleetHandle) recover(ctx context.Context) error {
	var file *output.File
	open := func() (err error) {
		if file == nil {
			if file, err = output.Open(h.s.out, output.Options{}); err != nil {
				return outputError(err)
			}
		}
		return nil
	}
	n, err := h.lead.Recover(ctx, func(r *output.Result, earlier int) error {
		if err := open(); err != nil {
			return err
		}
		if old, ok := file.Index().Lookup(r.Key); ok {
			if old.Status == output.OK && r.Status != output.OK {
				return nil
			}
			if res, err := file.Row(old.Offset); err == nil && earlier > 0 {
				r.History = runner.FirstAttempts(res.History, earlier)
			}
		}
		return file.Write(r)
	}, func() error { return syncPath(h.s.out) })
	if file != nil {
		err = errors.Join(err, file.Close(output.CloseOptions{}))
	}
	if n > 0 && err == nil && !h.s.o.quiet {
		fmt.Fprintf(h.s.e.stderr, "llmbatch: %s of a run that broke off collected\n", plural(n, "result was", "results were"))
	}
	return err
}

func syncPath(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// settings prepares what other workers are told. It refuses secrets.
func (h *fleetHandle) settings() error {
	s, err := settingsFor(h.s)
	if err != nil && h.f.nats != "" {
		return err
	}
	if err != nil { // the one worker is here and has them anyway
		s = fleetSettings{}
	}
	if h.plain, err = json.Marshal(s); err != nil {
		return err
	}
	h.sync, err = os.Open(h.s.file.Path())
	return err
}

// print identifies input, output and settings.
func (h *fleetHandle) print() string {
	d := sha256.New()
	fmt.Fprintf(d, "%s\n%s\n", h.plain, strings.Join([]string{absolute(h.s.prompts), absolute(h.s.out)}, "\n"))
	fmt.Fprintf(d, "%v %v %v %v %v\n", h.s.o.limit, h.s.o.retryFailed, h.s.o.fresh, h.s.o.onlyIDs, h.s.o.onChanged)
	if info, ok := h.s.in.Stat(); ok {
		fmt.Fprintf(d, "%d %d\n", info.Size(), info.ModTime().UnixNano())
	}
	return hex.EncodeToString(d.Sum(nil)[:12])
}

func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// hook makes the fleet of a run on this machine.
func (h *fleetHandle) hook(c *runner.Config) {
	here := *c
	p := c.Pacing
	coordinator := h.lead.Coordinator(fleet.Coordination{
		Print: h.print(), Settings: h.plain, Lease: h.f.lease, Window: h.f.window, Lanes: c.Lanes, Total: h.s.found.items, Before: h.s.found.items - h.s.found.todo,
		End: c.End, Drain: c.Drain, Pacing: p, Retain: h.f.retain,
		Input: func() iter.Seq2[*input.Item, error] { return h.s.items() },
		Sync:  h.sync.Sync, Money: c.Spend != nil, Log: c.Log,
	})
	c.Survey = coordinator.Survey
	c.Elsewhere = func(m runner.Remote) {
		if h.server == nil {
			coordinator.Run(m)
			return
		}
		h.withWorker(m, here, coordinator)
	}
}

// withWorker runs the one worker beside the coordinator, on a connection of its
// own.
func (h *fleetHandle) withWorker(m runner.Remote, here runner.Config, coordinator *fleet.Coordinator) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := fleet.Connect(ctx, fleet.Options{Server: h.server, Run: orElse(h.f.run, "run")})
		if err == nil {
			defer conn.Close()
			_, err = conn.Work(ctx, fleet.WorkerOptions{
				Concurrency: here.Pacing.Max, Log: here.Log,
				Attach: func(r *runner.Runner) {
					go func() {
						select {
						case <-m.Cut(): // a second signal: nothing on the wire is waited for
							r.Stop(errSignal)
							r.Stop(errSignal)
						case <-ctx.Done():
						}
					}()
				},
				Build: func(fleet.Config) (runner.Config, error) { return here, nil },
			})
		}
		if err != nil && ctx.Err() == nil {
			m.Halt(runner.Internal, "the worker could not work: "+err.Error(), "", err)
		}
	}()
	coordinator.Run(m)
	select {
	case <-done:
	case <-time.After(2 * time.Second): // it has heard of the end; what it still has is of no use
	}
	cancel()
	<-done
}

// close gives everything back. The embedded server's store goes when all that was
// in it is in the results.
func (h *fleetHandle) close() {
	if h.sync != nil {
		h.sync.Close()
	}
	if h.lead != nil {
		h.lead.Close()
	}
	if h.conn != nil {
		h.conn.Close()
	}
	if h.server != nil {
		h.server.Stop()
		if h.clean || h.made && !h.begun {
			os.RemoveAll(h.store)
		}
	}
}
