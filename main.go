// Llmbatch runs a file of prompts against an LLM API, to the end.
package main

import (
	"os"
	"runtime"
	"runtime/debug"

	"llmbatch/runner/command"
)

func main() {
	command.DropStartup()
	if os.Getenv("GOGC") == "" {
		roomyHeap(mostGrowth)
	}
	os.Exit(command.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
}

// The heap grows by this much of what is live before it is collected, in percent.
const leastGrowth, mostGrowth = 12, 300

// roomyHeap lets the heap grow by 12 MB, or by an eighth of what is live where that
// is more, before it is collected, instead of by as much as is live. That is a few
// megabytes in a plain run, whose goroutines would have their stacks shrunk
// hundreds of times a minute, and tens where a million rows are indexed: tables
// and texts without pointers, which cost a collection nothing. It looks again after
// each collection; percent is what to begin with.
func roomyHeap(percent int) {
	debug.SetGCPercent(percent)
	runtime.AddCleanup(new([32]byte), func(percent int) {
		const room = 12 << 20
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		live := int(m.NextGC) * 100 / (100 + percent) // and a part of the stacks
		roomyHeap(max(leastGrowth, min(mostGrowth, room*100/max(1, live))))
	}, percent)
}
