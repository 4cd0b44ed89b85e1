package command

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime/pprof"
	"sync"
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
// instead of the end of the process, and stays that: the last message may meet
// the same closed pipe, and the exit code has to get out.
func catchSignals() signals {
	stop := make(chan os.Signal, 4)
	signal.Notify(stop, syscall.SIGINT, syscall.SIGTERM)
	if !signal.Ignored(syscall.SIGHUP) {
		signal.Notify(stop, syscall.SIGHUP)
	}
	status := make(chan os.Signal, 1)
	signal.Notify(status, syscall.SIGUSR1)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	return signals{stop: stop, status: status, release: func() {
		signal.Stop(stop)
		signal.Stop(status)
	}}
}

// dumpOnQuit has SIGQUIT (ctrl-\\) show what each goroutine does and end the process
// as an internal error, until the returned function is called.
func dumpOnQuit(stderr io.Writer) (release func()) {
	quit := make(chan os.Signal, 1)
	signal.Notify(quit, syscall.SIGQUIT)
	over := make(chan struct{})
	go func() {
		select {
		case <-quit:
			_ = pprof.Lookup("goroutine").WriteTo(stderr, 2)
			os.Exit(exitInternal)
		case <-over:
		}
	}()
	return func() {
		signal.Stop(quit)
		close(over)
	}
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

// stopper turns signals into the two stages of a stop: the first lets requests
// on the wire finish, the second does not. Before there is a run, the first
// cancels what is being done.
type stopper struct {
	e      *env
	cancel context.CancelCauseFunc

	// now is closed at the second signal.
	now chan struct{}

	mu    sync.Mutex
	first os.Signal
	again bool
	run   *execution
}

// listen starts a stopper; ctx ends at a signal that comes before the run.
// The returned function ends it.
func listen(e *env) (ctx context.Context, s *stopper, end func()) {
	sig := e.signals()
	ctx, cancel := context.WithCancelCause(context.Background())
	s = &stopper{e: e, cancel: cancel, now: make(chan struct{})}
	over := make(chan struct{})
	go func() {
		for {
			select {
			case got := <-sig.stop:
				s.signal(got)
			case <-sig.status:
				s.print()
			case <-over:
				return
			}
		}
	}()
	return ctx, s, func() {
		close(over)
		sig.release()
		cancel(nil)
	}
}

// attach hands later signals to a run.
func (s *stopper) attach(x *execution) {
	s.mu.Lock()
	s.run = x
	stopped := s.first != nil
	s.mu.Unlock()
	if stopped {
		x.runner.Stop(errSignal)
	}
}

func (s *stopper) signal(got os.Signal) {
	s.mu.Lock()
	again := s.first != nil
	switch {
	case !again:
		s.first = got
	case !s.again:
		s.again = true
		close(s.now)
	}
	x := s.run
	s.mu.Unlock()
	if x == nil {
		s.cancel(errSignal)
		return
	}
	x.runner.Stop(errSignal)
	what := "stopping now: requests on the wire are cancelled"
	if n := x.status().InFlight; !again && n == 0 {
		what = "stopping"
	} else if !again {
		what = fmt.Sprintf("stopping: %s on the wire may finish, for %s at most; press ctrl-C again to stop now",
			plural(n, "request", "requests"), shortDuration(x.o.drain))
	}
	x.say(x.display.Writer(), what)
}

// signalled is the exit code of the first signal, 0 if none came.
func (s *stopper) signalled() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.first == nil {
		return 0
	}
	return signalCode(s.first)
}

func (s *stopper) print() {
	s.mu.Lock()
	x := s.run
	s.mu.Unlock()
	if x != nil {
		x.display.Print()
	}
}
