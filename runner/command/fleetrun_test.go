package command_test

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"testing"
	"time"
)

// fleet run on one machine: nothing to install, nothing left behind, and the same
// command again has nothing to do.
func TestFleetRunOnOneMachine(t *testing.T) {
	t.Parallel()
	p := newProof(t, 40, steady(time.Millisecond))
	args := []string{"fleet", "run", p.path("p.jsonl"), "-o", p.path("out.jsonl"), "--provider", "anthropic", "--base-url", p.web.URL,
		"--model", "m", "--max-tokens", "9", "--progress", "none"}
	if code := p.wait(p.start(args...), time.Minute); code != 0 {
		t.Fatalf("exit %d, want 0\n%s", code, p.tail())
	}
	status, rows := p.rows("out.jsonl")
	if status["ok"] != 40 || p.api.seen() != 40 {
		t.Errorf("got %v from %d requests, want 40 ok from 40", status, p.api.seen())
	}
	for _, r := range rows {
		if r.Attempts[0].Worker == "" {
			t.Errorf("%s: its attempt names no worker", r.ID)
		}
	}
	if _, err := os.Stat(p.path("out.jsonl.fleet")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the store was left behind: %v", err)
	}
	if code := p.wait(p.start(args...), time.Minute); code != 0 || p.api.seen() != 40 {
		t.Errorf("again: exit %d after %d requests, want 0 after 40\n%s", code, p.api.seen(), p.tail())
	}
}

func TestFleetRefusals(t *testing.T) {
	t.Parallel()
	p := newProof(t, 1, steady(0))
	in := p.path("p.jsonl")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"run", "-", "-o", p.path("o")}, "can be read again"},
		{[]string{"run", in, "-o", "-"}, "needs a results file"},
		{[]string{"run", in, "--nats", "nats://127.0.0.1:1"}, "add --run NAME"},
		{[]string{"run", in, "--nats", "nats://127.0.0.1:1", "--run", "r", "--rpm", "5"}, "not a rate"},
		{[]string{"run", in, "--lease", "10ms"}, "want 1s or more"},
		{[]string{"run", in, "--shard", "0/2"}, "unknown flag"},
		{[]string{"worker"}, "no NATS server given"},
		{[]string{"worker", "--nats", "nats://127.0.0.1:1"}, "no run given"},
		{[]string{"worker", "--id", "a.b"}, "want letters"},
		{[]string{"serve"}, "no --store"},
		{[]string{"serve", "--store", p.path("s"), "--listen", "0.0.0.0:4222"}, "needs TLS"},
		{[]string{"serve", "--store", p.path("s"), "--sync", "now"}, "want a duration"},
		{[]string{"serve", "--store", p.path("s"), "--max-message", "32MiB"}, "1KiB to 16MiB"},
		{[]string{"nothing"}, "unknown command"},
	} {
		cmd := p.command(append([]string{"fleet"}, c.args...)...)
		cmd.Env = append(cmd.Env, "NATS_URL=", "LLMBATCH_NATS=")
		cmd.Stdin = strings.NewReader("")
		said, _ := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != 2 || !strings.Contains(string(said), c.want) {
			t.Errorf("fleet %v: exit %d, want 2 and %q in\n%s", c.args, code, c.want, said)
		}
	}
}

// A key in a flag would pass through NATS.
func TestFleetSendsNoSecrets(t *testing.T) {
	t.Parallel()
	p := newProof(t, 1, steady(0))
	p.serveNATS()
	for _, c := range []struct{ flag, value, want string }{
		{"--header", "api-key: sk-secret-000000", "would pass through NATS"},
		{"--base-url", "http://user:pass-0000@127.0.0.1:1", "holds a secret"},
	} {
		args := []string{"fleet", "run", p.path("p.jsonl"), "-o", p.path("o.jsonl"), "--provider", "anthropic", "--model", "m", "--max-tokens", "9",
			"--nats", p.nats, "--run", "r", c.flag, c.value}
		said, _ := p.command(append(args, p.token()...)...).CombinedOutput()
		if !strings.Contains(string(said), c.want) || strings.Contains(string(said), "sk-secret") || strings.Contains(string(said), "pass-0000") {
			t.Errorf("%s: got\n%s", c.flag, said)
		}
	}
}
