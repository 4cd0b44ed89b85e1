package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"llmbatch/input"
	"llmbatch/output/live"
	"llmbatch/retry"
	"llmbatch/runner"
	"llmbatch/runner/fleet"
	"llmbatch/runner/provider"
)

// fleetSettings are the settings of a run as its workers get them: no key, no
// secret header, no URL with a password.
type fleetSettings struct {
	Provider, Endpoint, Model, Temperature, System string
	MaxTokens                                      int
	BaseURL                                        string
	// Bases are the base URLs of the coordinator's environment; a worker's own win.
	Bases map[string]string
	// Keyed are the families that the coordinator has keys for: it decided by them.
	Keyed                                          []string
	Header                                         []string
	AuthHeader, IdempotencyHeader                  string
	Stream                                         bool
	OnCut, ContinueStyle, OnLongWait               string
	ItemBudget, AttemptTimeout, IdleTimeout, Drain time.Duration
	MaxAttempts, MaxErrors                         int
	MaxWait                                        time.Duration
	Prices                                         map[string]runner.Price
	General                                        runner.Price
	GeneralWins                                    bool
	Priced                                         bool
	Seed                                           uint64
	Mock                                           string // address of the mock API
}

// settingsFor is the settings of a session. Secrets are an error: they would pass
// through NATS.
func settingsFor(s *session) (fleetSettings, error) {
	o := s.o
	fs := fleetSettings{
		Provider: o.provider, Endpoint: o.endpoint, Model: o.model, Temperature: o.temperature, System: o.system,
		MaxTokens: o.maxTokens, BaseURL: o.baseURL, Keyed: s.router.keyed, Header: o.header.Value(),
		AuthHeader: o.authHeader, IdempotencyHeader: o.idempotencyHeader, Stream: o.stream, OnCut: o.onCut,
		ContinueStyle: o.continueStyle, OnLongWait: o.onLongWait, ItemBudget: o.itemBudget,
		AttemptTimeout: o.attemptTimeout, IdleTimeout: o.idleTimeout, Drain: o.drain,
		MaxAttempts: o.maxAttempts, MaxErrors: o.maxErrors, MaxWait: o.maxWait,
		Priced: o.hasPrices(), Seed: o.seed, Bases: map[string]string{}, Prices: map[string]runner.Price{},
	}
	fs.General, fs.GeneralWins = o.generalPrice()
	for model, p := range o.prices {
		fs.Prices[model] = runner.Price{Input: p.input, Output: p.output, CacheRead: p.cacheRead, CacheWrite: p.cacheWrite}
	}
	if u := s.mock.url(); u != nil {
		fs.Mock = u.String()
	}
	for _, line := range fs.Header {
		name, value, _ := strings.Cut(line, ":")
		if secretName(strings.TrimSpace(name)) && !strings.HasPrefix(strings.TrimSpace(value), "env:") {
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

// options are the settings as flags of run.
func (fs fleetSettings) options(keyFile string) *options {
	o := &options{
		provider: fs.Provider, endpoint: fs.Endpoint, model: fs.Model, temperature: fs.Temperature, system: fs.System,
		maxTokens: fs.MaxTokens, baseURL: fs.BaseURL, authHeader: fs.AuthHeader, apiKeyFile: keyFile,
		from: map[string]string{},
	}
	for _, h := range fs.Header {
		_ = o.header.Set(h) // never fails
	}
	return o
}

// router is that of the settings, with this machine's keys.
func (fs fleetSettings) router(e *env, keyFile string) (*router, error) {
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
	r, err := newRouter(fs.options(keyFile), &own, mock)
	if err != nil {
		return nil, err
	}
	r.keyed = fs.Keyed
	return r, nil
}

// config is a worker's runner.Config.
func (fs fleetSettings) config(r *router, log *slog.Logger) runner.Config {
	c := runner.Config{
		Route: func(it *input.Item) (*runner.Target, error) {
			t, err := r.route(it)
			if err == nil && t.Defaults.Native && t.Credentials.Key == "" && !signsItself(r.header) {
				return nil, noKey(t.Defaults.Name)
			}
			return t, err
		},
		Retry:      retry.Policy{MaxAttempts: fs.MaxAttempts, MaxErrors: fs.MaxErrors, MaxWait: fs.MaxWait},
		ItemBudget: fs.ItemBudget, AttemptTimeout: fs.AttemptTimeout, IdleTimeout: fs.IdleTimeout, Drain: fs.Drain,
		Stream: fs.Stream, OnCut: fs.OnCut, ContinueStyle: fs.ContinueStyle, IdempotencyHeader: fs.IdempotencyHeader,
		Seed: fs.Seed, Scrub: r.scrubber(), Log: log, UserAgent: "llmbatch/" + version(),
	}
	if fs.OnLongWait == "cap" {
		c.Retry.OnLongWait = retry.Cap
	}
	if fs.IdempotencyHeader == "off" {
		c.IdempotencyHeader = ""
	}
	if fs.Priced {
		c.Price = fs.price
	}
	return c
}

func (fs fleetSettings) price(model string) (runner.Price, bool) {
	if fs.GeneralWins {
		return fs.General, true
	}
	for _, name := range []string{model, dated.ReplaceAllString(model, "")} {
		if p, ok := fs.Prices[name]; ok {
			return p, true
		}
	}
	return fs.General, fs.General != runner.Price{}
}

func fleetWorkerCommand(e *env) *cli.Command {
	o, f := &options{}, &fleetOptions{}
	flags := append(natsFlags(f),
		&cli.IntFlag{Category: groupFleet, Name: "concurrency", Value: 256, Destination: &o.concurrency, Usage: "`N`: most requests on the wire from here, in each lane"},
		&cli.DurationFlag{Category: groupFleet, Name: "drain", Value: 25 * time.Second, Destination: &o.drain, Usage: "`DURATION`: how long requests on the wire may finish when this worker is stopped"},
		&cli.StringFlag{Category: groupFleet, Name: "id", Destination: &f.id, DefaultText: "the host's name and a random end", Usage: "`NAME`: names the worker in rows"},
		&cli.StringFlag{Category: groupAPI, Name: "api-key-file", Destination: &o.apiKeyFile, DefaultText: "ANTHROPIC_API_KEY, ANTHROPIC_AUTH_TOKEN, OPENAI_API_KEY", Usage: "`FILE`: holds the key"},
		&cli.BoolFlag{Category: groupSeen, Name: "quiet", Aliases: []string{"q"}, Destination: &o.quiet, Usage: "print nothing at all on success"},
		&cli.BoolFlag{Category: groupSeen, Name: "verbose", Aliases: []string{"v"}, Destination: &o.verbose, Usage: "log each attempt"},
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
		if o.verbose {
			level = slog.LevelDebug
		}
		log = slog.New(live.Handler(e.stderr, "text", level))
	}
	rep, err := conn.Work(ctx, fleet.WorkerOptions{
		ID: f.id, Concurrency: o.concurrency, Log: log,
		Attach: func(r *runner.Runner) { attached <- r },
		Build: func(c fleet.Config) (runner.Config, error) {
			var fs fleetSettings
			if err := json.Unmarshal(c.Settings, &fs); err != nil {
				return runner.Config{}, err
			}
			if fs.Provider == "" {
				return runner.Config{}, errors.New("the run's settings hold secrets and are for its own worker only")
			}
			if ownDrain {
				fs.Drain = o.drain
			}
			r, err := fs.router(e, o.apiKeyFile)
			if err != nil {
				return runner.Config{}, err
			}
			return fs.config(r, log), nil
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
