// Package pacing decides when a request may leave.
//
// A Limiter guards one lane (base URL, key and model): a window of permits
// found by AIMD, a gate that is shut while the server wants to be left alone,
// the provider's quota as far as its headers tell it, and a launch rate learned
// from refusals. One place launches. Items that wait hold no permit.
//
// Promises: never more requests on the wire than the limit (after a cut: than
// were on the wire before it); nothing leaves while the gate is shut, and never
// earlier than the server asked; one cut and one step of the backoff for each
// burst of refusals; growth only while the limit is what holds the run back.
//
// Limits: refusals are expected to come back fast (well under a second).
// Latency is no signal here: a server that slows down without refusing is not
// noticed. Headers are hints: a wrong one costs at most a minute at a time.
//
// Nothing here knows HTTP, retries or items.
package pacing

import (
	"errors"
	"time"
)

// Signal is what a finished request taught.
type Signal uint8

const (
	// Nothing: cancelled, or nothing reached the wire.
	Nothing Signal = iota
	// Good: answered with a result.
	Good
	// Answered: refused for a reason of the item's own; the server is up.
	Answered
	// Throttled: a 429.
	Throttled
	// Overloaded: a 503 or 529.
	Overloaded
	// Failed: 500, 502, 504, a broken connection, a timeout. Says nothing about
	// the limit; in a row they mean an outage.
	Failed
)

// Work is what is about to be sent.
type Work struct {
	// Order identifies the item; waiting items leave in this order, lowest first. A
	// refused item must not ask again before its hint is over: the gate may be open
	// for others by then.
	Order int64
	// Input is a rough count of input tokens (bytes / 4), MaxOutput the most
	// output asked for, 0 if unknown.
	Input, MaxOutput float64
	// NotAfter ends the item's time; zero means never. A gate that opens later
	// makes Acquire return a *LateError at once.
	NotAfter time.Time
}

// Outcome is what came back.
type Outcome struct {
	Signal Signal
	// Hint is the wait the server asked for, from now; 0 if it asked for none.
	Hint time.Duration
	// Quota is what the rate-limit headers said, if anything.
	Quota []Quota
	// Alone says that a refusal or failure is about the item's content: it binds
	// nobody else. The lane finds out by itself which refused items are alone.
	Alone bool
	// Concurrent says that the refusal was for too many requests at once: it cuts
	// the limit and shuts no gate. Its hint binds only the item.
	Concurrent bool
	// Input and Output are the tokens billed, 0 if unknown.
	Input, Output float64
}

// Resource is what a quota counts.
type Resource uint8

const (
	// Requests counts requests, whatever their size.
	Requests Resource = iota
	// InputTokens counts tokens of prompts.
	InputTokens
	// OutputTokens counts tokens of answers.
	OutputTokens
	// TotalTokens counts both.
	TotalTokens
	resources = 4
)

// Quota is one resource as the provider reports it. Remaining and Limit are
// never negative; Reset is the time until the resource is full again, 0 if
// unknown.
type Quota struct {
	Resource         Resource
	Limit, Remaining float64
	Reset            time.Duration
}

// Feedback is what a request taught about the lane.
type Feedback struct {
	// Gate is when the lane opens again; zero if it is open, or if another item's
	// request is still to tell whether the gate holds for all.
	Gate time.Time
	// Alone: others pass, so the refusal binds only its item and counts as its error.
	// It waits by itself, for its hint or its own backoff.
	Alone bool
	// Outage: the failure is part of a known outage and counts for no item.
	Outage bool
}

// Status is a lane as seen now.
type Status struct {
	Limit, InFlight, Peak, Waiting int
	Gate                           time.Time // zero if open
	Reason                         string    // why the gate is shut
	Floor                          bool      // the limit is at its least
	Outage                         bool
}

// Change is one change of the limit, gate or rate, with its reason and inputs.
// From and To are the limit before and after, equal if it did not change.
type Change struct {
	At       time.Time
	From, To int
	Reason   string
	Detail   string
}

// Config of a Limiter.
type Config struct {
	Max      int     // hard ceiling; 0 means 256
	Start    int     // first limit; 0 means 4
	Fixed    bool    // stay at Max: no adaptation; gate and quota still apply
	Increase float64 // step of a probe as a share of the plateau; 0 means 0.05
	Decrease float64 // the limit after a cut, but the first, as a share of what the server holds, at most 1; 0 means 0.95
	RPM, TPM float64 // known limits; 0 means unknown
	Burst    float64 // requests that RPM allows at once; 0 means a second's worth
	Seed     uint64
	// Ceiling bounds what all the Limiters that share it have on the wire together;
	// nil: only Max bounds this one.
	Ceiling *Ceiling
	// Log is called, outside of any lock, for each change; nil means none.
	Log func(Change)
}

// LateError says that the gate opens after the item's time.
type LateError struct {
	// Until is when the lane opens; zero if the item's time ended while it
	// waited at an open gate.
	Until time.Time
}

func (e *LateError) Error() string {
	if e.Until.IsZero() {
		return "the item's time ended while it waited for a permit"
	}
	return "the lane opens only at " + e.Until.UTC().Format(time.RFC3339)
}

// ErrClosed is returned by Acquire after Close.
var ErrClosed = errors.New("lane closed")
