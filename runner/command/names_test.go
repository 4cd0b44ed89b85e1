package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestDefaultName(t *testing.T) {
	for _, c := range []struct {
		prompts string
		shard   shard
		mock    bool
		want    string
	}{
		{"prompts.jsonl", shard{}, false, "prompts.results.jsonl"},
		{"prompts.jsonl", shard{}, true, "prompts.mock.jsonl"},
		{"prompts.jsonl", shard{3, 16}, false, "prompts.3-of-16.results.jsonl"},
		{"prompts.jsonl", shard{3, 16}, true, "prompts.3-of-16.mock.jsonl"},
		{"prompts.jsonl", shard{0, 1}, false, "prompts.results.jsonl"},
		{"a/b.c/prompts.jsonl.gz", shard{}, false, "a/b.c/prompts.results.jsonl"},
		{"prompts.JSONL.zst", shard{}, false, "prompts.results.jsonl"},
		{"prompts.csv", shard{}, false, "prompts.csv.results.jsonl"},
		{"prompts.csv.gz", shard{3, 16}, true, "prompts.csv.3-of-16.mock.jsonl"},
		{"prompts.v2.ndjson", shard{}, false, "prompts.v2.ndjson.results.jsonl"},
		{"prompts", shard{}, false, "prompts.results.jsonl"},
		{"prompts.dat", shard{}, false, "prompts.dat.results.jsonl"},
		{".jsonl", shard{}, false, ".jsonl.results.jsonl"},
		{"/p.txt", shard{}, false, "/p.txt.results.jsonl"},
	} {
		if got := defaultName(c.prompts, c.shard, c.mock); got != c.want {
			t.Errorf("%s %v %v: got %s, want %s", c.prompts, c.shard, c.mock, got, c.want)
		}
	}
}

func TestOutputName(t *testing.T) {
	in := file(t, "p.jsonl", "{}\n")
	link := filepath.Join(t.TempDir(), "link.jsonl")
	if err := os.Symlink(in, link); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ prompts, out, want string }{
		{in, "-", "-"},
		{in, "x", "x"},
		{"-", "x", "x"},
		{"-", "-", "-"},
		{"-", "", "error: standard input has no name"},
		{in, "x.gz", "error: x.gz: "},
		{in, "x.zst", "error: x.zst: "},
		{in, in, "error: " + in + " is both the input and the output"},
		{in, link, "error: " + link + " is both the input and the output"},
	} {
		got, err := outputName(&options{out: c.out}, c.prompts, shard{})
		if err != nil {
			got = "error: " + err.Error()
		}
		if !strings.HasPrefix(got, c.want) {
			t.Errorf("%s -o %s: got %q, want %q", c.prompts, c.out, got, c.want)
		}
	}
}

func TestShard(t *testing.T) {
	slurm := map[string]string{"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_COUNT": "16"}
	step := map[string]string{"SLURM_ARRAY_TASK_ID": "9", "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_STEP": "4", "SLURM_ARRAY_TASK_COUNT": "3"}
	for _, c := range []struct {
		text string
		env  map[string]string
		want shard
		err  string
	}{
		{"", nil, shard{}, ""},
		{"0/16", nil, shard{0, 16}, ""},
		{"15/16", nil, shard{15, 16}, ""},
		{"0/1", nil, shard{0, 1}, ""},
		{"16/16", nil, shard{}, "0 ≤ i < n"},
		{"-1/16", nil, shard{}, "0 ≤ i < n"},
		{"0/0", nil, shard{}, "0 ≤ i < n"},
		{"3", nil, shard{}, "0 ≤ i < n"},
		{"a/b", nil, shard{}, "0 ≤ i < n"},
		{"auto", slurm, shard{6, 16}, ""},
		{"auto", step, shard{2, 3}, ""},
		{"auto", map[string]string{"SLURM_ARRAY_TASK_ID": "7", "SLURM_ARRAY_TASK_MIN": "3", "SLURM_ARRAY_TASK_MAX": "7", "SLURM_ARRAY_TASK_COUNT": "2"}, shard{}, "has gaps"},
		{"auto", map[string]string{"SLURM_ARRAY_TASK_ID": "9", "SLURM_ARRAY_TASK_MIN": "1", "SLURM_ARRAY_TASK_MAX": "9", "SLURM_ARRAY_TASK_STEP": "4", "SLURM_ARRAY_TASK_COUNT": "3"}, shard{2, 3}, ""},
		{"auto", nil, shard{}, "neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX"},
		{"auto", map[string]string{"JOB_COMPLETION_INDEX": "3"}, shard{}, "how many parts"},
		{"auto/8", map[string]string{"JOB_COMPLETION_INDEX": "3"}, shard{3, 8}, ""},
		{"auto", map[string]string{"JOB_COMPLETION_INDEX": "3", "JOB_COMPLETIONS": "4"}, shard{3, 4}, ""},
		{"auto/2", map[string]string{"JOB_COMPLETION_INDEX": "3"}, shard{}, "part 3 of 2"},
	} {
		got, err := parseShard(c.text, func(name string) string { return c.env[name] })
		if got != c.want || !strings.Contains(errText(err), c.err) || (err != nil) != (c.err != "") {
			t.Errorf("%q %v: got %v, %v, want %v, %q", c.text, c.env, got, err, c.want, c.err)
		}
	}
	// The parts are a partition.
	for index := range 100 {
		n := 0
		for i := range 7 {
			if (shard{i, 7}).has(index) {
				n++
			}
		}
		if n != 1 {
			t.Errorf("index %d: in %d of 7 parts, want 1", index, n)
		}
	}
}

func TestReadIDs(t *testing.T) {
	got, err := readIDs(file(t, "ids", "\ufeffa\r\n\"b \\\"c\"\n\n 9007199254740993 \n"))
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"a", `b "c`, "9007199254740993"} {
		if !got[id] {
			t.Errorf("got %v, want %q in it", got, id)
		}
	}
	if len(got) != 3 {
		t.Errorf("got %d ids, want 3", len(got))
	}
	for _, path := range []string{"/does/not/exist", file(t, "none", "\n\n")} {
		if _, err := readIDs(path); err == nil {
			t.Errorf("%s: got no error, want one", path)
		}
	}
	if got, err := readIDs(""); got != nil || err != nil {
		t.Errorf("no file: got %v, %v, want all", got, err)
	}
}

func TestRunEnd(t *testing.T) {
	zone := time.FixedZone("", 2*3600)
	start := time.Date(2026, 1, 31, 22, 0, 0, 0, zone)
	now := start.Add(time.Minute)
	for _, c := range []struct {
		budget time.Duration
		until  string
		want   string // local time, "" none
		err    string
	}{
		{0, "", "", ""},
		{6 * time.Hour, "", "2026-02-01 04:00:00", ""},
		{0, "06:00", "2026-02-01 06:00:00", ""},
		{0, "23:30", "2026-01-31 23:30:00", ""},
		{0, "22:01", "2026-02-01 22:01:00", ""},
		{0, "22:01:30", "2026-01-31 22:01:30", ""},
		{6 * time.Hour, "06:00", "2026-02-01 04:00:00", ""},
		{20 * time.Hour, "06:00", "2026-02-01 06:00:00", ""},
		{0, "2026-02-03 01:02", "2026-02-03 01:02:00", ""},
		{0, "2026-02-03T01:02:03Z", "2026-02-03 03:02:03", ""},
		{0, "2026-01-31 21:00", "", "is in the past"},
		{0, "25:00", "", "not a time"},
		{0, "tomorrow", "", "not a time"},
	} {
		got, err := runEnd(&options{budget: c.budget, until: c.until}, start, now)
		text := ""
		if !got.IsZero() {
			text = got.In(zone).Format("2006-01-02 15:04:05")
		}
		if c.err != "" {
			if !strings.Contains(errText(err), c.err) {
				t.Errorf("%s: got %v, want an error with %q", c.until, err, c.err)
			}
			continue
		}
		if text != c.want || err != nil {
			t.Errorf("%v %q: got %q, %v, want %q", c.budget, c.until, text, err, c.want)
		}
	}
}

// The day on which clocks change: 06:00 is 06:00 on the clock.
func TestUntilAcrossClockChange(t *testing.T) {
	zone, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zones here")
	}
	now := time.Date(2026, 3, 28, 22, 0, 0, 0, zone)
	got, err := parseUntil("06:00", now)
	if want := time.Date(2026, 3, 29, 6, 0, 0, 0, zone); err != nil || !got.Equal(want) {
		t.Errorf("got %v, %v, want %v", got, err, want)
	}
	if got.Sub(now) != 7*time.Hour {
		t.Errorf("got %v from now, want 7h", got.Sub(now))
	}
}

func FuzzUntilAndShard(f *testing.F) {
	for _, seed := range []string{"06:00", "2026-02-03 01:02", "auto/3", "0/16", "-1/2", "", "99999999999999999999/3"} {
		f.Add(seed)
	}
	now := time.Date(2026, 1, 31, 22, 0, 0, 0, time.UTC)
	f.Fuzz(func(t *testing.T, text string) {
		if at, err := parseUntil(text, now); err == nil && !at.After(now) {
			t.Errorf("%q: got %v, want a time after %v", text, at, now)
		}
		s, err := parseShard(text, func(string) string { return "1" })
		if err == nil && text != "" && (s.i < 0 || s.i >= s.n) {
			t.Errorf("%q: got %v, want 0 ≤ i < n", text, s)
		}
	})
}
