package retry

import (
	"math"
	"strings"
	"time"
)

// VeryLong is the wait of a hint that is too long for a time.Duration.
const VeryLong = time.Duration(math.MaxInt64)

// After reads the wait that a response asks for: ms are the values of its
// retry-after-ms headers, secs those of Retry-After, date is its Date header and
// now the time at which it was received (used where date can't be read).
//
// A value of retry-after-ms wins over Retry-After. Of several values, also folded into
// one ("4, 4"), the longest counts, and one that can't be read is passed over. A value is ASCII digits, a
// plain decimal (rounded up to a millisecond) or, for Retry-After, one of the
// three forms of an HTTP date (RFC 9110 §10.2.3 and §5.6.7). ok is false where
// nothing asks for a wait: zero, negative, past, malformed or absent values. What
// is too long for a Duration is VeryLong; nothing overflows.
func After(ms, secs []string, date string, now time.Time) (d time.Duration, ok bool) {
	for _, v := range ms {
		d = max(d, numbers(v, time.Millisecond))
	}
	if d > 0 {
		return d, true
	}
	reference := now
	if t, err := parseDate(trim(date), now); err == nil {
		reference = t
	}
	for _, v := range secs {
		v = trim(v)
		if n := numbers(v, time.Second); n > 0 {
			d = max(d, n)
		} else if t, err := parseDate(v, reference); err == nil {
			d = max(d, t.Sub(reference)) // Sub saturates
		}
	}
	return d, d > 0
}

// trim takes off what RFC 9110 §5.6.3 calls optional white space.
func trim(v string) string { return strings.Trim(v, " \t") }

// numbers reads one or more numbers; of those that a proxy folded into one value
// ("4, 4") the longest counts.
func numbers(v string, unit time.Duration) (d time.Duration) {
	for part := range strings.SplitSeq(v, ",") {
		d = max(d, number(trim(part), unit))
	}
	return d
}

// number reads digits with an optional fraction as a count of units, rounded up
// to a millisecond. It is 0 where v is anything else.
func number(v string, unit time.Duration) time.Duration {
	whole, fraction, point := strings.Cut(v, ".")
	if !digits(whole) || point && !digits(fraction) {
		return 0
	}
	var n time.Duration
	for i := 0; i < len(whole); i++ {
		digit := time.Duration(whole[i] - '0')
		if n > (VeryLong/unit-digit)/10 {
			return VeryLong
		}
		n = n*10 + digit
	}
	n *= unit
	var part time.Duration
	for i, scale := 0, unit/10; i < len(fraction); i, scale = i+1, scale/10 {
		if scale == 0 {
			if strings.Trim(fraction[i:], "0") != "" {
				part++
			}
			break
		}
		part += scale * time.Duration(fraction[i]-'0')
	}
	part = (part + time.Millisecond - 1) / time.Millisecond * time.Millisecond
	if n > VeryLong-part {
		return VeryLong
	}
	return n + part
}

func digits(v string) bool {
	for i := 0; i < len(v); i++ {
		if v[i] < '0' || v[i] > '9' {
			return false
		}
	}
	return v != ""
}

const (
	fixdate = "Mon, 02 Jan 2006 15:04:05 GMT"
	rfc850  = "Monday, 02-Jan-06 15:04:05 GMT"
	asctime = time.ANSIC
)

// parseDate reads an HTTP date. The two-digit year of the RFC 850 form is the
// latest one that is no more than 50 years after reference.
func parseDate(v string, reference time.Time) (time.Time, error) {
	t, err := time.Parse(fixdate, v)
	if err == nil {
		return t, nil
	}
	if t, err = time.Parse(asctime, v); err == nil {
		return t, nil
	}
	if t, err = time.Parse(rfc850, v); err != nil {
		return t, err
	}
	latest := reference.UTC().AddDate(50, 0, 0)
	year := latest.Year() - latest.Year()%100 + t.Year()%100
	full := time.Date(year, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
	if full.After(latest) {
		full = time.Date(year-100, t.Month(), t.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
	}
	return full, nil
}
