package command

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"llmbatch/output/plain"
	"llmbatch/runner"
	"llmbatch/runner/provider"
)

// keyCommandTime bounds one run of the command of --api-key-command.
const keyCommandTime = time.Minute

// keySource makes keys with the command of --api-key-command; nil without one.
func (o *options) keySource() *runner.KeySource {
	if o.apiKeyCommand == "" {
		return nil
	}
	return &runner.KeySource{TTL: o.apiKeyTTL, Make: func(ctx context.Context) (string, error) {
		return keyOf(ctx, o.apiKeyCommand)
	}}
}

// keyOf runs a command with the shell and takes what it prints for a key. An error
// has its exit code and the first line of its standard error, never its output.
func keyOf(ctx context.Context, command string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, keyCommandTime)
	defer cancel()
	c := exec.CommandContext(ctx, "sh", "-c", command)
	var printed, said bytes.Buffer
	c.Stdout, c.Stderr = &limited{w: &printed, left: longestKeyFile}, &limited{w: &said, left: longestKeyFile}
	c.WaitDelay = time.Second // a child may keep the pipes open
	err := c.Run()
	first, _, _ := strings.Cut(strings.TrimSpace(said.String()), "\n")
	if first = plain.Clip(plain.Line(first), 200); first != "" {
		first = ": " + first
	}
	exit, failed := errors.AsType[*exec.ExitError](err)
	switch {
	case ctx.Err() != nil:
		return "", fmt.Errorf("the command of --api-key-command did not end within %v%s", keyCommandTime, first)
	case failed:
		return "", fmt.Errorf("the command of --api-key-command failed with exit code %d%s", exit.ExitCode(), first)
	case err != nil && !errors.Is(err, exec.ErrWaitDelay):
		return "", fmt.Errorf("the command of --api-key-command could not run: %w", err)
	}
	return provider.CheckKey(printed.String(), "the command of --api-key-command")
}

// limited passes on so many bytes and drops the rest.
type limited struct {
	w    io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	n := min(len(p), l.left)
	l.left -= n
	if _, err := l.w.Write(p[:n]); err != nil {
		return 0, err
	}
	return len(p), nil
}
