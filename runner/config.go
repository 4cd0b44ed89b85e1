// Package runner runs items: it launches calls as pacing allows, reads what
// comes back, judges it, tries again within the budgets of the item and the
// run, and hands every final result to a sink.
//
// Open items include those that wait, so memory is bounded; a permit is held
// for one attempt and never across a wait. The client makes no hidden requests:
// no redirects, no replays by the transport, no retries in a library. Two
// contexts: the first stops the launching, the second cancels what is on the
// wire.
package runner

import (
	"iter"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/pacing"
	"llmbatch/retry"
	"llmbatch/runner/provider"
)

// Target is where a line's request goes and how it is signed. Lines that share
// a *Target and a model share a lane.
type Target struct {
	Provider    provider.Provider
	Base        *url.URL
	Credentials provider.Credentials
	// Keys makes the key of the Credentials; nil: it stays as it is.
	Keys *KeySource
	// Header holds extra request headers, their values resolved; they win over
	// those that the provider sets.
	Header http.Header
	// Sign, if not nil, signs each request and its body just before it is sent, by
	// headers that it sets (AWS's SigV4). Safe for concurrent use.
	Sign     func(r *http.Request, body []byte) error
	Defaults provider.Defaults
}

// Price is money per million tokens.
type Price struct{ Input, Output, CacheRead, CacheWrite float64 }

// Config says what to run and within which bounds. Zero values mean: no bound,
// off, or the default that the field names.
type Config struct {
	Source
	Sink
	Limits
	Hooks

	Stream        bool
	OnCut         string // "restart" or "continue"
	ContinueStyle string // "user" or "prefill"
	// Salt begins the idempotency keys, FreshSalt those of items whose stored
	// answer must not be replayed (failed ones that are run again).
	Salt, FreshSalt string
	// IdempotencyHeader carries the key; "" sends none.
	IdempotencyHeader string
	// UserAgent is sent; "" means llmbatch.
	UserAgent string
	Seed      uint64
}

// Source is where the items come from, and which of them need work.
type Source struct {
	// Items yields the lines in order. An error ends the reading: an
	// *input.LineError or what the system said.
	Items iter.Seq2[*input.Item, error]
	// Skipped counts, by the status of their rows, items before those that Items
	// yields; nil: none.
	Skipped map[output.Status]int
	// Reload reads an item's body again after Forget; nil keeps bodies in memory.
	Reload func(*input.Item) error
	// Route finds an item's target. An error fails the item without a request.
	Route func(*input.Item) (*Target, error)
	// Reject makes a bad line of an item that can't be routed or encoded, under the
	// id that bad lines have; nil: the item keeps its id.
	Reject func(*input.Item, error)
	// Lanes is how many lanes the input has, 0 if that is not known. A closed
	// lane that is the only one aborts the run.
	Lanes int
	// Old looks up the row that an earlier run left, OldRow reads it; nil: none.
	Old    func(key string) (output.Row, bool)
	OldRow func(offset int64) (*output.Result, error)
	// RetryFailed runs items again whose row says failed, Rerun those whose
	// request has changed.
	RetryFailed, Rerun bool
	// Limit bounds how many items are opened; 0: all.
	Limit int
	// ReadAhead is how many items of a lane may wait for their first request; at
	// least 4 may.
	ReadAhead int
}

// Sink is where the rows go.
type Sink struct {
	// Write takes each row; an error stops the run at once. It may be called by
	// many goroutines.
	Write func(*output.Result) error
	// FinalOnly: the sink takes one row an item and can't supersede: no waiting
	// rows, and rows that the uniform-failure guard may change are held back.
	FinalOnly bool
	// OnRow is called for each row after it was written; nil: not at all.
	OnRow func(*output.Result)
}

// Limits bound the run in time, number, size and money.
type Limits struct {
	Retry retry.Policy
	// Pacing is each lane's. Its Max bounds the requests on the wire of all lanes
	// together; 0 means 256. Its Ceiling is the runner's.
	Pacing pacing.Config
	// End is the run's end: nothing is launched after it. Zero: none.
	End time.Time
	// ItemBudget is one item's time from its first attempt's start, waits included.
	ItemBudget time.Duration
	// AttemptTimeout bounds one request whole.
	AttemptTimeout time.Duration
	// FirstTokenTimeout bounds the time to the first token of a stream, IdleTimeout
	// its silence from then on.
	FirstTokenTimeout, IdleTimeout time.Duration
	// ConnectTimeout bounds dialling and the TLS handshake, each; 0 means 30 s.
	ConnectTimeout time.Duration
	// MaxAnswer is the most bytes of one answer that are read, decompressed; 0 means
	// 64 MiB.
	MaxAnswer int64
	// Reask is how many tries of an item whose answer was not as expected tell the
	// model what was wrong; the rest ask the same again.
	Reask int
	// Drain is how long requests on the wire may go on after the launching stopped.
	Drain time.Duration
	// NoFailFast switches the uniform-failure guard off.
	NoFailFast bool
	Price      func(model string) (Price, bool) // nil: no prices
	Spend      *pacing.Spend                    // nil: no cap on money
}

// Hooks are what a run uses of others, and tells them.
type Hooks struct {
	Scrub *provider.Scrubber // nil: nothing to scrub
	Log   *slog.Logger       // nil: none
	// Expect says what is wrong with the text of an answer; nil: any is right. It is
	// called by many goroutines.
	Expect func(text string) error
	// Transport sends the requests; nil means NewTransport.
	Transport http.RoundTripper
	// Worker is written into each attempt; "": none.
	Worker string
	// LimitOf is what attempts say as their concurrency; nil: the lane's own limit.
	LimitOf func(*input.Item) int
	// Resume returns what another process did for an item in this run; nil, or a
	// nil Progress: nothing.
	Resume func(*input.Item) *Progress
	// Defer is asked when an item begins a wait of DeferAfter or more, until at, and
	// with a zero time when it is open as the run stops. True means that somebody
	// else has taken it over: no row is written. nil: never.
	Defer func(it *input.Item, p Progress, at time.Time) bool
	// OnFlight is called at the launch and at the end of each request; nil: none.
	OnFlight func(*input.Item, Flight)
	// OnStop is called once, when the run begins to stop, and OnLaneClosed when a
	// lane launches nothing more while others go on; nil: not at all. here says that
	// the cause may be this machine alone: its key, or its way to the API.
	OnStop       func(reason Reason, message, hint string, here bool)
	OnLaneClosed func(provider, model, message string)
	// Elsewhere makes the run's requests in other processes and returns when every
	// row is in; nil: they are made here.
	Elsewhere func(Remote)
	// Survey adds to Status what only Elsewhere knows; nil: nothing.
	Survey func(*Status)
}

// Reason says how a run ended.
type Reason uint8

const (
	// Finished: every item that needed work has a row.
	Finished Reason = iota
	// Aborted: a spend cap, authentication, a redirect, a guard.
	Aborted
	// LaneClosed: the rest is done, but at least one lane launched nothing more.
	LaneClosed
	// CostCap: the next request might have passed the cap on money.
	CostCap
	// BudgetEnded: the run's time was over before its items were.
	BudgetEnded
	// Interrupted: Stop was called.
	Interrupted
	// WriteFailed: a row could not be written.
	WriteFailed
	// InputFailed: the input could not be read to its end.
	InputFailed
	// Internal: a bug; see Report.Message.
	Internal
)

// Report is what a run did.
type Report struct {
	Reason Reason
	// Message says in one sentence what ended the run, Hint what to do; "" if Finished.
	Message, Hint string
	// Err is the cause of WriteFailed, InputFailed and Interrupted.
	Err error
	// Rows counts this run's final rows by status.
	Rows map[output.Status]int
	// Skipped counts items whose row was left as it was, by its status.
	Skipped map[output.Status]int
	// Unread is true when the input was not read to its end.
	Unread bool
	// Unsent counts items read but never sent that have no row.
	Unsent int
	// Requests counts attempts that reached the wire, Throttled the 429s.
	Requests, Throttled int64
	// Peak is the most requests on the wire at one time.
	Peak int
}

// Status is a run as seen now.
type Status struct {
	Rows                  map[output.Status]int
	Skipped               int
	Open, InFlight, Limit int
	Waiting, Lanes        int
	Requests, Throttled   int64
	Input, Output         int64 // tokens
	Cost                  float64
	Gate                  time.Time // zero if at least one lane is open
	GateReason            string
	Stopping              bool
}
