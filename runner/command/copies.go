package command

import (
	"cmp"
	"fmt"
	"iter"
	"slices"
	"sync"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/runner"
	"llmbatch/runner/provider"
)

// copies answers items without a request: from the results files of --reuse, and
// with --dedupe from another item of the run that has the same request. A nil one
// answers none. Safe for concurrent use.
type copies struct {
	x     *execution
	reuse *output.Answers // of the files of --reuse

	mu   sync.Mutex
	rows map[output.Status]int
	// groups are the requests that several items of the input have.
	groups map[uint64]*group
}

// group is the items with one request: the first is sent, the others wait for its row.
type group struct {
	row     *output.Result // nil: not there yet
	waiting []*input.Item
}

func newCopies(x *execution) (*copies, error) {
	if len(x.o.reuse) == 0 && !x.o.dedupe {
		return nil, nil
	}
	if x.o.dedupe && x.in.Pipe() {
		return nil, usagef("--dedupe needs a file of prompts that can be read twice").hint("write standard input to a file first")
	}
	last := slices.Clone(x.o.reuse)
	slices.Reverse(last) // of several files with an answer, that of the last named is taken
	var broken error
	answers, err := output.OpenAnswers(last, func(err error) { broken = cmp.Or(broken, err) })
	if err == nil && broken != nil {
		answers.Close()
		err = broken
	}
	if err != nil {
		return nil, outputError(fmt.Errorf("--reuse: %w", err))
	}
	return &copies{x: x, reuse: answers, rows: map[output.Status]int{}, groups: map[uint64]*group{}}, nil
}

func (c *copies) close() {
	if c != nil {
		c.reuse.Close()
	}
}

// toSend are the items that are not answered here.
func (c *copies) toSend(items iter.Seq2[*input.Item, error]) iter.Seq2[*input.Item, error] {
	return func(yield func(*input.Item, error) bool) {
		for it, err := range items {
			if err == nil && it.Bad == nil && c.answers(it) {
				continue
			}
			if !yield(it, err) {
				return
			}
		}
	}
}

// answers writes the row of an item whose request has been answered, or keeps the
// item until it is; false if it has to be sent, or needs nothing.
func (c *copies) answers(it *input.Item) bool {
	if row, ok := c.x.old(it.Key); ok && c.x.isDone(row) {
		return false
	}
	hash := c.hash(it)
	at := output.HashOf(hash)
	if hash == "" {
		return false
	}
	if r, file, err := c.reuse.Find(hash); err == nil && r != nil {
		r.ReusedFrom, r.CopiedFrom = file, ""
		c.write(it, r)
		return true
	}
	if !c.x.found.requests[at] {
		return false
	}
	if offset, ok := c.x.found.answers[at]; ok {
		if r, err := c.x.file.Row(offset); err == nil && r.RequestHash == hash {
			r.CopiedFrom, r.ReusedFrom = r.Key, ""
			c.write(it, r)
			return true
		}
	}
	c.mu.Lock()
	g := c.groups[at]
	if g == nil {
		c.groups[at] = &group{}
		c.mu.Unlock()
		return false
	}
	row := g.row
	if row == nil {
		it.Forget()
		g.waiting = append(g.waiting, it)
	}
	c.mu.Unlock()
	if row != nil {
		c.write(it, row)
	}
	return true
}

// hash is the request_hash of an item, "" if it can't be sent.
func (c *copies) hash(it *input.Item) string {
	t, err := c.x.router.route(it)
	if err != nil {
		return ""
	}
	call, err := t.Provider.Encode(it, t.Defaults)
	if err != nil {
		return ""
	}
	return provider.Hash(call)
}

// arrived takes a final row of an item that was sent.
func (c *copies) arrived(r *output.Result) {
	if c == nil {
		return
	}
	c.mu.Lock()
	g := c.groups[output.HashOf(r.RequestHash)]
	if g == nil {
		c.mu.Unlock()
		return
	}
	row := *r
	row.CopiedFrom = r.Key
	g.row = &row
	waiting := g.waiting
	g.waiting = nil
	c.mu.Unlock()
	for _, it := range waiting {
		c.write(it, &row)
	}
}

// write writes the row of it with what another item got, which is charged there. An
// error stops the run; that nothing could be written is told when the file is closed.
func (c *copies) write(it *input.Item, from *output.Result) {
	r := *from
	r.ID, r.Key, r.Index, r.Metadata, r.Input = it.ID, it.Key, it.Index, it.Metadata, it.Input
	r.Usage, r.Cost, r.HasCost, r.Attempts, r.History, r.IdempotencyKey = output.Usage{}, 0, false, nil, nil, ""
	sink := c.x.stream.Write
	if c.x.file != nil {
		sink = c.x.file.Write
	}
	if err := c.x.orPrint(sink)(&r); err != nil {
		c.x.runner.Stop(err)
		return
	}
	c.mu.Lock()
	c.rows[r.Status]++
	c.mu.Unlock()
	c.x.count(&r)
}

// addTo counts the rows that were written here with those of the runner.
func (c *copies) addTo(rep *runner.Report) {
	if c == nil || rep.Rows == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for status, n := range c.rows {
		rep.Rows[status] += n
	}
}
