package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"llmbatch/output/live"
	"llmbatch/output/plain"
	"llmbatch/runner/fleet"
)

const groupFleet = "Fleet"

const fleetDescription = `One machine, nothing to install:
  llmbatch fleet run prompts.jsonl --model MODEL
More machines: a NATS server that all of them reach, one fleet run, workers:
  llmbatch fleet serve --store DIR --listen HOST:4222 \
           --token-file F --tls-cert F --tls-key F
  llmbatch fleet run prompts.jsonl --model MODEL \
           --nats URL --nats-token-file F --run NAME
  llmbatch fleet worker --nats URL --nats-token-file F --run NAME
Keys never pass through NATS: each worker has its own in its environment.`

// fleetOptions are the flags of the fleet commands.
type fleetOptions struct {
	nats, creds, tokenFile, ca, run string

	window, replicas    int
	lease, retain       time.Duration
	standby             bool
	store, listen, sync string
	maxMessage          string
	cert, key           string
	insecure            bool
	id                  string
	allowBaseURL        list
	allowEnv            list
	wait                time.Duration
	json, watch         bool
}

func fleetCommand(e *env) *cli.Command {
	c := &cli.Command{
		Name: "fleet", Usage: "the same run on many machines, over NATS JetStream", ArgsUsage: "COMMAND",
		Description: fleetDescription + "\n\nCommands:\n",
		Subcommands: append([]*cli.Command{fleetServeCommand(e), fleetRunCommand(e), fleetWorkerCommand(e)}, adminCommands(e)...),
	}
	for _, s := range c.Subcommands {
		c.Description += fmt.Sprintf("  fleet %-9s %s\n", s.Name, s.Usage)
	}
	c.Action = func(*cli.Context) error { return writeOut(e.stdout, []byte(helpText("fleet", c, true))) }
	return c
}

// natsFlags say which run on which server.
func natsFlags(f *fleetOptions) []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Category: groupFleet, Name: "nats", Destination: &f.nats, DefaultText: "NATS_URL", Usage: "`URL`: the NATS server, such as nats://HOST:4222 or tls://HOST:4222"},
		&cli.StringFlag{Category: groupFleet, Name: "nats-creds", Destination: &f.creds, DefaultText: "NATS_CREDS", Usage: "`FILE`: NATS credentials"},
		&cli.StringFlag{Category: groupFleet, Name: "nats-token-file", Destination: &f.tokenFile, Usage: "`FILE`: holds the server's token"},
		&cli.StringFlag{Category: groupFleet, Name: "nats-ca", Destination: &f.ca, Usage: "`FILE`: certificates to trust for tls://"},
		&cli.StringFlag{Category: groupFleet, Name: "run", Destination: &f.run, Usage: "`NAME`: names the run: letters, digits, - and _"},
	}
}

// fromEnv completes the flags from the variables that NATS users know.
func (f *fleetOptions) fromEnv(e *env) {
	f.nats = orElse(f.nats, e.getenv("NATS_URL"))
	f.creds = orElse(f.creds, e.getenv("NATS_CREDS"))
}

// connect reaches the run that the flags name.
func (f *fleetOptions) connect(ctx context.Context, e *env) (*fleet.Conn, error) {
	f.fromEnv(e)
	if f.nats == "" {
		return nil, usagef("no NATS server given").hint("add --nats URL, or set NATS_URL")
	}
	if f.run == "" {
		return nil, usagef("no run given").hint("add --run NAME, the name that fleet run was given")
	}
	token, err := readToken(f.tokenFile)
	if err != nil {
		return nil, err
	}
	conn, err := fleet.Connect(ctx, fleet.Options{URL: f.nats, Creds: f.creds, Token: token, CA: f.ca, Run: f.run})
	if err != nil {
		return nil, usagef("%w", err)
	}
	return conn, nil
}

// readToken reads a file that holds a token, "" for no file.
func readToken(path string) (string, error) {
	if path == "" {
		return "", nil
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return "", usagef("the token's file: %w", err)
	}
	token := strings.TrimSpace(string(data))
	if token == "" {
		return "", usagef("%s holds no token", path)
	}
	return token, nil
}

func fleetServeCommand(e *env) *cli.Command {
	f := &fleetOptions{}
	return &cli.Command{
		Name: "serve", Usage: "serve NATS for a fleet, as any nats-server from 2.12 can",
		Flags: []cli.Flag{
			&cli.StringFlag{Category: groupFleet, Name: "store", Destination: &f.store, Usage: "`DIR`: where the streams are kept"},
			&cli.StringFlag{Category: groupFleet, Name: "listen", Value: "127.0.0.1:4222", Destination: &f.listen, Usage: "`ADDR`: beyond loopback it needs a token and TLS"},
			&cli.StringFlag{Category: groupFleet, Name: "sync", Value: "2m", Destination: &f.sync, Usage: "`WHEN`: how often the store is flushed to the disk, or always"},
			&cli.StringFlag{Category: groupFleet, Name: "max-message", Value: "8MiB", Destination: &f.maxMessage, Usage: "`SIZE`: longest message: a prompt with its attempts, an answer"},
			&cli.StringFlag{Category: groupFleet, Name: "token-file", Destination: &f.tokenFile, Usage: "`FILE`: holds the token that clients must have; else one is made in the store"},
			&cli.StringFlag{Category: groupFleet, Name: "tls-cert", Destination: &f.cert, Usage: "`FILE`: certificate"},
			&cli.StringFlag{Category: groupFleet, Name: "tls-key", Destination: &f.key, Usage: "`FILE`: its key"},
			&cli.BoolFlag{Category: groupFleet, Name: "insecure", Destination: &f.insecure, Usage: "listen beyond loopback all the same"},
			&cli.BoolFlag{Category: groupFleet, Name: "verbose", Aliases: []string{"v"}, Destination: &f.json, Usage: "show the server's log"},
		},
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			return fleetServe(e, f)
		},
	}
}

// leastServerMemory is when the server collects garbage at the latest, on a host of
// little memory. It reads and writes blocks of up to 8 MB whose buffers it drops
// again; what it keeps grows with the items that wait. An eighth of the host's memory
// is the limit elsewhere: one that is too tight makes it collect all the time.
const leastServerMemory = 176 << 20

// hostMemory is the host's memory in bytes, as Linux tells it; 0 if it is not known.
func hostMemory() int64 {
	data, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	var kb int64
	if _, err := fmt.Sscanf(string(data), "MemTotal: %d kB", &kb); err != nil {
		return 0
	}
	return kb << 10
}

func fleetServe(e *env, f *fleetOptions) error {
	o := fleet.ServeOptions{Store: f.store, Listen: f.listen, Cert: f.cert, Key: f.key, Insecure: f.insecure, Verbose: f.json}
	if o.Store == "" {
		return usagef("fleet serve: no --store given").hint("such as --store /var/lib/llmbatch: a folder on a disk that lasts")
	}
	var err error
	if f.sync == "always" {
		o.SyncAlways = true
	} else if o.Sync, err = time.ParseDuration(f.sync); err != nil || o.Sync <= 0 {
		return usagef("--sync %q: want a duration such as 1s, or always", f.sync)
	}
	if o.MaxMessage, err = parseSize(f.maxMessage); err != nil {
		return err
	}
	var tokenFile string
	if o.Token, tokenFile, err = serverToken(f); err != nil {
		return err
	}
	if e.getenv("GOMEMLIMIT") == "" {
		debug.SetMemoryLimit(max(leastServerMemory, hostMemory()/8))
	}
	o.Trouble = func(m string) { fmt.Fprintf(e.stderr, "llmbatch: %s\n", printable(m)) }
	sig := e.signals()
	defer sig.release()
	s, err := fleet.Serve(o)
	if err != nil {
		return usagef("fleet serve: %w", err).hint("beyond loopback: --token-file, --tls-cert and --tls-key; or --insecure on a network that you trust")
	}
	fmt.Fprintf(e.stderr, "llmbatch: NATS is served on %s, its store is %s\n", s.Addr(), printable(o.Store))
	if f.tokenFile == "" {
		fmt.Fprintf(e.stderr, "llmbatch: clients need the token of %s: --nats-token-file FILE, with a copy of it on each host\n", printable(tokenFile))
	}
	<-sig.stop
	s.Stop()
	return nil
}

// parseSize reads bytes with an optional KiB or MiB, 1 KiB to 16 MiB: JetStream
// refuses messages of 32 MiB whatever it is told.
func parseSize(text string) (int, error) {
	var n int
	var unit string
	_, err := fmt.Sscanf(text+" ", "%d%s", &n, &unit)
	if err != nil && unit != "" {
		n = -1
	}
	switch strings.ToLower(unit) {
	case "", "b":
	case "k", "kib", "kb":
		n <<= 10
	case "m", "mib", "mb":
		n <<= 20
	default:
		n = -1
	}
	if n < 1<<10 || n > 16<<20 {
		return 0, usagef("--max-message %q: want a size from 1KiB to 16MiB", text)
	}
	return n, nil
}

// adminCommands do one thing each to a run that goes.
func adminCommands(e *env) []*cli.Command {
	var commands []*cli.Command
	for _, a := range []struct {
		name, usage, arg string
		do               func(ctx context.Context, c *fleet.Conn, arg string, f *fleetOptions) error
		done             string // what it has done; "": do says so itself
	}{
		{"status", "show how a run stands", "", func(ctx context.Context, c *fleet.Conn, _ string, f *fleetOptions) error {
			return fleetStatus(ctx, e, c, f)
		}, ""},
		{"limit", "cap the requests on the wire a model, now; 0: no cap", "N", func(ctx context.Context, c *fleet.Conn, arg string, f *fleetOptions) error {
			n, _ := strconv.Atoi(arg)
			if err := c.SetLimit(ctx, n); err != nil {
				return err
			}
			said := "has at most " + plain.Plural(n, "request") + " on the wire for each model from now on; fleet limit 0 lifts that"
			if n == 0 {
				said = "has no cap set by hand any more"
			}
			fmt.Fprintf(e.stderr, "llmbatch: the run %s %s\n", printable(f.run), said)
			return nil
		}, ""},
		{"pause", "launch nothing more until fleet unpause", "", plainly((*fleet.Conn).Pause), "launches nothing more; what is on the wire finishes, and fleet unpause goes on"},
		{"unpause", "launch again, also where an API asked for a wait", "", plainly((*fleet.Conn).Unpause), "launches again"},
		{"abort", "stop a run everywhere; what is on the wire may finish", "", plainly((*fleet.Conn).Abort), "is stopped for all workers; the same fleet run again does the rest"},
		{"rm", "delete a run's streams; the results file stays", "", plainly((*fleet.Conn).Remove), "is removed from the NATS server; its results file stays"},
	} {
		f := &fleetOptions{}
		flags := natsFlags(f)
		if a.name == "status" {
			flags = append(flags, &cli.BoolFlag{Name: "json", Destination: &f.json, Usage: "as one JSON object"},
				&cli.BoolFlag{Name: "watch", Destination: &f.watch, Usage: "again every two seconds, until the run has ended"})
		}
		commands = append(commands, &cli.Command{
			Name: a.name, Usage: a.usage, ArgsUsage: a.arg, Flags: flags,
			Action: func(c *cli.Context) error {
				arg, err := "", noArgs(c)
				if a.arg != "" {
					arg, err = countArg(c, a.arg)
				}
				if err != nil {
					return err
				}
				err = doAdmin(e, f, func(ctx context.Context, conn *fleet.Conn) error { return a.do(ctx, conn, arg, f) })
				if err == nil && a.done != "" {
					fmt.Fprintf(e.stderr, "llmbatch: the run %s %s\n", printable(f.run), a.done)
				}
				return err
			},
		})
	}
	return commands
}

// plainly is do for a command without an argument.
func plainly(do func(*fleet.Conn, context.Context) error) func(context.Context, *fleet.Conn, string, *fleetOptions) error {
	return func(ctx context.Context, c *fleet.Conn, _ string, _ *fleetOptions) error { return do(c, ctx) }
}

// fleetStatus prints how a run stands; with --watch until it has ended, or a signal
// comes.
func fleetStatus(ctx context.Context, e *env, c *fleet.Conn, f *fleetOptions) error {
	sig := e.signals()
	defer sig.release()
	for {
		s, err := c.Status(ctx)
		if err != nil {
			return err
		}
		switch {
		case f.json:
			err = s.WriteJSON(e.stdout)
		case f.watch && live.IsTerminal(e.stdout):
			fmt.Fprint(e.stdout, "\x1b[H\x1b[2J")
			err = s.WriteText(e.stdout)
		default:
			err = s.WriteText(e.stdout)
		}
		if err != nil || !f.watch || s.Ended() {
			return err
		}
		select {
		case <-time.After(2 * time.Second):
		case <-sig.stop:
			return nil
		}
		if !f.json && !live.IsTerminal(e.stdout) {
			fmt.Fprintln(e.stdout)
		}
	}
}

// countArg is the one argument of a command that takes a count.
func countArg(c *cli.Context, what string) (string, error) {
	arg, err := oneArg(c, what)
	if err != nil {
		return "", err
	}
	if n, err := strconv.Atoi(arg); err != nil || n < 0 || strconv.Itoa(n) != arg {
		return "", usagef("%s: %q is not a number of requests", commandName(c), arg)
	}
	return arg, nil
}

func doAdmin(e *env, f *fleetOptions, do func(context.Context, *fleet.Conn) error) error {
	ctx, cancel := context.WithCancel(context.Background())
	if !f.watch {
		ctx, cancel = context.WithTimeout(context.Background(), 30*time.Second)
	}
	defer cancel()
	conn, err := f.connect(ctx, e)
	if err != nil {
		return err
	}
	defer conn.Close()
	if err := do(ctx, conn); err != nil {
		if _, ok := errors.AsType[*failure](err); ok {
			return err
		}
		if errors.Is(err, fleet.ErrNoRun) {
			return usagef("%w", err).hint("fleet run makes it; is --run the same?")
		}
		return usagef("fleet: %w", err)
	}
	return nil
}
