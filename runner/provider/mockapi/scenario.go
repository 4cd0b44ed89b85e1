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
	{name: "big413", text: "always 413 request_too_large", steps: []step{{act: refuse, fault: fault413}}},
	{name: "cap429", text: "always 429 whose message alone says that usage limits are reached", steps: []step{{act: refuse, fault: faultCap}}},
	{name: "drip", text: "200 whose body comes in 5 parts, 0.6 s apart", params: Params{Latency: None, Parts: 5, Gap: 600 * time.Millisecond}, steps: []step{{}}},
	{name: "drop", text: "reads the request, closes the connection without an answer", steps: []step{{act: drop}}},
	{name: "limit3", text: "more than 3 in flight: 429 with retry-after 1, else ok after 0.5 s", params: Params{Latency: 500 * time.Millisecond, Cap: 3, CapRetryAfter: time.Second}, steps: []step{{}}},
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
