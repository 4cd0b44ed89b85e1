package fleet

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/pacing"
	"llmbatch/runner"
	"llmbatch/runner/provider"
	"llmbatch/runner/provider/anthropic"
)

// bench is a run over an embedded server: a coordinator, workers and an API.
type bench struct {
	t      *testing.T
	server *Server
	api    *api
	target *runner.Target
	n      int
	out    string
	file   *output.File
	c      runner.Config
	o      Coordination
	lead   *Lead
	coord  *Coordinator
	runner *runner.Runner
	rep    runner.Report
	ended  chan struct{}
}

// api counts what it is asked, and answers as play says.
type api struct {
	play func(nth int, id string, w http.ResponseWriter, r *http.Request)

	mu    sync.Mutex
	asked sync.Cond // signals each request
	nth   map[string]int
	calls []call
	wire  int
	peak  int
}

type call struct {
	id string
	at time.Time
}

func (a *api) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := make([]byte, r.ContentLength)
	for n := 0; n < len(body); {
		k, err := r.Body.Read(body[n:])
		n += k
		if err != nil {
			break
		}
	}
	var id string
	fmt.Sscanf(string(body[indexOf(body, "item "):]), "item %s", &id)
	a.mu.Lock()
	a.nth[id]++
	nth := a.nth[id]
	a.calls = append(a.calls, call{id, time.Now()})
	a.wire++
	a.peak = max(a.peak, a.wire)
	a.asked.Broadcast()
	a.mu.Unlock()
	defer func() {
		a.mu.Lock()
		a.wire--
		a.mu.Unlock()
	}()
	a.play(nth, id, w, r)
}

func indexOf(b []byte, s string) int {
	for i := 0; i+len(s) <= len(b); i++ {
		if string(b[i:i+len(s)]) == s {
			return i
		}
	}
	return len(b)
}

func answer(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	fmt.Fprint(w, `{"id":"m","type":"message","role":"assistant","model":"claude-test","content":[{"type":"text","text":"OK"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":1}}`)
}

func refuse(w http.ResponseWriter, status int, kind, message string) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	fmt.Fprintf(w, `{"type":"error","error":{"type":%q,"message":%q}}`, kind, message)
}

func lines(n int) func() iter.Seq2[*input.Item, error] {
	return func() iter.Seq2[*input.Item, error] {
		return func(yield func(*input.Item, error) bool) {
			for i := range n {
				it := &input.Item{Index: i, Line: i + 1, Size: 40, ID: fmt.Appendf(nil, `"q%d"`, i), Key: fmt.Sprintf("q%d", i),
					Prompt: fmt.Sprintf("item q%d .", i)}
				if !yield(it, nil) {
					return
				}
			}
		}
	}
}

// newBench prepares a run of n items against an API.
func newBench(t *testing.T, n int, play func(nth int, id string, w http.ResponseWriter, r *http.Request)) *bench {
	t.Helper()
	b := &bench{t: t, n: n, api: &api{play: play, nth: map[string]int{}}, out: filepath.Join(t.TempDir(), "out.jsonl")}
	b.api.asked.L = &b.api.mu
	b.serve()
	web := httptest.NewServer(b.api)
	t.Cleanup(web.Close)
	base, _ := url.Parse(web.URL)
	b.target = &runner.Target{Provider: anthropic.New(), Base: base, Credentials: provider.Credentials{Key: "sk-test-0123456789"},
		Defaults: provider.Defaults{Model: "claude-test", MaxTokens: 100, Name: "anthropic"}}
	b.c = runner.Config{
		Source: runner.Source{Items: lines(n)(), Route: func(*input.Item) (*runner.Target, error) { return b.target, nil }, Lanes: 1},
		Limits: runner.Limits{Drain: 2 * time.Second, ItemBudget: 30 * time.Minute, AttemptTimeout: time.Minute},
		Salt:   "salt", FreshSalt: "fresh", Seed: 7, IdempotencyHeader: "Idempotency-Key",
	}
	b.c.Retry.MaxErrors = 5
	b.o = Coordination{
		Print: "print", Lanes: 1, Drain: b.c.Drain, Pacing: pacing.Config{Max: 100, Start: 10}, Input: lines(n), Total: n,
		Sync: func() error { return nil }, Lease: 2 * time.Second, Idle: 500 * time.Millisecond,
	}
	return b
}

func (b *bench) serve() { b.serveWith(ServeOptions{Store: b.t.TempDir(), Token: NewToken()}) }

func (b *bench) serveWith(o ServeOptions) {
	b.t.Helper()
	s, err := Serve(o)
	if err != nil {
		b.t.Fatal(err)
	}
	b.server = s
	b.t.Cleanup(s.Stop)
}

func (b *bench) connect() *Conn {
	b.t.Helper()
	c, err := Connect(context.Background(), Options{Server: b.server, Run: "test"})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(c.Close)
	return c
}

// start begins to coordinate.
func (b *bench) start() {
	b.t.Helper()
	lead, err := b.connect().Lead(context.Background(), false)
	if err != nil {
		b.t.Fatal(err)
	}
	b.lead = lead
	if b.file, err = output.Open(b.out, output.Options{}); err != nil {
		b.t.Fatal(err)
	}
	b.c.Write, b.c.Old, b.c.OldRow = b.file.Write, b.file.Index().Lookup, b.file.Row
	b.coord = lead.Coordinator(b.o)
	b.c.Elsewhere, b.c.Survey = b.coord.Run, b.coord.Survey
	b.runner = runner.New(b.c)
	b.ended = make(chan struct{})
	go func() {
		b.rep = b.runner.Run(context.Background())
		lead.Close()
		close(b.ended)
	}()
}

// end waits for the coordinator and returns the last row of each id.
func (b *bench) end() map[string]*output.Result {
	b.t.Helper()
	<-b.ended
	if err := b.file.Close(output.CloseOptions{}); err != nil {
		b.t.Fatal(err)
	}
	rows := map[string]*output.Result{}
	for r, err := range output.Rows(b.out) {
		if err != nil {
			b.t.Fatal(err)
		}
		if rows[r.Key] != nil {
			b.t.Errorf("%s has two rows", r.Key)
		}
		rows[r.Key] = r
	}
	return rows
}

// work starts a worker; the returned function waits for its end.
func (b *bench) work(ctx context.Context, id string, concurrency int) (wait func() (runner.Report, error)) {
	b.t.Helper()
	c := b.connect()
	config := b.c
	config.Elsewhere, config.Survey, config.OnRow = nil, nil, nil
	type ending struct {
		rep runner.Report
		err error
	}
	done := make(chan ending, 1)
	go func() {
		rep, err := c.Work(ctx, WorkerOptions{ID: id, Concurrency: concurrency,
			Build: func(Config) (runner.Config, error) { return config, nil }})
		if err != nil || rep.Reason != runner.Finished {
			b.t.Logf("worker %s: %v %+v", id, err, rep)
		}
		done <- ending{rep, err}
	}()
	return func() (runner.Report, error) {
		e := <-done
		return e.rep, e.err
	}
}

func (b *bench) want(rows map[string]*output.Result, status output.Status, n int) {
	b.t.Helper()
	got := 0
	for _, r := range rows {
		if r.Status == status {
			got++
		}
	}
	if got != n {
		b.t.Errorf("got %d rows %s, want %d", got, status, n)
	}
}

// sent asserts that the API saw what the rows log.
func (b *bench) sent(rows map[string]*output.Result) {
	b.t.Helper()
	n := 0
	for _, r := range rows {
		for _, a := range r.Attempts {
			if !a.Unsent {
				n++
			}
		}
	}
	b.api.mu.Lock()
	defer b.api.mu.Unlock()
	if len(b.api.calls) != n {
		b.t.Errorf("the API saw %d requests, the rows log %d", len(b.api.calls), n)
	}
}

func TestMain(m *testing.M) { os.Exit(m.Run()) }

func (a *api) seen() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.calls)
}

// await returns when the API has seen n requests.
func (a *api) await(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.calls) < n {
		a.asked.Wait()
	}
}

// withPrompt is lines with one prompt replaced.
func withPrompt(n, at int, prompt string) iter.Seq2[*input.Item, error] {
	return func(yield func(*input.Item, error) bool) {
		for it, err := range lines(n)() {
			if it.Index == at {
				it.Prompt = prompt
			}
			if !yield(it, err) {
				return
			}
		}
	}
}
