package mockapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"iter"
	"slices"
)

// decide settles how the scenario answers an item: as it would answer the same request sent alone.
func (c *call) decide(b *batch, i int) {
	it := &b.items[i]
	seen := c.state.bodies[it.req.hash]
	seen.attempts++
	c.state.bodies[it.req.hash] = seen
	it.req.attempt = int(seen.attempts)
	st := b.p.step(i + 1)
	if st.act == answer {
		st = b.p.mix(c.server.config.Seed, &call{req: it.req})
	}
	switch {
	case it.fault != nil:
	case b.p.Batch == "all-failed", b.p.Batch == "mixed" && i%20 < 2:
		it.fault = &fault400
	case b.p.Batch == "mixed" && i%20 == 2:
		it.fault = &faultRate
	case b.p.Batch == "mixed" && i%20 == 3:
		it.fault = &fault500
	case st.act == refuse:
		it.fault = &st.fault
	case st.act != answer:
		it.fault = &fault500
	}
	if it.fault != nil {
		b.bad = append(b.bad, i)
	}
}

// answer returns the status and body that item i is answered with.
func (c *call) answer(b *batch, i int) (int, json.RawMessage) {
	it := &b.items[i]
	if it.fault != nil {
		return it.fault.status, it.fault.body(it.api)
	}
	one := &call{api: it.api, p: b.p, req: it.req, nth: i + 1, entry: c.entry, batched: true}
	return 200, one.body()
}

// lines are the lines of a batch's results with the damage that the scenario does to them. line returns an item's line,
// nil where it stands in another file.
func (b *batch) lines(line func(i int, id string) []byte) iter.Seq[[]byte] {
	return func(yield func([]byte) bool) {
		n := len(b.items)
		for k := range n {
			i := k
			if b.p.Batch == "shuffled" {
				i = n - 1 - k
			}
			text := line(i, b.items[i].id)
			if text == nil || b.p.Batch == "missing" && i == n/2 {
				continue
			}
			if b.p.Batch == "bad-line" {
				text = spoil(i, text)
			}
			if text = append(text, '\n'); !yield(text) || b.p.Batch == "doubled" && i == 0 && !yield(text) {
				return
			}
		}
		if b.p.Batch == "foreign" {
			if text := line(0, "nobody-asked-for-this"); text != nil {
				yield(append(text, '\n'))
			}
		}
	}
}

// download writes the lines of a batch's results, with their length where sized. batch-torn ends the first download in the
// middle of the line at half of its length: a told length is not reached then, where there is none the end looks clean.
func (c *call) download(b *batch, contentType string, sized bool, line func(i int, id string) []byte) {
	n, torn := -1, c.server.count(&b.fetches) == 1 && b.p.Batch == "torn"
	whole := 0
	if sized || torn {
		for text := range b.lines(line) {
			whole += len(text)
		}
	}
	if sized {
		n = whole
	}
	c.header(200, contentType, n)
	out, sent := bufio.NewWriterSize(c.w, 1<<16), 0
	for text := range b.lines(line) {
		if sent += len(text); torn && sent > whole/2 {
			_, _ = out.Write(text[:len(text)/2])
			break
		}
		_, _ = out.Write(text) // a client that has gone shows in the context
	}
	if torn && sized {
		_ = out.Flush()
		c.flush()
		c.hangUp("cut")
	}
	c.server.finish(c, "ok")
	_ = out.Flush()
}

// count raises a counter that the server's lock guards.
func (s *Server) count(n *int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
	return *n
}

// spoil damages the first three lines: a 200 without a body, invalid UTF-8, no JSON.
func spoil(i int, text []byte) []byte {
	switch i {
	case 0:
		var l struct {
			outputLine
			Result object `json:"result,omitempty"`
		}
		if json.Unmarshal(text, &l) != nil {
			return text
		}
		if l.Result != nil {
			l.Result["message"] = nil
			text, _ = json.Marshal(object{"custom_id": l.CustomID, "result": l.Result})
		} else if l.Response != nil {
			l.Response["body"] = ""
			text, _ = json.Marshal(l.outputLine)
		}
	case 1:
		for _, member := range []string{`"text":"`, `"content":"`} {
			if at := bytes.Index(text, []byte(member)); at >= 0 {
				return slices.Insert(text, at+len(member), 0xff)
			}
		}
	case 2:
		text = []byte("upstream connect error or disconnect/reset before headers")
	}
	return text
}
