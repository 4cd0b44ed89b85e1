package input

import (
	"context"
	"errors"
	"io"
	"iter"
	"os"
)

type packing int

const plain packing = 0

func packingOf(r io.ReaderAt, ext string) (packing, error) { return plain, nil }

type renderer struct{}

func newRenderer(o Options) (*renderer, error) { return &renderer{}, nil }

type registry struct{}

var _ *os.File

// Items yields every item.
func (f *File) Items() iter.Seq2[*Item, error] {
	return func(yield func(*Item, error) bool) { yield(nil, errors.ErrUnsupported) }
}

// Reload reads the item's line again.
func (f *File) Reload(it *Item) error { return errors.ErrUnsupported }

// Reject makes it a bad line: sets Bad and puts it under its content id. For inputs with LetThrough or a pipe.
func (f *File) Reject(it *Item, e *LineError) {}

// Forget drops Prompt, System, Params, Body.
func (it *Item) Forget() {}

// CheckFuncs are called by Check.
type CheckFuncs struct {
	Prepare func(*Item) (uint64, error)
	Each    func(*Item, uint64) error
}

// Check reads the whole file.
func (f *File) Check(ctx context.Context, c CheckFuncs) error { return errors.ErrUnsupported }
