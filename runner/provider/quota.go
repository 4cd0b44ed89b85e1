package provider

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Quota is what rate-limit headers say about one resource.
type Quota struct {
	// Resource is "requests", "input_tokens", "output_tokens" or "tokens".
	Resource string
	// Limit and Remaining are counts, Limit above 0 and Remaining from 0 to Limit.
	Limit, Remaining float64
	// Reset is the time until Remaining would be Limit again, 0 if unknown: an
	// upper bound for any wait.
	Reset time.Duration
}

const (
	// longestReset: a quota that takes longer is one of a day or a month, which
	// says nothing about the pace.
	longestReset = time.Hour
	// mostCount: a larger number is no count.
	mostCount = 1e12
)

// source names the headers of one resource, in the canonical form of net/http.
type source struct{ resource, limit, remaining, reset string }

// sources: of several for one resource, the first that makes sense counts.
var sources = []source{
	{"requests", "Anthropic-Ratelimit-Requests-Limit", "Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset"},
	{"input_tokens", "Anthropic-Ratelimit-Input-Tokens-Limit", "Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Reset"},
	{"output_tokens", "Anthropic-Ratelimit-Output-Tokens-Limit", "Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset"},
	{"tokens", "Anthropic-Ratelimit-Tokens-Limit", "Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset"},

	{"requests", "X-Ratelimit-Limit-Requests", "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"},
	{"tokens", "X-Ratelimit-Limit-Tokens", "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},

	{"requests", "X-Ratelimit-Limit-Requests-Minute", "X-Ratelimit-Remaining-Requests-Minute", "X-Ratelimit-Reset-Requests-Minute"},
	{"requests", "X-Ratelimit-Limit-Req-Minute", "X-Ratelimit-Remaining-Req-Minute", "X-Ratelimit-Reset-Req-Minute"},
	{"tokens", "X-Ratelimit-Limit-Tokens-Minute", "X-Ratelimit-Remaining-Tokens-Minute", "X-Ratelimit-Reset-Tokens-Minute"},

	{"requests", "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
	{"requests", "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset"},
	{"tokens", "X-Tokenlimit-Limit", "X-Tokenlimit-Remaining", "X-Tokenlimit-Reset"},
}

// Quotas reads the rate-limit headers of all known vendors; now is when they
// arrived. They are bounds, never the truth: what can't be read or makes no sense
// (-1, a limit of 0, a reset hours away, a quota per day) is left out. Anthropic's
// tokens header is only the most restrictive one of its limits, so it counts only
// where the exact ones are missing. The IETF fields RateLimit and RateLimit-Policy
// (a draft) count last.
func Quotas(h http.Header, now time.Time) []Quota {
	var out []Quota
	known := func(resource string) bool {
		for _, q := range out {
			if q.Resource == resource {
				return true
			}
		}
		return false
	}
	perDay := dailyRequests(h)
	for i := range sources {
		src := &sources[i]
		if first(h, src.limit) == "" || known(src.resource) {
			continue
		}
		if src.resource == "requests" && perDay {
			continue
		}
		if src.resource == "tokens" && (known("input_tokens") || known("output_tokens")) {
			continue
		}
		if q, ok := src.read(h, now); ok {
			out = append(out, q)
		}
	}
	if !known("requests") && !perDay {
		if q, ok := structured(h); ok {
			out = append(out, q)
		}
	}
	return out
}

// dailyRequests: Groq's request headers count per day (its tokens per minute).
func dailyRequests(h http.Header) bool {
	for name := range h {
		if strings.HasPrefix(name, "X-Groq-") {
			return true
		}
	}
	return false
}

func (src *source) read(h http.Header, now time.Time) (Quota, bool) {
	limit, ok := count(first(h, src.limit))
	remaining, ok2 := count(first(h, src.remaining))
	if !ok || !ok2 || limit <= 0 {
		return Quota{}, false
	}
	q := Quota{Resource: src.resource, Limit: limit, Remaining: min(remaining, limit)}
	if q.Reset, ok = resetIn(first(h, src.reset), now); !ok {
		return Quota{}, false
	}
	return q, !perDay(q)
}

// perDay tells a bucket that takes a day to fill, whatever its header is called:
// what is used of it comes back at limit/86400 a second.
func perDay(q Quota) bool {
	used := q.Limit - q.Remaining
	if used < 1 || q.Reset < time.Second {
		return false
	}
	fill := q.Limit * q.Reset.Seconds() / used
	return fill > 86400*0.8 && fill < 86400*1.25
}

// first is the header's first value; Get would make the name canonical again.
func first(h http.Header, name string) string {
	if v := h[name]; len(v) > 0 {
		return v[0]
	}
	return ""
}

// count reads "30000", "30,000" and the first item of "100, 100;w=60".
func count(v string) (float64, bool) {
	if i := strings.IndexByte(v, ';'); i >= 0 {
		v = v[:i]
	}
	if head, rest, ok := strings.Cut(v, ","); ok {
		if rest = strings.ReplaceAll(rest, ",", ""); len(rest)%3 == 0 && rest != "" && allDigits(rest) {
			v = head + rest
		} else {
			v = head
		}
	}
	v = strings.TrimSpace(v)
	if v == "" || strings.Trim(v, "0123456789.") != "" {
		return 0, false
	}
	f, err := strconv.ParseFloat(v, 64)
	return f, err == nil && f <= mostCount
}

func allDigits(v string) bool { return strings.Trim(v, "0123456789") == "" }

// resetIn reads when a quota is whole again: Go durations (6m0s, 20ms), days (1d),
// bare seconds, epoch seconds and milliseconds, RFC 3339. "" and the past are 0;
// ok is false where it can't be read or is longer than longestReset.
func resetIn(v string, now time.Time) (d time.Duration, ok bool) {
	v = strings.TrimSpace(v)
	if v == "" {
		return 0, true
	}
	if t, err := time.Parse(time.RFC3339, v); err == nil {
		d = t.Sub(now)
	} else if strings.Trim(v, "0123456789.") == "" {
		f, err := strconv.ParseFloat(v, 64)
		switch {
		case err != nil || f > 1e14:
			return 0, false
		case f > epochMillis:
			d = time.UnixMilli(int64(f)).Sub(now)
		case f > epochMillis/1000:
			d = time.Unix(int64(f), 0).Sub(now)
		default:
			d = fromFloat(f, time.Second)
		}
	} else if d, ok = goDuration(v); !ok {
		return 0, false
	}
	return max(d, 0), d <= longestReset
}

// goDuration is time.ParseDuration with days in front; no signs.
func goDuration(v string) (time.Duration, bool) {
	var days float64
	if i := strings.IndexByte(v, 'd'); i > 0 {
		n, err := strconv.ParseFloat(v[:i], 64)
		if err != nil || strings.Trim(v[:i], "0123456789.") != "" {
			return 0, false
		}
		if days, v = n, v[i+1:]; v == "" {
			v = "0s"
		}
	}
	d, err := time.ParseDuration(v)
	if err != nil || d < 0 {
		return 0, false
	}
	return fromFloat(math.Min(days*86400, 1e9)+d.Seconds(), time.Second), true
}

// structured reads the IETF fields: RateLimit: "default";r=50;t=30 with
// RateLimit-Policy: "default";q=100;w=60, and the older limit=100, remaining=50,
// reset=5.
func structured(h http.Header) (Quota, bool) {
	state := first(h, "Ratelimit")
	if state == "" {
		return Quota{}, false
	}
	get := func(field, name string) (float64, bool) {
		for part := range strings.FieldsFuncSeq(field, func(r rune) bool { return r == ';' || r == ',' }) {
			if v, ok := strings.CutPrefix(strings.TrimSpace(part), name+"="); ok {
				return count(v)
			}
		}
		return 0, false
	}
	policy := first(h, "Ratelimit-Policy")
	if strings.Contains(policy, "qu=") && !strings.Contains(policy, `qu="requests"`) || strings.Count(policy, "q=") > 1 {
		return Quota{}, false // other units, or several policies of which one binds
	}
	if window, ok := get(policy, "w"); ok && window > longestReset.Seconds() {
		return Quota{}, false
	}
	limit, ok := get(policy, "q")
	remaining, ok2 := get(state, "r")
	reset, _ := get(state, "t")
	if !ok || !ok2 {
		limit, ok = get(state, "limit")
		remaining, ok2 = get(state, "remaining")
		reset, _ = get(state, "reset")
	}
	if !ok || !ok2 || limit <= 0 || reset > longestReset.Seconds() {
		return Quota{}, false
	}
	q := Quota{Resource: "requests", Limit: limit, Remaining: min(remaining, limit), Reset: fromFloat(reset, time.Second)}
	return q, !perDay(q)
}

// HasRateHeaders says whether the answer has any rate-limit header at all, also
// one that Quotas can make nothing of.
func HasRateHeaders(h http.Header) bool {
	for name := range h {
		for _, prefix := range [...]string{"Anthropic-Ratelimit-", "X-Ratelimit", "Ratelimit", "X-Tokenlimit-"} {
			if strings.HasPrefix(name, prefix) {
				return true
			}
		}
	}
	return false
}

// RequestID is the server's name for the request, from the first of the known
// headers that it sent, "" for none.
func RequestID(h http.Header) string {
	for _, name := range [...]string{"Request-Id", "X-Request-Id", "X-Litellm-Call-Id", "Apim-Request-Id", "Cf-Ray"} {
		if v := first(h, name); v != "" {
			return clip(clean(v), 200)
		}
	}
	return ""
}
