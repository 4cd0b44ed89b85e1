package runner

import (
	"sync"

	"llmbatch/pacing"
	"llmbatch/runner/provider"
)

// money is the run's part in the cap on money: how many reservations there are, and
// who waits for one to be settled.
type money struct {
	spend *pacing.Spend                    // nil: no cap
	price func(model string) (Price, bool) // nil: no prices

	mu      sync.Mutex
	held    int
	settled chan struct{} // closed at the next settling
}

// unknownOutput is reserved where neither max_tokens nor an answer tells.
const unknownOutput = 4096

// reserve sets aside what the item's next request may cost. When that would pass
// the cap it returns false and a channel that is closed when a reservation is
// settled; with none left to settle it stops the run.
func (r *Runner) reserve(i *item) (ok bool, settled <-chan struct{}) {
	m := &r.money
	if m.spend == nil || m.price == nil || i.reserved != nil {
		return true, nil
	}
	p, _ := m.price(i.call.Model)
	output := float64(i.call.MaxTokens)
	if output == 0 {
		output = float64(2 * i.lane.mostOutput.Load())
	}
	if output == 0 {
		output = unknownOutput
	}
	size := len(i.call.Body)
	if size == 0 {
		size = i.line.Size
	}
	estimate := (float64(size)*p.Input + output*p.Output) / 1e6
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.spend.Reserve(estimate) {
		i.reserved = &estimate
		m.held++
		return true, nil
	}
	if m.held == 0 {
		r.ending.halt(stop{reason: CostCap, message: "the next request might cost more than --max-cost leaves", hint: "raise --max-cost and run the same command again to continue"})
	}
	return false, m.settled
}

// refused says that the API answered with an error of its own, which nobody bills.
func (x *exchange) refused() bool { return x.status > 0 && x.status/100 != 2 }

// settle gives a reservation back for what the request cost; known is false
// where it may have been billed and nobody said how much.
func (r *Runner) settle(i *item, u provider.Usage, known bool) {
	if i.reserved == nil { // a reservation of nothing counts as one too: somebody may wait for it
		return
	}
	m := &r.money
	p, _ := m.price(i.call.Model)
	m.spend.Settle(*i.reserved, p.Of(u), known)
	i.reserved = nil
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held--
	close(m.settled)
	m.settled = make(chan struct{})
}

func (r *Runner) settleNothing(i *item) { r.settle(i, provider.Usage{}, true) }

// awaitMoney waits until a reservation was settled; false means that the run stopped.
func (r *Runner) awaitMoney(settled <-chan struct{}) bool {
	select {
	case <-settled:
		return true
	case <-r.ending.intake.Done():
		return false
	}
}
