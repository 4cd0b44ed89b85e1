package command

import (
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"llmbatch/output/plain"
	"llmbatch/runner/provider"
)

// fills counts what lines lacked and the flags gave them. Safe for concurrent use.
type fills struct {
	flags [5]atomic.Int64 // in the order of filling
	long  atomic.Int64    // calls that may answer longer than a request without a stream lasts
}

// filling are the flags that fill lines, with their bits.
var filling = [...]struct {
	flag string
	bit  provider.Filled
}{
	{"model", provider.FilledModel}, {"max-tokens", provider.FilledMaxTokens}, {"temperature", provider.FilledTemperature},
	{"system", provider.FilledSystem}, {"params", provider.FilledParams},
}

// longAnswer is an output that may take longer than ten minutes to write.
const longAnswer = 64_000

// note counts a call, of an item that the run is about.
func (f *fills) note(call *provider.Call, wanted bool) {
	if !wanted {
		return
	}
	for i, of := range filling {
		if call.Filled&of.bit != 0 {
			f.flags[i].Add(1)
		}
	}
	if call.MaxTokens >= longAnswer && !call.Stream {
		f.long.Add(1)
	}
}

// fillNotes say how many lines each flag filled, and warn of one that filled none.
func (s *session) fillNotes() (said string, warnings []string) {
	if s.in.Pipe() || s.found.items == 0 {
		return "", nil
	}
	var parts []string
	for i, of := range filling {
		n := s.fills.flags[i].Load()
		_, set := s.o.set[of.flag]
		switch {
		case n > 0 && !set: // the mock's own default: nobody asked for it
		case n > 0 && len(parts) == 0:
			parts = append(parts, fmt.Sprintf("--%s in %s", of.flag, plain.Plural(n, "line")))
		case n > 0:
			parts = append(parts, fmt.Sprintf("--%s in %s", of.flag, plain.Count(n)))
		case set && !(of.flag == "system" && s.o.rendered(s.o.system)) && !(of.flag == "params" && s.o.rendered(s.o.params)):
			warnings = append(warnings, fmt.Sprintf("--%s fills no line: each has its own, or its endpoint has no such member", of.flag))
		}
	}
	if n := s.fills.long.Load(); n > 0 && !s.o.stream && s.o.attemptTimeout > 0 && s.o.attemptTimeout <= 10*time.Minute {
		warnings = append(warnings, fmt.Sprintf("%s may ask for %s tokens or more, which can take longer than --attempt-timeout %s: add --stream",
			plain.Plural(n, "line"), plain.Count(int64(longAnswer)), shortDuration(s.o.attemptTimeout)))
	}
	return strings.Join(parts, ", "), warnings
}
