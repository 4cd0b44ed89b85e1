package command

import (
	"context"
	"os"
	"sync"

	"llmbatch/runner"
)

// workerSignals stops a worker in two stages, as stopper does a run: the first
// signal lets requests on the wire finish, the second does not.
type workerSignals struct {
	attached <-chan *runner.Runner
	cancel   context.CancelCauseFunc

	mu    sync.Mutex
	first os.Signal
}

func (w *workerSignals) listen(sig signals, over <-chan struct{}) {
	var r *runner.Runner
	for {
		select {
		case got := <-sig.stop:
			w.mu.Lock()
			again := w.first != nil
			if !again {
				w.first = got
			}
			w.mu.Unlock()
			w.cancel(errSignal)
			if again && r != nil {
				r.Stop(errSignal)
			}
		case r = <-w.attached:
		case <-sig.status:
		case <-over:
			return
		}
	}
}

// code is the exit code of the first signal, 0 if none came.
func (w *workerSignals) code() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.first == nil {
		return 0
	}
	return signalCode(w.first)
}
