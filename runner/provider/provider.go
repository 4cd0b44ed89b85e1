// Package provider says what an API is to the runner: how an item becomes a
// call, how a call is signed, and what an answer means.
//
// Nothing here does I/O. The meaning of an answer is an *Error with a class
// (what happened), a scope (how far it reaches) and hints; how often to try and
// what it does to the limit is decided elsewhere.
//
// Answers are judged in one order. Money first, whatever the status and whatever
// else the server says: a cap that is taken for a rate limit costs a night. Then
// what can never pass for this item; then x-should-retry; then what ends the run
// or the lane; then what may pass. Codes and types count before words, and words
// only where a server puts its messages, never in what a model wrote, and not if
// the item's own request holds them. Of a body, 4 MiB are read as an error.
package provider

import (
	"encoding/json"
	"net/http"
	"time"

	"llmbatch/input"
)

// API is the shape of the requests and answers of one endpoint.
type API uint8

const (
	AnthropicMessages API = iota
	OpenAIChat
	OpenAIResponses
	// OpenAIOther is any other /v1/… path of a batch line: a 2xx JSON answer
	// without an error is an answer.
	OpenAIOther
	// GeminiGenerate is Gemini's own generateContent.
	GeminiGenerate
)

// Provider is an API family. Its methods may be called by many goroutines.
type Provider interface {
	// Encode turns an item into a call. An error is the user's: it is an
	// *input.LineError without File and Line where it concerns a place in the
	// line, and names the flag that would cure it.
	Encode(it *input.Item, d Defaults) (*Call, error)
	// Sign sets the authentication and version headers.
	Sign(h http.Header, c Credentials)
	// Decode judges a whole answer. A nil *Error means the Reply is an answer to keep.
	Decode(c *Call, a Answer) (Reply, *Error)
}

// Streamer is a Provider that can read a call's answer as server-sent events.
type Streamer interface {
	// Assemble starts the reading of one streamed answer.
	Assemble(c *Call) Assembler
	// Continue returns the body of a call that asks for the rest of an answer of
	// which text arrived; style is "user" or "prefill". ok is false where the
	// call can't be continued.
	Continue(c *Call, text, style string) (body json.RawMessage, ok bool)
}

// Reasker is a Provider whose calls can be told what was wrong with an answer.
type Reasker interface {
	// Reask returns the body of a call with the answer and the complaint as further
	// turns. ok is false where the call has no turns.
	Reask(c *Call, answer, complaint string) (body json.RawMessage, ok bool)
}

// Assembler builds one answer from events. Not for concurrent use.
type Assembler interface {
	// Event takes one event; name is "" where the stream names none. An *Error is
	// what an error event means.
	Event(name string, data []byte) *Error
	// Finish is called once at the end of the stream: clean says that it ended
	// without a transport error. It returns the body as the non-streaming API
	// would have sent it, or an *Error (truncated) without terminal evidence.
	Finish(clean bool) (json.RawMessage, *Error)
	// Partial tells what arrived so far: its text, its usage, and whether it may
	// be continued (not inside a tool call or a thinking block).
	Partial() (text string, u Usage, continuable bool)
}

// Defaults are the values used where a line has none of its own.
type Defaults struct {
	Model       string
	MaxTokens   int // 0: none
	Temperature json.RawMessage
	System      string
	Params      json.RawMessage // an object of further members, nil: none
	Endpoint    string          // "chat" or "responses", for OpenAI
	// Native is true when the base URL is the provider's own host.
	Native bool
	// Limit is the member that bounds the output of Chat Completions; "" is
	// max_completion_tokens where Native, else max_tokens.
	Limit string
	// Name is what Call.Provider says: a preset's name, or "mock".
	Name string
	// Family is what the request is hashed as, "" for Name.
	Family string
	// NoStreamOptions: nothing but "stream" may be added to a body.
	NoStreamOptions bool
	// Deployments: the URL names the model (Azure's classic one).
	Deployments bool
	// Vertex: Claude's requests take Google's form, with the model in the URL.
	Vertex bool
	// Mock: a missing model or max_tokens is filled in rather than refused.
	Mock bool
}

// Filled says which of the Defaults a call took, one bit a flag.
type Filled uint8

const (
	FilledModel Filled = 1 << iota
	FilledMaxTokens
	FilledTemperature
	FilledSystem
	FilledParams
)

// Credentials sign calls.
type Credentials struct {
	Key    string // "" sends none
	Bearer bool   // Key is an auth token (ANTHROPIC_AUTH_TOKEN)
	// Header replaces the header that carries the key, such as api-key; ""
	// means x-api-key for Anthropic and Authorization: Bearer for OpenAI.
	Header       string
	Organization string
	Project      string
}

// Call is one item's request, encoded once and sent as often as it takes.
type Call struct {
	API      API
	Provider string
	// Family is hashed in the Provider's place, "" for the Provider itself.
	Family string
	Method string
	// Path is relative to the base URL, with a leading slash: /v1/messages for
	// Anthropic, /chat/completions for OpenAI (whose base URL has the /v1).
	Path string
	// StreamPath is the path where the answer is to be streamed, "" for Path.
	StreamPath string
	Model      string
	// Body is final but for "stream", which is added when it is sent.
	Body json.RawMessage
	// Stream says that the body itself asks for a stream.
	Stream bool
	// Plain says that the body was made by llmbatch (format Prompt), so that more
	// than "stream" may be added to it (stream_options).
	Plain bool
	// MaxTokens is the most output the call asks for, 0 if it does not say.
	MaxTokens int
	// Files are what the body has marks of; WithFiles puts their contents in when it
	// is sent.
	Files []input.FileRef
	// Filled says what the line lacked and the Defaults had.
	Filled Filled
}

// Answer is what arrived for a call.
type Answer struct {
	Status int
	Header http.Header
	Body   []byte // decompressed, bounded
	// At is when it arrived.
	At time.Time
}

// Reply is a usable answer.
type Reply struct {
	Text       string
	StopReason string // the API's own word
	Model      string
	Usage      Usage
	Response   json.RawMessage // the body, valid and compact, invalid UTF-8 replaced
	RequestID  string
	// Flag marks an answer worth counting: "", "truncated", "refused", "paused", "empty".
	Flag string
}

// Usage is in tokens. InputTokens counts neither cache reads nor cache writes.
type Usage struct {
	InputTokens, OutputTokens, CacheReadTokens, CacheWriteTokens, ReasoningTokens int64
	// Known is false where the answer said nothing about usage.
	Known bool
}

// Class says what happened to an attempt. The strings are the rows' outcomes.
type Class string

const (
	ClassOK         Class = "ok"
	RateLimited     Class = "rate_limited"
	Overloaded      Class = "overloaded"
	ServerError     Class = "server_error"
	Timeout         Class = "timeout"
	ConnectionError Class = "connection_error"
	Truncated       Class = "truncated"
	InvalidResponse Class = "invalid_response"
	Rejected        Class = "rejected"
	SpendCap        Class = "spend_cap"
	AuthError       Class = "auth"
	Canceled        Class = "canceled"
	// Unexpected is an answer whose text is not what the user expects.
	Unexpected Class = "unexpected"
)

// Scope says how far an error reaches.
type Scope uint8

const (
	// Passing: worth another try.
	Passing Scope = iota
	// ItemOnly: this item can't succeed as it stands.
	ItemOnly
	// WholeLane: nothing can succeed with this model and key.
	WholeLane
	// WholeRun: nothing can succeed at all.
	WholeRun
)

// Error is what an answer, or its absence, means.
type Error struct {
	Class Class
	Scope Scope
	// NoRetry: the server said not to try again (x-should-retry: false), and the
	// scope is Passing.
	NoRetry bool
	// NoShrink: says nothing about load (a model still loading, a conflict).
	NoShrink bool
	// Patient: begin the backoff at 5 s rather than 0.5 s.
	Patient bool
	// Concurrent: too many requests at once, not too many in a time. The limit is what
	// is wrong, and Hint concerns this item alone.
	Concurrent bool
	// Content: the failure comes from what the item asks or what the model wrote for it,
	// so it says nothing about the server, also with a 5xx.
	Content bool

	Status    int // HTTP status, or the status that an error in a 200 names
	Type      string
	Code      string
	Message   string // trimmed to 1000 bytes; not yet scrubbed
	RequestID string

	// Hint is the wait that the body asks for, 0 if it asks for none. Headers win.
	Hint time.Duration
	// DeadEndpoint: the endpoint can't be reached at all (refused, DNS, TLS).
	DeadEndpoint bool
	// Local: the fault is this machine's (too many open files), so it is no error
	// of the item's.
	Local bool
	// Regain is a date named in a cap's message, for the user's eyes only.
	Regain string
	// Advice is the next step for the user, "" if there is none.
	Advice string
	// Usage is what was billed for a failed attempt, where it is known.
	Usage Usage
}
