package mockapi

import (
	"cmp"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestParseParams(t *testing.T) {
	for _, c := range []struct {
		query string
		want  Params
	}{
		{"", Params{}},
		{"latency=20ms&rpm=600", Params{Latency: 20 * time.Millisecond, RPM: 600}},
		{"latency=0", Params{Latency: None}},
		{"latency=0s&echo=yes&no-headers=true&charge-refused=1", Params{Latency: None, Echo: true, NoHeaders: true, ChargeRefused: true}},
		{"echo=no", Params{}},
		{"tpm=1&itpm=2&otpm=3&burst=4&cap=5&spend-cap-after=6", Params{TPM: 1, ITPM: 2, OTPM: 3, Burst: 4, Cap: 5, SpendCapAfter: 6}},
		{"cap-retry-after=2s&fail-first=1s&gap=1ms&parts=7", Params{CapRetryAfter: 2 * time.Second, FailFirst: time.Second, Gap: time.Millisecond, Parts: 7}},
		{"p429=5&p500=1.5&p503=2&p529=3&drop=4&cut=6&html=7&slow=8", Params{Faults: Faults{P429: 5, P500: 1.5, P503: 2, P529: 3, Drop: 4, Cut: 6, HTML: 7, Slow: 8}}},
		{"batch=torn&lost=500&steps=429/2,500/false,429/300ms,ok&stream=yes", Params{Batch: "torn", Lost: "500", Steps: "429/2,500/false,429/300ms,ok", Stream: true}},
		{"ra=both&only=m&auth=k&seed=18446744073709551615&stop=x", Params{RA: "both", Only: "m", Auth: "k", Seed: 1<<64 - 1, Stop: "x"}},
		{"size=9&in=8&out=7&spread=0.5", Params{Size: 9, In: 8, Out: 7, Spread: 0.5}},
		{"api-version=2026-01-01&beta=true&cap=3", Params{Cap: 3}},
	} {
		v, err := url.ParseQuery(c.query)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ParseParams(v); err != nil || got != c.want {
			t.Errorf("%s: got %+v, %v, want %+v", c.query, got, err, c.want)
		}
	}
}

func TestParseParamsRefuses(t *testing.T) {
	for _, query := range []string{"nosuch=1", "latency=20", "latency=-1s", "latency=", "rpm=x", "rpm=-1", "rpm=1.5", "rpm=99999999999", "p429=101",
		"p429=-1", "p429=NaN", "p429=x", "echo=maybe", "ra=x", "seed=-1", "gap=1", "drop=Inf", "batch=nosuch", "lost=maybe", "steps=429,nosuch", "steps=429/soon", "steps=", "parts=10001", "size=99999999"} {
		v, err := url.ParseQuery(query)
		if err != nil {
			t.Fatal(err)
		}
		got, err := ParseParams(v)
		if err == nil || got != (Params{}) || !strings.Contains(err.Error(), "known are latency") {
			t.Errorf("%s: got %+v, %v, want an error that lists the keys", query, got, err)
		}
	}
}

// TestEachKeySetsAField keeps the table of keys, the fields and under in step: what a key sets, under must carry over.
func TestEachKeySetsAField(t *testing.T) {
	values := map[string]string{"time.Duration": "3s", "int": "3", "uint64": "3", "float64": "3", "bool": "yes", "string": "s"}
	good := map[string]string{"steps": "429/2,ok", "batch": "torn", "lost": "delay", "ra": "ms"}
	var all Params
	for _, k := range fields {
		var p Params
		if k.Text == "" {
			t.Errorf("%s has no text", k.Name)
		}
		if err := p.Set(k.Name, cmp.Or(good[k.Name], values[reflect.ValueOf(p).FieldByIndex(k.index).Type().String()])); err != nil {
			t.Error(err)
		}
		if p == (Params{}) {
			t.Errorf("%s sets nothing", k.Name)
		}
		if got := (Params{}).under(p); got != p {
			t.Errorf("%s is lost over defaults: got %+v, want %+v", k.Name, got, p)
		}
		if got := p.under(Params{}); got != p {
			t.Errorf("%s is lost as a default: got %+v, want %+v", k.Name, got, p)
		}
		all = all.under(p)
	}
	unset(t, reflect.ValueOf(all))
}

// unset finds a field of Params that no key sets.
func unset(t *testing.T, v reflect.Value) {
	t.Helper()
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("no key sets %s", v.Type().Field(i).Name)
		}
		if v.Field(i).Kind() == reflect.Struct {
			unset(t, v.Field(i))
		}
	}
}

// TestPrecedence is query over configuration over scenario.
func TestPrecedence(t *testing.T) {
	for _, c := range []struct {
		config time.Duration
		path   string
		want   time.Duration
	}{
		{0, "/ok/v1/messages", 50 * time.Millisecond},
		{0, "/slow/v1/messages", 5 * time.Second},
		{time.Second, "/ok/v1/messages", time.Second},
		{time.Second, "/slow/v1/messages", time.Second},
		{None, "/slow/v1/messages", 0},
		{time.Second, "/slow/v1/messages?latency=3s", 3 * time.Second},
		{time.Second, "/slow/v1/messages?latency=0", 0},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := New(Config{Params: Params{Latency: c.config}})
			if a := post(s, c.path, messagesBody); a.took != c.want {
				t.Errorf("%s over %v: got %v, want %v", c.path, c.config, a.took, c.want)
			}
		})
	}
}

func TestFailFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{})
		path := "/ok/v1/messages?fail-first=1s&latency=20ms"
		for _, c := range []struct {
			wait time.Duration
			want int
		}{{0, 429}, {500 * time.Millisecond, 429}, {500*time.Millisecond - 1, 429}, {1, 200}, {0, 200}} {
			time.Sleep(c.wait) // virtual time
			a := post(s, path, messagesBody)
			if a.Code != c.want || a.Header().Get("Retry-After") != "" {
				t.Errorf("after another %v: got %d, retry-after %q, want %d, none", c.wait, a.Code, a.Header().Get("Retry-After"), c.want)
			}
		}
		s.Reset()
		if a := post(s, path, messagesBody); a.Code != http.StatusTooManyRequests {
			t.Errorf("after a reset: got %d, want 429", a.Code)
		}
	})
}

func TestSpendCapAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{})
		var codes [2]int
		done := make(chan int)
		for range 12 {
			go func() { done <- post(s, "/ok/v1/messages?spend-cap-after=5", messagesBody).Code }()
		}
		for range 12 {
			if code := <-done; code == 200 {
				codes[0]++
			} else {
				codes[1]++
			}
		}
		if codes != [2]int{5, 7} {
			t.Errorf("got %d answers and %d refusals, want 5 and 7", codes[0], codes[1])
		}
		a := post(s, "/ok/v1/chat/completions?spend-cap-after=5", messagesBody)
		if typ, _, _ := errorType(t, a.Body.String()); typ != "insufficient_quota" {
			t.Errorf("got %d %s, want insufficient_quota", a.Code, typ)
		}
	})
}

// TestSpendCapCountsAnswersOnly: what was refused or dropped was not paid for.
func TestSpendCapCountsAnswersOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{})
		for nth, want := range []int{529, 529, 200, 429} {
			if a := post(s, "/529-twice/v1/messages?spend-cap-after=1", messagesBody); a.Code != want {
				t.Errorf("request %d: got %d, want %d", nth+1, a.Code, want)
			}
		}
		for range 3 {
			if a := post(s, "/ok/v1/messages?spend-cap-after=1&cut=100", messagesBody); !a.aborted {
				t.Errorf("got %d, want the answer cut", a.Code)
			}
		}
		if a := post(s, "/ok/v1/messages?spend-cap-after=1", messagesBody); a.Code != 200 {
			t.Errorf("got %d, want 200: nothing was answered before", a.Code)
		}
	})
}

func TestOnlyOneModel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{})
		path := "/over529/v1/messages?only=m"
		if got := post(s, path, messagesBody).Code; got != 529 {
			t.Errorf("model m: got %d, want 529", got)
		}
		if got := post(s, path, strings.Replace(messagesBody, `"m"`, `"other"`, 1)).Code; got != 200 {
			t.Errorf("another model: got %d, want 200", got)
		}
	})
}

func TestSpread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		took := func(seed, body string) time.Duration {
			return post(New(Config{}), "/ok/v1/messages?latency=100ms&spread=0.5&seed="+seed, body).took
		}
		other := strings.Replace(messagesBody, "hello", "bye", 1)
		a, again, b, c := took("1", messagesBody), took("1", messagesBody), took("2", messagesBody), took("1", other)
		if a != again || a == b || a == c || a == 100*time.Millisecond {
			t.Errorf("got %v, %v; another seed %v; another body %v: want the first two alike, the others not", a, again, b, c)
		}
	})
}
