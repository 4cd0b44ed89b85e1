package batch

import (
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/runner"
	"llmbatch/runner/provider"
	"llmbatch/runner/provider/anthropic"
	"llmbatch/runner/provider/mockapi"
	"llmbatch/runner/provider/openai"
)

// wire calls the mock's handler in place of a network.
type wire struct{ server *mockapi.Server }

func (w wire) RoundTrip(r *http.Request) (resp *http.Response, err error) {
	type result struct {
		resp *http.Response
		err  error
	}
	done := make(chan result, 1)
	go func() {
		rec := httptest.NewRecorder()
		defer func() {
			if recover() != nil { // the handler closed the connection
				if rec.Code == 200 && rec.Body.Len() > 0 {
					got := rec.Result()
					got.Body = io.NopCloser(io.MultiReader(rec.Body, broken{}))
					done <- result{got, nil}
					return
				}
				done <- result{nil, io.ErrUnexpectedEOF}
			}
		}()
		in := httptest.NewRequestWithContext(r.Context(), r.Method, r.URL.String(), r.Body)
		in.Header, in.ContentLength = r.Header, r.ContentLength
		w.server.ServeHTTP(rec, in)
		done <- result{rec.Result(), nil}
	}()
	select {
	case got := <-done:
		return got.resp, got.err
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

// world is what lasts from run to run: the provider's side and the results.
type world struct {
	t        *testing.T
	api      string // "openai" or "anthropic"
	scenario string
	server   *mockapi.Server
	dir      string
	n        int
	rows     map[string]*output.Result // the last row of each id
	key      string
}

func newWorld(t *testing.T, api, scenario string, n int) *world {
	return &world{t: t, api: api, scenario: scenario, server: mockapi.New(mockapi.Config{}), dir: t.TempDir(), n: n, rows: map[string]*output.Result{}, key: "sk-one"}
}

func (w *world) items() iter.Seq2[*input.Item, error] {
	return func(yield func(*input.Item, error) bool) {
		for i := range w.n {
			id := fmt.Sprintf("q/%d ü", i)
			raw, _ := json.Marshal(id)
			if !yield(&input.Item{Index: i, Line: i + 1, ID: raw, Key: id, Model: "m", Prompt: fmt.Sprintf("question %d", i), MaxTokens: []byte("9")}, nil) {
				return
			}
		}
	}
}

func (w *world) config() Config {
	base, err := url.Parse("http://mock/" + w.scenario)
	if err != nil {
		w.t.Fatal(err)
	}
	target := &runner.Target{Provider: anthropic.New(), Base: base, Credentials: provider.Credentials{Key: w.key}, Defaults: provider.Defaults{Name: w.api}}
	if w.api == "openai" {
		target.Provider, target.Base = openai.New(), base.JoinPath("v1")
	}
	return Config{
		Journal: filepath.Join(w.dir, "p.results.batches.jsonl"), Target: target, Items: w.items,
		Encode: func(it *input.Item) (*provider.Call, error) { return target.Provider.Encode(it, target.Defaults) },
		Done: func(key string) bool {
			r := w.rows[key]
			return r != nil && (r.Status == output.OK || r.Status == output.Failed)
		},
		Old: func(key string) (*output.Result, error) {
			if r := w.rows[key]; r != nil {
				return withHistory(r), nil
			}
			return nil, nil
		},
		Write: func(r *output.Result) error { w.rows[r.Key] = r; return nil },
		Then:  "batch", MaxErrors: 5, Size: 10, Open: 50, Poll: 5 * time.Second, Drain: time.Second,
		Transport: wire{w.server}, Scrub: provider.NewScrubber(), Log: slog.New(slog.DiscardHandler),
	}
}

// run makes one run of the engine.
func (w *world) run(c Config) Report {
	w.t.Helper()
	e, err := Open(c)
	if err != nil {
		w.t.Fatal(err)
	}
	rep := e.Collect(w.t.Context())
	if e.halted == nil {
		rep = e.Run(w.t.Context())
	}
	if err := e.Close(); err != nil {
		w.t.Fatal(err)
	}
	return rep
}

// bought is how many attempts the rows hold that were part of a batch.
func (w *world) bought() (n int) {
	for _, r := range w.rows {
		n += strings.Count(string(withHistory(r).History), `"batch_id"`)
	}
	return n
}

func (w *world) statuses() map[output.Status]int {
	m := map[output.Status]int{}
	for _, r := range w.rows {
		m[r.Status]++
	}
	return m
}

func (w *world) check(want map[output.Status]int) {
	w.t.Helper()
	if got := w.statuses(); !maps.Equal(got, want) {
		w.t.Errorf("rows %v, want %v", got, want)
	}
	s := w.server.Stats()
	if got := w.bought(); got != s.Items {
		w.t.Errorf("%d attempts have a batch, and the server sold %d items", got, s.Items)
	}
}

// both runs a test in virtual time against both APIs.
func both(t *testing.T, f func(t *testing.T, api string)) {
	for _, api := range []string{"openai", "anthropic"} {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { f(t, api) })
		})
	}
}
