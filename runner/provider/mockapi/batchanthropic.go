package mockapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strings"
	"time"
)

// messageBatches answers /v1/messages/batches.
func (c *call) messageBatches(part []string) {
	m := c.r.Method
	if len(part) == 0 {
		switch m {
		case "POST":
			c.createMessages()
		case "GET":
			c.listMessages()
		default:
			c.fail(c.notFound())
		}
		return
	}
	if len(part) == 1 && m == "GET" && !c.poll() {
		return
	}
	b := c.find(part[0])
	var ended bool
	if b != nil {
		_, ended = b.ended()
	}
	switch {
	case b == nil, len(part) == 1 && m == "GET" && c.hidden(&b.looks, 3):
		c.fail(noSuch("message batch", part[0]))
	case len(part) == 1 && m == "GET":
		if !ended {
			c.w.Header().Set(retryAfter, "10")
		}
		c.send(c.messageBatch(b))
	case len(part) == 1 && m == "DELETE" && ended:
		c.server.mu.Lock()
		b.batch.deleted = true
		c.server.mu.Unlock()
		c.send(object{"id": b.id, "type": "message_batch_deleted"})
	case len(part) == 1 && m == "DELETE":
		c.fail(invalid(400, "A batch is deleted only when it has ended."))
	case len(part) == 2 && part[1] == "cancel" && m == "POST":
		c.send(c.messageBatch(c.cancel(b.batch)))
	case len(part) == 2 && part[1] == "results" && m == "GET":
		if !ended || c.p.Batch == "404" && c.hidden(&b.fetches, 2) {
			c.fail(noSuch("results of message batch", b.id))
			return
		}
		c.messageResults(b)
	default:
		c.fail(c.notFound())
	}
}

func (c *call) listMessages() {
	if !c.poll() {
		return
	}
	q := c.r.URL.Query()
	page, more := c.listed(q.Get("after_id"), q.Get("before_id"), 1000)
	data := make([]object, len(page))
	for i, b := range page {
		data[i] = c.messageBatch(b)
	}
	o := object{"data": data, "has_more": more, "first_id": nil, "last_id": nil}
	if len(page) > 0 {
		o["first_id"], o["last_id"] = page[0].id, page[len(page)-1].id
	}
	c.send(o)
}

var customID = regexp.MustCompile(`^[a-zA-Z0-9_-]{1,64}$`)

// The limits of Anthropic's Batch API.
const (
	maxBatchItems = 100_000
	maxBatchBytes = 256 << 20
)

// createMessages reads the requests one after the other, so that only one is in memory, and creates the batch.
func (c *call) createMessages() {
	in := &io.LimitedReader{R: c.r.Body, N: maxBatchBytes + 1}
	b := &batch{anthropic: true}
	err := c.readRequests(json.NewDecoder(in), b)
	_, _ = io.Copy(io.Discard, c.r.Body) // a client that is still sending might never see the answer
	switch {
	case in.N == 0:
		c.fail(fault413)
	case err != nil:
		c.fail(invalid(400, err.Error()))
	case len(b.items) == 0:
		c.fail(invalid(400, "requests: List should have at least 1 item"))
	default:
		if v := c.create(b); v != nil {
			c.send(c.messageBatch(v))
		}
	}
}

func (c *call) readRequests(d *json.Decoder, b *batch) error {
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return errors.New("the request's body is not a JSON object")
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return err
		}
		if name != "requests" {
			return fmt.Errorf("%v: Extra inputs are not permitted", name)
		}
		if t, err := d.Token(); err != nil || t != json.Delim('[') {
			return errors.New("requests: Input should be a valid list")
		}
		ids := make(map[string]bool)
		for d.More() {
			if err := c.readRequest(d, b, ids); err != nil {
				return err
			}
		}
		if _, err := d.Token(); err != nil {
			return err
		}
	}
	_, err := d.Token()
	return err
}

func (c *call) readRequest(d *json.Decoder, b *batch, ids map[string]bool) error {
	var q struct {
		ID     string `json:"custom_id"`
		Params json.RawMessage
	}
	if err := d.Decode(&q); err != nil {
		return err
	}
	at := fmt.Sprintf("requests.%d.", len(b.items))
	it := batchItem{id: q.ID, api: messages}
	var err error
	if it.req, err = c.server.parse(q.Params, messages, c.p.Echo); err != nil {
		return errors.New(at + "params: Input should be a valid dictionary")
	}
	it.require()
	switch {
	case len(q.ID) > 64:
		return errors.New(at + "custom_id: String should have at most 64 characters")
	case !customID.MatchString(q.ID):
		return errors.New(at + "custom_id: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'")
	case ids[q.ID]:
		return errors.New(at + "custom_id: custom_id must be unique within the batch")
	case it.req.stream:
		return errors.New(at + "params.stream: streaming is not supported in batches")
	case len(b.items) == maxBatchItems:
		return errors.New("requests: List should have at most 100000 items")
	}
	ids[q.ID] = true
	b.items = append(b.items, it)
	b.tokens += len(q.Params) / 4
	return nil
}

// messageBatch returns the batch as the API shows it: the counts stay 0 until it has ended.
func (c *call) messageBatch(v *view) object {
	when := func(t time.Time) any {
		if t.IsZero() {
			return nil
		}
		return t.UTC().Format(time.RFC3339Nano)
	}
	end, ended := v.ended()
	counts := map[string]int{"processing": len(v.items), "succeeded": 0, "errored": 0, "canceled": 0, "expired": 0}
	o := object{"id": v.id, "type": "message_batch", "processing_status": "in_progress", "request_counts": counts,
		"created_at": when(v.created), "expires_at": when(v.created.Add(24 * time.Hour)), "archived_at": nil,
		"cancel_initiated_at": when(v.at(cancelling)), "ended_at": when(end), "results_url": nil}
	switch {
	case ended:
		counts["processing"], counts["succeeded"], counts["errored"] = 0, v.done-v.errors, v.errors
		counts[v.rest()] = len(v.items) - v.done
		o["processing_status"] = "ended"
		o["results_url"] = "http://" + c.r.Host + c.prefix() + "/v1/messages/batches/" + v.id + "/results"
	case v.status == cancelling:
		o["processing_status"] = "canceling"
	}
	return o
}

// prefix returns the scenario's part of the path.
func (c *call) prefix() string {
	before, _, _ := strings.Cut(c.r.URL.Path, "/v1/")
	return before
}

// rest says what became of the items without an answer.
func (v *view) rest() string {
	if v.status == cancelled {
		return "canceled"
	}
	return "expired"
}

func (c *call) messageResults(v *view) {
	c.download(v.batch, "application/x-jsonl", false, func(i int, id string) []byte {
		r := object{"type": v.rest()}
		if i < v.done {
			if status, body := c.answer(v.batch, i); status == 200 {
				r = object{"type": "succeeded", "message": body}
			} else {
				r = object{"type": "errored", "error": body}
			}
		}
		text, _ := json.Marshal(struct {
			CustomID string `json:"custom_id"`
			Result   object `json:"result"`
		}{id, r})
		return text
	})
}
