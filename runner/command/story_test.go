package command_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"llmbatch/runner/command"
	"llmbatch/runner/provider/mockapi"
)

// TestMain lets the test binary be the program itself, so that signals and kills
// meet a process of its own.
func TestMain(m *testing.M) {
	if os.Getenv("LLMBATCH_TEST_AS_MAIN") == "1" {
		os.Exit(command.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
	}
	flag.Parse()
	if f := flag.Lookup("test.parallel"); f.Value.String() == f.DefValue {
		_ = f.Value.Set("12") // most stories wait; few compute
	}
	if signal.Ignored(syscall.SIGHUP) { // as under nohup: processes inherit that, and heed it
		signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP)
	}
	os.Exit(m.Run())
}

// row is what the stories look at of a result row.
type row struct {
	ID            json.RawMessage `json:"id"`
	Status        string          `json:"status"`
	Text          string          `json:"text"`
	GiveUpReason  string          `json:"give_up_reason"`
	NextAttemptAt time.Time       `json:"next_attempt_at"`
	Error         struct{ Class, Message string }
	Attempts      []struct {
		Sent       *bool     `json:"sent"`
		StartedAt  time.Time `json:"started_at"`
		DurationMS int64     `json:"duration_ms"`
		WaitReason string    `json:"wait_reason"`
		WaitMS     int64     `json:"wait_ms"`
	}
}

// story is one run of the command against the mock API over loopback.
type story struct {
	*testing.T
	mock *mockapi.Server
	base string
	in   string
	out  string
}

func newStory(t *testing.T, lines int) *story {
	t.Helper()
	mock := mockapi.New(mockapi.Config{})
	srv := httptest.NewServer(mock)
	t.Cleanup(srv.Close)
	dir := t.TempDir()
	s := &story{T: t, mock: mock, base: srv.URL, in: filepath.Join(dir, "p.jsonl"), out: filepath.Join(dir, "out.jsonl")}
	var b bytes.Buffer
	for i := range lines {
		fmt.Fprintf(&b, "{\"id\":\"q%d\",\"prompt\":\"say %d\"}\n", i, i)
	}
	if err := os.WriteFile(s.in, b.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func (s *story) args(scenario string, more ...string) []string {
	return append([]string{"run", s.in, "-o", s.out, "--provider", "anthropic", "--base-url", s.base + "/" + scenario,
		"--model", "claude-mock", "--max-tokens", "10"}, more...)
}

// run runs the command in this process and returns its exit code and what it said.
func (s *story) run(scenario string, more ...string) (int, string) {
	var said bytes.Buffer
	code := command.Main(append([]string{"llmbatch"}, s.args(scenario, more...)...), strings.NewReader(""), &said, &said)
	return code, said.String()
}

// rows reads the results and asserts what holds after every run: valid JSON, one
// row an id, and as many requests at the server as attempts logged.
func (s *story) rows() map[string]row {
	s.Helper()
	data, err := os.ReadFile(s.out)
	if err != nil {
		s.Fatal(err)
	}
	m, sent := map[string]row{}, 0
	for sc := bufio.NewScanner(bytes.NewReader(data)); sc.Scan(); {
		var r row
		if err := json.Unmarshal(sc.Bytes(), &r); err != nil {
			s.Fatalf("%v in %s", err, sc.Bytes())
		}
		id := string(r.ID)
		if _, twice := m[id]; twice {
			s.Errorf("two rows for %s", id)
		}
		m[id] = r
		for _, a := range r.Attempts {
			if a.Sent == nil || *a.Sent {
				sent++
			}
		}
	}
	if got := s.mock.Stats().Count; got != sent {
		s.Errorf("%d requests at the server, %d attempts logged", got, sent)
	}
	return m
}

func count(rows map[string]row, status string) (n int) {
	for _, r := range rows {
		if r.Status == status {
			n++
		}
	}
	return n
}

func TestStories(t *testing.T) {
	cases := []struct {
		name     string
		scenario string
		flags    string
		lines    int
		code     int
		requests int // at most, exactly if exact
		exact    bool
		status   string // of every row
		reason   string
		check    func(*story, map[string]row)
	}{
		{name: "429 always", scenario: "429-always", flags: "--max-attempts 4", code: 1, requests: 4, exact: true, status: "gave_up", reason: "max_attempts"},
		{name: "retry-after 2", scenario: "429-retry-after-2", requests: 2, exact: true, status: "ok", check: gap(2 * time.Second)},
		{name: "retry-after-ms", scenario: "429-retry-after-ms", requests: 2, exact: true, status: "ok", check: gap(300 * time.Millisecond)},
		{name: "capped", scenario: "429-retry-after-120", flags: "--max-wait 2s --on-long-wait cap --item-budget 20s", requests: 2, exact: true, status: "ok",
			check: func(s *story, m map[string]row) {
				if a := m[`"q0"`].Attempts[0]; a.WaitReason != "capped" || a.WaitMS < 2000 || a.WaitMS > 15_000 {
					s.Errorf("waited %d ms, %s; want about 2000, capped", a.WaitMS, a.WaitReason)
				}
			}},
		{name: "hint past the item's budget", scenario: "429-retry-after-120", flags: "--item-budget 5s", code: 1, requests: 1, exact: true, status: "gave_up", reason: "item_budget",
			check: func(s *story, m map[string]row) {
				if d := time.Until(m[`"q0"`].NextAttemptAt); d < 100*time.Second || d > 121*time.Second {
					s.Errorf("next attempt in %s, want about 120s", d)
				}
			}},
		{name: "spend cap", scenario: "spend-cap", code: 3, requests: 1, exact: true, status: "aborted"},
		{name: "cap without a code", scenario: "cap429", code: 3, requests: 1, exact: true, status: "aborted"},
		{name: "529 twice", scenario: "529-twice", requests: 3, exact: true, status: "ok"},
		{name: "400", scenario: "400", code: 1, requests: 1, exact: true, status: "failed"},
		{name: "413", scenario: "big413", code: 1, requests: 1, exact: true, status: "failed"},
		{name: "401", scenario: "auth401", code: 3, requests: 1, exact: true, status: "aborted"},
		{name: "500 no retry", scenario: "500-no-retry", code: 1, requests: 1, exact: true, status: "gave_up"},
		{name: "400 force retry", scenario: "400-force-retry", requests: 2, exact: true, status: "ok"},
		{name: "drop", scenario: "drop", flags: "--max-errors 3", code: 1, requests: 3, exact: true, status: "gave_up", reason: "max_errors"},
		{name: "slow", scenario: "slow", flags: "--attempt-timeout 2s --max-errors 3", code: 1, requests: 3, status: "gave_up", reason: "max_errors",
			check: func(s *story, m map[string]row) {
				if n := len(m[`"q0"`].Attempts); n != 3 { // on a busy machine one may end before it is on the wire
					s.Errorf("%d attempts, want 3", n)
				}
			}},
		{name: "drip", scenario: "drip", requests: 1, exact: true, status: "ok"},
		{name: "limit3", scenario: "limit3", lines: 12, requests: 18, status: "ok"},
		{name: "refused at first", scenario: "ok", flags: "--start-concurrency 40", lines: 1500, requests: 3000, status: "ok"},
		{name: "stream ok", scenario: "sse_ok", flags: "--stream", requests: 1, exact: true, status: "ok"},
		// C20: a clean end without terminal evidence is no answer.
		{name: "stream eof", scenario: "sse_eof", flags: "--stream --max-errors 2", code: 1, requests: 2, exact: true, status: "gave_up", reason: "max_errors"},
		{name: "stream cut", scenario: "sse_cut", flags: "--stream --max-errors 2", code: 1, requests: 2, exact: true, status: "gave_up", reason: "max_errors"},
		// C21: the error event's own status decides, so it is a throttle and only counts run out.
		{name: "stream error", scenario: "sse_error", flags: "--stream --max-attempts 2", code: 1, requests: 2, exact: true, status: "gave_up", reason: "max_attempts"},
		{name: "unkind", scenario: "unkind", lines: 300, requests: 360, status: "ok"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := newStory(t, max(c.lines, 1))
			scenario := c.scenario
			if c.name == "refused at first" {
				scenario += "?fail-first=1s&latency=20ms"
			}
			start := time.Now()
			code, said := s.run(scenario, strings.Fields(c.flags)...)
			if code != c.code {
				t.Errorf("exit %d, want %d:\n%s", code, c.code, said)
			}
			if d := time.Since(start); d > time.Minute {
				t.Errorf("took %s", d)
			}
			m := s.rows()
			if n := count(m, c.status); n != max(c.lines, 1) {
				t.Errorf("%d rows are %s, want %d:\n%s", n, c.status, max(c.lines, 1), said)
			}
			if n := s.mock.Stats().Count; n > c.requests || c.exact && n != c.requests {
				t.Errorf("%d requests, want %d", n, c.requests)
			}
			if r := m[`"q0"`]; c.reason != "" && r.GiveUpReason != c.reason {
				t.Errorf("give_up_reason %q, want %q", r.GiveUpReason, c.reason)
			}
			if c.check != nil {
				c.check(s, m)
			}
		})
	}
}

// gap asserts that the second attempt came no earlier than least after the first
// one's answer.
func gap(least time.Duration) func(*story, map[string]row) {
	return func(s *story, m map[string]row) {
		a := m[`"q0"`].Attempts
		ended := a[0].StartedAt.Add(time.Duration(a[0].DurationMS) * time.Millisecond)
		if d := a[1].StartedAt.Sub(ended); d < least-2*time.Millisecond { // the log rounds to milliseconds
			s.Errorf("second attempt after %s, want at least %s", d, least)
		}
	}
}

// C06, C07: the cap stops the run, answers on the wire are kept, and the next run
// sends exactly the rest.
func TestSpendCapStory(t *testing.T) {
	t.Parallel()
	s := newStory(t, 300)
	code, said := s.run("ok?spend-cap-after=20", "--concurrency", "8")
	m := s.rows()
	if n := s.mock.Stats().Count; code != 3 || n > 28 || count(m, "ok") != 20 || count(m, "failed") != 0 {
		t.Fatalf("exit %d after %d requests, %d ok, %d failed; want 3, at most 28, 20, 0:\n%s", code, n, count(m, "ok"), count(m, "failed"), said)
	}
	before := s.mock.Stats().Count
	if code, said := s.run("ok?latency=5ms"); code != 0 {
		t.Errorf("the next run: exit %d:\n%s", code, said)
	}
	if n := s.mock.Stats().Count - before; n != 280 {
		t.Errorf("the next run sent %d requests, want 280", n)
	}
	if n := count(s.rows(), "ok"); n != 300 {
		t.Errorf("%d rows ok, want 300", n)
	}
}

// process starts the command as a process of its own.
func (s *story) process(scenario string, more ...string) (*exec.Cmd, *bytes.Buffer) {
	s.Helper()
	exe, err := os.Executable()
	if err != nil {
		s.Fatal(err)
	}
	cmd := exec.Command(exe, s.args(scenario, more...)...)
	cmd.Env = append(os.Environ(), "LLMBATCH_TEST_AS_MAIN=1")
	said := &bytes.Buffer{}
	cmd.Stderr = said
	if err := cmd.Start(); err != nil {
		s.Fatal(err)
	}
	return cmd, said
}

// served waits until the mock has taken n requests.
func (s *story) served(n int) {
	s.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); s.mock.Stats().OK < n; <-tick.C {
		if time.Now().After(end) {
			s.Fatalf("the mock has answered %d requests, waited for %d", s.mock.Stats().OK, n)
		}
	}
}

// C43: an interrupted run drains, says so with its exit code, and the next run
// does only the rest.
func TestSignals(t *testing.T) {
	for sig, want := range map[syscall.Signal]int{syscall.SIGINT: 130, syscall.SIGTERM: 143, syscall.SIGHUP: 129} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			const all = 800
			s := newStory(t, all)
			cmd, said := s.process("ok?latency=200ms", "--concurrency", "16", "--fixed")
			s.served(40)
			_ = cmd.Process.Signal(sig)
			_ = cmd.Wait()
			if code := cmd.ProcessState.ExitCode(); code != want {
				t.Errorf("exit %d, want %d:\n%s", code, want, said)
			}
			m := s.rows()
			done := count(m, "ok")
			if len(m) != done || done < 40 || done == all {
				t.Errorf("%d rows, %d ok: what was on the wire should have drained", len(m), done)
			}
			before := s.mock.Stats().Count
			if code, said := s.run("ok?latency=1ms"); code != 0 {
				t.Errorf("the next run: exit %d:\n%s", code, said)
			}
			if n := s.mock.Stats().Count - before; n != all-done {
				t.Errorf("the next run sent %d, want %d", n, all-done)
			}
		})
	}
}

// insist interrupts a process again and again until stop is called: of two that
// come close together it may see only one.
func insist(p *os.Process) (stop func()) {
	ended := make(chan struct{})
	go func() {
		tick := time.NewTicker(100 * time.Millisecond)
		defer tick.Stop()
		for {
			_ = p.Signal(os.Interrupt)
			select {
			case <-ended:
				return
			case <-tick.C:
			}
		}
	}()
	return func() { close(ended) }
}

func TestSecondSignalLeavesAtOnce(t *testing.T) {
	t.Parallel()
	s := newStory(t, 50)
	cmd, said := s.process("slow", "--concurrency", "4", "--fixed")
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for s.mock.Stats().InFlight < 4 {
		<-tick.C
	}
	start := time.Now()
	stop := insist(cmd.Process)
	_ = cmd.Wait()
	stop()
	if code := cmd.ProcessState.ExitCode(); code != 130 || time.Since(start) > 4*time.Second {
		t.Errorf("exit %d after %s, want 130 at once:\n%s", code, time.Since(start), said)
	}
	if m := s.rows(); count(m, "aborted") != 4 || len(m) != 4 {
		t.Errorf("rows %v, want the four open items aborted", m)
	}
}

// A complete file costs nothing: no request, the same bytes.
func TestNothingToDo(t *testing.T) {
	t.Parallel()
	s := newStory(t, 20)
	if code, said := s.run("ok?latency=1ms"); code != 0 {
		t.Fatalf("exit %d:\n%s", code, said)
	}
	was, _ := os.ReadFile(s.out)
	if code, said := s.run("ok"); code != 0 {
		t.Fatalf("exit %d:\n%s", code, said)
	}
	is, _ := os.ReadFile(s.out)
	if n := s.mock.Stats().Count; n != 20 || !bytes.Equal(was, is) {
		t.Errorf("%d requests, same bytes %v; want 20, true", n, bytes.Equal(was, is))
	}
}

// C47, C51: nothing that cron would mail, and no key anywhere.
func TestQuietAndSecret(t *testing.T) {
	t.Parallel()
	s := newStory(t, 3)
	key := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(key, []byte("sk-very-secret-0123456789\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, said := s.run("ok?latency=1ms", "-q", "--api-key-file", key); code != 0 || said != "" {
		t.Errorf("exit %d, said %q; want silence", code, said)
	}
	code, said := s.run("auth401", "--fresh", "--api-key-file", key)
	data, _ := os.ReadFile(s.out)
	if code != 3 || regexp.MustCompile("very-secret").MatchString(said+string(data)) {
		t.Errorf("exit %d; the key must not be seen in:\n%s%s", code, said, data)
	}
	if info, err := os.Stat(s.out); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, want 0600", info.Mode())
	}
}
