package provider

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// hint is the longest wait that the body asks for: as a member, or else in words.
func (s *signal) hint() time.Duration {
	if s.wait > 0 {
		return s.wait
	}
	text := s.text()
	if !strings.Contains(text, "try") && !strings.Contains(text, "wait") && !strings.Contains(text, "available") {
		return 0 // the expression below is slow, and most messages ask for nothing
	}
	var longest time.Duration
	for _, m := range waitWords().FindAllStringSubmatch(text, 8) {
		if !s.quotes(m[0]) {
			longest = max(longest, wordsToDuration(m[1]))
		}
	}
	return longest
}

// collectWaits takes the members that say when to come back: a number of seconds
// (OpenRouter's availability, Cloudflare's JSON), a protobuf duration (Gemini's
// RetryInfo), or a moment in epoch milliseconds among quoted headers (OpenRouter).
func (s *signal) collectWaits(v map[string]any, inner bool) {
	var d time.Duration
	d = max(d, seconds(text(v["retryafter"])), seconds(text(v["retryafterseconds"])))
	switch delay := v["retrydelay"].(type) {
	case string:
		if n, ok := strings.CutSuffix(delay, "s"); ok {
			d = max(d, seconds(n))
		}
	case map[string]any:
		d = max(d, seconds(text(delay["seconds"])))
	}
	if headers, ok := v["headers"].(map[string]any); ok && !s.at.IsZero() {
		for name, value := range headers {
			if strings.EqualFold(name, "X-RateLimit-Reset") {
				if n, err := strconv.ParseInt(text(value), 10, 64); err == nil && n > epochMillis {
					d = max(d, time.UnixMilli(n).Sub(s.at))
				}
			}
		}
	}
	if inner && (s.quotes("retry_after") || s.quotes("retrydelay")) {
		return
	}
	s.wait = max(s.wait, d)
}

// epochMillis: a number above it is a moment in milliseconds, not a count of seconds.
const epochMillis = 1_000_000_000_000

// seconds reads digits with an optional fraction, rounded up to a millisecond; it
// is 0 for anything else and never overflows.
func seconds(v string) time.Duration {
	if v == "" || strings.Trim(v, "0123456789.") != "" {
		return 0
	}
	f, err := strconv.ParseFloat(v, 64)
	if err != nil && !math.IsInf(f, 1) {
		return 0
	}
	return fromFloat(f, time.Second)
}

// fromFloat is f units, rounded up to a millisecond, at most the longest Duration.
func fromFloat(f float64, unit time.Duration) time.Duration {
	ms := math.Ceil(f*float64(unit)/float64(time.Millisecond) - 1e-6)
	if !(ms > 0) {
		return 0
	}
	if ms >= float64(math.MaxInt64/int64(time.Millisecond)) {
		return math.MaxInt64
	}
	return time.Duration(ms) * time.Millisecond
}

// late compiles a pattern when it is first used: most runs never read an error, and
// all of them start.
func late(pattern string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(pattern) })
}

// waitWords finds "try again in 6m0s", "retry in 38.2s", "retry after 37 seconds".
var waitWords = late(
	`\b(?:try again|retry|retrying|wait|available)(?: again)?(?: in| after| for)?(?: about)? ((?:\d{1,12}(?:\.\d{1,12})? ?(?:` + unitNames + `)(?: and |, | )?)+)`)

const unitNames = `milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|m|hours?|hrs?|h|days?|d`

var oneUnit = late(`(\d+(?:\.\d+)?) ?(` + unitNames + `)`)

// wordsToDuration adds up what waitWords found.
func wordsToDuration(v string) time.Duration {
	var sum float64 // seconds
	for _, m := range oneUnit().FindAllStringSubmatch(v, 8) {
		n, err := strconv.ParseFloat(m[1], 64)
		if err != nil {
			return 0
		}
		sum += n * secondsIn(m[2])
	}
	return fromFloat(sum, time.Second)
}

func secondsIn(unit string) float64 {
	switch {
	case strings.HasPrefix(unit, "ms"), strings.HasPrefix(unit, "milli"):
		return 0.001
	case strings.HasPrefix(unit, "m"):
		return 60
	case strings.HasPrefix(unit, "h"):
		return 3600
	case strings.HasPrefix(unit, "d"):
		return 86400
	}
	return 1
}

// regained is when a cap ends, for the user's eyes: a member or the words of the
// message.
func (s *signal) regained() string {
	if s.regain != "" {
		return s.regain
	}
	for _, t := range s.texts {
		if m := regainWords().FindStringSubmatch(t); m != nil {
			return strings.TrimRight(clip(m[1], 60), " .,")
		}
	}
	return ""
}

var regainWords = late(`(?i)regain access (?:on|at) ([0-9A-Za-z][0-9A-Za-z:, +-]*)`)

// quotaOfZero: Gemini's way to say that a model is not in the plan.
var quotaOfZero = late(`\blimit: 0(?:[^0-9.,]|[.,](?:[^0-9]|$)|$)`)

var limitRequested = late(`\blimit:? ([0-9][0-9,]*)[,;]? .*?\brequested:? ([0-9][0-9,]*)`)

// tooLargeForLimit says whether one request alone is more than its limit, which no
// waiting cures. Message in lower case.
func tooLargeForLimit(message string) bool {
	if !strings.Contains(message, "request too large") {
		return false
	}
	m := limitRequested().FindStringSubmatch(message)
	if m == nil {
		return strings.Contains(message, "request too large for")
	}
	limit, err := strconv.ParseFloat(strings.ReplaceAll(m[1], ",", ""), 64)
	asked, err2 := strconv.ParseFloat(strings.ReplaceAll(m[2], ",", ""), 64)
	return err == nil && err2 == nil && asked > limit
}
