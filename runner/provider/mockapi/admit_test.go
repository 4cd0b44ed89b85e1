package mockapi

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestLimit3 sends 12 at once and again what is refused: three are served at a time, each takes half a second.
func TestLimit3(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{})
		replies := make(chan reply)
		for i := range 12 {
			go func() { replies <- post(s, "/limit3/v1/messages", numbered(i)) }()
		}
		ok, refused := 0, 0
		for range 12 {
			a := <-replies
			if a.Code == 200 && a.took == 500*time.Millisecond {
				ok++
			} else if a.Code == 429 && a.took == 0 && a.Header().Get("Retry-After") == "1" {
				refused++
			}
		}
		if ok != 3 || refused != 9 {
			t.Errorf("got %d ok after 0.5 s and %d refused with retry-after 1, want 3 and 9", ok, refused)
		}
		// A place is free as soon as its answer is there.
		for range 2 {
			if a := post(s, "/limit3/v1/messages", messagesBody); a.Code != 200 {
				t.Errorf("got %d afterwards, want 200", a.Code)
			}
		}
		if got := s.Stats().Scenarios["limit3"]; got.Count != 14 || got.InFlight != 0 || got.RateLimited != 9 {
			t.Errorf("got %+v, want 14 requests, 9 refused, none in flight", got)
		}
	})
}

// numbered is a body that differs from all others.
func numbered(i int) string {
	return fmt.Sprintf(`{"model":"m","max_tokens":9,"messages":[{"role":"user","content":"item %d"}]}`, i)
}

func TestCapAsParameter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{Params: Params{Cap: 1, CapRetryAfter: 1500 * time.Millisecond}})
		go post(s, "/ok/v1/messages", messagesBody)
		synctest.Wait()
		if a := post(s, "/ok/v1/messages", messagesBody); a.Code != 429 || a.Header().Get("Retry-After") != "2" {
			t.Errorf("got %d, retry-after %q, want 429, 2", a.Code, a.Header().Get("Retry-After"))
		}
		if a := post(s, "/ok/v1/messages?cap-retry-after=0s", messagesBody); a.Code != 429 || a.Header().Get("Retry-After") != "" {
			t.Errorf("got %d, retry-after %q, want 429, none", a.Code, a.Header().Get("Retry-After"))
		}
		if a := post(s, "/ok/v1/messages?cap=0", messagesBody); a.Code != 200 {
			t.Errorf("cap=0: got %d, want 200", a.Code)
		}
	})
}

// TestBucketObeysItsOwnHint: who waits as told passes, who comes earlier does not, and the rate is the limit.
func TestBucketObeysItsOwnHint(t *testing.T) {
	for _, path := range []string{"/ok/v1/messages", "/ok/v1/chat/completions", "/ok/v1/responses"} {
		t.Run(path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(Config{})
				query := "?latency=0&rpm=600&burst=3&ra=ms"
				body := `{"model":"m","messages":[],"input":"x"}`
				start, ok := time.Now(), 0
				for ok < 40 {
					a := post(s, path+query, body)
					if a.Code == 200 {
						ok++
						continue
					}
					ms, err := strconv.Atoi(a.Header().Get("Retry-After-Ms"))
					if err != nil || ms < 1 || ms > 100 {
						t.Fatalf("got retry-after-ms %q after %d, want 1 to 100", a.Header().Get("Retry-After-Ms"), ok)
					}
					time.Sleep(time.Duration(ms)*time.Millisecond - 1) // virtual time
					if early := post(s, path+query, body); early.Code != 429 && ms > 1 {
						t.Fatalf("got %d a nanosecond early, want 429", early.Code)
					}
					time.Sleep(time.Nanosecond)
				}
				// 3 at once, 37 at 10 a second.
				if took := time.Since(start); took < 3700*time.Millisecond || took > 3710*time.Millisecond {
					t.Errorf("40 requests took %v, want 3.7s", took)
				}
			})
		})
	}
}

func TestRetryAfterForms(t *testing.T) {
	for _, c := range []struct{ ra, seconds, ms string }{
		{"", "2", ""}, {"s", "2", ""}, {"ms", "", "1200"}, {"both", "2", "1200"}, {"no", "", ""},
	} {
		synctest.Test(t, func(t *testing.T) {
			s := New(Config{Params: Params{RPM: 50, Burst: 1, Latency: None, RA: c.ra}})
			post(s, "/ok/v1/messages", messagesBody)
			h := post(s, "/ok/v1/messages", messagesBody).Header()
			if h.Get("Retry-After") != c.seconds || h.Get("Retry-After-Ms") != c.ms {
				t.Errorf("ra=%s: got retry-after %q, retry-after-ms %q, want %q, %q", c.ra, h.Get("Retry-After"), h.Get("Retry-After-Ms"), c.seconds, c.ms)
			}
		})
	}
}

// TestRateHeaders holds the vendors' formats: Anthropic's reset is a moment in RFC 3339, OpenAI's a duration.
func TestRateHeaders(t *testing.T) {
	cases := []struct {
		path, query, body string
		want              map[string]string
	}{
		{"/v1/messages", "rpm=600&burst=10&itpm=60000&otpm=6000&in=1200&out=300", messagesBody, map[string]string{
			"anthropic-ratelimit-requests-limit": "600", "anthropic-ratelimit-requests-remaining": "9", "anthropic-ratelimit-requests-reset": "2000-01-01T00:00:01Z",
			"anthropic-ratelimit-input-tokens-limit": "60000", "anthropic-ratelimit-input-tokens-remaining": "9000", "anthropic-ratelimit-input-tokens-reset": "2000-01-01T00:00:02Z",
			"anthropic-ratelimit-output-tokens-limit": "6000", "anthropic-ratelimit-output-tokens-remaining": "700", "anthropic-ratelimit-output-tokens-reset": "2000-01-01T00:00:03Z",
			"anthropic-ratelimit-tokens-limit": ""}},
		{"/v1/messages", "tpm=600", messagesBody, map[string]string{
			"anthropic-ratelimit-tokens-limit": "600", "anthropic-ratelimit-tokens-remaining": "94", "anthropic-ratelimit-tokens-reset": "2000-01-01T00:00:01Z",
			"anthropic-ratelimit-requests-limit": ""}},
		{"/v1/chat/completions", "rpm=600&burst=10&tpm=6000", messagesBody, map[string]string{
			"x-ratelimit-limit-requests": "600", "x-ratelimit-remaining-requests": "9", "x-ratelimit-reset-requests": "100ms",
			"x-ratelimit-limit-tokens": "6000", "x-ratelimit-remaining-tokens": "986", "x-ratelimit-reset-tokens": "140ms",
			"anthropic-ratelimit-requests-limit": ""}},
		{"/v1/responses", "rpm=1&itpm=600", responsesBody, map[string]string{
			"x-ratelimit-reset-requests": "1m0s", "x-ratelimit-limit-tokens": "", "x-ratelimit-limit-input-tokens": ""}},
		{"/v1/messages", "rpm=600&no-headers=yes", messagesBody, map[string]string{"anthropic-ratelimit-requests-limit": ""}},
		{"/v1/messages", "cap=3", messagesBody, map[string]string{"anthropic-ratelimit-requests-limit": ""}},
	}
	for _, c := range cases {
		t.Run(c.path+"?"+c.query, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := post(New(Config{}), "/ok"+c.path+"?latency=0&"+c.query, c.body)
				for name, want := range c.want {
					if got := a.Header().Get(name); a.Code != 200 || got != want {
						t.Errorf("got %d with %s %q, want 200 with %q", a.Code, name, got, want)
					}
				}
			})
		})
	}
}

// TestTokenBuckets: OpenAI reserves max_tokens, Anthropic charges output when it is there; a request larger than the
// whole limit never passes.
func TestTokenBuckets(t *testing.T) {
	big := strings.Replace(messagesBody, `"max_tokens":9`, `"max_tokens":90`, 1)
	for _, c := range []struct {
		name, path, body string
		want             []int
	}{
		{"openai reserves", "/ok/v1/chat/completions?latency=0&tpm=600", big, []int{200, 429}},
		{"anthropic does not", "/ok/v1/messages?latency=0&tpm=600", big, []int{200, 200, 200}},
		{"output afterwards", "/ok/v1/messages?latency=0&otpm=600&out=150", messagesBody, []int{200, 429}},
		{"input", "/ok/v1/messages?latency=0&itpm=600&in=60", messagesBody, []int{200, 429}},
		{"larger than the bucket", "/ok/v1/messages?latency=0&itpm=600&in=500", messagesBody, []int{200, 429}},
		{"larger than the limit", "/ok/v1/chat/completions?latency=0&tpm=60", big, []int{429}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := New(Config{})
				for i, want := range c.want {
					a := post(s, c.path, c.body)
					if a.Code != want {
						t.Errorf("request %d: got %d, want %d", i+1, a.Code, want)
					}
					if _, _, message := errorTypeOf(t, a); c.name == "larger than the limit" && !strings.Contains(message, "Request too large for") {
						t.Errorf("got message %q, want that it is too large", message)
					}
				}
			})
		})
	}
}

// errorTypeOf is errorType for a refusal, and nothing for an answer.
func errorTypeOf(t *testing.T, a reply) (typ, code, message string) {
	if a.Code == 200 {
		return "", "", ""
	}
	return errorType(t, a.Body.String())
}

// TestChargeRefused: where refusals cost, hammering keeps the bucket empty.
func TestChargeRefused(t *testing.T) {
	for _, c := range []struct {
		charge string
		want   int
	}{{"no", 10}, {"yes", 0}} {
		synctest.Test(t, func(t *testing.T) {
			s := New(Config{})
			path := "/ok/v1/chat/completions?latency=0&rpm=60&burst=1&charge-refused=" + c.charge
			post(s, path, messagesBody)
			ok := 0
			for range 100 {
				time.Sleep(100 * time.Millisecond) // virtual time
				if post(s, path, messagesBody).Code == http.StatusOK {
					ok++
				}
			}
			if ok < c.want-1 || ok > c.want {
				t.Errorf("charge-refused=%s: got %d served in 10 s of hammering, want %d", c.charge, ok, c.want)
			}
		})
	}
}

func TestModelsHaveTheirOwnBuckets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{})
		path := "/ok/v1/messages?latency=0&rpm=60"
		other := strings.Replace(messagesBody, `"m"`, `"n"`, 1)
		for _, c := range []struct {
			body string
			want int
		}{{messagesBody, 200}, {messagesBody, 429}, {other, 200}, {other, 429}} {
			if got := post(s, path, c.body).Code; got != c.want {
				t.Errorf("%s: got %d, want %d", c.body, got, c.want)
			}
		}
		for i := range maxModels + 20 {
			post(s, path, strings.Replace(messagesBody, `"m"`, strconv.Quote(strconv.Itoa(i)), 1))
		}
		if got := len(s.states["ok"].buckets); got > maxModels+1 {
			t.Errorf("got buckets for %d models, want at most %d", got, maxModels+1)
		}
	})
}

// fate is how one attempt ended, for the tests of fault mixes.
func fate(a reply) string {
	switch {
	case a.aborted && a.Code == 200 && a.Body.Len() > 0:
		return "cut"
	case a.aborted:
		return "drop"
	case strings.HasPrefix(a.Body.String(), "<!DOCTYPE"):
		return "html"
	}
	return strconv.Itoa(a.Code)
}

// TestUnkind: the shares are as the table says, and what happens to an attempt follows from seed, body and number only.
func TestUnkind(t *testing.T) {
	const items = 1500
	run := func(seed uint64, backwards bool) (fates [items]string, counts map[string]int) {
		s := New(Config{Seed: seed, Params: Params{Latency: None}})
		counts = make(map[string]int)
		for i := range items {
			if backwards {
				i = items - 1 - i
			}
			fates[i] = fate(post(s, "/unkind/v1/messages", numbered(i)))
			counts[fates[i]]++
		}
		return fates, counts
	}
	a, counts := run(1, false)
	for what, percent := range map[string]float64{"200": 91, "429": 5, "529": 2, "drop": 1, "cut": 1} {
		if got := float64(counts[what]) / items * 100; got < percent*0.5 || got > percent*1.6 {
			t.Errorf("got %.1f %% %s, want about %g %%", got, what, percent)
		}
	}
	if b, _ := run(1, true); a != b {
		t.Error("another order of arrival gives other fates, want the same")
	}
	if b, _ := run(2, false); a == b {
		t.Error("another seed gives the same fates, want others")
	}
}

// TestSecondAttemptIsDrawnAnew: a body that failed must not fail for ever.
func TestSecondAttemptIsDrawnAnew(t *testing.T) {
	s := New(Config{Params: Params{Latency: None}})
	counts := make(map[string]int)
	for range 400 {
		counts[fate(post(s, "/ok/v1/messages?p500=20&p503=20&html=20&p429=10&p529=10", messagesBody))]++
	}
	for what, percent := range map[string]int{"200": 20, "500": 20, "503": 20, "html": 20, "429": 10, "529": 10} {
		if got := counts[what] / 4; got < percent/2 || got > percent*3/2 {
			t.Errorf("got %d %% %s, want about %d %%", got, what, percent)
		}
	}
}

func TestSlowFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if a := post(New(Config{}), "/ok/v1/messages?slow=100", messagesBody); a.Code != 200 || a.took != 5*time.Second {
			t.Errorf("got %d after %v, want 200 after 5s", a.Code, a.took)
		}
	})
}
