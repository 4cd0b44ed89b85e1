package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"llmbatch/output"
	"llmbatch/output/report"
	"llmbatch/runner/provider/mockapi"
)

// prompts makes an input of n lines in a folder of its own.
func prompts(t *testing.T, n int) string {
	t.Helper()
	var b strings.Builder
	for i := range n {
		fmt.Fprintf(&b, `{"id":"q%d","prompt":"say %d"}`+"\n", i, i)
	}
	return file(t, "p.jsonl", b.String())
}

// rows reads a results file: id to status. It fails the test on a second row.
func rows(t *testing.T, path string) map[string]string {
	t.Helper()
	got := map[string]string{}
	for r, err := range output.Rows(path) {
		if err != nil {
			t.Fatal(err)
		}
		if got[r.Key] != "" {
			t.Errorf("%s: got a second row of %s, want one", path, r.Key)
		}
		got[r.Key] = string(r.Status)
	}
	return got
}

func count(got map[string]string, status string) (n int) {
	for s := range maps.Values(got) {
		if s == status {
			n++
		}
	}
	return n
}

// api is a mock API whose requests are counted.
func api(t *testing.T, scenario string) (base string, requests func() int) {
	t.Helper()
	mock := mockapi.New(mockapi.Config{Scenario: scenario})
	s := httptest.NewServer(mock)
	t.Cleanup(s.Close)
	return s.URL, func() int {
		resp, err := http.Get(s.URL + "/_stats")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		var stats mockapi.Stats
		if err := json.NewDecoder(resp.Body).Decode(&stats); err != nil {
			t.Fatal(err)
		}
		return stats.Count
	}
}

func TestRunAndContinue(t *testing.T) {
	in := prompts(t, 12)
	out := strings.TrimSuffix(in, ".jsonl") + ".mock.jsonl"
	code, stdout, errs := world{}.call("run", "--provider", "mock", in, "--limit", "5")
	want(t, code, errs, exitOK, "5 ok", "7 not sent", "next: llmbatch run --provider mock "+in+" --limit 5")
	if stdout != "" {
		t.Errorf("got %q on standard output, want nothing", stdout)
	}
	if n := count(rows(t, out), "ok"); n != 5 {
		t.Errorf("got %d ok rows, want 5", n)
	}
	code, _, errs = world{}.call("run", "--provider", "mock", in)
	want(t, code, errs, exitOK, "5 done before", "next: llmbatch report "+out)
	before, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if n := count(rows(t, out), "ok"); n != 12 {
		t.Errorf("got %d ok rows, want 12", n)
	}
	code, _, errs = world{}.call("run", "--provider", "mock", in)
	want(t, code, errs, exitOK, "nothing to do", "nothing was sent")
	after, err := os.ReadFile(out)
	if err != nil || string(before) != string(after) {
		t.Errorf("%v: a complete file was changed by a second run", err)
	}
}

// C47: -q says nothing at all on success, and off a terminal there is no control
// character.
func TestQuiet(t *testing.T) {
	in := prompts(t, 3)
	code, out, errs := world{}.call("run", "--provider", "mock", in, "-q")
	if code != exitOK || out+errs != "" {
		t.Errorf("got %d %q %q, want 0 and nothing", code, out, errs)
	}
	code, _, errs = world{}.call("run", "--provider", "mock", in, "--fresh", "--progress", "log", "-v")
	want(t, code, errs, exitOK, "attempt")
	if strings.ContainsFunc(errs, func(r rune) bool { return r < ' ' && r != '\n' }) {
		t.Errorf("got control characters in %q", errs)
	}
	if _, err := os.Stat(strings.TrimSuffix(in, ".jsonl") + ".mock.jsonl.bak"); err != nil {
		t.Errorf("--fresh: got %v, want the old results in .bak", err)
	}
}

// -v logs each attempt, and each change of the limit with its reason.
// -v says failures and changes of the limit in sentences, -vv shows each attempt and
// what the controller knows.
func TestVerbose(t *testing.T) {
	t.Parallel()
	code, _, errs := world{}.call("run", "--provider", "mock", "--mock-scenario", "429-retry-after-ms", "-v", prompts(t, 5))
	want(t, code, errs, exitOK, "try 1: refused, too many requests (429), the server asks to wait 300ms: ", "the server refused some: now up to ")
	for _, ours := range []string{"msg=", "reason=", "strikes", "lane", "gate", "plateau"} {
		if strings.Contains(errs, ours) {
			t.Errorf("-v: got %q in\n%s", ours, errs)
		}
	}
	code, _, errs = world{}.call("run", "--provider", "mock", "--mock-scenario", "429-retry-after-ms", "-vv", prompts(t, 5))
	want(t, code, errs, exitOK, "msg=attempt id=q", "outcome=rate_limited", "msg=limit from=4 to=", "reason=refused")
}

// C43, C48: the exit code says how it ended.
func TestEndings(t *testing.T) {
	for _, c := range []struct {
		scenario string
		args     string
		items    int
		code     int
		says     []string
		requests int // 0: not asked
	}{
		{"400", "--no-fail-fast", 12, exitRows, []string{"12 items have no answer", "--retry-failed"}, 12},
		{"400", "", 12, exitAborted, []string{"stopped: the first 10 items all failed alike", "0 of 12 items"}, 0},
		{"spend-cap", "", 1, exitAborted, []string{"stopped: spend cap", "0 of 1 item has an answer", "hint: ", "next: llmbatch run "}, 1},
		{"auth401", "", 1, exitAborted, []string{"stopped: ", "hint: check the key"}, 1},
		{"500-no-retry", "", 1, exitRows, []string{"1 item has no answer", "run the same command again"}, 1},
		{"529-twice", "--max-errors 1", 1, exitOK, []string{"1 ok"}, 3},
		{"slow", "--budget 150ms --drain 50ms", 2, exitBudget, []string{"the run's time ended first", "run the same command again"}, 0},
		{"ok", "--max-cost 0.000001 --price-input 1 --price-output 1 --max-tokens 100", 3, exitAborted, []string{"stopped: ", "0 of 3 items"}, 0},
	} {
		t.Run(c.scenario+" "+c.args, func(t *testing.T) {
			t.Parallel()
			base, requests := api(t, c.scenario)
			in := prompts(t, c.items)
			args := append([]string{"run", in, "--provider", "anthropic", "--model", "m", "--base-url", base}, strings.Fields(c.args)...)
			if !strings.Contains(c.args, "max-tokens") {
				args = append(args, "--max-tokens", "5")
			}
			code, _, errs := world{}.call(args...)
			want(t, code, errs, c.code, c.says...)
			if n := requests(); c.requests > 0 && n != c.requests {
				t.Errorf("got %d requests, want %d", n, c.requests)
			}
		})
	}
}

func TestSummaryFile(t *testing.T) {
	in := prompts(t, 4)
	path := filepath.Join(t.TempDir(), "s.json")
	code, _, errs := world{}.call("run", "--provider", "mock", in, "-q", "--summary", path, "--header", "X-Key: s3cret")
	want(t, code, errs, exitOK)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var s report.Summary
	if err := json.Unmarshal(data, &s); err != nil {
		t.Fatal(err)
	}
	if s.OK != 4 || s.Run == nil || s.Run.ExitCode != 0 || s.Run.Items != 4 || s.Run.Untouched != 0 || s.Attempts.Sent != 4 {
		t.Errorf("got %s, want 4 ok of 4 items", data)
	}
	if strings.Contains(string(data), "s3cret") {
		t.Errorf("got a header's value in %s", data)
	}
}

// Nothing is created or changed when the input is refused.
func TestRefusedInput(t *testing.T) {
	in := file(t, "p.jsonl", `{"id":"a","prompt":"x"}`+"\n"+`{"id":"a","prompt":"y"}`+"\n{bad\n")
	code, _, errs := world{}.call("run", "--provider", "mock", in)
	want(t, code, errs, exitUsage, "2 bad lines; nothing was sent:\n"+in+":2:", "\n"+in+":3:", "--skip-invalid")
	names, err := filepath.Glob(filepath.Dir(in) + "/*")
	if err != nil || len(names) != 1 {
		t.Errorf("got files %v, want the input alone", names)
	}
	code, _, errs = world{}.call("run", "--provider", "mock", in, "--skip-invalid")
	want(t, code, errs, exitRows, "2 invalid lines of "+in+": a failed row each", "1 ok, 2 failed")

	// Let through, a bad line is a failed row under its content id, whatever is
	// wrong with it, and the next run leaves it alone.
	in = file(t, "q.jsonl", `{"id":"a","prompt":"x","max_tokens":1,"model":"m"}`+"\n"+`{"id":"b","prompt":"no model","max_tokens":1}`+"\n")
	base, requests := api(t, "ok")
	args := []string{"run", "--provider", "anthropic", "--base-url", base, "--skip-invalid", in, "-o", in + ".out"}
	for _, says := range []string{"1 ok, 1 failed", "2 done before (1 of them not ok)"} {
		code, _, errs = world{}.call(args...)
		want(t, code, errs, exitRows, says)
		got := rows(t, in+".out")
		if len(got) != 2 || got["a"] != "ok" || got["b"] != "" || requests() != 1 {
			t.Errorf("got %v after %d requests, want a ok and a failed row under a content id after 1", got, requests())
		}
	}

	code, _, errs = world{}.call("run", "--provider", "mock", file(t, "empty.jsonl", "\n\n"))
	want(t, code, errs, exitUsage, "holds no prompts")
}

func TestOneProviderSettings(t *testing.T) {
	in := file(t, "p.jsonl", `{"prompt":"x","model":"gpt-x"}`+"\n"+`{"prompt":"y","model":"gpt-x"}`+"\n"+`{"prompt":"y","model":"claude-x","max_tokens":1}`+"\n")
	code, _, errs := world{}.call("run", in, "--base-url", "http://127.0.0.1:1/v1")
	want(t, code, errs, exitUsage, "--base-url is for one provider", "line 3 is for anthropic")
	code, _, errs = world{}.call("run", in, "--api-key-file", file(t, "key", "sk-x"))
	want(t, code, errs, exitUsage, "--api-key-file holds one key", "line 3 is for anthropic")
	code, _, errs = world{env: map[string]string{"OPENAI_API_KEY": "k"}}.call("run", in)
	want(t, code, errs, exitUsage, "no key for Anthropic", "--provider mock")
	code, _, errs = world{}.call("run", "--skip-invalid", file(t, "q.jsonl", `{"prompt":"x","max_tokens":1}`+"\n"))
	want(t, code, errs, exitUsage, "can't tell which provider line 1 is for", "--provider mock")
	code, _, errs = world{}.call("run", in, "--provider", "openai", "--base-url", "http://127.0.0.1:1/v1", "--max-cost", "1", "--config",
		file(t, "c.yaml", "prices:\n  other: {input: 1}\n"))
	want(t, code, errs, exitUsage, "there is no price for ", "-x")
}

func TestChanged(t *testing.T) {
	in := prompts(t, 12)
	code, _, errs := world{}.call("run", "--provider", "mock", in, "-q")
	want(t, code, errs, exitOK)
	code, _, errs = world{}.call("run", "--provider", "mock", in, "--model", "other")
	want(t, code, errs, exitUsage, "12 lines have changed", `:10: "q9" already`, "… and 2 more", "--on-changed rerun", "--fresh")
	if strings.Contains(errs, `"q10"`) {
		t.Errorf("got %s, want the first ten lines alone", errs)
	}
	code, _, errs = world{}.call("run", "--provider", "mock", in, "--model", "other", "--on-changed", "rerun")
	want(t, code, errs, exitOK, "12 ok", "12 sent")
}

func TestOnlyIDsAndShards(t *testing.T) {
	in := prompts(t, 10)
	dir := filepath.Dir(in)
	ids := file(t, "ids", "q3\n\"q4\"\nnope\n")
	code, _, errs := world{}.call("run", "--provider", "mock", in, "--only-ids", ids, "-o", dir+"/few.jsonl")
	want(t, code, errs, exitOK, "1 id of "+ids+" is not in", "2 ok")
	if got := rows(t, dir+"/few.jsonl"); len(got) != 2 || got["q3"] != "ok" || got["q4"] != "ok" {
		t.Errorf("got %v, want q3 and q4", got)
	}
	code, _, errs = world{}.call("run", "--provider", "mock", in, "--only-ids", file(t, "none", "x"))
	want(t, code, errs, exitUsage, "has none of the ids")

	for i := range 3 {
		code, _, errs = world{}.call("run", "--provider", "mock", in, "-q", "--shard", fmt.Sprintf("%d/3", i))
		want(t, code, errs, exitOK)
	}
	parts, err := filepath.Glob(dir + "/p.*-of-3.mock.jsonl")
	if err != nil || len(parts) != 3 {
		t.Fatalf("got parts %v, want 3", parts)
	}
	code, out, errs := world{}.call(append([]string{"merge", "-o", dir + "/all.jsonl"}, parts...)...)
	want(t, code, errs, exitOK, "10 rows of 3 files")
	if got := rows(t, dir+"/all.jsonl"); out != "" || count(got, "ok") != 10 {
		t.Errorf("got %q, %v, want 10 ok rows", out, got)
	}
	code, _, errs = world{}.call("merge", "-o", parts[0], parts[0], parts[1])
	want(t, code, errs, exitUsage, "both merged and the output")
}

func TestStandardStreams(t *testing.T) {
	w := world{stdin: `{"id":1,"prompt":"x"}` + "\n{bad\n"}
	code, out, errs := w.call("run", "--provider", "mock", "-", "-o", "-", "-q")
	want(t, code, errs, exitRows, "1 item has no answer")
	if lines := strings.Count(out, "\n"); lines != 2 || !strings.Contains(out, `{"id":1,"status":"ok"`) || !strings.Contains(out, `"status":"failed"`) {
		t.Errorf("got %s, want an ok and a failed row", out)
	}
	code, _, errs = w.call("run", "-", "-o", "-")
	want(t, code, errs, exitUsage, "no key for ")
}

// brokenPipe fails like a closed pipe.
type brokenPipe struct{}

func (brokenPipe) Write([]byte) (int, error) { return 0, syscall.EPIPE }

func TestClosedPipe(t *testing.T) {
	var errs strings.Builder
	code := run([]string{"llmbatch", "run", prompts(t, 30), "--provider", "mock", "-o", "-"}, &env{
		stdin: strings.NewReader(""), stdout: brokenPipe{}, stderr: &errs,
		getenv:  func(string) string { return "" },
		signals: func() signals { return signals{release: func() {}} },
		now:     time.Now, start: time.Now(),
	})
	want(t, code, errs.String(), exitWrite, "sending stopped: ", "standard output")
}

func TestSignals(t *testing.T) {
	for _, c := range []struct {
		signals []os.Signal
		code    int
		says    string
	}{
		{[]os.Signal{syscall.SIGINT}, exitInterrupted, "on the wire may finish"},
		{[]os.Signal{syscall.SIGTERM}, exitTerminated, "interrupted; "},
		{[]os.Signal{syscall.SIGHUP, syscall.SIGINT}, exitHangup, "stopping now"},
	} {
		t.Run(fmt.Sprint(c.signals), func(t *testing.T) {
			t.Parallel()
			// Taken one after the other: once status is, the stop before it was acted on.
			stop, status := make(chan os.Signal), make(chan os.Signal)
			arrived := make(chan bool, 100)
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				io.Copy(io.Discard, r.Body) // or the server does not see the client go
				arrived <- true
				if len(c.signals) > 1 {
					<-r.Context().Done()
					return
				}
				stop <- c.signals[0]
				status <- syscall.SIGUSR1
				io.WriteString(w, `{"model":"m","choices":[{"message":{"content":"OK"},"finish_reason":"stop"}]}`)
			}))
			defer s.Close()
			go func() {
				<-arrived
				if len(c.signals) > 1 {
					for _, sig := range c.signals {
						stop <- sig
					}
				}
			}()
			in := prompts(t, 5)
			out := filepath.Join(filepath.Dir(in), "out.jsonl")
			code, _, errs := world{signals: signals{stop: stop, status: status}}.call("run", in, "-o", out, "--provider", "openai", "--model", "m",
				"--base-url", s.URL+"/v1", "--concurrency", "1", "--fixed")
			want(t, code, errs, c.code, c.says, "run the same command again")
			if got := rows(t, out); len(got) != 1 {
				t.Errorf("got rows %v, want that of the request on the wire", got)
			}
		})
	}
}

func TestSignalBeforeTheRun(t *testing.T) {
	stop := make(chan os.Signal, 1)
	stop <- syscall.SIGTERM
	ctx, s, end := listen(&env{signals: func() signals { return signals{stop: stop, release: func() {}} }})
	defer end()
	<-ctx.Done()
	err := (&session{}).abandon(ctx, s, errors.New("canceled"))
	if f, ok := errors.AsType[*failure](err); !ok || f.code != exitTerminated {
		t.Errorf("got %v, want exit code %d", err, exitTerminated)
	}
}

func TestMetrics(t *testing.T) {
	path := filepath.Join(t.TempDir(), "m.prom")
	code, _, errs := world{}.call("run", "--provider", "mock", prompts(t, 4), "-q", "--metrics-textfile", path, "--metrics-addr", "127.0.0.1:0")
	want(t, code, errs, exitOK)
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`llmbatch_items_total{status="ok"} 4`, `llmbatch_attempts_total{outcome="ok"} 4`,
		`llmbatch_tokens_total{kind="input"} 20`, "llmbatch_in_flight 0", "# TYPE llmbatch_limit gauge"} {
		if !strings.Contains(string(data), line+"\n") {
			t.Errorf("got %s, want a line %s", data, line)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	code, _, errs = world{}.call("run", "--provider", "mock", prompts(t, 1), "--metrics-addr", l.Addr().String())
	want(t, code, errs, exitUsage, "--metrics-addr: ")
}
