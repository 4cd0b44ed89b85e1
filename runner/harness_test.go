package runner

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/pacing"
	"llmbatch/runner/provider"
	"llmbatch/runner/provider/anthropic"
)

// script is an API of a few lines: it answers call n (from 1) of the item whose
// prompt is in the body.
type script func(n int, body string) answer

type answer struct {
	status int
	header http.Header
	body   string
	after  time.Duration
	err    error
}

const okBody = `{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":"OK"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":1}}`

func ok(after time.Duration) answer { return answer{status: 200, body: okBody, after: after} }

func refuse(status int, typ string, kv ...string) answer {
	a := answer{status: status, header: http.Header{}, after: 5 * time.Millisecond,
		body: fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":"scripted %d"}}`, typ, status)}
	for i := 0; i+1 < len(kv); i += 2 {
		a.header.Set(kv[i], kv[i+1])
	}
	return a
}

type call struct {
	id           string
	begun, ended time.Time
	hint         time.Duration
	model        string
}

// api is a RoundTripper that plays a script and keeps what it saw.
type api struct {
	play script

	mu    sync.Mutex
	calls []*call
	nth   map[string]int
	wire  int
	peak  int
}

func (a *api) RoundTrip(req *http.Request) (*http.Response, error) {
	body, _ := io.ReadAll(req.Body)
	id := between(string(body), "item ", ".")
	c, ans := a.arrive(id, string(body))
	defer func() {
		a.mu.Lock()
		a.wire--
		c.ended = time.Now()
		a.mu.Unlock()
	}()
	timer := time.NewTimer(ans.after)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-req.Context().Done():
		return nil, context.Cause(req.Context())
	}
	if ans.err != nil {
		return nil, ans.err
	}
	h := http.Header{"Content-Type": {"application/json"}}
	for k, v := range ans.header {
		h[k] = v
	}
	if s := h.Get("Retry-After"); s != "" && ans.status != 200 {
		c.hint, _ = time.ParseDuration(s + "s")
	}
	return &http.Response{StatusCode: ans.status, Header: h, ContentLength: -1, Request: req,
		Body: io.NopCloser(strings.NewReader(ans.body)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}, nil
}

func (a *api) arrive(id, body string) (*call, answer) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.nth[id]++
	c := &call{id: id, begun: time.Now(), model: between(body, `"model":"`, `"`)}
	a.calls = append(a.calls, c)
	a.wire++
	a.peak = max(a.peak, a.wire)
	return c, a.play(a.nth[id], body)
}

func between(s, a, b string) string {
	_, s, _ = strings.Cut(s, a)
	s, _, _ = strings.Cut(s, b)
	return s
}

// sink keeps rows; a write may be made to fail.
type sink struct {
	mu   sync.Mutex
	rows []*output.Result
	fail func(n int) error
}

func (s *sink) write(r *output.Result) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		if err := s.fail(len(s.rows) + 1); err != nil {
			return err
		}
	}
	c := *r
	c.Attempts = append([]output.Attempt(nil), r.Attempts...)
	s.rows = append(s.rows, &c)
	return nil
}

// last returns the last row of each id.
func (s *sink) last() map[string]*output.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	m := map[string]*output.Result{}
	for _, r := range s.rows {
		m[r.Key] = r
	}
	return m
}

// items yields n prompts; model names the model of each, "" for the default.
func items(n int, model func(i int) string) iter.Seq2[*input.Item, error] {
	return func(yield func(*input.Item, error) bool) {
		for i := range n {
			it := &input.Item{Index: i, Line: i + 1, Size: 40, ID: fmt.Appendf(nil, `"q%d"`, i), Key: fmt.Sprintf("q%d", i),
				Prompt: fmt.Sprintf("item q%d.", i)}
			if model != nil {
				it.Model = model(i)
			}
			if !yield(it, nil) {
				return
			}
		}
	}
}

// bench is one run in virtual time.
type bench struct {
	t      *testing.T
	api    *api
	sink   *sink
	c      Config
	r      *Runner
	start  time.Time
	rep    Report
	target *Target
}

// newBench prepares a run of n items against play. It is used inside a bubble.
func newBench(t *testing.T, n int, play script) *bench {
	base, _ := url.Parse("http://api.test")
	target := &Target{Provider: anthropic.New(), Base: base, Credentials: provider.Credentials{Key: "sk-test-0123456789"},
		Defaults: provider.Defaults{Model: "claude-test", MaxTokens: 100, Name: "anthropic"}}
	b := &bench{t: t, api: &api{play: play, nth: map[string]int{}}, sink: &sink{}, start: time.Now(), target: target}
	b.c = Config{
		Source: Source{Items: items(n, nil), Route: func(*input.Item) (*Target, error) { return target, nil }, Lanes: 1},
		Sink:   Sink{Write: b.sink.write},
		Limits: Limits{Drain: 25 * time.Second, ItemBudget: 30 * time.Minute, AttemptTimeout: 10 * time.Minute},
		Hooks:  Hooks{Transport: b.api},
		Salt:   "salt", FreshSalt: "fresh", Seed: 7, IdempotencyHeader: "Idempotency-Key",
	}
	b.c.Retry.MaxErrors = 5
	return b
}

func (b *bench) run() Report {
	b.r = New(b.c)
	b.rep = b.r.Run(context.Background())
	b.invariants()
	return b.rep
}

func (b *bench) took() time.Duration { return time.Since(b.start) }

// invariants hold in every run: requests on the wire are the attempts logged,
// the limit is kept, no hint is broken, and every item has one final row.
func (b *bench) invariants() {
	b.t.Helper()
	last := b.sink.last()
	sent := 0
	for _, r := range last {
		if r.Status == output.Waiting {
			b.t.Errorf("%s ends with a waiting row", r.Key)
		}
		for i, a := range r.Attempts {
			if !a.Unsent {
				sent++
			}
			if got, want := a.Attempt, cmp.Or(countAttempts(r.History), 0)+i+1; got != want {
				b.t.Errorf("%s: attempt numbered %d, want %d", r.Key, got, want)
			}
		}
	}
	if got := len(b.api.calls); got != sent {
		b.t.Errorf("the API saw %d requests, the rows log %d", got, sent)
	}
	if b.rep.Peak < b.api.peak {
		b.t.Errorf("peak reported %d, seen %d", b.rep.Peak, b.api.peak)
	}
	if most := cmp.Or(b.c.Pacing.Max, 256); b.api.peak > most {
		b.t.Errorf("%d requests on the wire, ceiling %d", b.api.peak, most)
	}
	b.hints()
}

// hints asserts that no item was sent again earlier than the API asked it to. (Another
// item of the lane may test whether the wait holds for all.)
func (b *bench) hints() {
	b.t.Helper()
	if capped(b.r.c.Retry) {
		return
	}
	for _, h := range b.api.calls {
		if h.hint == 0 {
			continue
		}
		for _, c := range b.api.calls {
			if c.id == h.id && c.begun.After(h.ended) && c.begun.Sub(h.ended) < h.hint {
				b.t.Errorf("%s sent %s after a refusal of %s that asked for %s", c.id, c.begun.Sub(h.ended), h.id, h.hint)
				return
			}
		}
	}
}

func (b *bench) want(status output.Status, n int) {
	b.t.Helper()
	got := 0
	for _, r := range b.sink.last() {
		if r.Status == status {
			got++
		}
	}
	if got != n {
		b.t.Errorf("%d rows are %s, want %d", got, status, n)
	}
}

// bubble runs a test in virtual time.
func bubble(t *testing.T, f func(t *testing.T)) {
	t.Helper()
	synctest.Test(t, f)
}

// rounds encodes rows as the next run finds them.
func rounds(rows map[string]*output.Result) (old func(string) (output.Row, bool), row func(int64) (*output.Result, error)) {
	var list []*output.Result
	at := map[string]int{}
	for k, r := range rows {
		at[k] = len(list)
		list = append(list, r)
	}
	old = func(key string) (output.Row, bool) {
		i, ok := at[key]
		if !ok {
			return output.Row{}, false
		}
		return output.Row{Status: list[i].Status, Hash: output.HashOf(list[i].RequestHash), Offset: int64(i)}, true
	}
	row = func(off int64) (*output.Result, error) {
		r := *list[off]
		var h [][]byte
		if len(r.History) > 0 {
			h = append(h, r.History)
		}
		for range r.Attempts {
			h = append(h, []byte(`{"attempt":1}`))
		}
		r.History, r.Attempts = bytes.Join(h, []byte(",")), nil
		return &r, nil
	}
	return old, row
}

func fixed(n int) pacing.Config { return pacing.Config{Max: n, Fixed: true} }

func refusedDial() error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
}
