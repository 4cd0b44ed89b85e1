// Package output keeps results: one JSON object a line, one row an item.
//
// Rows are appended whole as items finish, handed to the kernel when they
// arrive and flushed to the disk at most a second later. A lock keeps a second
// run out. The next run cuts a torn last line, skips what is done and carries
// the attempts of the rest over. A run that ends leaves exactly one row an id.
// Rows that can't be written are kept in a file beside, which the next run takes
// back, or in the folder for temporary files.
package output

import (
	"encoding/json"
	"time"
)

// Status says what became of an item.
type Status string

const (
	// OK: there is an answer.
	OK Status = "ok"
	// Failed: the item can't succeed as it stands; resume leaves it alone.
	Failed Status = "failed"
	// GaveUp: a passing trouble outlasted a budget; resume tries again.
	GaveUp Status = "gave_up"
	// Aborted: the item was open when the run stopped; resume tries again.
	Aborted Status = "aborted"
	// Waiting: the item began a wait of a minute or more; a later row supersedes it.
	Waiting Status = "waiting"
)

// Result is one row. Members that are empty are left out; ID, Status,
// RequestHash and Index are always written, in that order.
type Result struct {
	ID             json.RawMessage // as written in the input: a JSON string or number
	Key            string          // input.Item.Key; not written
	Status         Status
	RequestHash    string
	Index          int
	Provider       string
	Model          string
	Text           string
	PartialText    string // what arrived of an answer that was cut, where there is no Text
	StopReason     string
	Usage          Usage
	Cost           float64 // in the unit of the prices; written when HasCost
	HasCost        bool
	Metadata       json.RawMessage
	Input          json.RawMessage // an object of the input's kept columns
	Response       json.RawMessage // the API's body, compact
	ReusedFrom     string          // the results file that the answer was taken from
	CopiedFrom     string          // the id, as its Key, of the item with the same request that has the answer
	Error          *Error
	GiveUpReason   string // item_budget, run_budget, max_attempts, max_errors, max_wait, server_said_no, lane_closed, …
	NextAttemptAt  time.Time
	IdempotencyKey string
	FirstAttemptAt time.Time
	FinishedAt     time.Time
	// History holds the attempts of earlier runs as they were written, without
	// the brackets; Attempts are this run's.
	History  json.RawMessage
	Attempts []Attempt

	line []byte // the row as it stands in its file, while an iteration yields it
}

// Usage is in tokens. InputTokens counts neither cache reads nor cache writes.
type Usage struct {
	InputTokens      int64 `json:"input_tokens,omitempty"`
	OutputTokens     int64 `json:"output_tokens,omitempty"`
	CacheReadTokens  int64 `json:"cache_read_tokens,omitempty"`
	CacheWriteTokens int64 `json:"cache_write_tokens,omitempty"`
	ReasoningTokens  int64 `json:"reasoning_tokens,omitempty"` // part of OutputTokens
}

// Add sums two usages.
func (u Usage) Add(v Usage) Usage {
	u.InputTokens += v.InputTokens
	u.OutputTokens += v.OutputTokens
	u.CacheReadTokens += v.CacheReadTokens
	u.CacheWriteTokens += v.CacheWriteTokens
	u.ReasoningTokens += v.ReasoningTokens
	return u
}

// Error is the last real error of an item.
type Error struct {
	Class   string `json:"class"` // the attempt's outcome
	Status  int    `json:"status,omitempty"`
	Type    string `json:"type,omitempty"`
	Code    string `json:"code,omitempty"`
	Message string `json:"message,omitempty"` // trimmed, secrets scrubbed
}

// Attempt is one call begun for an item.
type Attempt struct {
	Attempt    int // from 1, earlier runs included
	StartedAt  time.Time
	Duration   time.Duration // monotonic
	Status     int           // HTTP status, 0 if none arrived
	Outcome    string
	Error      string // one line
	RequestID  string
	RetryAfter string // the raw header value
	// Wait is what was decided after this attempt, WaitReason why: retry_after,
	// backoff, gate, capped, outage, next_attempt_at.
	Wait       time.Duration
	WaitReason string
	// Concurrency is the lane's limit when the attempt was launched.
	Concurrency int
	Usage       Usage
	// Unsent is set when nothing reached the wire; written as "sent":false.
	Unsent  bool
	Worker  string // fleet only
	BatchID string // of the provider's batch that the attempt was part of
}
