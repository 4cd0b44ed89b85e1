// Llmbatch runs a file of prompts against an LLM API, to the end.
package main

import (
	"os"
	"runtime/debug"

	"llmbatch/runner/command"
)

func main() {
	// A small heap is collected a thousand times a minute at full speed, which
	// takes a tenth of the CPU. Twice the room costs 3 MB.
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(200)
	}
	os.Exit(command.Main(os.Args, os.Stdin, os.Stdout, os.Stderr))
}
