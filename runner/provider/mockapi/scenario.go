package mockapi

import (
	"fmt"
	"strings"
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

const (
	retryAfter   = "Retry-After"
	retryAfterMS = "Retry-After-Ms"
	shouldRetry  = "X-Should-Retry"
)

// steps are the answers that the parameter steps may name.
var steps = map[string]step{
	"ok": {}, "drop": {act: drop}, "cut": {act: cut}, "html": {act: page},
	"sse-error": {act: streamErr, fault: fault529}, "sse-cut": {act: streamCut}, "sse-eof": {act: streamEOF},
	"400": {act: refuse, fault: fault400}, "401": {act: refuse, fault: fault401}, "413": {act: refuse, fault: fault413},
	"429": {act: refuse, fault: faultRate}, "cap": {act: refuse, fault: faultCap}, "spend": {act: refuse, fault: faultSpend},
	"500": {act: refuse, fault: fault500}, "503": {act: refuse, fault: fault503}, "529": {act: refuse, fault: fault529},
}

// parseStep reads a step: its name, and after a slash what goes with it: seconds or milliseconds of a retry-after (429/2,
// 429/300ms), true or false of x-should-retry (500/false).
func parseStep(text string) (step, bool) {
	name, hint, _ := strings.Cut(text, "/")
	st, ok := steps[name]
	switch {
	case hint == "":
	case hint == "true" || hint == "false":
		st.name, st.value = shouldRetry, hint
	default:
		st.name, st.value = retryAfter, hint
		if ms, found := strings.CutSuffix(hint, "ms"); found {
			st.name, st.value = retryAfterMS, ms
		}
		ok = ok && strings.Trim(st.value, "0123456789") == ""
	}
	return st, ok
}

// allowedSteps reports whether a value of the parameter steps is good.
func allowedSteps(value string) bool {
	for text := range strings.SplitSeq(value, ",") {
		if _, ok := parseStep(text); !ok {
			return false
		}
	}
	return true
}

// step returns the step of the nth request, counted from 1; all after the last get the last.
func (p *Params) step(nth int) step {
	if p.Steps == "" {
		return step{}
	}
	all := strings.Split(p.Steps, ",")
	st, _ := parseStep(all[min(nth, len(all))-1])
	return st
}

// script is a scenario: a query string over the parameters, under a name.
type script struct{ name, query, text string }

// scripts is the table of all scenarios, sorted by name.
var scripts = []script{
	{"400", "steps=400", "always 400 invalid_request_error"},
	{"400-force-retry", "steps=400/true,ok", "first 400 with x-should-retry true, then ok"},
	{"429-always", "steps=429", "always 429, no header"},
	{"429-retry-after-120", "steps=429/120,ok", "first 429 with retry-after 120, then ok"},
	{"429-retry-after-2", "steps=429/2,ok", "first 429 with retry-after 2, then ok"},
	{"429-retry-after-ms", "steps=429/300ms,ok", "first 429 with retry-after-ms 300, then ok"},
	{"500-no-retry", "steps=500/false", "always 500 with x-should-retry false"},
	{"529-twice", "steps=529,529,ok", "first two 529 overloaded_error, then ok"},
	{"auth401", "steps=401", "always 401 authentication_error"},
	{"bad400", "steps=400", "as 400"},
	{"batch-404", "batch=404", "a batch is not found for the first 3 looks, its results twice"},
	{"batch-all-failed", "batch=all-failed", "all items fail: no output file"},
	{"batch-azure", "batch=azure", "states, times and counts as Azure writes them; no /v1 in endpoint"},
	{"batch-bad-line", "batch=bad-line", "results with an empty body, invalid UTF-8 and a line that is no JSON"},
	{"batch-cancel-slow", "batch=cancel-slow", "canceling takes 20 s, some items finish meanwhile"},
	{"batch-create-429", "batch=create-429", "the first create gets 429 with retry-after 1"},
	{"batch-create-lost", "batch=create-lost&lost=cut", "the first create takes effect, its answer is lost; =500 or =delay after the name: in another way"},
	{"batch-doubled", "batch=doubled", "one line of the results comes twice"},
	{"batch-expired-half", "batch=expired-half", "expired with half the items answered"},
	{"batch-foreign", "batch=foreign", "the results have a line of an unknown id"},
	{"batch-missing", "batch=missing", "the results lack a line"},
	{"batch-mixed", "batch=mixed", "10 % of the items 400, 5 % 429, 5 % 500"},
	{"batch-ok", "batch=ok", "batches whose items all succeed"},
	{"batch-poll-429", "batch=poll-429", "the first 3 looks get 429 with retry-after 1"},
	{"batch-poll-5xx", "batch=poll-5xx", "the first 3 looks get 503"},
	{"batch-shuffled", "batch=shuffled", "results in another order, members too"},
	{"batch-slow-list", "batch=slow-list", "a new batch is listed only after 5 s"},
	{"batch-spend-cap", "batch=spend-cap", "a batch can't be created: spend cap"},
	{"batch-stuck-finalizing", "batch=stuck-finalizing", "a batch that is finalizing for ever"},
	{"batch-stuck-pending", "batch=stuck-pending", "a batch that runs for ever"},
	{"batch-stuck-validating", "batch=stuck-validating", "a batch that is validated for ever"},
	{"batch-token-limit", "batch=token-limit&token-limit=1000", "the validation fails while open batches have more than 1000 tokens; =N after the name: N"},
	{"batch-torn", "batch=torn", "the first download ends in the middle of a line"},
	{"batch-upload-503", "batch=upload-503", "the first two uploads get 503"},
	{"batch-validating-fails", "batch=validating-fails", "the validation fails with line 17"},
	{"big413", "steps=413", "always 413 request_too_large"},
	{"cap429", "steps=cap", "always 429 whose message alone says that usage limits are reached"},
	{"drip", "latency=0&parts=5&gap=600ms", "200 whose body comes in 5 parts, 0.6 s apart"},
	{"drop", "steps=drop", "reads the request, closes the connection without an answer"},
	{"gemini-blocked", "block=SAFETY", "Gemini: an answer without candidates, promptFeedback says SAFETY"},
	{"limit3", "latency=500ms&cap-retry-after=1s&cap=3", "more than 3 in flight: 429 with retry-after 1, else ok after 0.5 s"},
	{"no-batch", "batch=none", "no Batch API: 404"},
	{"ok", "", "200 after 50 ms"},
	{"over2", "steps=529,529,ok", "as 529-twice"},
	{"over529", "steps=529", "always 529 overloaded_error"},
	{"rate2", "steps=429/2,429/2,ok", "first two 429 with retry-after 2, then ok"},
	{"rate429", "steps=429/1", "always 429 with retry-after 1"},
	{"slow", "latency=5s", "200 after 5 s"},
	{"spend-cap", "steps=spend", "always 429 enforced_spend_limit_reached (OpenAI: insufficient_quota), no header"},
	{"sse_cut", "stream=yes&latency=0&steps=sse-cut", "a stream: two parts, then the connection is cut"},
	{"sse_eof", "stream=yes&latency=0&steps=sse-eof", "a stream: two parts, then a clean end without terminal event"},
	{"sse_error", "stream=yes&latency=0&steps=sse-error", "a stream: two parts, then an overloaded_error event"},
	{"sse_ok", "stream=yes&latency=0", "a stream, whole"},
	{"unkind", "p429=5&p529=2&drop=1&cut=1", "ok, but 5 % 429, 2 % 529, 1 % drop, 1 % cut, seeded"},
}

// scriptOf returns the scenario of a name; nil: there is none.
func scriptOf(name string) *script {
	for i := range scripts {
		if scripts[i].name == name {
			return &scripts[i]
		}
	}
	return nil
}

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

// ParseScenario returns the parameters of a scenario. NAME=VALUE gives its last parameter another value, as in
// batch-token-limit=500. An unknown name's error lists the known ones.
func ParseScenario(name string) (Params, error) {
	name, value, other := strings.Cut(name, "=")
	s := scriptOf(name)
	if s == nil {
		names := make([]string, len(scripts))
		for i := range scripts {
			names[i] = scripts[i].name
		}
		return Params{}, fmt.Errorf("unknown scenario %s; known are %s", prefix(name, 80), strings.Join(names, ", "))
	}
	p, err := Params{}.with(s.query)
	if err == nil && other {
		last, _, _ := strings.Cut(s.query[strings.LastIndex(s.query, "&")+1:], "=")
		err = p.Set(last, value)
	}
	return p, err
}

// faultScenario is the answer to a scenario that there is not.
func faultScenario(err error) fault {
	return fault{404, errorBody{typ: "not_found_error", message: err.Error()},
		errorBody{typ: "invalid_request_error", code: "unknown_scenario", message: err.Error()}}
}
