package mockapi

import (
	"fmt"
	"math"
	"net/url"
	"reflect"
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

// Params change what a scenario does; the zero value changes nothing. Of each field the tags are the table of parameters:
// key is its name in a query and among the command's flags, text what it does, of the values it may have, where not all are good.
type Params struct {
	// Latency of 0 is the scenario's own; None: none.
	Latency time.Duration `key:"latency" text:"time before an ok answer (20ms; 0: none)"`
	Spread  float64       `key:"spread" text:"lognormal latencies: standard deviation of the logarithm (0.5)"`

	// Limits are token buckets; 0: no limit. Those of tokens hold ten seconds' worth.
	RPM   int `key:"rpm" text:"requests a minute and model, with the vendor's headers"`
	TPM   int `key:"tpm" text:"tokens a minute and model"`
	ITPM  int `key:"itpm" text:"input tokens a minute and model"`
	OTPM  int `key:"otpm" text:"output tokens a minute and model"`
	Burst int `key:"burst" text:"requests that a full bucket holds (rpm/60)"`
	// RA is whole seconds in retry-after (s, also when empty), milliseconds in retry-after-ms, both or none of them.
	RA            string `key:"ra" of:"s,ms,both,no" text:"how a refusal names its wait: s, ms, both, no"`
	NoHeaders     bool   `key:"no-headers" text:"yes: buckets without rate limit headers"`
	ChargeRefused bool   `key:"charge-refused" text:"yes: refused requests cost as much as served ones"`

	Cap           int           `key:"cap" text:"requests served at once, more get a 429"`
	CapRetryAfter time.Duration `key:"cap-retry-after" text:"retry-after of that 429 (1s)"`
	FailFirst     time.Duration `key:"fail-first" text:"time from the first request on in which all get a bare 429"`
	SpendCapAfter int           `key:"spend-cap-after" text:"ok answers after which all get the spend cap's 429"`
	// Steps are names of the table steps with commas between them.
	Steps string `key:"steps" of:"steps" text:"answers in order, the last for ever: ok, 429, 429/2 (retry-after), 429/300ms, 500/false (x-should-retry), drop, cut, html …"`
	Faults
	Only string `key:"only" text:"model for which the scenario is played; others get ok"`
	Auth string `key:"auth" text:"key without which a request gets a 401"`

	Batch      string        `key:"batch" of:"batch" text:"what goes wrong with batches, as in the scenarios named batch-"`
	BatchTime  time.Duration `key:"batch-time" text:"time from a batch's creation to its end (2s)"`
	TokenLimit int           `key:"token-limit" text:"tokens that open batches may have"`
	Lost       string        `key:"lost" of:"cut,500,delay" text:"how batch-create-lost loses the answer: cut, 500, delay"`

	Seed uint64 `key:"seed" text:"seed of latencies and faults"`
	Echo bool   `key:"echo" text:"yes: answer with the prompt"`
	Size int    `key:"size" text:"length of the answer's text in bytes"`
	Stop string `key:"stop" text:"stop reason"`
	In   int    `key:"in" text:"input tokens of a request (5)"`
	Out  int    `key:"out" text:"output tokens of a request (1)"`
	// Thoughts and Block concern Gemini's own API.
	Thoughts int    `key:"thoughts" text:"thought tokens that Gemini reports"`
	Block    string `key:"block" text:"why Gemini blocks the prompt (SAFETY)"`
	Stream   bool   `key:"stream" text:"yes: the answer is a stream, asked for or not"`
	// Parts of 0 are 2.
	Parts int           `key:"parts" text:"pieces of a stream, and with a gap of a plain body (2)"`
	Gap   time.Duration `key:"gap" text:"time between two pieces"`
}

// Faults is a mix of faults, each in percent of the requests. Which request is hit follows from the seed, the body and how
// often that body came, not from the order of arrival.
type Faults struct {
	P429 float64 `key:"p429" text:"percent of requests that get a 429"`
	P500 float64 `key:"p500" text:"percent that get a 500"`
	P503 float64 `key:"p503" text:"percent that get a 503"`
	P529 float64 `key:"p529" text:"percent that get a 529"`
	Drop float64 `key:"drop" text:"percent whose connection is closed without an answer"`
	Cut  float64 `key:"cut" text:"percent whose connection is closed in the middle of the answer"`
	HTML float64 `key:"html" text:"percent answered with an HTML page and status 200"`
	Slow float64 `key:"slow" text:"percent answered after 5 s"`
}

// Key is a parameter's name in a query or among the command's flags, and what it does, in a line.
type Key struct{ Name, Text string }

// field is a parameter's place in Params.
type field struct {
	Key
	of    string
	index []int
}

// fields are all parameters in the order of Params.
var fields = func() (all []field) {
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Params]()) {
		if name := f.Tag.Get("key"); name != "" {
			all = append(all, field{Key{name, f.Tag.Get("text")}, f.Tag.Get("of"), f.Index})
		}
	}
	return all
}()

// Keys returns all parameters, those that change the pace first.
func Keys() []Key {
	all := make([]Key, len(fields))
	for i, f := range fields {
		all[i] = f.Key
	}
	return all
}

// known lists the parameters for an error.
func known() string {
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.Name
	}
	return "known are " + strings.Join(names, ", ")
}

// ParseParams reads parameters from a query. A key that it does not know and a value that does not fit are errors that
// list the keys; what clients and the APIs themselves put into a query, such as api-version or limit, is passed over.
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
var passed = []string{"api-version", "beta", "limit", "after", "after_id", "before_id", "purpose", "order", "alt", "key"}

// take sets what a query names.
func (p *Params) take(v url.Values) error {
	for key, values := range v {
		for _, value := range values {
			if slices.Contains(passed, key) {
				continue
			}
			if err := p.Set(key, value); err != nil {
				return err
			}
		}
	}
	return nil
}

// Set gives one parameter its value; the error of an unknown key or of a value that does not fit lists the keys.
func (p *Params) Set(key, value string) error {
	i := slices.IndexFunc(fields, func(f field) bool { return f.Name == key })
	if i < 0 {
		return fmt.Errorf("unknown parameter %s; %s", prefix(key, 80), known())
	}
	f := reflect.ValueOf(p).Elem().FieldByIndex(fields[i].index)
	if !assign(f.Addr().Interface(), value) || !allowed(fields[i].of, value) || p.Parts > maxParts || p.Size > maxSize {
		return fmt.Errorf("parameter %s can't be %q; %s", key, prefix(value, 80), known())
	}
	if key == "latency" && p.Latency == 0 {
		p.Latency = None
	}
	return nil
}

// allowed reports whether a value is one of those that a parameter may have.
func allowed(of, value string) bool {
	switch of {
	case "":
		return true
	case "steps":
		return allowedSteps(value)
	case "batch":
		return value == "none" || scriptOf("batch-"+value) != nil
	}
	return slices.Contains(strings.Split(of, ","), value)
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
	to, from := reflect.ValueOf(&p).Elem(), reflect.ValueOf(q)
	for _, f := range fields {
		if v := from.FieldByIndex(f.index); !v.IsZero() {
			to.FieldByIndex(f.index).Set(v)
		}
	}
	return p
}
