package runner

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"llmbatch/output"
)

// saying is an answer with a text.
func saying(text string) answer {
	return answer{status: 200, after: 10 * time.Millisecond, body: strings.Replace(okBody, `"OK"`, fmt.Sprintf("%q", text), 1)}
}

func onlyYes(text string) error {
	if text != "yes" {
		return errors.New("want yes")
	}
	return nil
}

// An answer that is not as expected costs the item a try; what was paid is counted,
// and the last answer stays.
func TestUnexpectedAnswers(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, 3, func(n int, body string) answer {
			if strings.Contains(body, "item q0.") || strings.Contains(body, "item q1.") && n == 3 {
				return saying("yes")
			}
			return saying("no, thanks")
		})
		b.c.Expect, b.c.Retry.MaxErrors = onlyYes, 4
		b.run()
		rows := b.sink.last()
		b.want(output.OK, 2)
		b.want(output.Failed, 1)
		bad := rows["q2"]
		if bad.Error == nil || bad.Error.Class != "unexpected" || bad.Error.Message != "want yes" || bad.Text != "no, thanks" || len(bad.Attempts) != 4 || bad.Usage.OutputTokens != 4 {
			t.Errorf("got %+v %+v, want the last answer and four paid attempts", bad, bad.Error)
		}
		if got := rows["q1"].Attempts[0]; got.Outcome != "unexpected" || got.Status != 200 || len(rows["q1"].Attempts) != 3 {
			t.Errorf("got %+v, want a first attempt that was unexpected", got)
		}
	})
}

// With Reask the next try tells the model what was wrong.
func TestReask(t *testing.T) {
	bubble(t, func(t *testing.T) {
		var mu sync.Mutex
		var asked []string
		b := newBench(t, 1, func(n int, body string) answer {
			mu.Lock()
			defer mu.Unlock()
			asked = append(asked, body)
			return saying([]string{"no", "nope", "never", "yes"}[n-1])
		})
		b.c.Expect, b.c.Reask = onlyYes, 2
		b.run()
		b.want(output.OK, 1)
		for i, want := range []int{0, 1, 1, 0} {
			if got := strings.Count(asked[i], "want yes"); got != want {
				t.Errorf("request %d has %d complaints, want %d: %s", i+1, got, want, asked[i])
			}
		}
		if !strings.Contains(asked[2], `{"role":"assistant","content":"nope"}`) {
			t.Errorf("got %s, want the answer as a turn", asked[2])
		}
		if got := b.sink.last()["q0"].Text; got != "yes" {
			t.Errorf("got %q, want yes", got)
		}
	})
}

// keyed lets a request through to the bench's API only with the key that holds.
type keyed struct {
	*api
	holds func(key string) bool
}

func (k keyed) RoundTrip(req *http.Request) (*http.Response, error) {
	if key := req.Header.Get("X-Api-Key"); !k.holds(key) {
		was := k.api.play
		defer func() { k.api.play = was }()
		k.api.play = func(int, string) answer { return refuse(401, "authentication_error") }
		return k.api.RoundTrip(req)
	}
	return k.api.RoundTrip(req)
}

// A key is made before the first request, again when it is old, and once when it is
// refused; no attempt is charged for that.
func TestKeyRenewsItself(t *testing.T) {
	bubble(t, func(t *testing.T) {
		made := 0
		valid := "key-1-0123456789"
		b := newBench(t, 6, func(int, string) answer { return ok(30 * time.Minute) })
		b.c.ItemBudget, b.c.AttemptTimeout = 0, 0
		b.c.Pacing = fixed(1)
		b.c.Retry.MaxAttempts = 1
		b.target.Keys = &KeySource{TTL: 45 * time.Minute, Make: func(context.Context) (string, error) {
			made++
			time.Sleep(time.Second)
			valid = fmt.Sprintf("key-%d-0123456789", made)
			return valid, nil
		}}
		refusals := 0
		b.c.Transport = keyed{b.api, func(key string) bool {
			if len(b.api.calls) == 3 && refusals == 0 { // the third request's key was withdrawn early
				refusals++
				return false
			}
			return key == valid
		}}
		b.run()
		b.want(output.OK, 6)
		if made != 4 {
			t.Errorf("%d keys were made, want one at first, two by age, one for a refusal", made)
		}
	})
}

// A second refusal in a row ends the run, and so does a command that fails.
func TestKeyThatStaysBad(t *testing.T) {
	bubble(t, func(t *testing.T) {
		made := 0
		b := newBench(t, 5, func(int, string) answer { return refuse(401, "authentication_error") })
		b.c.Pacing = fixed(1)
		b.target.Keys = &KeySource{Make: func(context.Context) (string, error) { made++; return "key-0123456789", nil }}
		if rep := b.run(); rep.Reason != Aborted || made != 2 || len(b.api.calls) != 2 {
			t.Errorf("got %+v after %d keys and %d requests, want an abort after 2 and 2", rep, made, len(b.api.calls))
		}
	})
	bubble(t, func(t *testing.T) {
		b := newBench(t, 5, func(int, string) answer { return ok(0) })
		b.target.Keys = &KeySource{Make: func(context.Context) (string, error) { return "", errors.New("exit 1: no login") }}
		if rep := b.run(); rep.Reason != Aborted || !strings.Contains(rep.Message, "exit 1: no login") || len(b.api.calls) != 0 {
			t.Errorf("got %+v after %d requests, want an abort before the first", rep, len(b.api.calls))
		}
	})
}
