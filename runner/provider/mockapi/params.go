package mockapi

import (
	"cmp"
	"fmt"
	"math"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

// None as a latency means none at all, where 0 means the scenario's own.
const None time.Duration = -1

// maxParts and maxSize bound what a query can make the server hold in memory.
const (
	maxParts = 10_000
	maxSize  = 64 << 20
)

// okLatency is how long an answer takes that nobody gave a latency.
const okLatency = 50 * time.Millisecond

// Params change what a scenario does; the zero value changes nothing. In a query the keys are those of [Keys].
type Params struct {
	// Latency is the time before an ok answer. 0: the scenario's own; None: none.
	Latency time.Duration
	// Spread makes latencies lognormal: Latency is the median, Spread the standard deviation of the logarithm.
	Spread float64

	// RPM, TPM, ITPM and OTPM are limits a minute for each model, of requests, tokens, input and output tokens; a token
	// bucket each, with the vendor's headers. 0: no limit.
	RPM, TPM, ITPM, OTPM int
	// Burst is how many requests a full bucket holds. 0: RPM/60. Token buckets hold ten seconds' worth.
	Burst int
	// RA says how a bucket's refusal names the wait: "s" (also when empty: whole seconds in retry-after), "ms" (retry-after-ms),
	// "both" or "no".
	RA string
	// NoHeaders leaves out the rate limit headers.
	NoHeaders bool
	// ChargeRefused makes refused requests cost as much as served ones, as OpenAI has it.
	ChargeRefused bool

	// Cap is how many requests are served at once, more get a 429. 0: no cap.
	Cap int
	// CapRetryAfter is the retry-after of that 429, rounded up to a second. 0: none.
	CapRetryAfter time.Duration
	// FailFirst is how long after its first request a scenario refuses everything with a bare 429.
	FailFirst time.Duration
	// SpendCapAfter is after how many ok answers everything is answered as in spend-cap. 0: never.
	SpendCapAfter int
	// Faults is the share of requests that go wrong.
	Faults Faults
	// Only names the one model for which the scenario is played; others get ok. Empty: all.
	Only string
	// Auth is the key without which a request gets a 401. Empty: none needed.
	Auth string
	// Batch is what goes wrong with batches: the name of a batch scenario without "batch-". Empty: nothing; none: no Batch API.
	Batch string
	// BatchTime is how long a batch takes. 0: 2 s.
	BatchTime time.Duration
	// TokenLimit is how many tokens open batches may have. 0: no limit.
	TokenLimit int
	// Lost is how the answer to the first create gets lost in batch-create-lost: cut (also when empty), 500 or delay (60 s).
	Lost string
	// Seed overrides the server's seed. 0: not.
	Seed uint64

	// Echo answers with the prompt instead of OK.
	Echo bool
	// Size is the length of the answer's text in bytes, padded. 0: as it is.
	Size int
	// Stop is the stop reason. Empty: the usual one.
	Stop string
	// In and Out are the tokens that the answer reports and the buckets charge. 0: 5 in, 1 out.
	In, Out int
	// Parts is into how many pieces a stream's text is cut (0: 2), and the body of a plain answer when there is a Gap.
	Parts int
	// Gap is the time between two parts.
	Gap time.Duration
}

// Faults is a mix of faults, each in percent of the requests. Which request is hit follows from the seed, the body and how
// often that body came, not from the order of arrival.
type Faults struct {
	P429, P500, P503, P529 float64
	// Drop closes the connection without an answer, Cut after half of one, HTML is a page with status 200, Slow an answer
	// after 5 s.
	Drop, Cut, HTML, Slow float64
}

// Key is a parameter's name in a query or among the command's flags, and what it does, in a line.
type Key struct{ Name, Text string }

// Keys returns all parameters, those that change the pace first.
func Keys() []Key {
	return []Key{
		{"latency", "time before an ok answer (20ms; 0: none)"},
		{"spread", "lognormal latencies: standard deviation of the logarithm (0.5)"},
		{"rpm", "requests a minute and model, with the vendor's headers"},
		{"tpm", "tokens a minute and model"},
		{"itpm", "input tokens a minute and model"},
		{"otpm", "output tokens a minute and model"},
		{"burst", "requests that a full bucket holds (rpm/60)"},
		{"ra", "how a refusal names its wait: s, ms, both, no"},
		{"no-headers", "yes: buckets without rate limit headers"},
		{"charge-refused", "yes: refused requests cost as much as served ones"},
		{"cap", "requests served at once, more get a 429"},
		{"cap-retry-after", "retry-after of that 429 (1s)"},
		{"fail-first", "time from the first request on in which all get a bare 429"},
		{"spend-cap-after", "ok answers after which all get the spend cap's 429"},
		{"p429", "percent of requests that get a 429"},
		{"p500", "percent that get a 500"},
		{"p503", "percent that get a 503"},
		{"p529", "percent that get a 529"},
		{"drop", "percent whose connection is closed without an answer"},
		{"cut", "percent whose connection is closed in the middle of the answer"},
		{"html", "percent answered with an HTML page and status 200"},
		{"slow", "percent answered after 5 s"},
		{"only", "model for which the scenario is played; others get ok"},
		{"auth", "key without which a request gets a 401"},
		{"batch", "what goes wrong with batches, as in the scenarios named batch-"},
		{"batch-time", "time from a batch's creation to its end (2s)"},
		{"token-limit", "tokens that open batches may have"},
		{"lost", "how batch-create-lost loses the answer: cut, 500, delay"},
		{"seed", "seed of latencies and faults"},
		{"echo", "yes: answer with the prompt"},
		{"size", "length of the answer's text in bytes"},
		{"stop", "stop reason"},
		{"in", "input tokens of a request (5)"},
		{"out", "output tokens of a request (1)"},
		{"parts", "pieces of a stream, and with a gap of a plain body (2)"},
		{"gap", "time between two pieces"},
	}
}

// known lists the parameters for an error.
func known() string {
	names := make([]string, 0, 40)
	for _, k := range Keys() {
		names = append(names, k.Name)
	}
	return "known are " + strings.Join(names, ", ")
}

// field returns a pointer to what a key of the query sets, nil for an unknown one.
func (p *Params) field(key string) any {
	switch key {
	case "latency":
		return &p.Latency
	case "cap-retry-after":
		return &p.CapRetryAfter
	case "fail-first":
		return &p.FailFirst
	case "batch-time":
		return &p.BatchTime
	case "batch":
		return &p.Batch
	case "lost":
		return &p.Lost
	case "gap":
		return &p.Gap
	case "no-headers":
		return &p.NoHeaders
	case "charge-refused":
		return &p.ChargeRefused
	case "echo":
		return &p.Echo
	case "ra":
		return &p.RA
	case "only":
		return &p.Only
	case "auth":
		return &p.Auth
	case "stop":
		return &p.Stop
	case "seed":
		return &p.Seed
	}
	if f := p.count(key); f != nil {
		return f
	}
	if f := p.share(key); f != nil {
		return f
	}
	return nil
}

// count is field for whole numbers.
func (p *Params) count(key string) *int {
	switch key {
	case "rpm":
		return &p.RPM
	case "tpm":
		return &p.TPM
	case "itpm":
		return &p.ITPM
	case "otpm":
		return &p.OTPM
	case "burst":
		return &p.Burst
	case "cap":
		return &p.Cap
	case "spend-cap-after":
		return &p.SpendCapAfter
	case "token-limit":
		return &p.TokenLimit
	case "size":
		return &p.Size
	case "in":
		return &p.In
	case "out":
		return &p.Out
	case "parts":
		return &p.Parts
	}
	return nil
}

// share is field for fractions and percentages.
func (p *Params) share(key string) *float64 {
	switch key {
	case "spread":
		return &p.Spread
	case "p429":
		return &p.Faults.P429
	case "p500":
		return &p.Faults.P500
	case "p503":
		return &p.Faults.P503
	case "p529":
		return &p.Faults.P529
	case "drop":
		return &p.Faults.Drop
	case "cut":
		return &p.Faults.Cut
	case "html":
		return &p.Faults.HTML
	case "slow":
		return &p.Faults.Slow
	}
	return nil
}

// ParseParams reads parameters from a query. A key that it does not know and a value that does not fit are errors that
// list the keys; api-version and beta, which clients put into a base URL's query, are passed over.
func ParseParams(v url.Values) (Params, error) {
	var p Params
	if err := p.take(v); err != nil {
		return Params{}, err
	}
	return p, nil
}

// with returns p with the parameters of a raw query on top.
func (p Params) with(query string) (Params, error) {
	if query == "" {
		return p, nil
	}
	v, err := url.ParseQuery(query)
	if err != nil {
		return p, fmt.Errorf("the query is malformed: %w", err)
	}
	return p, p.take(v)
}

// passed are the keys of a query that belong to the APIs.
var passed = []string{"api-version", "beta", "limit", "after", "after_id", "before_id", "purpose", "order"}

// take sets what a query names.
func (p *Params) take(v url.Values) error {
	for key, values := range v {
		if slices.Contains(passed, key) {
			continue
		}
		for _, value := range values {
			if err := p.Set(key, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// Set gives one parameter its value; the error of an unknown key or of a value that does not fit lists the keys.
func (p *Params) Set(key, value string) error {
	field := p.field(key)
	if field == nil {
		return fmt.Errorf("unknown parameter %s; %s", prefix(key, 80), known())
	}
	if !assign(field, value) || p.Parts > maxParts || p.Size > maxSize || !slices.Contains([]string{"", "s", "ms", "both", "no"}, p.RA) {
		return fmt.Errorf("parameter %s can't be %q; %s", key, prefix(value, 80), known())
	}
	if key == "latency" && p.Latency == 0 {
		p.Latency = None
	}
	return nil
}

// assign parses value into the variable that field points to, and reports whether it fits.
func assign(field any, value string) bool {
	var err error
	switch f := field.(type) {
	case *time.Duration:
		*f, err = time.ParseDuration(value)
		return err == nil && *f >= 0
	case *int:
		*f, err = strconv.Atoi(value)
		return err == nil && *f >= 0 && *f <= math.MaxInt32
	case *uint64:
		*f, err = strconv.ParseUint(value, 10, 64)
	case *float64:
		*f, err = strconv.ParseFloat(value, 64)
		return err == nil && *f >= 0 && *f <= 100
	case *bool:
		*f = value == "yes" || value == "true" || value == "1"
		return *f || value == "no" || value == "false" || value == "0"
	case *string:
		*f = value
	}
	return err == nil
}

// under returns p where q says nothing, and q where it does.
func (p Params) under(q Params) Params {
	f, g := p.Faults, q.Faults
	return Params{
		Latency: cmp.Or(q.Latency, p.Latency), Spread: cmp.Or(q.Spread, p.Spread),
		RPM: cmp.Or(q.RPM, p.RPM), TPM: cmp.Or(q.TPM, p.TPM), ITPM: cmp.Or(q.ITPM, p.ITPM), OTPM: cmp.Or(q.OTPM, p.OTPM),
		Burst: cmp.Or(q.Burst, p.Burst), RA: cmp.Or(q.RA, p.RA),
		NoHeaders: q.NoHeaders || p.NoHeaders, ChargeRefused: q.ChargeRefused || p.ChargeRefused,
		Cap: cmp.Or(q.Cap, p.Cap), CapRetryAfter: cmp.Or(q.CapRetryAfter, p.CapRetryAfter),
		FailFirst: cmp.Or(q.FailFirst, p.FailFirst), SpendCapAfter: cmp.Or(q.SpendCapAfter, p.SpendCapAfter),
		Faults: Faults{P429: cmp.Or(g.P429, f.P429), P500: cmp.Or(g.P500, f.P500), P503: cmp.Or(g.P503, f.P503), P529: cmp.Or(g.P529, f.P529),
			Drop: cmp.Or(g.Drop, f.Drop), Cut: cmp.Or(g.Cut, f.Cut), HTML: cmp.Or(g.HTML, f.HTML), Slow: cmp.Or(g.Slow, f.Slow)},
		Only: cmp.Or(q.Only, p.Only), Auth: cmp.Or(q.Auth, p.Auth), Seed: cmp.Or(q.Seed, p.Seed),
		Batch: cmp.Or(q.Batch, p.Batch), BatchTime: cmp.Or(q.BatchTime, p.BatchTime), TokenLimit: cmp.Or(q.TokenLimit, p.TokenLimit), Lost: cmp.Or(q.Lost, p.Lost),
		Echo: q.Echo || p.Echo, Size: cmp.Or(q.Size, p.Size), Stop: cmp.Or(q.Stop, p.Stop),
		In: cmp.Or(q.In, p.In), Out: cmp.Or(q.Out, p.Out), Parts: cmp.Or(q.Parts, p.Parts), Gap: cmp.Or(q.Gap, p.Gap),
	}
}
