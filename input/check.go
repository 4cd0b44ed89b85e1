package input

import (
	"context"
	"errors"
	"io"
	"runtime"
	"sync"
)

// CheckFuncs are what Check does with the items beyond reading them. Either may
// be nil.
type CheckFuncs struct {
	// Prepare is called for each good item, concurrently and in any order, and
	// returns a hash or what is wrong with the line. Of a *LineError the Col,
	// from 1, counts in the item's Body; File and Line are filled in. The item has no
	// Index yet, and no ID if its line has none. Neither it nor its bytes may be
	// kept; its strings may.
	Prepare func(*Item) (uint64, error)
	// Each is called for each item in order, from one goroutine, with the hash (0
	// for a bad one). An error from it ends the check. Neither the item nor its
	// bytes may be kept.
	Each func(*Item, uint64) error
}

const firstErrors = 10

// Check reads the whole file, before anything is sent. It returns an *Errors if
// there are bad lines (where they are let through, Each gets them with Bad set), or
// else the error that ended it: of the reading, of Each, or ctx's.
func (f *File) Check(ctx context.Context, c CheckFuncs) error {
	if f.pipe != nil {
		return errors.New("a pipe cannot be checked")
	}
	src, done, err := f.source(place{})
	if err != nil {
		return f.wholeError(err)
	}
	defer done()
	ctx, cancel := context.WithCancel(ctx)
	k := &check{f: f, funcs: c, ids: newIDs(f, false)}
	err = k.run(ctx, cancel, src)
	if err != nil {
		return f.wholeError(err)
	}
	if k.found.Count > 0 {
		if err := f.explain(k.found.First); err != nil {
			return err
		}
		return &k.found
	}
	f.checked.Store(!f.o.LetThrough)
	return nil
}

// wholeError is the error of a file that cannot be read on.
func (f *File) wholeError(err error) error {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if each, ok := errors.AsType[*eachError](err); ok {
		return each.err
	}
	err = f.readError(err)
	if bad, ok := errors.AsType[*LineError](err); ok {
		return &Errors{Count: 1, First: []*LineError{bad}}
	}
	return err
}

// eachError tells an error of the caller's from one of the reading.
type eachError struct{ err error }

func (e *eachError) Error() string { return e.err.Error() }

// check is one run of Check: a reader cuts the file into chunks, workers parse
// and prepare them, and the caller's goroutine takes them in order.
type check struct {
	f     *File
	funcs CheckFuncs
	ids   *ids
	found Errors

	readErr error // set before the ordered channel is closed
}

func (k *check) run(ctx context.Context, cancel func(), src source) error {
	workers := runtime.GOMAXPROCS(0)
	chunks := 2*workers + 2
	free, jobs, ordered := make(chan *chunk, chunks), make(chan *chunk, chunks), make(chan *chunk, chunks)
	for range chunks {
		free <- &chunk{ready: make(chan struct{}, 1)}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(jobs)
		defer close(ordered)
		k.readErr = read(ctx, src, free, func(c *chunk) { jobs <- c; ordered <- c })
	})
	for range workers {
		wg.Go(func() {
			p := k.f.parser()
			for c := range jobs {
				k.work(ctx, p, c)
				c.ready <- struct{}{}
			}
		})
	}
	var err error
	for c := range ordered {
		<-c.ready
		if err == nil {
			if err = k.take(c); err != nil {
				cancel()
			}
		}
		c.release()
		free <- c
	}
	cancel()
	wg.Wait()
	if err == nil && k.readErr != io.EOF {
		err = k.readErr
	}
	return err
}

func read(ctx context.Context, src source, free <-chan *chunk, send func(*chunk)) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case c := <-free:
			if err := src.next(ctx, c); err != nil {
				return err
			}
			send(c)
		}
	}
}

// work makes items of the chunk's lines.
func (k *check) work(ctx context.Context, p *parser, c *chunk) {
	c.items, c.hashes, c.bad = c.items[:0], c.hashes[:0], c.bad[:0]
	if ctx.Err() != nil {
		return
	}
	for r := range c.each {
		c.items = append(c.items, Item{})
		it := &c.items[len(c.items)-1]
		bad := p.parse(r, it)
		var hash uint64
		if bad == nil && k.funcs.Prepare != nil {
			var err error
			if hash, err = k.funcs.Prepare(it); err != nil {
				it.refused = k.f.located(it, err)
			}
		}
		c.hashes, c.bad = append(c.hashes, hash), append(c.bad, bad)
	}
}

// take numbers the chunk's items, looks for ids that repeat, and hands them on.
func (k *check) take(c *chunk) error {
	for i := range c.items {
		it, hash := &c.items[i], c.hashes[i]
		bad := k.ids.admit(it, c.bad[i])
		if bad == nil && it.Bad == nil && it.refused != nil {
			if bad = it.refused; k.f.o.LetThrough {
				k.ids.reject(it, bad)
				bad = nil
			}
		}
		if bad != nil {
			if k.found.Count++; len(k.found.First) < firstErrors {
				k.found.First = append(k.found.First, bad)
			}
			continue
		}
		if it.Bad != nil {
			hash = 0
		}
		if k.funcs.Each != nil {
			if err := k.funcs.Each(it, hash); err != nil {
				return &eachError{err}
			}
		}
	}
	return nil
}
