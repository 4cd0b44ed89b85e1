package runner

import (
	"sync"

	"llmbatch/runner/provider"
)

// money is the run's part in the cap on money: who waits for a reservation to be
// settled, and how many there are.
type money struct {
	mu      sync.Mutex
	held    int
	settled chan struct{} // closed at the next settling
}

// unknownOutput is reserved where neither max_tokens nor an answer tells.
const unknownOutput = 4096

// reserve sets aside what the task's next request may cost. When that would pass
// the cap it returns false and a channel that is closed when a reservation is
// settled; with none left to settle it stops the run.
func (r *Runner) reserve(t *task) (ok bool, settled <-chan struct{}) {
	if r.c.Spend == nil || r.c.Price == nil {
		return true, nil
	}
	p, _ := r.c.Price(t.call.Model)
	output := float64(t.call.MaxTokens)
	if output == 0 {
		output = float64(2 * t.lane.mostOutput.Load())
	}
	if output == 0 {
		output = unknownOutput
	}
	size := len(t.call.Body)
	if size == 0 {
		size = t.item.Size
	}
	estimate := (float64(size)*p.Input + output*p.Output) / 1e6
	m := &r.money
	m.mu.Lock()
	defer m.mu.Unlock()
	if r.c.Spend.Reserve(estimate) {
		t.reserved = estimate
		m.held++
		return true, nil
	}
	if m.held == 0 {
		r.halt(stop{reason: CostCap, message: "the next request might cost more than --max-cost leaves", hint: "raise --max-cost and run the same command again to continue"})
	}
	return false, m.settled
}

// refused says that the API answered with an error of its own, which nobody bills.
func (x *exchange) refused() bool { return x.status > 0 && x.status/100 != 2 }

// settle gives a reservation back for what the request cost; known is false
// where it may have been billed and nobody said how much.
func (r *Runner) settle(t *task, u provider.Usage, known bool) {
	if t.reserved == 0 {
		return
	}
	p, _ := r.c.Price(t.call.Model)
	r.c.Spend.Settle(t.reserved, p.Of(u), known)
	t.reserved = 0
	m := &r.money
	m.mu.Lock()
	m.held--
	close(m.settled)
	m.settled = make(chan struct{})
	m.mu.Unlock()
	r.wake()
}

func (r *Runner) settleNothing(t *task) { r.settle(t, provider.Usage{}, true) }

// awaitMoney waits until a reservation was settled; false means that the run stopped.
func (r *Runner) awaitMoney(settled <-chan struct{}) bool {
	select {
	case <-settled:
		return true
	case <-r.intake.Done():
		return false
	}
}
