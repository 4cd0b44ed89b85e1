package plain

import (
	"fmt"
	"strconv"
	"time"
)

// Count is a whole number with a comma each three digits.
func Count[N int | int64](n N) string {
	s := strconv.FormatInt(int64(n), 10)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// Brief is a number in at most five columns: 999, 12.3k, 4M.
func Brief(f float64) string {
	for _, unit := range []struct {
		from, of float64
		name     string
	}{{1e9, 1e9, "G"}, {1e6, 1e6, "M"}, {1e4, 1e3, "k"}} {
		if f >= unit.from {
			return trim(f/unit.of) + unit.name
		}
	}
	return trim(f)
}

// trim is a number with one decimal, which is left out if it is zero; a number
// below one has up to four.
func trim(f float64) string {
	decimals := 1
	if f < 1 {
		decimals = 4
	}
	s := strconv.FormatFloat(f, 'f', decimals, 64)
	for s[len(s)-1] == '0' && decimals > 0 {
		s, decimals = s[:len(s)-1], decimals-1
	}
	if decimals == 0 && s[len(s)-1] == '.' {
		s = s[:len(s)-1]
	}
	return s
}

// Plural is a number with its noun: "1 item", "2,000 items". The plural form may
// be given where it is not the noun with an s.
func Plural[N int | int64](n N, one string, many ...string) string {
	switch {
	case n == 1:
		return "1 " + one
	case len(many) > 0:
		return Count(n) + " " + many[0]
	}
	return Count(n) + " " + one + "s"
}

// Times is how often something happened: "once", "3 times".
func Times(n int) string {
	if n == 1 {
		return "once"
	}
	return Count(n) + " times"
}

// Money shows four decimals while it is below one, and two from there on.
func Money(c float64) string {
	if c < 1 {
		return strconv.FormatFloat(c, 'f', 4, 64)
	}
	return strconv.FormatFloat(c, 'f', 2, 64)
}

// Percent is a share with one decimal; "" where there is no whole. What is not
// nothing is never shown as 0.0 %, and what is not all never as 100.0 %.
func Percent(n, of int) string {
	if of == 0 {
		return ""
	}
	share := 100 * float64(n) / float64(of)
	switch {
	case n > 0 && share < 0.1:
		return "under 0.1 %"
	case n < of && share > 99.9:
		return "over 99.9 %"
	}
	return fmt.Sprintf("%.1f %%", share)
}

// Span is a duration as people say it: 412ms, 4.2s, 3m05s, 2h10m, 4d03h.
// Negative ones are 0ms.
func Span(d time.Duration) string {
	ms := max(d.Round(time.Millisecond).Milliseconds(), 0)
	s := (ms + 500) / 1000
	switch {
	case ms < 1000:
		return strconv.FormatInt(ms, 10) + "ms"
	case ms < 59_950:
		return strconv.FormatFloat(float64(ms)/1000, 'f', 1, 64) + "s"
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 100*3600:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd%02dh", s/86400, s/3600%24)
}
