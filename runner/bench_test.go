package runner_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/pacing"
	"llmbatch/runner"
	"llmbatch/runner/provider"
	"llmbatch/runner/provider/openai"
)

const (
	answerText = `{"id":"chatcmpl-0123456789abcdef","object":"chat.completion","created":1790000000,"model":"mock-1",` +
		`"choices":[{"index":0,"message":{"role":"assistant","content":"%s"},"finish_reason":"stop"}],` +
		`"usage":{"prompt_tokens":50,"completion_tokens":60,"total_tokens":110}}`
	words = "summarise the following text in one sentence because percent between returns "
)

// answerer answers at once, without a network: what is left is what an item costs
// beside its request.
type answerer struct{ body []byte }

func (a answerer) RoundTrip(req *http.Request) (*http.Response, error) {
	_, _ = io.Copy(io.Discard, req.Body)
	req.Body.Close()
	if trace := httptrace.ContextClientTrace(req.Context()); trace != nil {
		trace.GotConn(httptrace.GotConnInfo{})
	}
	return &http.Response{
		StatusCode: http.StatusOK, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Request: req,
		Header:        http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {"req_0123456789"}},
		ContentLength: int64(len(a.body)), Body: io.NopCloser(bytes.NewReader(a.body)),
	}, nil
}

// spent is the process's CPU time, which other processes disturb less than the
// clock's.
func spent(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// One op is one item from its line to its row on the disk, all features on.
func BenchmarkItem(b *testing.B) {
	prompts := filepath.Join(b.TempDir(), "prompts.jsonl")
	writeLines(b, prompts, b.N)
	in, err := input.Open(prompts, input.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer in.Close()
	out, err := output.Open(filepath.Join(b.TempDir(), "results.jsonl"), output.Options{})
	if err != nil {
		b.Fatal(err)
	}
	base, _ := url.Parse("http://api.test/v1")
	target := &runner.Target{Provider: openai.New(), Base: base, Credentials: provider.Credentials{Key: "sk-test-0123456789"},
		Defaults: provider.Defaults{Name: "openai", Endpoint: "chat"}}
	r := runner.New(runner.Config{
		Source: runner.Source{Items: in.Items(), Reload: in.Reload, Route: func(*input.Item) (*runner.Target, error) { return target, nil },
			Lanes: 1, Old: out.Index().Lookup, OldRow: out.Row},
		Sink: runner.Sink{Write: out.Write},
		Limits: runner.Limits{Pacing: pacing.Config{Max: 64, Fixed: true},
			ItemBudget: 30 * time.Minute, AttemptTimeout: 10 * time.Minute, Drain: 25 * time.Second},
		Hooks: runner.Hooks{Transport: answerer{fmt.Appendf(nil, answerText, strings.Repeat(words, 3))}},
		Salt:  "0123456789abcdef", IdempotencyHeader: "Idempotency-Key",
	})
	b.ReportAllocs()
	b.ResetTimer()
	before := spent(b)
	rep := r.Run(context.Background())
	b.ReportMetric(float64(spent(b)-before)/float64(b.N), "cpu-ns/op")
	if err := out.Close(output.CloseOptions{}); err != nil {
		b.Fatal(err)
	}
	if got := rep.Rows[output.OK]; got != b.N {
		b.Fatalf("got %d rows that are ok, want %d (%s)", got, b.N, rep.Message)
	}
}
