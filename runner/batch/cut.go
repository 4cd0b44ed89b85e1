package batch

import (
	"bufio"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"iter"
	"os"

	"llmbatch/input"
	"llmbatch/runner/provider"
)

// Cut is the items of a part, being gathered. Its input is written as they come.
type cut struct {
	number          int
	model, endpoint string
	most            int // items
	members         []member
	spool           *os.File
	w               *bufio.Writer
	between         []byte
	size            int64
	tokens          int64
	reserve         float64
}

// unknownOutput is reserved where a line does not say how long its answer may be.
const unknownOutput = 4096

// bytesPerToken is the rough size of a token, until answers tell.
const bytesPerToken = 4

// cutter makes parts of the items that need work.
type cutter struct {
	e    *Engine
	next func() (*input.Item, error, bool)
	stop func()
	held *input.Item // read, and not yet in a part
	open map[string]*cut
	keys []string // of open, in order
	// why nothing is cut now although there are items: "money" or "queue"
	blocked string
}

func (e *Engine) newCutter() *cutter {
	c := &cutter{e: e, open: map[string]*cut{}}
	c.next, c.stop = iter.Pull2(e.c.Items())
	return c
}

// close gives up what has been gathered: it stays to be done.
func (c *cutter) close() {
	c.stop()
	for _, k := range c.keys {
		c.open[k].spool.Close()
		c.e.refund(c.open[k].reserve)
	}
	c.open, c.keys = map[string]*cut{}, nil
}

// take returns the next part that is full, or at the end of the items one that is
// not; nil where there is none now.
func (c *cutter) take() (*cut, error) {
	c.blocked = ""
	for {
		it := c.held
		if c.held = nil; it == nil {
			var err error
			var ok bool
			if it, err, ok = c.next(); err != nil {
				return nil, err
			} else if !ok {
				return c.flush()
			}
		}
		if it.Bad != nil || !c.e.wants(it.Key) {
			continue
		}
		if c.e.c.Limit > 0 && c.e.sent >= c.e.c.Limit {
			return c.flush()
		}
		call, err := c.e.c.Encode(it)
		if err != nil {
			return nil, err
		}
		if c.e.Check(call) != nil {
			continue // the live run's
		}
		full, err := c.add(it, call)
		if full != nil || err != nil {
			return full, err
		}
		if c.blocked != "" {
			return c.flush()
		}
	}
}

// flush returns what has been gathered of one kind.
func (c *cutter) flush() (*cut, error) {
	if len(c.keys) == 0 {
		return nil, nil
	}
	return c.out(c.keys[0]), nil
}

func (c *cutter) out(key string) *cut {
	k := c.open[key]
	delete(c.open, key)
	for i := range c.keys {
		if c.keys[i] == key {
			c.keys = append(c.keys[:i], c.keys[i+1:]...)
			break
		}
	}
	return k
}

// add puts an item into its part. An item that does not fit is held, and the part
// is returned as it is.
func (c *cutter) add(it *input.Item, call *provider.Call) (*cut, error) {
	e := c.e
	key := ""
	if e.caps.OneModel {
		key = call.Path + " " + call.Model
	}
	k := c.open[key]
	tokens := int64(len(call.Body))/bytesPerToken + 1
	if room, limited := e.room(call.Model); limited {
		if k != nil && k.tokens+tokens > room {
			c.held = it
			return c.out(key), nil
		}
		if k == nil && tokens > room && e.openTokens(call.Model) > 0 {
			c.held, c.blocked = it, "queue"
			return nil, nil
		}
	}
	price := e.estimate(call)
	if !e.set(price) {
		c.held, c.blocked = it, "money"
		return nil, nil
	}
	if k == nil {
		var err error
		if k, err = e.begin(call); err != nil {
			e.refund(price)
			return nil, err
		}
		c.open[key] = k
		c.keys = append(c.keys, key)
	}
	hash := provider.Hash(call)
	m := member{custom: customID(e.j.head.Salt, k.number, len(k.members), it.Key, hash), id: it.ID, index: it.Index, hash: hash}
	line := e.api.Item(call, m.custom)
	if len(k.members) > 0 {
		if k.size+int64(len(line)) > e.caps.Bytes/20*19 {
			e.refund(price)
			c.held = it
			return c.out(key), nil
		}
		line = append(append([]byte(nil), k.between...), line...)
	}
	if _, err := k.w.Write(line); err != nil {
		return nil, fmt.Errorf("writing a batch's input: %w", err)
	}
	k.members = append(k.members, m)
	e.sent++
	k.size += int64(len(line))
	k.tokens += tokens
	k.reserve += price
	if len(k.members) >= k.most {
		return c.out(key), nil
	}
	return nil, nil
}

// customID is what an item is called in a batch. It can't be mistaken for one of
// another run, part or line, and tells nothing of the user's id.
func customID(salt string, part, n int, key, hash string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%d:%s%s", len(key), key, hash))
	return fmt.Sprintf("%s-%d-%d-%s", salt, part, n, hex.EncodeToString(sum[:6]))
}

func (e *Engine) begin(call *provider.Call) (*cut, error) {
	f, err := spool(dirOf(e.c.Journal))
	if err != nil {
		return nil, fmt.Errorf("making room for a batch's input: %w", err)
	}
	e.last++
	k := &cut{number: e.last, endpoint: call.Path, spool: f, w: bufio.NewWriterSize(f, 1<<16), most: e.most(call.Model)}
	if e.caps.OneModel {
		k.model = call.Model
	}
	head, between, _, _ := e.api.Frame(e.meta(k.number, k.endpoint, k.model, ""))
	k.between, k.size = between, int64(len(head))
	_, err = k.w.Write(head)
	return k, err
}

// most is how many items the next part may have. Where the API bounds the tokens of
// open batches and the bound is not known, the first part of a model is small and
// each one that is taken doubles it. Where only a batch's size tells it from others,
// sizes differ.
func (e *Engine) most(model string) int {
	n := min(e.c.Size, e.caps.Count)
	if _, known := e.room(model); e.caps.Queue && !known {
		n = max(1, min(n, n/10<<min(e.taken[model], 10)))
	}
	if !e.caps.Named {
		n -= e.last % (n/10 + 1)
	}
	return max(n, 1)
}

// room is how many tokens more a model's open batches may have; false where
// that is not known.
func (e *Engine) room(model string) (int64, bool) {
	limit := e.c.Queue
	if l, ok := e.queue[model]; ok && (limit == 0 || l < limit) {
		limit = l
	}
	if limit == 0 || !e.caps.Queue {
		return 0, false
	}
	return limit - e.openTokens(model), true
}

func (e *Engine) openTokens(model string) (n int64) {
	for _, p := range e.parts {
		if p.model == model && p.phase < ended {
			n += p.tokens
		}
	}
	return n
}

// estimate is the most that an item may cost in a batch.
func (e *Engine) estimate(c *provider.Call) float64 {
	if e.c.Price == nil {
		return 0
	}
	p, _ := e.c.Price(c.Model)
	out := float64(c.MaxTokens)
	if out == 0 {
		out = unknownOutput
	}
	return (float64(len(c.Body))*p.Input + out*p.Output) / 1e6
}

func (e *Engine) set(price float64) bool { return e.c.Spend == nil || e.c.Spend.Reserve(price) }

func (e *Engine) refund(price float64) {
	if e.c.Spend != nil {
		e.c.Spend.Settle(price, 0, true)
	}
}
