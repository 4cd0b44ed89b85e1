package mockapi

import (
	"strings"
	"time"
)

// act is what the server does with a request.
type act uint8

const (
	answer    act = iota // 200
	refuse               // the step's fault
	drop                 // close the connection without an answer
	cut                  // half of the answer, then close the connection
	page                 // 200 with an HTML page
	streamErr            // a stream of two parts and then the step's fault as an event
	streamCut            // a stream of two parts, then close the connection
	streamEOF            // a stream of two parts, then a clean end
)

// step is the answer to one request.
type step struct {
	act   act
	fault fault
	// name and value are a header that goes with a refusal.
	name, value string
}

// script is a scenario: the nth request gets the nth step, all later ones the last.
type script struct {
	name, text string
	params     Params
	steps      []step
	// stream says that the answer is a stream, asked for or not.
	stream bool
}

const (
	retryAfter   = "Retry-After"
	retryAfterMS = "Retry-After-Ms"
	shouldRetry  = "X-Should-Retry"
)

// scripts is the table of all scenarios.
var scripts = []script{
	{name: "400", text: "always 400 invalid_request_error", steps: []step{{act: refuse, fault: fault400}}},
	{name: "400-force-retry", text: "first 400 with x-should-retry true, then ok", steps: []step{{refuse, fault400, shouldRetry, "true"}, {}}},
	{name: "429-always", text: "always 429, no header", steps: []step{{act: refuse, fault: faultRate}}},
	{name: "429-retry-after-120", text: "first 429 with retry-after 120, then ok", steps: []step{{refuse, faultRate, retryAfter, "120"}, {}}},
	{name: "429-retry-after-2", text: "first 429 with retry-after 2, then ok", steps: []step{{refuse, faultRate, retryAfter, "2"}, {}}},
	{name: "429-retry-after-ms", text: "first 429 with retry-after-ms 300, then ok", steps: []step{{refuse, faultRate, retryAfterMS, "300"}, {}}},
	{name: "500-no-retry", text: "always 500 with x-should-retry false", steps: []step{{refuse, fault500, shouldRetry, "false"}}},
	{name: "529-twice", text: "first two 529 overloaded_error, then ok", steps: []step{{act: refuse, fault: fault529}, {act: refuse, fault: fault529}, {}}},
	{name: "auth401", text: "always 401 authentication_error", steps: []step{{act: refuse, fault: fault401}}},
	{name: "bad400", text: "as 400", steps: []step{{act: refuse, fault: fault400}}},
	{name: "batch-404", text: "a batch is not found for the first 3 looks, its results twice", params: Params{Batch: "404"}, steps: []step{{}}},
	{name: "batch-all-failed", text: "all items fail: no output file", params: Params{Batch: "all-failed"}, steps: []step{{}}},
	{name: "batch-azure", text: "states, times and counts as Azure writes them; no /v1 in endpoint", params: Params{Batch: "azure"}, steps: []step{{}}},
	{name: "batch-bad-line", text: "results with an empty body, invalid UTF-8 and a line that is no JSON", params: Params{Batch: "bad-line"}, steps: []step{{}}},
	{name: "batch-cancel-slow", text: "canceling takes 20 s, some items finish meanwhile", params: Params{Batch: "cancel-slow"}, steps: []step{{}}},
	{name: "batch-create-429", text: "the first create gets 429 with retry-after 1", params: Params{Batch: "create-429"}, steps: []step{{}}},
	{name: "batch-create-lost", text: "the first create takes effect, its answer is lost (parameter lost)", params: Params{Batch: "create-lost"}, steps: []step{{}}},
	{name: "batch-doubled", text: "one line of the results comes twice", params: Params{Batch: "doubled"}, steps: []step{{}}},
	{name: "batch-expired-half", text: "expired with half the items answered", params: Params{Batch: "expired-half"}, steps: []step{{}}},
	{name: "batch-foreign", text: "the results have a line of an unknown id", params: Params{Batch: "foreign"}, steps: []step{{}}},
	{name: "batch-missing", text: "the results lack a line", params: Params{Batch: "missing"}, steps: []step{{}}},
	{name: "batch-mixed", text: "10 % of the items 400, 5 % 429, 5 % 500", params: Params{Batch: "mixed"}, steps: []step{{}}},
	{name: "batch-ok", text: "batches whose items all succeed", params: Params{Batch: "ok"}, steps: []step{{}}},
	{name: "batch-poll-429", text: "the first 3 looks get 429 with retry-after 1", params: Params{Batch: "poll-429"}, steps: []step{{}}},
	{name: "batch-poll-5xx", text: "the first 3 looks get 503", params: Params{Batch: "poll-5xx"}, steps: []step{{}}},
	{name: "batch-shuffled", text: "results in another order, members too", params: Params{Batch: "shuffled"}, steps: []step{{}}},
	{name: "batch-slow-list", text: "a new batch is listed only after 5 s", params: Params{Batch: "slow-list"}, steps: []step{{}}},
	{name: "batch-spend-cap", text: "a batch can't be created: spend cap", params: Params{Batch: "spend-cap"}, steps: []step{{}}},
	{name: "batch-stuck-finalizing", text: "a batch that is finalizing for ever", params: Params{Batch: "stuck-finalizing"}, steps: []step{{}}},
	{name: "batch-stuck-pending", text: "a batch that runs for ever", params: Params{Batch: "stuck-pending"}, steps: []step{{}}},
	{name: "batch-stuck-validating", text: "a batch that is validated for ever", params: Params{Batch: "stuck-validating"}, steps: []step{{}}},
	{name: "batch-token-limit", text: "the validation fails while open batches have more than 1000 tokens (parameter token-limit)", params: Params{Batch: "token-limit", TokenLimit: 1000}, steps: []step{{}}},
	{name: "batch-torn", text: "the first download ends in the middle of a line", params: Params{Batch: "torn"}, steps: []step{{}}},
	{name: "batch-upload-503", text: "the first two uploads get 503", params: Params{Batch: "upload-503"}, steps: []step{{}}},
	{name: "batch-validating-fails", text: "the validation fails with line 17", params: Params{Batch: "validating-fails"}, steps: []step{{}}},
	{name: "big413", text: "always 413 request_too_large", steps: []step{{act: refuse, fault: fault413}}},
	{name: "cap429", text: "always 429 whose message alone says that usage limits are reached", steps: []step{{act: refuse, fault: faultCap}}},
	{name: "drip", text: "200 whose body comes in 5 parts, 0.6 s apart", params: Params{Latency: None, Parts: 5, Gap: 600 * time.Millisecond}, steps: []step{{}}},
	{name: "drop", text: "reads the request, closes the connection without an answer", steps: []step{{act: drop}}},
	{name: "limit3", text: "more than 3 in flight: 429 with retry-after 1, else ok after 0.5 s", params: Params{Latency: 500 * time.Millisecond, Cap: 3, CapRetryAfter: time.Second}, steps: []step{{}}},
	{name: "no-batch", text: "no Batch API: 404", params: Params{Batch: "none"}, steps: []step{{}}},
	{name: "ok", text: "200 after 50 ms", steps: []step{{}}},
	{name: "over2", text: "as 529-twice", steps: []step{{act: refuse, fault: fault529}, {act: refuse, fault: fault529}, {}}},
	{name: "over529", text: "always 529 overloaded_error", steps: []step{{act: refuse, fault: fault529}}},
	{name: "rate2", text: "first two 429 with retry-after 2, then ok", steps: []step{{refuse, faultRate, retryAfter, "2"}, {refuse, faultRate, retryAfter, "2"}, {}}},
	{name: "rate429", text: "always 429 with retry-after 1", steps: []step{{refuse, faultRate, retryAfter, "1"}}},
	{name: "slow", text: "200 after 5 s", params: Params{Latency: 5 * time.Second}, steps: []step{{}}},
	{name: "spend-cap", text: "always 429 enforced_spend_limit_reached (OpenAI: insufficient_quota), no header", steps: []step{{act: refuse, fault: faultSpend}}},
	{name: "sse_cut", text: "a stream: two parts, then the connection is cut", stream: true, params: Params{Latency: None}, steps: []step{{act: streamCut}}},
	{name: "sse_eof", text: "a stream: two parts, then a clean end without terminal event", stream: true, params: Params{Latency: None}, steps: []step{{act: streamEOF}}},
	{name: "sse_error", text: "a stream: two parts, then an overloaded_error event", stream: true, params: Params{Latency: None}, steps: []step{{act: streamErr, fault: fault529}}},
	{name: "sse_ok", text: "a stream, whole", stream: true, params: Params{Latency: None}, steps: []step{{}}},
	{name: "unkind", text: "ok, but 5 % 429, 2 % 529, 1 % drop, 1 % cut, seeded", params: Params{Faults: Faults{P429: 5, P529: 2, Drop: 1, Cut: 1}}, steps: []step{{}}},
}

// at returns the step of the nth request, counted from 1.
func (s *script) at(nth int) step { return s.steps[min(nth, len(s.steps))-1] }

// Scenario is a scenario's name and what it does, in a line.
type Scenario struct{ Name, Text string }

// Scenarios returns all scenarios, sorted by name.
func Scenarios() []Scenario {
	all := make([]Scenario, len(scripts))
	for i, s := range scripts {
		all[i] = Scenario{s.name, s.text}
	}
	return all
}

// faultScenario is the answer to a scenario that there is not: what was asked for and what there is.
func faultScenario(name string) fault {
	names := make([]string, len(scripts))
	for i := range scripts {
		names[i] = scripts[i].name
	}
	m := "unknown scenario " + prefix(name, 80) + "; known are " + strings.Join(names, ", ")
	return fault{404, errorBody{typ: "not_found_error", message: m},
		errorBody{typ: "invalid_request_error", code: "unknown_scenario", message: m}}
}
