package command

import (
	"os"
	"os/signal"
	"syscall"
)

// signals are what a long command listens to.
type signals struct {
	stop   <-chan os.Signal // INT, TERM, and HUP unless it is ignored, as under nohup
	status <-chan os.Signal // USR1: print how it stands
	// release gives the signals back to the system.
	release func()
}

// catchSignals begins to listen. A closed pipe becomes an error of the write
// instead of the end of the process.
func catchSignals() signals {
	stop := make(chan os.Signal, 4)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(stop, syscall.SIGHUP)
	}
	status := make(chan os.Signal, 1)
	signal.Notify(status, syscall.SIGUSR1)
	pipe := make(chan os.Signal, 1)
	signal.Notify(pipe, syscall.SIGPIPE)
	return signals{stop: stop, status: status, release: func() {
		signal.Stop(stop)
		signal.Stop(status)
		signal.Stop(pipe)
	}}
}

// signalCode is the exit code after a signal.
func signalCode(s os.Signal) int {
	switch s {
	case syscall.SIGTERM:
		return exitTerminated
	case syscall.SIGHUP:
		return exitHangup
	default:
		return exitInterrupted
	}
}
