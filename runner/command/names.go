package command

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"llmbatch/output"
)

// outputName is where the results of prompts go: --out, or a name beside the
// input: prompts.jsonl → prompts.results.jsonl, prompts.mock.jsonl for
// --provider mock, prompts.3-of-16.results.jsonl for a shard. "-" means
// standard output.
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
	for _, ends := range [][]string{{".gz", ".zst"}, {".jsonl", ".ndjson", ".json", ".csv", ".txt"}} {
		if ext := filepath.Ext(name); slices.Contains(ends, strings.ToLower(ext)) && ext != name {
			name = strings.TrimSuffix(name, ext)
		}
	}
	if s.n > 1 {
		name += fmt.Sprintf(".%d-of-%d", s.i, s.n)
	}
	if mock {
		return dir + name + ".mock.jsonl"
	}
	return dir + name + ".results.jsonl"
}
