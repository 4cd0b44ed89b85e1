package provider

import (
	"io"
	"log"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"
)

var quiet = log.New(io.Discard, "", 0)

var arrived = time.UnixMilli(1791331200000).UTC()

// headers makes a header of "k: v" lines.
func headers(lines string) http.Header {
	h := http.Header{}
	for line := range strings.Lines(lines) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), ": "); ok {
			h.Add(k, v)
		}
	}
	return h
}

var quotaRows = []struct {
	name    string
	headers string
	want    []Quota
}{
	{"none", "content-type: application/json", nil},
	{"anthropic", `anthropic-ratelimit-requests-limit: 50
		anthropic-ratelimit-requests-remaining: 49
		anthropic-ratelimit-requests-reset: ` + arrived.Add(time.Second).Format(time.RFC3339) + `
		anthropic-ratelimit-input-tokens-limit: 30000
		anthropic-ratelimit-input-tokens-remaining: 20000
		anthropic-ratelimit-input-tokens-reset: ` + arrived.Add(20*time.Second).Format(time.RFC3339) + `
		anthropic-ratelimit-output-tokens-limit: 8000
		anthropic-ratelimit-output-tokens-remaining: 0
		anthropic-ratelimit-output-tokens-reset: ` + arrived.Add(time.Minute).Format(time.RFC3339) + `
		anthropic-ratelimit-tokens-limit: 8000
		anthropic-ratelimit-tokens-remaining: 0`,
		[]Quota{{"requests", 50, 49, time.Second}, {"input_tokens", 30000, 20000, 20 * time.Second}, {"output_tokens", 8000, 0, time.Minute}}},
	{"anthropic, only the most restrictive", "anthropic-ratelimit-tokens-limit: 8000\nanthropic-ratelimit-tokens-remaining: 1000",
		[]Quota{{"tokens", 8000, 1000, 0}}},
	{"anthropic, other tiers", "anthropic-priority-input-tokens-limit: 10\nanthropic-priority-input-tokens-remaining: 5\nanthropic-ratelimit-unified-status: allowed", nil},
	{"openai", `x-ratelimit-limit-requests: 5000
		x-ratelimit-remaining-requests: 4999
		x-ratelimit-reset-requests: 12ms
		x-ratelimit-limit-tokens: 160000
		x-ratelimit-remaining-tokens: 80000
		x-ratelimit-reset-tokens: 30s`,
		[]Quota{{"requests", 5000, 4999, 12 * time.Millisecond}, {"tokens", 160000, 80000, 30 * time.Second}}},
	{"thousands", "x-ratelimit-limit-tokens: 30,000\nx-ratelimit-remaining-tokens: 1,000,000\nx-ratelimit-reset-tokens: 1m30.951s",
		[]Quota{{"tokens", 30000, 30000, 90951 * time.Millisecond}}},
	{"azure, -1 and 0", "x-ratelimit-limit-requests: -1\nx-ratelimit-remaining-requests: -1\nx-ratelimit-limit-tokens: 0\nx-ratelimit-remaining-tokens: 0", nil},
	{"remaining -1", "x-ratelimit-limit-tokens: 100\nx-ratelimit-remaining-tokens: -1", nil},
	{"no remaining", "x-ratelimit-limit-tokens: 100", nil},
	{"no limit", "x-ratelimit-remaining-tokens: 100", nil},
	{"groq: requests per day", `x-groq-region: fra
		x-ratelimit-limit-requests: 14400
		x-ratelimit-remaining-requests: 14000
		x-ratelimit-reset-requests: 2m
		x-ratelimit-limit-tokens: 6000
		x-ratelimit-remaining-tokens: 5000
		x-ratelimit-reset-tokens: 7.66s`,
		[]Quota{{"tokens", 6000, 5000, 7660 * time.Millisecond}}},
	{"per day by its pace", "x-ratelimit-limit-requests: 14400\nx-ratelimit-remaining-requests: 14370\nx-ratelimit-reset-requests: 2m59.56s", nil},
	{"per day by its reset", "x-ratelimit-limit-requests: 200\nx-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 23h59m", nil},
	{"a reset in days", "x-ratelimit-limit-requests: 200\nx-ratelimit-remaining-requests: 0\nx-ratelimit-reset-requests: 1d2h", nil},
	{"a window's end far beyond the pace", "x-ratelimit-limit-requests: 60\nx-ratelimit-remaining-requests: 59\nx-ratelimit-reset-requests: 59s",
		[]Quota{{"requests", 60, 59, 59 * time.Second}}},
	{"openrouter", "x-ratelimit-limit: 20\nx-ratelimit-remaining: 0\nx-ratelimit-reset: 1791331260000",
		[]Quota{{"requests", 20, 0, time.Minute}}},
	{"openrouter, per day", "x-ratelimit-limit: 50\nx-ratelimit-remaining: 0\nx-ratelimit-reset: 1791371260000", nil},
	{"epoch seconds", "x-ratelimit-limit: 20\nx-ratelimit-remaining: 0\nx-ratelimit-reset: 1791331230",
		[]Quota{{"requests", 20, 0, 30 * time.Second}}},
	{"reset in the past", "x-ratelimit-limit: 20\nx-ratelimit-remaining: 3\nx-ratelimit-reset: 1791331130",
		[]Quota{{"requests", 20, 3, 0}}},
	{"together", "x-ratelimit-limit: 10\nx-ratelimit-remaining: 9\nx-ratelimit-reset: 1\nx-tokenlimit-limit: 2000\nx-tokenlimit-remaining: 100",
		[]Quota{{"requests", 10, 9, time.Second}, {"tokens", 2000, 100, 0}}},
	{"mistral", "x-ratelimit-limit-req-minute: 60\nx-ratelimit-remaining-req-minute: 59\nx-ratelimit-limit-tokens-minute: 500000\nx-ratelimit-remaining-tokens-minute: 400000\nx-ratelimit-limit-tokens-month: 1000000000",
		[]Quota{{"requests", 60, 59, 0}, {"tokens", 500000, 400000, 0}}},
	{"days beside minutes", "x-ratelimit-limit-requests-day: 100\nx-ratelimit-remaining-requests-day: 1\nx-ratelimit-reset-requests-day: 33011.38", nil},
	{"IETF", "ratelimit-policy: \"default\";q=100;w=60\nratelimit: \"default\";r=50;t=30",
		[]Quota{{"requests", 100, 50, 30 * time.Second}}},
	{"IETF per day", "ratelimit-policy: \"default\";q=100;w=86400\nratelimit: \"default\";r=50;t=30", nil},
	{"IETF in other units", "ratelimit-policy: \"default\";q=100;w=60;qu=\"content-bytes\"\nratelimit: \"default\";r=50;t=30", nil},
	{"IETF, two policies", "ratelimit-policy: \"a\";q=10;w=1, \"b\";q=100;w=60\nratelimit: \"a\";r=5;t=1", nil},
	{"IETF, older", "ratelimit: limit=100, remaining=50, reset=5", []Quota{{"requests", 100, 50, 5 * time.Second}}},
	{"IETF, three headers", "ratelimit-limit: 100, 100;w=60\nratelimit-remaining: 50\nratelimit-reset: 5", []Quota{{"requests", 100, 50, 5 * time.Second}}},
	{"nonsense", "x-ratelimit-limit-tokens: many\nx-ratelimit-remaining-tokens: nan\nx-ratelimit-limit-requests: 1e9\nx-ratelimit-remaining-requests: 1e9", nil},
	{"absurd", "x-ratelimit-limit-tokens: 99999999999999999999\nx-ratelimit-remaining-tokens: 1", nil},
	{"a reset that can't be read", "x-ratelimit-limit-tokens: 100\nx-ratelimit-remaining-tokens: 1\nx-ratelimit-reset-tokens: soon", nil},
}

func TestQuotas(t *testing.T) {
	for _, r := range quotaRows {
		if got := Quotas(headers(r.headers), arrived); !slices.Equal(got, r.want) {
			t.Errorf("%s: got %v, want %v", r.name, got, r.want)
		}
	}
}

func TestResetIn(t *testing.T) {
	for v, want := range map[string]time.Duration{
		"1s": time.Second, "6m0s": 6 * time.Minute, "20ms": 20 * time.Millisecond, "7.66s": 7660 * time.Millisecond,
		"60": time.Minute, "1.5": 1500 * time.Millisecond, "": 0, "0": 0, "0d30s": 30 * time.Second,
	} {
		if got, ok := resetIn(v, arrived); got != want || !ok {
			t.Errorf("%q: got %v %v, want %v", v, got, ok, want)
		}
	}
	for _, v := range []string{"1d", "-1s", "-5", "nan", "inf", "1e9", "x", "99999999999999999999", "9999-01-01T00:00:00Z", "2562048h", "1d1d"} {
		if got, ok := resetIn(v, arrived); ok {
			t.Errorf("%q: got %v, want nothing", v, got)
		}
	}
}

func TestHasRateHeaders(t *testing.T) {
	for line, want := range map[string]bool{
		"x-ratelimit-limit-requests: -1": true, "anthropic-ratelimit-unified-status: x": true, "ratelimit: x": true,
		"x-tokenlimit-limit: 1": true, "retry-after: 1": false, "": false,
	} {
		if got := HasRateHeaders(headers(line)); got != want {
			t.Errorf("%q: got %v, want %v", line, got, want)
		}
	}
}

func TestRequestID(t *testing.T) {
	all := "cf-ray: e\napim-request-id: d\nx-litellm-call-id: c\nx-request-id: b\nrequest-id: a"
	for _, want := range []string{"a", "b", "c", "d", "e", ""} {
		if got := RequestID(headers(all)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
		all = all[:max(strings.LastIndex(all, "\n"), 0)]
	}
}

func FuzzQuotas(f *testing.F) {
	for _, r := range quotaRows {
		f.Add(r.headers)
	}
	f.Fuzz(func(t *testing.T, lines string) {
		seen := map[string]bool{}
		for _, q := range Quotas(headers(lines), arrived) {
			if !(q.Limit > 0) || !(q.Remaining >= 0) || q.Remaining > q.Limit || q.Reset < 0 || q.Reset > longestReset || seen[q.Resource] {
				t.Fatalf("got %+v", q)
			}
			seen[q.Resource] = true
		}
	})
}
