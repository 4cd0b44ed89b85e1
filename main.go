// Llmbatch runs a file of prompts against an LLM API, to the end.
package main

import (
	"os"

	"llmbatch/runner/command"
)

func main() { os.Exit(command.Main(os.Args, os.Stdin, os.Stdout, os.Stderr)) }
