package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/urfave/cli/v2"

	"llmbatch/input"
	"llmbatch/output/live"
	"llmbatch/runner"
	"llmbatch/runner/fleet"
	"llmbatch/runner/provider"
)

// fleetSettings are the settings of a run as its workers get them: no key, no
// secret header, no URL with a password.
type fleetSettings struct {
	// Set holds the flags of run that are not at their defaults.
	Set map[string][]string
	// Bases are the base URLs of the coordinator's environment; a worker's own win.
	Bases map[string]string
	// Keyed are the families that the coordinator has keys for: it decided by them.
	Keyed  []string
	Prices map[string]runner.Price // of the settings file
	Mock   string                  // address of the mock API
}

// settingsFor is the settings of a session. Secrets are an error: they would pass
// through NATS.
func settingsFor(s *session) (fleetSettings, error) {
	o := s.o
	fs := fleetSettings{Set: maps.Clone(o.set), Keyed: s.router.keyed, Bases: map[string]string{}, Prices: o.prices}
	fs.leaveLocal()
	if u := s.mock.url(); u != nil {
		fs.Mock = u.String()
	}
	for _, line := range o.header {
		name, _, _ := strings.Cut(line, ":")
		if provider.HideHeader(line) != line {
			return fs, usagef("--header %s: its value would pass through NATS", name).
				hint("--header '%s: env:NAME' takes it from each worker's environment", name)
		}
	}
	urls := map[string]string{"--base-url": o.baseURL}
	for _, name := range []string{"ANTHROPIC_BASE_URL", "OPENAI_BASE_URL"} {
		if v := s.e.getenv(name); v != "" {
			fs.Bases[name], urls[name] = v, v
		}
	}
	for where, text := range urls {
		if u, err := url.Parse(text); text != "" && err == nil && (len(provider.Secrets(u)) > 0 || u.User != nil) {
			return fs, usagef("%s holds a secret, which would pass through NATS", where).
				hint("set ANTHROPIC_BASE_URL or OPENAI_BASE_URL in each worker's environment instead")
		}
	}
	return fs, nil
}

// leaveLocal drops the fleet's own flags, and names of files, commands and places on
// one machine.
func (fs fleetSettings) leaveLocal() {
	known := flagNames(runFlags(&options{}))
	maps.DeleteFunc(fs.Set, func(name string, values []string) bool {
		file := name == "expect" && strings.HasPrefix(values[0], "@")
		return !slices.Contains(known, name) || slices.Contains(local(), name) || file
	})
}

// router is that of the settings, with this machine's keys.
func (fs fleetSettings) router(o *options, e *env) (*router, error) {
	own := *e
	own.getenv = func(name string) string {
		return orElse(e.getenv(name), fs.Bases[name])
	}
	var mock *url.URL
	if fs.Mock != "" {
		var err error
		if mock, err = url.Parse(fs.Mock); err != nil {
			return nil, err
		}
	}
	r, err := newRouter(o, &own, mock)
	if err != nil {
		return nil, err
	}
	r.keyed = fs.Keyed
	return r, nil
}

// config is the runner.Config of a worker whose own flags are own.
func (fs fleetSettings) config(e *env, own *options, t trust, ownDrain bool, log *slog.Logger) (runner.Config, error) {
	fs.leaveLocal() // whoever made these settings may not be who should have
	o, err := optionsOf(fs.Set)
	if err != nil {
		return runner.Config{}, err
	}
	o.prices, o.apiKeyFile, o.apiKeyCommand, o.apiKeyTTL = fs.Prices, own.apiKeyFile, own.apiKeyCommand, own.apiKeyTTL
	if err := t.allows(o, fs.Bases, e); err != nil {
		return runner.Config{}, err
	}
	if ownDrain {
		o.drain = own.drain
	}
	r, err := fs.router(o, e)
	if err != nil {
		return runner.Config{}, err
	}
	c := runnerConfig(o, r, log)
	c.Route = func(it *input.Item) (*runner.Target, error) {
		t, err := r.route(it)
		if err == nil && t.Defaults.Native && t.Credentials.Key == "" && !signsItself(r.header) {
			return nil, noKey(t.Defaults.Name)
		}
		return t, err
	}
	return c, nil
}

func fleetWorkerCommand(e *env) *cli.Command {
	o, f := &options{}, &fleetOptions{}
	flags := append(natsFlags(f),
		&cli.IntFlag{Category: groupFleet, Name: "concurrency", Value: 256, Destination: &o.concurrency, Usage: "`N`: most requests on the wire from here, in each lane"},
		&cli.DurationFlag{Category: groupFleet, Name: "drain", Value: 25 * time.Second, Destination: &o.drain, Usage: "`DURATION`: how long requests on the wire may finish when this worker is stopped"},
		&cli.StringFlag{Category: groupFleet, Name: "id", Destination: &f.id, DefaultText: "the host's name and a random end", Usage: "`NAME`: names the worker in rows"},
		&cli.DurationFlag{Category: groupFleet, Name: "wait", Value: 10 * time.Minute, Destination: &f.wait, Usage: "`DURATION`: how long to wait for a run to begin; 0: for ever"},
		&cli.GenericFlag{Category: groupAPI, Name: "allow-base-url", Value: &f.allowBaseURL, Usage: "`URL`: the key may go to this host as well, if the run says so; repeatable"},
		&cli.GenericFlag{Category: groupAPI, Name: "allow-env", Value: &f.allowEnv, Usage: "`NAME`: the run's headers may have this variable; repeatable"},
		&cli.StringFlag{Category: groupAPI, Name: "api-key-file", Destination: &o.apiKeyFile, DefaultText: "ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, OPENAI_API_KEY", Usage: "`FILE`: holds the key"},
		&cli.StringFlag{Category: groupAPI, Name: "api-key-command", Destination: &o.apiKeyCommand, Usage: "`CMD`: prints this worker's key; run at first, by age, and once after a 401"},
		&cli.DurationFlag{Category: groupAPI, Name: "api-key-ttl", Value: 45 * time.Minute, Destination: &o.apiKeyTTL, Usage: "`DURATION`: how long a key that the command printed is used"},
		&cli.BoolFlag{Category: groupSeen, Name: "quiet", Aliases: []string{"q"}, Destination: &o.quiet, Usage: "print nothing at all on success"},
		&cli.BoolFlag{Category: groupSeen, Name: "verbose", Aliases: []string{"v"}, Destination: &o.debug, Usage: "log each attempt"},
	)
	return &cli.Command{
		Name: "worker", Usage: "make a run's requests until it ends; wait for its start", Flags: flags,
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			if o.concurrency < 1 || o.drain < 0 {
				return usagef("fleet worker: --concurrency is at least 1, --drain can't be negative")
			}
			if f.id != "" && !goodWorkerID(f.id) {
				return usagef("--id %q: want letters, digits, - and _", f.id)
			}
			return fleetWork(e, o, f, c.IsSet("drain"))
		},
	}
}

func goodWorkerID(id string) bool {
	return len(id) <= 64 && !strings.ContainsFunc(id, func(r rune) bool {
		return !strings.ContainsRune("-_", r) && (r < '0' || r > '9') && (r < 'a' || r > 'z') && (r < 'A' || r > 'Z')
	})
}

func fleetWork(e *env, o *options, f *fleetOptions, ownDrain bool) error {
	sig := e.signals()
	defer sig.release()
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	attached := make(chan *runner.Runner, 1)
	w := &workerSignals{attached: attached, cancel: cancel}
	over := make(chan struct{})
	defer close(over)
	go w.listen(sig, over)
	conn, err := f.connect(ctx, e)
	if err != nil {
		return err
	}
	defer conn.Close()
	log := slog.New(slog.DiscardHandler)
	if !o.quiet {
		level := slog.LevelInfo
		if o.debug {
			level = slog.LevelDebug
		}
		log = slog.New(live.Handler(e.stderr, "text", level))
	}
	rep, err := conn.Work(ctx, fleet.WorkerOptions{
		ID: f.id, Concurrency: o.concurrency, Wait: f.wait, Log: log,
		Attach: func(r *runner.Runner) { attached <- r },
		Build: func(c fleet.Config) (runner.Config, error) {
			var fs fleetSettings
			if err := json.Unmarshal(c.Settings, &fs); err != nil {
				return runner.Config{}, err
			}
			if fs.Set == nil {
				return runner.Config{}, errors.New("the run's settings hold secrets and are for its own worker only")
			}
			return fs.config(e, o, trust{f.allowBaseURL, f.allowEnv}, ownDrain, log)
		},
	})
	return workerEnd(e, o, w, rep, err)
}

// workerEnd says how the run ended for a worker.
func workerEnd(e *env, o *options, w *workerSignals, rep runner.Report, err error) error {
	if code := w.code(); code != 0 {
		return failf(code, "this worker was stopped; the run goes on without it")
	}
	if err != nil {
		if _, ok := errors.AsType[*failure](err); ok {
			return err
		}
		return usagef("fleet worker: %w", err)
	}
	if rep.Reason == runner.Finished {
		if !o.quiet {
			fmt.Fprintf(e.stderr, "llmbatch: the run is over; %d requests were sent from here\n", rep.Requests)
		}
		return nil
	}
	f := failf(exitAborted, "the run was stopped: %s", rep.Message)
	switch rep.Reason {
	case runner.BudgetEnded:
		f.code = exitBudget
	case runner.Internal:
		f.code = exitInternal
	}
	return f
}

// workerSignals stops a worker in two stages, as stopper does a run: the first
// signal lets requests on the wire finish, the second does not.
type workerSignals struct {
	attached <-chan *runner.Runner
	cancel   context.CancelCauseFunc

	mu    sync.Mutex
	first os.Signal
}

func (w *workerSignals) listen(sig signals, over <-chan struct{}) {
	var r *runner.Runner
	for {
		select {
		case got := <-sig.stop:
			w.mu.Lock()
			again := w.first != nil
			if !again {
				w.first = got
			}
			w.mu.Unlock()
			w.cancel(errSignal)
			if again && r != nil {
				r.Stop(errSignal)
			}
		case r = <-w.attached:
		case <-sig.status:
		case <-over:
			return
		}
	}
}

// code is the exit code of the first signal, 0 if none came.
func (w *workerSignals) code() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first == nil {
		return 0
	}
	return signalCode(w.first)
}
