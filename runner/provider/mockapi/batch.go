package mockapi

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// object is JSON that the server writes.
type object map[string]any

// batchItem is what the server keeps of one request of a batch: enough to answer it, not its bytes.
type batchItem struct {
	id  string
	api api
	req request
	// fault is the answer when it is an error, nil when it is a 200.
	fault *fault
}

// batch is one batch of either API. Where it stands follows from the time that passed since it was created. After its
// creation only canceled, deleted and the counters change.
type batch struct {
	id, key, fileID, endpoint string
	metadata                  json.RawMessage
	created, canceled         time.Time
	items                     []batchItem
	// bad are the numbers of the items that are answered with an error, ascending.
	bad                []int
	tokens             int
	p                  Params
	anthropic, deleted bool
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

// moment is when a batch comes to a status.
type moment struct {
	status string
	at     time.Time
}

// moments returns what becomes of the batch, also what is still to come: a quarter of its time it is validated, half of it
// it runs, a quarter it is finalized. A cancellation takes another quarter, in batch-cancel-slow 20 s.
func (b *batch) moments() []moment {
	d, last := b.batchTime(), completed
	if b.p.Batch == "expired-half" {
		last = expired
	}
	all := []moment{{validating, b.created}, {inProgress, b.created.Add(d / 4)}, {finalizing, b.created.Add(d * 3 / 4)}, {last, b.created.Add(d)}}
	switch b.p.Batch {
	case "stuck-validating":
		all = all[:1]
	case "stuck-pending":
		all = all[:2]
	case "stuck-finalizing":
		all = all[:3]
	}
	if b.invalid != nil && len(all) > 1 {
		all = append(all[:1], moment{failed, b.created.Add(d / 4)})
	}
	if !b.canceled.IsZero() {
		all = slices.DeleteFunc(all, func(m moment) bool { return m.at.After(b.canceled) })
		if b.p.Batch == "cancel-slow" {
			d = 4 * slowCancel
		}
		all = append(all, moment{cancelling, b.canceled}, moment{cancelled, b.canceled.Add(d / 4)})
	}
	return all
}

// slowCancel is how long batch-cancel-slow takes to cancel.
const slowCancel = 20 * time.Second

// view is a batch at a moment.
type view struct {
	*batch
	// past are the moments that have come.
	past   []moment
	status string
	// done is how many items have an answer, errors how many of them are errors.
	done, errors int
}

// view looks at the batch. The server's lock is held.
func (b *batch) view(now time.Time) *view {
	past := slices.DeleteFunc(b.moments(), func(m moment) bool { return m.at.After(now) })
	v := &view{batch: b, past: past, status: past[len(past)-1].status, done: b.done(now)}
	v.errors, _ = slices.BinarySearch(b.bad, v.done)
	return v
}

// at returns when the batch came to the first of the statuses that it has come to; zero: to none.
func (v *view) at(statuses ...string) time.Time {
	for _, m := range v.past {
		if slices.Contains(statuses, m.status) {
			return m.at
		}
	}
	return time.Time{}
}

// ended returns whether and when the batch has ended.
func (v *view) ended() (time.Time, bool) {
	at := v.at(completed, failed, expired, cancelled)
	return at, !at.IsZero()
}

// done returns how many items have an answer.
func (b *batch) done(now time.Time) int {
	if b.invalid != nil || b.p.Batch == "stuck-validating" {
		return 0
	}
	d, until, n := b.batchTime(), now, len(b.items)
	if !b.canceled.IsZero() {
		until = b.canceled
	}
	part := min(max(float64(until.Sub(b.created)-d/4)/float64(d/2), 0), 1)
	if b.p.Batch == "expired-half" || b.p.Batch == "stuck-pending" {
		part = min(part, 0.5)
	}
	k := int(float64(n) * part)
	if b.p.Batch == "cancel-slow" && !b.canceled.IsZero() {
		k += int(float64((n-k)/2) * min(now.Sub(b.canceled).Seconds()/slowCancel.Seconds(), 1))
	}
	return k
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
func (c *call) serveBatch(path string) {
	if c.unknown != nil {
		c.fail(faultScenario(c.unknown))
		return
	}
	var err error
	if c.p, err = c.p.with(c.r.URL.RawQuery); err != nil {
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
		c.fail(c.notFound())
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

// find looks at the account's batch; nil: there is none.
func (c *call) find(id string) *view {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	for _, b := range c.state.batches.all {
		if b.id == id && c.sees(b) {
			return b.view(time.Now())
		}
	}
	return nil
}

// sees reports whether the account has the batch, in the API that it asks.
func (c *call) sees(b *batch) bool {
	return b.key == c.account() && !b.deleted && b.anthropic == c.api.anthropic()
}

// hidden counts a look, or a download, and reports whether batch-404 denies that the batch exists.
func (c *call) hidden(n *int, most int) bool {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	*n++
	return c.p.Batch == "404" && *n <= most
}

// listed returns a page of the account's batches, newest first, and whether there are more.
func (c *call) listed(after, before string, most int) (page []*view, more bool) {
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
		case !c.sees(b):
		case c.p.Batch == "slow-list" && now.Sub(b.created) < 5*time.Second:
		case before != "" && b.id == before:
			return page, false
		case skip:
			skip = b.id != after
		case len(page) == limit:
			return page, true
		default:
			page = append(page, b.view(now))
		}
	}
	return page, false
}

// mayCreate counts a create call and reports whether the scenario takes it. n is the call's number.
func (c *call) mayCreate() (n int, ok bool) {
	n = c.server.count(&c.state.batches.creates)
	switch {
	case c.p.Batch == "create-429" && n == 1:
		c.w.Header().Set(retryAfter, "1")
		c.fail(faultRate)
		return n, false
	case c.p.Batch == "spend-cap":
		c.fail(faultSpend)
		return n, false
	}
	return n, true
}

// create keeps the batch, counts what was bought, once, and answers, unless batch-create-lost loses the answer to the first
// call.
func (c *call) create(b *batch) *view {
	n, ok := c.mayCreate()
	if !ok {
		return nil
	}
	v := c.keep(b)
	if c.p.Batch != "create-lost" || n != 1 {
		return v
	}
	switch c.p.Lost {
	case "500":
		c.fail(fault500)
		return nil
	case "delay":
		if c.wait(time.Minute) {
			return v
		}
		return nil
	}
	c.hangUp("drop")
	return nil
}

// keep adds a batch to the account's.
func (c *call) keep(b *batch) *view {
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
	if b.invalid == nil {
		c.totals.Items += len(b.items)
		c.state.Items += len(b.items)
		for i := range b.items {
			c.decide(b, i)
		}
	}
	return b.view(b.created)
}

// openTokens sums the tokens of the account's batches that have not ended.
func (c *call) openTokens(now time.Time) (n int) {
	for _, b := range c.state.batches.all {
		if _, ended := b.view(now).ended(); b.key == c.account() && b.invalid == nil && !ended {
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
