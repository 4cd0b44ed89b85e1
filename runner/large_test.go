package runner

import (
	"io"
	"iter"
	"sync/atomic"
	"testing"

	"llmbatch/input"
	"llmbatch/runner/provider"
)

// Answers larger than most share what is left; what one has taken comes back.
func TestLargeAnswersShareTheMemory(t *testing.T) {
	var left atomic.Int64
	left.Store(1 << 20)
	endless := func() *bounded { return &bounded{r: zeros{}, left: &left} }
	a, b := endless(), endless()
	if n, err := io.CopyN(io.Discard, a, smallAnswer+1<<20); err != nil {
		t.Errorf("got %v after %d bytes, want all that is left", err, n)
	}
	if n, err := io.Copy(io.Discard, b); err != provider.ErrBodyTooLarge || n < smallAnswer/2 {
		t.Errorf("got %v after %d bytes, want a small answer's and then too large", err, n)
	}
	a.release()
	b.release()
	if left.Load() != 1<<20 {
		t.Errorf("%d bytes are left, want all", left.Load())
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { return len(p), nil }

func itemsOf(list ...*input.Item) iter.Seq2[*input.Item, error] {
	return func(yield func(*input.Item, error) bool) {
		for _, it := range list {
			if !yield(it, nil) {
				return
			}
		}
	}
}
