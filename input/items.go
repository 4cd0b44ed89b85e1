package input

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
)

func (f *File) parser() *parser { return &parser{f: f} }

// Items yields every item in order, each fresh and the receiver's own. A bad line
// ends it with a *LineError, unless it is let through; any other error is of the
// reading. It may be called again, and after Check, but for a pipe; two
// iterations at a time are independent.
func (f *File) Items() iter.Seq2[*Item, error] {
	return func(yield func(*Item, error) bool) {
		src, done, err := f.source(f.from)
		if err != nil {
			yield(nil, f.readError(err))
			return
		}
		defer done()
		ids := newIDs(f, f.checked.Load())
		ids.index = f.from.index
		f.ids.Store(ids)
		p, c := f.parser(), &chunk{}
		for {
			if err := src.next(context.Background(), c); err != nil {
				if err != io.EOF {
					yield(nil, f.readError(err))
				}
				return
			}
			for r := range c.each {
				it := &Item{}
				bad := p.parse(r, it)
				if bad = ids.admit(it, bad); bad != nil {
					yield(nil, cmp.Or(f.explain([]*LineError{bad}), error(bad)))
					return
				}
				it.detach()
				if !yield(it, nil) {
					return
				}
			}
			c.release()
		}
	}
}

// Begin makes Items begin at it, an item that Check has seen: those before it
// need no work. It reports false, and changes nothing, where that can't be done:
// in a pipe, an archive, a CSV file, where bad lines are let through, or where the
// id of a line depends on those before it. Not to be called beside Items.
func (f *File) Begin(it *Item) bool {
	if !f.checked.Load() || f.unnamed.Load() || f.csv || f.kind != plain || f.pipe != nil || f.o.LetThrough {
		return false
	}
	f.from = place{index: it.Index, line: it.Line - 1, off: it.Offset}
	return true
}

func (f *File) readError(err error) error {
	if _, ok := errors.AsType[*LineError](err); ok {
		return err
	}
	if err == errTooLong {
		bad := badRow(err, f.o.MaxLine)
		bad.File = f.name
		return bad
	}
	return fmt.Errorf("reading %s: %w", f.name, err)
}

// detach copies what the item needs out of its line: what stays with it in one
// piece, what Forget drops in pieces of their own.
func (it *Item) detach() {
	small := make([]byte, 0, len(it.ID)+len(it.Metadata)+len(it.MaxTokens)+len(it.Temperature)+len(it.Input))
	for _, v := range []*json.RawMessage{&it.ID, &it.Metadata, &it.MaxTokens, &it.Temperature, &it.Input} {
		if *v != nil {
			from := len(small)
			small = append(small, *v...)
			*v = small[from:len(small):len(small)]
		}
	}
	it.Body = bytes.Clone(it.Body)
	it.Params = bytes.Clone(it.Params)
}

// Reject makes a bad line of an item that Items yielded, for a reason found
// later: it sets Bad, puts the item under its content id and drops the rest. err
// may be a *LineError, as for CheckFuncs.Prepare. It is for inputs whose bad
// lines are let through, and may be called concurrently.
func (f *File) Reject(it *Item, err error) {
	f.ids.Load().reject(it, f.located(it, err))
}

// located makes a line's error of err.
func (f *File) located(it *Item, err error) *LineError {
	bad := LineError{Msg: err.Error()}
	if given, ok := errors.AsType[*LineError](err); ok {
		bad = *given
	}
	switch {
	case it.Format == Prompt || it.scattered:
		bad.Col = it.at + 1
	default:
		bad.Col = it.BodyOffset + max(bad.Col, 1)
	}
	bad.File, bad.Line = f.name, it.Line
	return &bad
}

// Forget drops Prompt, System, Params and Body, so that a waiting item takes
// little memory. Ids, Metadata, Input, Files, Bounds and the position stay.
func (it *Item) Forget() {
	it.Prompt, it.System, it.Params, it.Body = "", "", nil, nil
}

// Reload reads the item's line again and fills in what Forget dropped. Another line
// in its place, known by its id or else by its content, is an error; what else has
// changed is for the caller, who knows the request's hash. It may be called concurrently.
func (f *File) Reload(it *Item) error {
	if !f.CanReload() {
		return fmt.Errorf("%s cannot be read at a position", f.name)
	}
	b := make([]byte, it.Size)
	if _, err := f.file.ReadAt(b, it.Offset); err != nil {
		return fmt.Errorf("reading line %d of %s again: %w", it.Line, f.name, err)
	}
	r := record{line: it.Line, off: it.Offset, size: it.Size, b: b}
	var again Item
	var err error
	if f.csv {
		r.fields, err = newCSVReader(bytes.NewReader(b), f.comma.Load()).Read()
	}
	p := f.parser()
	if err == nil {
		if from, to := trim(b); from == to {
			err = io.ErrUnexpectedEOF
		} else if bad := p.parse(r, &again); bad != nil {
			err = bad
		}
	}
	if err != nil || again.has != it.has || it.has && again.Key != it.Key || !it.has && again.sum != it.sum {
		return fmt.Errorf("line %d of %s has changed since the run began", it.Line, f.name)
	}
	it.Prompt, it.System, it.Params, it.Body = again.Prompt, again.System, again.Params, again.Body
	return nil
}
