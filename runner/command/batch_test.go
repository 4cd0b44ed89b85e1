package command_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"llmbatch/output"
	"llmbatch/runner/command"
)

// batched is the command line of a run through a Batch API.
func (s *story) batched(api, scenario string, more ...string) []string {
	base := s.base + "/" + scenario
	if api == "openai" {
		base += "/v1"
	}
	return append([]string{"llmbatch", "run", s.in, "-o", s.out, "--provider", api, "--base-url", base, "--model", "m", "--max-tokens", "9",
		"--batch", "--batch-poll", "300ms", "--batch-size", "40", "--progress", "none"}, more...)
}

func (s *story) call(args ...string) (int, string) {
	var said strings.Builder
	code := command.Main(args, strings.NewReader(""), &said, &said)
	return code, said.String()
}

func (s *story) ends(code int, words string, args ...string) {
	s.Helper()
	if got, said := s.call(args...); got != code || !strings.Contains(said, words) {
		s.Errorf("exit %d, want %d with %q:\n%s", got, code, words, said)
	}
}

// each reads the rows: one an id.
func (s *story) each() map[string]*output.Result {
	s.Helper()
	m := map[string]*output.Result{}
	for r, err := range output.Rows(s.out) {
		if err != nil {
			s.Fatal(err)
		}
		if m[r.Key] != nil {
			s.Errorf("two rows for %s", r.Key)
		}
		m[r.Key] = r
	}
	return m
}

// Real processes are killed at random moments and run again: no item is bought
// twice, and each has one row. LLMBATCH_CRASHES says how often (default 5).
func TestBatchCrash(t *testing.T) {
	kills, _ := strconv.Atoi(os.Getenv("LLMBATCH_CRASHES"))
	if kills == 0 {
		kills = 5
	}
	for _, api := range []string{"openai", "anthropic"} {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			s := newStory(t, 150)
			exe, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			for range kills {
				cmd := exec.Command(exe, s.batched(api, "batch-create-lost", "--batch-probe", "0")[1:]...)
				cmd.Env = append(os.Environ(), "LLMBATCH_TEST_AS_MAIN=1")
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				kill := time.AfterFunc(time.Duration(100+rand.IntN(1500))*time.Millisecond, func() { _ = cmd.Process.Kill() })
				_ = cmd.Wait()
				kill.Stop()
			}
			s.ends(0, "", s.batched(api, "batch-create-lost", "--batch-probe", "0")...)
			stats := s.mock.Stats()
			if rows := s.each(); stats.Items != 150 || len(rows) != 150 {
				t.Errorf("%d items were bought in %d batches, %d rows", stats.Items, stats.Batches, len(rows))
			}
		})
	}
}

// From cron: a run sends and leaves, others are kept from buying the same again, and
// a later one collects.
func TestBatchFromCron(t *testing.T) {
	t.Parallel()
	for _, api := range []string{"openai", "anthropic"} {
		t.Run(api, func(t *testing.T) {
			t.Parallel()
			s := newStory(t, 12)
			const scenario = "batch-ok"
			slow := func(more ...string) []string { return s.batched(api, scenario, more...) }
			s.ends(4, "at the provider", slow("--batch-wait", "0")...)
			journal := strings.TrimSuffix(s.out, ".jsonl") + ".batches.jsonl"
			if info, err := os.Stat(journal); err != nil || info.Mode().Perm() != 0o600 {
				t.Fatalf("%v, %v", info, err)
			}
			bought := s.mock.Stats().Items
			s.ends(2, "open at the provider", s.live(slow())...)
			s.ends(2, "open at the provider", slow("--fresh")...)
			t.Run("another key", func(t *testing.T) {
				key := filepath.Join(t.TempDir(), "key")
				if err := os.WriteFile(key, []byte("sk-another-account"), 0o600); err != nil {
					t.Fatal(err)
				}
				s.ends(2, "another key", slow("--api-key-file", key)...)
			})
			if err := os.Rename(journal, journal+".away"); err != nil {
				t.Fatal(err)
			}
			s.ends(2, "is gone", slow()...)
			if err := os.Rename(journal+".away", journal); err != nil {
				t.Fatal(err)
			}
			if n := s.mock.Stats().Items; n != bought {
				t.Errorf("%d items bought, %d before", n, bought)
			}
			s.ends(0, "", slow()...)
			if _, err := os.Stat(journal); !os.IsNotExist(err) || len(s.each()) != 12 {
				t.Errorf("%v, %d rows", err, len(s.each()))
			}
			s.ends(0, "nothing to do", slow()...)
			s.ends(0, "no batch", "llmbatch", "batch", s.out)
		})
	}
}

// live is a command line without the flags of --batch.
func (s *story) live(args []string) (kept []string) {
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "--batch":
		case "--batch-poll", "--batch-size":
			i++
		default:
			kept = append(kept, args[i])
		}
	}
	return kept
}

func TestBatchCancel(t *testing.T) {
	t.Parallel()
	s := newStory(t, 12)
	args := func(more ...string) []string { return s.batched("anthropic", "batch-stuck-pending", more...) }
	s.ends(4, "", args("--batch-wait", "0")...)
	s.ends(0, "asked to stop", "llmbatch", "batch", s.out, "--cancel")
	s.ends(4, "cancelled", args()...)
	if n := s.mock.Stats().Items; n != 11 {
		t.Errorf("%d items bought, want 11 and one live", n)
	}
}

// What does not come back in time goes live, at full price.
func TestBatchThenLive(t *testing.T) {
	t.Parallel()
	s := newStory(t, 12)
	s.ends(0, "", s.batched("openai", "batch-stuck-pending", "--batch-wait", "1s", "--then", "live")...)
	for id, r := range s.each() {
		if r.Status != output.OK || len(r.Attempts) > 2 {
			t.Errorf("%s: %+v", id, r)
		}
	}
}

// A part that the time ends before it is created goes live whole: the row that stood
// for it never replaces an answer.
func TestBatchThenLiveBeforeItIsCreated(t *testing.T) {
	t.Parallel()
	s := newStory(t, 12)
	s.ends(0, "", s.batched("openai", "batch-upload-503", "--batch-wait", "60ms", "--then", "live")...)
	rows := s.each()
	for id, r := range rows {
		if r.Status != output.OK {
			t.Errorf("%s is %s", id, r.Status)
		}
	}
	// On a quick machine a part may be created in time: then the batch brings its rows.
	if n := s.mock.Stats(); len(rows) != 12 || n.Again != 0 {
		t.Errorf("got %d rows and %d answers bought twice, want 12 and none", len(rows), n.Again)
	}
}

func TestBatchRefusals(t *testing.T) {
	t.Parallel()
	s := newStory(t, 3)
	s.ends(2, "has no Batch API", s.batched("openai", "no-batch")...)
	s.ends(2, "is for --batch", s.live(s.batched("openai", "ok", "--then", "live"))...)
	if err := os.WriteFile(s.in, []byte(`{"id":"a","messages":[{"role":"user","content":"x"}],"stream":true}`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.ends(2, fmt.Sprintf("%s:1: the Batch API takes no", s.in), s.batched("openai", "batch-ok")...)
	if n := s.mock.Stats().Items; n != 0 {
		t.Errorf("%d items bought", n)
	}
}
