// Llmbatch runs a file of prompts against an LLM API, to the end.
package main

import (
	"os"
	"runtime"
	"runtime/debug"
	"runtime/metrics"

	"llmbatch/runner/command"
)

func main() {
	if os.Getenv("GOGC") == "" {
		roomyHeap()
	}
	os.Exit(command.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// roomyHeap lets the heap grow by 8 MB, or by half of what is live where that
// is more, before it is collected, instead of by as much as is live. That is a few
// megabytes in a plain run, whose goroutines would have their stacks shrunk
// hundreds of times a minute, and tens where a million rows are indexed. It looks
// again after each collection.
func roomyHeap() {
	const room, least, most = 8 << 20, 50, 200
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	percent := most
	if n := live[0].Value.Uint64(); n > 0 {
		percent = max(least, min(most, int(room*100/n)))
	}
	debug.SetGCPercent(percent)
	runtime.AddCleanup(new([32]byte), func(struct{}) { roomyHeap() }, struct{}{})
}
