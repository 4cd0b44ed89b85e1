package mockapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// object is JSON that the server writes.
type object map[string]any

// batchItem is what the server keeps of one request of a batch: enough to answer it, not its bytes.
type batchItem struct {
	id      string
	api     api
	req     request
	refused string
}

// batch is one batch of either API. Where it stands follows from the time that passed since it was created.
type batch struct {
	id, key, fileID, endpoint string
	metadata                  json.RawMessage
	created, canceled         time.Time
	items                     []batchItem
	tokens                    int
	p                         Params
	anthropic, deleted        bool
	// invalid is why the validation fails; nil: it does not.
	invalid object
	// looks and fetches count GETs of the batch and downloads of its results.
	looks, fetches int
}

// batches is what a scenario remembers of the Batch APIs; the server's lock guards it.
type batches struct {
	all              []*batch
	files            []*file
	creates, uploads int
	polls            int
}

// The states of a batch in OpenAI's words.
const (
	validating = "validating"
	inProgress = "in_progress"
	finalizing = "finalizing"
	completed  = "completed"
	failed     = "failed"
	expired    = "expired"
	cancelling = "cancelling"
	cancelled  = "cancelled"
)

// batchTime is how long a batch takes from its creation to its end.
func (b *batch) batchTime() time.Duration { return cmp.Or(b.p.BatchTime, 2*time.Second) }

// status returns where the batch stands: a quarter of its time it is validated, half of it it runs, a quarter it is
// finalized. A canceled one ends a quarter of its time later, in batch-cancel-slow after 20 s.
func (b *batch) status(now time.Time) string {
	d, age := b.batchTime(), now.Sub(b.created)
	if !b.canceled.IsZero() {
		if now.Before(b.cancelEnd()) {
			return cancelling
		}
		return cancelled
	}
	switch stuck, _ := strings.CutPrefix(b.p.Batch, "stuck-"); {
	case age < d/4 || stuck == validating:
		return validating
	case b.invalid != nil:
		return failed
	case age < d*3/4 || stuck == "pending":
		return inProgress
	case age < d || stuck == finalizing:
		return finalizing
	case b.p.Batch == "expired-half":
		return expired
	}
	return completed
}

func (b *batch) cancelEnd() time.Time {
	if b.p.Batch == "cancel-slow" {
		return b.canceled.Add(20 * time.Second)
	}
	return b.canceled.Add(b.batchTime() / 4)
}

// ended reports whether a status is final.
func ended(status string) bool {
	return status == completed || status == failed || status == expired || status == cancelled
}

// done returns how many items have an answer.
func (b *batch) done(now time.Time) int {
	n := len(b.items)
	switch b.status(now) {
	case completed, finalizing:
		return n
	case expired:
		return n / 2
	case validating, failed:
		return 0
	case cancelled, cancelling:
		if b.p.Batch != "cancel-slow" {
			now = b.canceled
		} else if now.After(b.cancelEnd()) {
			now = b.cancelEnd()
		}
	}
	d := b.batchTime()
	part := float64(now.Sub(b.created)-d/4) / float64(d/2)
	if b.p.Batch == "expired-half" {
		part = min(part, 0.5)
	}
	return int(float64(n) * min(max(part, 0), 1))
}

// isBatch reports whether the path belongs to a Batch API.
func isBatch(path string) bool {
	for _, p := range []string{"/v1/files", "/v1/batches", "/v1/messages/batches"} {
		if path == p || strings.HasPrefix(path, p+"/") {
			return true
		}
	}
	return false
}

// serveBatch answers a request to a Batch API.
func (s *Server) serveBatch(c *call, name, path string) {
	if c.script == nil {
		c.fail(faultScenario(name))
		return
	}
	var err error
	if c.p, err = c.script.params.under(s.config.Params).with(c.r.URL.RawQuery); err != nil {
		c.fail(invalid(400, err.Error()))
		return
	}
	c.api = unknownOpenAI
	if strings.HasPrefix(path, "/v1/messages/") {
		c.api = unknownAnthropic
	}
	switch {
	case !authorized(c.p.Auth, c.r.Header):
		c.fail(fault401)
		return
	case c.p.Batch == "none":
		c.fail(faultNotFound(c.r))
		return
	}
	part := strings.Split(strings.TrimPrefix(path, "/v1/"), "/")
	if c.api == unknownAnthropic {
		c.messageBatches(part[2:])
	} else if part[0] == "files" {
		c.files(part[1:])
	} else {
		c.openaiBatches(part[1:])
	}
}

// account tells whose batches a request may see.
func (c *call) account() string {
	h := c.r.Header
	return cmp.Or(h.Get("X-Api-Key"), h.Get("Api-Key"), h.Get("Authorization"))
}

// send answers with JSON.
func (c *call) send(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		c.fail(fault500)
		return
	}
	c.write(200, "application/json", b, "ok")
}

// poll counts a look at one batch or at the list and reports whether the scenario lets it through.
func (c *call) poll() bool {
	c.server.mu.Lock()
	st := &c.state.batches
	st.polls++
	n := st.polls
	c.totals.Polls++
	c.state.Polls++
	c.server.mu.Unlock()
	if n <= 3 && c.p.Batch == "poll-429" {
		c.w.Header().Set(retryAfter, "1")
		c.fail(faultRate)
		return false
	}
	if n <= 3 && c.p.Batch == "poll-5xx" {
		c.fail(fault503)
		return false
	}
	return true
}

// find returns the account's batch, or answers 404.
func (c *call) find(id string) *batch {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	for _, b := range c.state.batches.all {
		if b.id == id && b.key == c.account() && !b.deleted && b.anthropic == c.api.anthropic() {
			return b
		}
	}
	return nil
}

// hidden counts a look, or a download, and reports whether batch-404 denies that the batch exists.
func (c *call) hidden(n *int, most int) bool {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	*n++
	return c.p.Batch == "404" && *n <= most
}

// listed returns a page of the account's batches, newest first, and whether there are more.
func (c *call) listed(after, before string, most int) (page []*batch, more bool) {
	limit := 20
	if v, err := strconv.Atoi(c.r.URL.Query().Get("limit")); err == nil {
		limit = min(max(v, 1), most)
	}
	now := time.Now()
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	all := c.state.batches.all
	skip := after != ""
	for i := len(all) - 1; i >= 0; i-- {
		b := all[i]
		switch {
		case b.key != c.account() || b.deleted || b.anthropic != c.api.anthropic():
		case c.p.Batch == "slow-list" && now.Sub(b.created) < 5*time.Second:
		case before != "" && b.id == before:
			return page, false
		case skip:
			skip = b.id != after
		case len(page) == limit:
			return page, true
		default:
			page = append(page, b)
		}
	}
	return page, false
}

// mayCreate counts a create call and reports whether the scenario takes it.
func (c *call) mayCreate() bool {
	c.server.mu.Lock()
	c.state.batches.creates++
	n := c.state.batches.creates
	c.server.mu.Unlock()
	switch {
	case c.p.Batch == "create-429" && n == 1:
		c.w.Header().Set(retryAfter, "1")
		c.fail(faultRate)
		return false
	case c.p.Batch == "spend-cap":
		c.fail(faultSpend)
		return false
	}
	return true
}

// create keeps the batch and counts what was bought, once.
func (c *call) create(b *batch) {
	s := c.server
	s.mu.Lock()
	defer s.mu.Unlock()
	st := &c.state.batches
	b.key, b.created, b.p = c.account(), time.Now(), c.p
	b.id = fmt.Sprintf("batch_mock%06d", len(st.all)+1)
	if b.anthropic {
		b.id = fmt.Sprintf("msgbatch_mock%06d", len(st.all)+1)
	}
	if limit := c.p.TokenLimit; limit > 0 && b.invalid == nil && c.openTokens(b.created)+b.tokens > limit {
		b.invalid = object{"code": "token_limit_exceeded", "line": nil, "param": nil,
			"message": fmt.Sprintf("Enqueued token limit reached for %s in organization org-mock. Limit: %s enqueued tokens. "+
				"Please try again once some in_progress batches have been completed.", b.model(), commas(limit))}
	}
	st.all = append(st.all, b)
	c.totals.Batches++
	c.state.Batches++
	if b.invalid != nil {
		return
	}
	for i := range b.items {
		seen := c.state.bodies[b.items[i].req.hash]
		seen.attempts++
		c.state.bodies[b.items[i].req.hash] = seen
		b.items[i].req.attempt = int(seen.attempts)
	}
	c.totals.Items += len(b.items)
	c.state.Items += len(b.items)
}

// lost reports whether the answer to the create call gets lost; it is then given in the form that the scenario asks for.
func (c *call) lost() bool {
	if c.p.Batch != "create-lost" || c.state.batches.creates != 1 {
		return false
	}
	switch c.p.Lost {
	case "500":
		c.fail(fault500)
		return true
	case "delay":
		return !c.wait(time.Minute)
	}
	c.hangUp("drop")
	return true
}

// openTokens sums the tokens of the account's batches that have not ended.
func (c *call) openTokens(now time.Time) (n int) {
	for _, b := range c.state.batches.all {
		if b.key == c.account() && b.invalid == nil && !ended(b.status(now)) {
			n += b.tokens
		}
	}
	return n
}

func (b *batch) model() string {
	if len(b.items) == 0 {
		return ""
	}
	return b.items[0].req.model
}

// commas writes n as 2,000,000.
func commas(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
