package mockapi

import (
	"bytes"
	"encoding/json"
)

// outcome is the answer to one item.
type outcome struct {
	status int
	body   []byte
	fault  fault
}

// outcome answers an item as the scenario would answer the same request sent alone.
func (c *call) outcome(b *batch, i int) outcome {
	it := b.items[i]
	one := &call{server: c.server, api: it.api, script: c.script, p: b.p, req: it.req, nth: i + 1, entry: c.entry, batched: true}
	st := c.script.at(i + 1)
	if st.act == answer {
		st = one.p.mix(c.server.config.Seed, one)
	}
	switch {
	case it.refused != "":
		st = step{act: refuse, fault: invalid(400, it.refused)}
	case b.p.Batch == "all-failed", b.p.Batch == "mixed" && i%20 < 2:
		st = step{act: refuse, fault: fault400}
	case b.p.Batch == "mixed" && i%20 == 2:
		st = step{act: refuse, fault: faultRate}
	case b.p.Batch == "mixed" && i%20 == 3:
		st = step{act: refuse, fault: fault500}
	}
	switch st.act {
	case answer:
		return outcome{status: 200, body: one.body()}
	case refuse:
		return outcome{st.fault.status, st.fault.body(it.api), st.fault}
	}
	return outcome{500, fault500.body(it.api), fault500}
}

// download writes the lines of a batch's results, with the damage that the scenario does to them. line returns an item's
// line, nil where it stands in another file.
func (c *call) download(b *batch, contentType string, line func(i int, id string, o outcome) []byte) {
	c.header(200, contentType, -1)
	n := len(b.items)
	first := c.server.count(&b.fetches) == 1
	var out bytes.Buffer
	for k := range n {
		i := k
		if b.p.Batch == "shuffled" {
			i = n - 1 - k
		}
		if b.p.Batch == "missing" && i == n/2 {
			continue
		}
		text := line(i, b.items[i].id, c.outcome(b, i))
		if text == nil {
			continue
		}
		if b.p.Batch == "bad-line" {
			text = spoil(i, text)
		}
		out.Write(append(text, '\n'))
		if b.p.Batch == "doubled" && i == 0 {
			out.Write(append(text, '\n'))
		}
		if b.p.Batch == "torn" && first && k >= n/2 {
			out.Truncate(out.Len() - len(text)/2)
			break
		}
		if out.Len() > 1<<16 {
			_, _ = c.w.Write(out.Bytes())
			out.Reset()
		}
	}
	if b.p.Batch == "foreign" {
		if text := line(0, "nobody-asked-for-this", c.outcome(b, 0)); text != nil {
			out.Write(append(text, '\n'))
		}
	}
	c.server.finish(c, "ok")
	_, _ = c.w.Write(out.Bytes())
}

// count raises a counter that the server's lock guards.
func (s *Server) count(n *int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	*n++
	return *n
}

// spoil damages the first three lines: an answer without body, invalid UTF-8, no JSON.
func spoil(i int, text []byte) []byte {
	switch i {
	case 0:
		var v map[string]any
		if json.Unmarshal(text, &v) != nil {
			return text
		}
		if r, ok := v["response"].(map[string]any); ok {
			r["body"] = object{}
		} else if r, ok := v["result"].(map[string]any); ok {
			r["message"] = object{}
		}
		text, _ = json.Marshal(v)
	case 1:
		text = bytes.Replace(text, []byte(`"OK"`), []byte("\"O\xffK\""), 1)
	case 2:
		text = []byte("upstream connect error or disconnect/reset before headers")
	}
	return text
}
