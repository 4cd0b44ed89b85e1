package command

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"llmbatch/output"
)

// shard is one of n parts of an input: the items whose index % n == i. The zero
// value is the whole.
type shard struct{ i, n int }

// has says whether the item with this index belongs to the shard.
func (s shard) has(index int) bool { return s.n <= 1 || index%s.n == s.i }

// parseShard reads "i/n", or "auto" and "auto/n": the part that a Slurm array
// task or the pod of an indexed Kubernetes Job has. Kubernetes tells a pod its
// index but not how many there are: n comes from the flag or JOB_COMPLETIONS.
func parseShard(text string, getenv func(string) string) (shard, error) {
	if text == "" {
		return shard{}, nil
	}
	first, of, has := strings.Cut(text, "/")
	if first == "auto" {
		return autoShard(of, getenv)
	}
	i, errI := strconv.Atoi(first)
	n, errN := strconv.Atoi(of)
	if !has || errI != nil || errN != nil || n < 1 || i < 0 || i >= n {
		return shard{}, usagef("--shard %q: want i/n with 0 ≤ i < n, or auto", text).hint("the first of 16 parts is 0/16, the last 15/16")
	}
	return shard{i, n}, nil
}

func autoShard(of string, getenv func(string) string) (shard, error) {
	number := func(name string, other int) int {
		v, err := strconv.Atoi(getenv(name))
		if err != nil {
			return other
		}
		return v
	}
	i, n := -1, 0
	switch {
	case getenv("SLURM_ARRAY_TASK_ID") != "":
		step := max(1, number("SLURM_ARRAY_TASK_STEP", 1))
		i = (number("SLURM_ARRAY_TASK_ID", -1) - number("SLURM_ARRAY_TASK_MIN", 0)) / step
		n = number("SLURM_ARRAY_TASK_COUNT", 0)
		if last := number("SLURM_ARRAY_TASK_MAX", -1); last >= 0 && n > 0 && (last-number("SLURM_ARRAY_TASK_MIN", 0))/step+1 != n {
			return shard{}, usagef("--shard auto: the array has gaps, so its tasks' parts can't be told").
				hint("name the part: --shard $SLURM_ARRAY_TASK_ID/16, with the n of the first run")
		}
	case getenv("JOB_COMPLETION_INDEX") != "":
		i = number("JOB_COMPLETION_INDEX", -1)
		n = number("JOB_COMPLETIONS", 0)
	default:
		return shard{}, usagef("--shard auto: neither SLURM_ARRAY_TASK_ID nor JOB_COMPLETION_INDEX is set").hint("or name the part: --shard 0/16")
	}
	if of != "" {
		n, _ = strconv.Atoi(of)
	}
	if n < 1 {
		return shard{}, usagef("--shard auto: how many parts there are is not known").hint("say it: --shard auto/16, or set JOB_COMPLETIONS")
	}
	if i < 0 || i >= n {
		return shard{}, usagef("--shard auto: this is part %d of %d parts, counted from 0", i, n).hint("arrays must be without gaps, such as 0-15")
	}
	return shard{i, n}, nil
}

// readIDs reads a file with one id a line, plain or as a JSON string, into the
// keys that items are compared by. No file: nil, all items.
func readIDs(path string) (map[string]bool, error) {
	if path == "" {
		return nil, nil
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, usagef("--only-ids: %w", err)
	}
	defer f.Close()
	ids := map[string]bool{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		id := strings.TrimSpace(strings.TrimPrefix(lines.Text(), "\ufeff"))
		if text := ""; json.Unmarshal([]byte(id), &text) == nil {
			id = text
		}
		if id != "" {
			ids[id] = true
		}
	}
	if err := lines.Err(); err != nil {
		return nil, usagef("--only-ids %s: %w", path, err)
	}
	if len(ids) == 0 {
		return nil, usagef("--only-ids: %s holds no id", path)
	}
	return ids, nil
}

// outputName is where the results of prompts go: --out, or a name beside the
// input: prompts.jsonl → prompts.results.jsonl, prompts.mock.jsonl for
// --provider mock, prompts.3-of-16.results.jsonl for a shard. Another ending stays
// (reviews.csv → reviews.csv.results.jsonl), so that reviews.csv and reviews.jsonl
// have a file each. "-" means standard output.
func outputName(o *options, prompts string, s shard) (string, error) {
	out := o.out
	switch {
	case out == "-":
		return out, nil
	case out == "" && prompts == "-":
		return "", usagef("standard input has no name to call the results after").hint("add -o FILE, or -o - for standard output")
	case out == "":
		out = defaultName(prompts, s, o.provider == "mock")
	}
	if err := output.CheckName(out); err != nil {
		return "", usagef("%w", err)
	}
	if prompts != "-" && output.SameFile(prompts, out) {
		return "", usagef("%s is both the input and the output", out).hint("choose another name with -o FILE")
	}
	return out, nil
}

func defaultName(prompts string, s shard, mock bool) string {
	dir, name := filepath.Split(prompts)
	bare := name
	for _, packed := range []string{".gz", ".zst"} {
		if ext := filepath.Ext(bare); strings.EqualFold(ext, packed) && ext != bare {
			bare = strings.TrimSuffix(bare, ext)
		}
	}
	if ext := filepath.Ext(bare); strings.EqualFold(ext, ".jsonl") && ext != bare {
		name = strings.TrimSuffix(bare, ext)
	} else {
		name = bare
	}
	if s.n > 1 {
		name += fmt.Sprintf(".%d-of-%d", s.i, s.n)
	}
	if mock {
		return dir + name + ".mock.jsonl"
	}
	return dir + name + ".results.jsonl"
}
