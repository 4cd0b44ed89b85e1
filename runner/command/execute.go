package command

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	mathrand "math/rand/v2"
	"sync"
	"time"
	"unicode/utf16"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/output/live"
	"llmbatch/output/report"
	"llmbatch/pacing"
	"llmbatch/retry"
	"llmbatch/runner"
	"llmbatch/runner/expect"
)

// execution is a session's run while it goes.
type execution struct {
	*session
	runner  *runner.Runner
	display *live.Display
	metrics *metrics
	started time.Time
	end     time.Time // zero: none

	// copies answers items without a request; nil: each is sent.
	copies *copies

	mu    sync.Mutex
	stats *report.Stats
	// badBefore counts items run again whose row was failed or gave_up.
	badBefore int
	// inBatches says what goes on at the provider when the run ends, "" if nothing.
	inBatches string
}

// execute runs what the check found and returns how it ended.
func (s *session) execute(ctx context.Context, stop *stopper) (x *execution, rep runner.Report, err error) {
	x = &execution{session: s, started: s.e.now(), stats: report.NewStats()}
	if x.end, err = runEnd(s.o, s.e.start, s.e.now()); err != nil {
		return nil, rep, err
	}
	if !s.in.Pipe() && s.found.todo == 0 {
		return x, runner.Report{Rows: map[output.Status]int{}, Skipped: s.found.old}, nil
	}
	if x.copies, err = newCopies(x); err != nil {
		return nil, rep, err
	}
	defer x.copies.close()
	x.display = live.Start(live.Options{
		Mode: mode(s.o), Out: s.e.stderr, Snapshot: x.snapshot, JSON: s.o.logFormat == "json",
	})
	defer x.display.Stop()
	salt := randomHex()
	if s.file != nil {
		if salt, err = s.file.Salt(); err != nil {
			return nil, rep, failf(exitWrite, "%w", err).hint("nothing was sent: make room or mend the cause, then run the same command again")
		}
	}
	c := x.config()
	c.Salt = salt
	if s.elsewhere != nil {
		s.elsewhere(&c)
	}
	if x.metrics, err = startMetrics(s.o, x.status); err != nil {
		return nil, rep, err
	}
	x.mu.Lock()
	x.runner = runner.New(c)
	x.mu.Unlock()
	stop.attach(x)
	rep = x.runner.Run(ctx)
	x.copies.addTo(&rep)
	return x, rep, nil
}

func mode(o *options) live.Mode {
	if o.quiet {
		return live.None
	}
	return map[string]live.Mode{"bar": live.Bar, "log": live.Log, "none": live.None}[o.progress] // auto is live.Auto
}

// runEnd is when the run's time is over: the earlier of --budget, from the
// program's start, and --until.
func runEnd(o *options, start, now time.Time) (time.Time, error) {
	var end time.Time
	if o.budget > 0 {
		end = start.Add(o.budget)
	}
	if o.until == "" {
		return end, nil
	}
	until, err := parseUntil(o.until, now)
	if err != nil {
		return end, err
	}
	if end.IsZero() || until.Before(end) {
		end = until
	}
	return end, nil
}

// parseUntil reads a time of day, the next one in now's zone, or a date and time.
func parseUntil(text string, now time.Time) (time.Time, error) {
	for _, layout := range []string{"15:04", "15:04:05"} {
		if t, err := time.Parse(layout, text); err == nil {
			y, m, d := now.Date()
			at := time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), 0, now.Location())
			if !at.After(now) {
				at = time.Date(y, m, d+1, t.Hour(), t.Minute(), t.Second(), 0, now.Location())
			}
			return at, nil
		}
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02 15:04", "2006-01-02 15:04:05", "2006-01-02T15:04", "2006-01-02T15:04:05"} {
		if t, err := time.ParseInLocation(layout, text, now.Location()); err == nil {
			if !t.After(now) {
				return t, usagef("--until %s is in the past", text)
			}
			return t, nil
		}
	}
	return time.Time{}, usagef("--until %q: not a time", text).hint("such as 06:00, '2026-01-31 06:00' or 2026-01-31T06:00:00Z")
}

// runnerConfig is the part of a runner's Config that follows from the settings
// alone and holds for each request: of a run and of a fleet's worker.
func runnerConfig(o *options, r *router, log *slog.Logger) runner.Config {
	c := runner.Config{
		Source: runner.Source{Route: r.route},
		Limits: runner.Limits{
			Retry:      retry.Policy{MaxAttempts: o.maxAttempts, MaxErrors: o.maxErrors, MaxWait: o.maxWait},
			ItemBudget: o.itemBudget, AttemptTimeout: o.attemptTimeout, IdleTimeout: o.idleTimeout, Drain: o.drain,
			FirstTokenTimeout: o.firstTokenTimeout, ConnectTimeout: o.connectTimeout, MaxAnswer: o.maxAnswerBytes,
		},
		Hooks:  runner.Hooks{Scrub: r.scrubber(), Log: log},
		Stream: o.stream, OnCut: o.onCut, ContinueStyle: o.continueStyle,
		IdempotencyHeader: o.idempotencyHeader,
		Seed:              o.seed, UserAgent: "llmbatch/" + version(),
	}
	c.Reask = o.reask
	if o.expect != "" {
		check, err := expect.Parse(o.expect) // it was parsed before, with the other settings
		c.Expect = func(text string) error {
			if err != nil {
				return err
			}
			return check(text)
		}
	}
	if o.onLongWait == "cap" {
		c.Retry.OnLongWait = retry.Cap
	}
	if o.idempotencyHeader == "off" {
		c.IdempotencyHeader = ""
	}
	if o.from["seed"] == fromDefault {
		c.Seed = mathrand.Uint64()
	}
	if o.hasPrices() {
		c.Price = o.price
	}
	return c
}

// config is the runner's part of the run.
func (x *execution) config() runner.Config {
	o := x.o
	c := runnerConfig(o, x.router, x.logger())
	c.RetryFailed, c.Rerun, c.Limit, c.NoFailFast, c.ReadAhead = o.retryFailed, o.onChanged == "rerun", o.limit, o.noFailFast, 32
	c.Pacing = pacing.Config{
		Max: o.concurrency, Start: min(o.startConcurrency, o.concurrency), Fixed: o.fixed,
		Increase: o.aimdIncrease, Decrease: o.aimdDecrease, RPM: o.rpm, TPM: o.tpm, Burst: float64(o.burst),
	}
	if o.verbose || o.debug {
		c.Pacing.Log = func(ch pacing.Change) {
			c.Log.Debug("limit", "from", ch.From, "to", ch.To, "reason", ch.Reason, "detail", ch.Detail)
		}
	}
	c.Items, c.Lanes, c.End, c.OnRow, c.FreshSalt = x.itemsToRun(), len(x.found.lanes), x.end, x.onRow, randomHex()
	x.passOver(&c)
	if x.o.maxCost > 0 {
		c.Spend = pacing.NewSpend(x.o.maxCost)
	}
	if x.in.CanReload() {
		c.Reload = x.in.Reload
	}
	if x.in.Pipe() || x.o.skipInvalid {
		c.Reject = x.in.Reject
	}
	x.sink(&c)
	return c
}

// passOver lets the run begin at the first item that needs work: the check has
// read those before it.
func (x *execution) passOver(c *runner.Config) {
	f := &x.found
	switch {
	case f.items > 0 && f.todo == 0:
		c.Items, c.Skipped = func(func(*input.Item, error) bool) {}, f.old
	case f.first != nil && x.in.Begin(f.first):
		c.Skipped = f.before
	}
}

// itemsToRun are the session's items. What the check does for a file is done here
// for a pipe, which ends at an item that is done with another request.
func (x *execution) itemsToRun() iter.Seq2[*input.Item, error] {
	if x.copies != nil {
		return x.copies.toSend(x.itemsToCheck())
	}
	return x.itemsToCheck()
}

func (x *execution) itemsToCheck() iter.Seq2[*input.Item, error] {
	if !x.in.Pipe() || x.o.onChanged == "rerun" {
		return x.items()
	}
	return func(yield func(*input.Item, error) bool) {
		for it, err := range x.items() {
			if err == nil && x.changed(it) {
				it, err = nil, &input.LineError{
					File: x.in.Name(), Line: it.Line, Msg: fmt.Sprintf("%s already has an answer, but its line (or --model, --system) has changed", it.ID),
					Hint: "--on-changed rerun asks for it again, --fresh starts over, -o FILE keeps both",
				}
			}
			if !yield(it, err) || err != nil {
				return
			}
		}
	}
}

// changed says whether an item is done with another request.
func (x *execution) changed(it *input.Item) bool {
	row, ok := x.old(it.Key)
	if !ok || !x.isDone(row) || it.Bad != nil || row.Hash == 0 {
		return false
	}
	hash, err := x.hash(it)
	return err == nil && hash != row.Hash
}

// sink says where rows go and where earlier ones are.
func (x *execution) sink(c *runner.Config) {
	if x.file == nil {
		c.Write, c.FinalOnly = x.orPrint(x.stream.Write), true
		return
	}
	c.Write, c.Old, c.OldRow = x.orPrint(x.file.Write), x.file.Index().Lookup, x.file.Row
	if x.o.rerun { // for the runner an answer that is asked for again is one that failed
		c.RetryFailed = true
		c.Old = func(key string) (output.Row, bool) {
			row, ok := x.file.Index().Lookup(key)
			if row.Status == output.OK {
				row.Status = output.Failed
			}
			return row, ok
		}
	}
}

// orPrint prints the rows that nothing could keep.
func (x *execution) orPrint(write func(*output.Result) error) func(*output.Result) error {
	return func(r *output.Result) error {
		err := write(r)
		if lost, ok := errors.AsType[*output.WriteError](err); ok && lost.Unsaved != nil {
			x.printRow(lost.Unsaved)
		}
		return err
	}
}

// printRow shows a row that no file takes.
func (x *execution) printRow(row []byte) {
	w := x.e.stderr
	if x.display != nil {
		w = x.display.Writer()
	}
	fmt.Fprintf(w, "llmbatch: a row that could be kept nowhere:\n%s\n", asciiJSON(row))
}

// asciiJSON writes a row so that it passes a terminal, and what is copied from
// there is still the same JSON.
func asciiJSON(row []byte) []byte {
	var b []byte
	for _, r := range string(bytes.TrimSpace(row)) {
		switch {
		case r < 0x7f:
			b = append(b, byte(r))
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			b = fmt.Appendf(b, `\u%04x\u%04x`, hi, lo)
		default:
			b = fmt.Appendf(b, `\u%04x`, r)
		}
	}
	return b
}

func randomHex() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

func (x *execution) logger() *slog.Logger {
	if x.o.quiet {
		return slog.New(slog.DiscardHandler)
	}
	level := slog.LevelInfo
	if x.o.debug {
		level = slog.LevelDebug
	}
	h := live.Handler(x.display.Writer(), x.o.logFormat, level)
	if x.o.verbose {
		h = sentences{h, func(text string) { x.say(x.display.Writer(), text) }}
	}
	return slog.New(h)
}

// onRow takes each final row into the figures.
func (x *execution) onRow(r *output.Result) {
	x.count(r)
	x.copies.arrived(r)
}

func (x *execution) count(r *output.Result) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.stats.Add(r)
	x.metrics.row(r)
	if row, ok := x.old(r.Key); ok && (row.Status == output.Failed || row.Status == output.GaveUp) {
		x.badBefore++
	}
}

// status is how the runner stands; before it exists, nothing.
func (x *execution) status() runner.Status {
	x.mu.Lock()
	r := x.runner
	x.mu.Unlock()
	if r == nil {
		return runner.Status{}
	}
	return r.Status()
}

// snapshot is the same for the progress line.
func (x *execution) snapshot() live.Status {
	s := x.status()
	total := -1
	if !x.in.Pipe() {
		total = x.found.items
		if limit := x.o.limit; limit > 0 {
			total -= max(0, x.found.todo-limit)
		}
	}
	x.copies.addTo(&runner.Report{Rows: s.Rows})
	done := s.Skipped
	for _, n := range s.Rows {
		done += n
	}
	l := live.Status{
		Total: total, Done: done, OK: s.Rows[output.OK], Failed: s.Rows[output.Failed], GaveUp: s.Rows[output.GaveUp],
		Waiting: s.Waiting, InFlight: s.InFlight, Limit: s.Limit, Throttled: s.Throttled, Requests: s.Requests,
		InputTokens: s.Input, OutputTokens: s.Output, Cost: s.Cost, HasCost: x.o.hasPrices(),
		Lanes: s.Lanes, Elapsed: x.e.now().Sub(x.started),
	}
	if why := pauseWords(s.GateReason); why != "" || s.Gate.IsZero() {
		l.Gate, l.GateReason = s.Gate, why
	} else {
		l.Note = x.o.pacing()
	}
	if s.Stopping && s.InFlight > 0 {
		l.Note = "stopping"
	}
	return l
}

var errSignal = errors.New("interrupted")
