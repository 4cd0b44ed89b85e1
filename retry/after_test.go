package retry

import (
	"math"
	"strings"
	"testing"
	"time"
)

// received is when every response of these tests arrived.
var received = time.Date(2026, 11, 30, 3, 0, 0, 0, time.UTC)

type afterRow struct {
	name string
	ms   []string
	secs []string
	date string
	want time.Duration // 0: no hint
}

func in(d time.Duration, layout string) string { return received.Add(d).Format(layout) }

// C12, C13, C14: every value that was seen to crash a client, to make it loop, or to
// make it come too early.
var afterRows = []afterRow{
	{name: "seconds", secs: []string{"5"}, want: 5 * time.Second},
	{name: "61", secs: []string{"61"}, want: 61 * time.Second},
	{name: "121", secs: []string{"121"}, want: 121 * time.Second},
	{name: "C09 three days", secs: []string{"277403"}, want: 277403 * time.Second},
	{name: "beyond 2^32 ms", secs: []string{"4294968"}, want: 4294968 * time.Second},
	{name: "31 years", secs: []string{"1000000000"}, want: 1000000000 * time.Second},
	{name: "the most that fits", secs: []string{"9223372036"}, want: 9223372036 * time.Second},
	{name: "one more", secs: []string{"9223372037"}, want: VeryLong},
	{name: "the most, and a fraction", secs: []string{"9223372036.999"}, want: VeryLong},
	{name: "35 digits", secs: []string{strings.Repeat("9", 35)}, want: VeryLong},
	{name: "35 zeros and a digit", secs: []string{strings.Repeat("0", 35) + "7"}, want: 7 * time.Second},
	{name: "5,000 digits", secs: []string{strings.Repeat("1", 5000)}, want: VeryLong},
	{name: "white space", secs: []string{" 5\t"}, want: 5 * time.Second},
	{name: "decimal", secs: []string{"0.25"}, want: 250 * time.Millisecond},
	{name: "decimal above 1", secs: []string{"1.5"}, want: 1500 * time.Millisecond},
	{name: "decimal, rounded up", secs: []string{"1.0000000001"}, want: 1001 * time.Millisecond},
	{name: "decimal of zeros", secs: []string{"2.000000000000"}, want: 2 * time.Second},
	{name: "folded", secs: []string{"4, 4"}, want: 4 * time.Second},
	{name: "folded, the longest", secs: []string{"4,1.5 , 60"}, want: time.Minute},
	{name: "folded, one is no number", secs: []string{"soon, 7"}, want: 7 * time.Second},
	{name: "folded, in milliseconds", ms: []string{"300, 400"}, secs: []string{"5"}, want: 400 * time.Millisecond},
	{name: "two headers", secs: []string{"5", "60"}, want: time.Minute},
	{name: "two headers, the other way", secs: []string{"60", "5"}, want: time.Minute},
	{name: "one valid, one not", secs: []string{"soon", "7"}, want: 7 * time.Second},
	{name: "seconds and a date", secs: []string{"7", in(time.Minute, fixdate)}, want: time.Minute},

	{name: "1e9", secs: []string{"1e9"}},
	{name: "1e400", secs: []string{"1e400"}},
	{name: "inf", secs: []string{"inf"}},
	{name: "Infinity", secs: []string{"Infinity"}},
	{name: "nan", secs: []string{"nan"}},
	{name: "negative", secs: []string{"-30"}},
	{name: "C13 -100", secs: []string{"-100"}},
	{name: "minus zero", secs: []string{"-0"}},
	{name: "plus", secs: []string{"+5"}},
	{name: "empty", secs: []string{""}},
	{name: "C12 zero", secs: []string{"0"}},
	{name: "zero with a fraction", secs: []string{"0.000"}},
	{name: "two numbers", secs: []string{"5 6"}},
	{name: "a unit", secs: []string{"1s"}},
	{name: "a parameter", secs: []string{"5;q=1"}},
	{name: "underscore", secs: []string{"1_0"}},
	{name: "no fraction", secs: []string{"1."}},
	{name: "no whole", secs: []string{".5"}},
	{name: "only a point", secs: []string{"."}},
	{name: "hex", secs: []string{"0x10"}},
	{name: "other digits", secs: []string{"٥"}},
	{name: "no header"},

	{name: "C14 fixdate", secs: []string{in(90*time.Second, fixdate)}, want: 90 * time.Second},
	{name: "C14 RFC 850", secs: []string{in(90*time.Second, rfc850)}, want: 90 * time.Second},
	{name: "C14 asctime", secs: []string{in(90*time.Second, asctime)}, want: 90 * time.Second},
	{name: "asctime, one-digit day", secs: []string{"Wed Dec  2 03:00:00 2026"}, want: 48 * time.Hour},
	{name: "past", secs: []string{"Sun, 06 Nov 1994 08:49:37 GMT"}},
	{name: "past RFC 850", secs: []string{"Sunday, 06-Nov-94 08:49:37 GMT"}},
	{name: "past asctime", secs: []string{"Sun Nov  6 08:49:37 1994"}},
	{name: "RFC 850, 50 years ahead", secs: []string{"Monday, 30-Nov-76 03:00:00 GMT"},
		want: time.Date(2076, 11, 30, 3, 0, 0, 0, time.UTC).Sub(received)},
	{name: "RFC 850, more than 50 years ahead is the past", secs: []string{"Monday, 30-Nov-76 03:00:01 GMT"}},
	{name: "RFC 850 with a year that Go takes for the past", secs: []string{"Tuesday, 30-Nov-70 03:00:00 GMT"},
		want: time.Date(2070, 11, 30, 3, 0, 0, 0, time.UTC).Sub(received)},
	{name: "C13 year 9999", secs: []string{"Fri, 31 Dec 9999 23:59:59 GMT"}, want: VeryLong},
	{name: "not GMT", secs: []string{strings.Replace(in(time.Minute, fixdate), "GMT", "UTC", 1)}},
	{name: "ISO 8601", secs: []string{in(time.Minute, time.RFC3339)}},
	{name: "30 February", secs: []string{"Mon, 30 Feb 2027 00:00:00 GMT"}},
	{name: "against the server's own clock", secs: []string{in(-50*time.Minute, fixdate)}, date: in(-time.Hour, fixdate), want: 10 * time.Minute},
	{name: "against a server's clock that is ahead", secs: []string{in(time.Hour, fixdate)}, date: in(time.Hour, fixdate)},
	{name: "Date that can't be read", secs: []string{in(time.Minute, fixdate)}, date: "today", want: time.Minute},

	{name: "milliseconds", ms: []string{"250"}, want: 250 * time.Millisecond},
	{name: "milliseconds win", ms: []string{"250"}, secs: []string{"1"}, want: 250 * time.Millisecond},
	{name: "milliseconds, rounded up", ms: []string{"250.01"}, want: 251 * time.Millisecond},
	{name: "milliseconds, the longest", ms: []string{"250", "300", "x"}, want: 300 * time.Millisecond},
	{name: "milliseconds below zero", ms: []string{"-5"}, secs: []string{"1"}, want: time.Second},
	{name: "milliseconds nan", ms: []string{"nan"}, secs: []string{"2"}, want: 2 * time.Second},
	{name: "milliseconds zero", ms: []string{"0"}, secs: []string{"2"}, want: 2 * time.Second},
	{name: "no date in milliseconds", ms: []string{in(time.Minute, fixdate)}},
	{name: "35 digits of milliseconds", ms: []string{strings.Repeat("8", 35)}, want: VeryLong},
	{name: "the most milliseconds", ms: []string{"9223372036854"}, want: 9223372036854 * time.Millisecond},
	{name: "one more millisecond", ms: []string{"9223372036855"}, want: VeryLong},
}

func TestAfter(t *testing.T) {
	for _, r := range afterRows {
		got, ok := After(r.ms, r.secs, r.date, received)
		if got != r.want || ok != (r.want > 0) {
			t.Errorf("%s: got %v %v, want %v", r.name, got, ok, r.want)
		}
	}
}

// Near a century's end the two digits of the next one are meant.
func TestAfterRFC850Century(t *testing.T) {
	now := time.Date(2099, 12, 31, 23, 59, 0, 0, time.UTC)
	got, _ := After(nil, []string{"Friday, 01-Jan-00 00:00:00 GMT"}, "", now)
	if want := time.Minute; got != want {
		t.Errorf("got %v, want %v", got, want)
	}
}

func FuzzAfter(f *testing.F) {
	for _, r := range afterRows {
		ms, secs := append(r.ms, ""), append(r.secs, "")
		f.Add(ms[0], secs[0], secs[len(secs)-1], r.date)
	}
	f.Fuzz(func(t *testing.T, ms, first, second, date string) {
		d, ok := After([]string{ms}, []string{first, second}, date, received)
		if d < 0 || ok != (d > 0) {
			t.Fatalf("got %v %v, want a positive wait or none", d, ok)
		}
		again, _ := After([]string{ms}, []string{second, first}, date, received)
		if again != d {
			t.Fatalf("got %v and %v for the same two values", d, again)
		}
		if n := number(trim(first), time.Second); n > 0 && ms == "" && d < n {
			t.Fatalf("got %v, want at least %v", d, n)
		}
	})
}

// Exact up to the last value that fits: compared with arithmetic in floating point.
func TestNumberAgainstFloat(t *testing.T) {
	for _, v := range []string{"0.001", "0.0001", "59.999", "1.0010001", "86400", "86400.5", "123456789.123456789"} {
		var f float64
		for i, scale := 0, 0.0; i < len(v); i++ {
			switch {
			case v[i] == '.':
				scale = 1
			case scale == 0:
				f = f*10 + float64(v[i]-'0')
			default:
				scale /= 10
				f += float64(v[i]-'0') * scale
			}
		}
		want := time.Duration(math.Ceil(f*1000-1e-6)) * time.Millisecond
		if got := number(v, time.Second); got != want {
			t.Errorf("%s: got %v, want %v", v, got, want)
		}
	}
}
