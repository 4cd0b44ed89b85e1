package mockapi

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// file is an uploaded file, or the results of a batch.
type file struct {
	id, name, purpose, key string
	bytes                  int
	created                time.Time
	items                  []batchItem
	// url is that of the first line; invalid is the first fault of a line, found at upload and told by the batch.
	url     string
	invalid object
	deleted bool
}

// The limits of OpenAI's Batch API.
const (
	maxFileBytes = 200 << 20
	maxFileLines = 50_000
)

// files answers /v1/files.
func (c *call) files(part []string) {
	switch m := c.r.Method; {
	case len(part) == 0 && m == "POST":
		c.upload()
	case len(part) == 0 && m == "GET":
		c.listFiles()
	case len(part) == 2 && part[1] == "content" && m == "GET":
		c.content(part[0])
	case len(part) == 1 && (m == "GET" || m == "DELETE"):
		f := c.file(part[0])
		if f == nil {
			c.fail(noSuch("file", part[0]))
			return
		}
		if m == "DELETE" {
			c.server.mu.Lock()
			f.deleted = true
			c.server.mu.Unlock()
			c.send(object{"id": f.id, "object": "file", "deleted": true})
			return
		}
		c.send(f.object())
	default:
		c.fail(faultNotFound(c.r))
	}
}

func noSuch(what, id string) fault {
	return fault{404, errorBody{typ: "not_found_error", message: "No such " + what + ": " + prefix(id, 80)},
		errorBody{typ: "invalid_request_error", message: "No such " + what + ": " + prefix(id, 80)}}
}

func (f *file) object() object {
	return object{"object": "file", "id": f.id, "purpose": f.purpose, "filename": f.name, "bytes": f.bytes,
		"created_at": f.created.Unix(), "expires_at": f.created.Add(30 * 24 * time.Hour).Unix(), "status": "processed", "status_details": nil}
}

func (c *call) file(id string) *file {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	for _, f := range c.state.batches.files {
		if f.id == id && f.key == c.account() && !f.deleted {
			return f
		}
	}
	return nil
}

// listFiles lists the uploaded files, newest first unless order is asc.
func (c *call) listFiles() {
	c.server.mu.Lock()
	data := []object{}
	for _, f := range c.state.batches.files {
		if f.key == c.account() && !f.deleted {
			data = append(data, f.object())
		}
	}
	c.server.mu.Unlock()
	if c.r.URL.Query().Get("order") != "asc" {
		slices.Reverse(data)
	}
	c.send(object{"object": "list", "data": data, "has_more": false})
}

// upload reads the form part by part and keeps of each line what is needed to answer it.
func (c *call) upload() {
	n := c.server.count(&c.state.batches.uploads)
	form, err := c.r.MultipartReader()
	if err != nil {
		c.fail(invalid(400, "the body is no multipart form: "+err.Error()))
		return
	}
	f := &file{key: c.account(), created: time.Now()}
	for {
		p, err := form.NextPart()
		if err == io.EOF {
			break
		}
		if err == nil && p.FormName() == "file" {
			f.name = p.FileName()
			err = c.readLines(f, p)
		} else if err == nil && p.FormName() == "purpose" {
			var b []byte
			b, err = io.ReadAll(io.LimitReader(p, 100))
			f.purpose = string(b)
		}
		if err != nil {
			c.fail(invalid(400, "the upload could not be read: "+err.Error()))
			return
		}
	}
	switch {
	case n <= 2 && c.p.Batch == "upload-503":
		c.fail(fault503)
		return
	case f.purpose != "batch" || f.name == "":
		c.fail(invalid(400, "a file and the purpose batch are needed"))
		return
	case f.bytes > maxFileBytes:
		c.fail(fault413)
		return
	}
	c.server.mu.Lock()
	f.id = fmt.Sprintf("file-mock%06d", len(c.state.batches.files)+1)
	c.state.batches.files = append(c.state.batches.files, f)
	c.totals.Uploads++
	c.state.Uploads++
	c.server.mu.Unlock()
	c.send(f.object())
}

// readLines reads a batch's input. A bad line fails the file, but only the batch says so.
func (c *call) readLines(f *file, r io.Reader) error {
	in := bufio.NewReaderSize(r, 1<<16)
	ids := make(map[string]bool)
	for line := 1; ; line++ {
		text, err := in.ReadBytes('\n')
		f.bytes += len(text)
		if text = bytes.TrimSpace(text); len(text) > 0 && f.invalid == nil && f.bytes <= maxFileBytes {
			if code, message := c.readLine(f, text, ids); code != "" {
				f.invalid = object{"code": code, "message": message, "line": line, "param": nil}
			}
		}
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return err
		}
	}
	if f.invalid == nil && len(f.items) == 0 {
		f.invalid = object{"code": "empty_file", "message": "The batch input file is empty.", "line": nil, "param": nil}
	}
	return nil
}

// readLine takes one line over, or says what is wrong with it.
func (c *call) readLine(f *file, text []byte, ids map[string]bool) (code, message string) {
	var l struct {
		CustomID string `json:"custom_id"`
		Method   string
		URL      string
		Body     json.RawMessage
	}
	if err := json.Unmarshal(text, &l); err != nil || len(l.Body) == 0 {
		return "invalid_json_line", "This line is not parseable as valid JSON."
	}
	it := batchItem{id: l.CustomID, api: apiOf(l.URL, nil)}
	var err error
	if it.req, err = c.server.parse(l.Body, it.api, c.p.Echo); err != nil {
		return "invalid_request", "The body is no object."
	}
	if it.req.missingMember != "" {
		it.refused = it.req.missingMember + ": Field required"
	}
	if len(f.items) == 0 {
		f.url = l.URL
	}
	switch {
	case l.CustomID == "" || l.Method != "POST" || it.req.stream:
		return "invalid_request", "A custom_id, the method POST and a body without stream are needed."
	case ids[l.CustomID]:
		return "duplicate_custom_id", "The custom_id " + prefix(l.CustomID, 80) + " is used twice."
	case l.URL != f.url:
		return "url_mismatch", "The url differs from the batch's endpoint."
	case len(f.items) > 0 && it.req.model != f.items[0].req.model:
		return "model_mismatch", "All requests of a batch need the same model."
	case len(f.items) == maxFileLines:
		return "too_many_tasks", "A batch has 50,000 requests at most."
	}
	ids[l.CustomID] = true
	f.items = append(f.items, it)
	return "", ""
}

// openaiBatches answers /v1/batches.
func (c *call) openaiBatches(part []string) {
	switch m := c.r.Method; {
	case len(part) == 0 && m == "POST":
		c.createOpenAI()
	case len(part) == 0 && m == "GET":
		if !c.poll() {
			return
		}
		page, more := c.listed(c.r.URL.Query().Get("after"), "", 100)
		data := make([]object, len(page))
		for i, b := range page {
			data[i] = c.openaiBatch(b)
		}
		c.send(object{"object": "list", "data": data, "has_more": more})
	case len(part) == 1 && m == "GET":
		if !c.poll() {
			return
		}
		b := c.find(part[0])
		if b == nil || c.hidden(&b.looks, 3) {
			c.fail(noSuch("batch", part[0]))
			return
		}
		c.send(c.openaiBatch(b))
	case len(part) == 2 && part[1] == "cancel" && m == "POST":
		b := c.find(part[0])
		if b == nil {
			c.fail(noSuch("batch", part[0]))
			return
		}
		if !c.cancel(b) {
			c.fail(invalid(409, "Cannot cancel a batch that has ended."))
			return
		}
		c.send(c.openaiBatch(b))
	default:
		c.fail(faultNotFound(c.r))
	}
}

// cancel begins to cancel a batch and reports whether it had not ended.
func (c *call) cancel(b *batch) bool {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	if now := time.Now(); ended(b.status(now)) {
		return false
	} else if b.canceled.IsZero() {
		b.canceled = now
	}
	return true
}

// createOpenAI creates a batch of an uploaded file.
func (c *call) createOpenAI() {
	var q struct {
		File     string `json:"input_file_id"`
		Endpoint string
		Window   string `json:"completion_window"`
		Metadata json.RawMessage
	}
	if err := json.NewDecoder(io.LimitReader(c.r.Body, 1<<20)).Decode(&q); err != nil {
		c.fail(invalid(400, "the request's body is not valid JSON: "+err.Error()))
		return
	}
	f, azure := c.file(q.File), c.p.Batch == "azure"
	api := apiOf("/v1"+strings.TrimPrefix(q.Endpoint, "/v1"), nil)
	switch {
	case f == nil:
		c.fail(invalid(400, "Invalid input_file_id: no such file "+prefix(q.File, 80)))
	case q.Window != "24h":
		c.fail(invalid(400, "Invalid completion_window: it must be 24h"))
	case api == unknownOpenAI || api == messages || strings.HasPrefix(q.Endpoint, "/v1/") == azure:
		c.fail(invalid(400, "Invalid endpoint "+prefix(q.Endpoint, 80)))
	case c.mayCreate():
		b := &batch{fileID: f.id, endpoint: q.Endpoint, metadata: q.Metadata, items: f.items, tokens: f.bytes / 4, invalid: f.invalid}
		if b.invalid == nil && strings.TrimPrefix(f.url, "/v1") != strings.TrimPrefix(q.Endpoint, "/v1") {
			b.invalid = object{"code": "url_mismatch", "message": "The url differs from the batch's endpoint.", "line": 1, "param": "url"}
		}
		if c.p.Batch == "validating-fails" {
			b.invalid = object{"code": "invalid_json_line", "message": "This line is not parseable as valid JSON.", "line": 17, "param": nil}
		}
		b.items = slices.Clone(b.items)
		c.create(b)
		if !c.lost() {
			c.send(c.openaiBatch(b))
		}
	}
}

// openaiBatch returns the batch as the API shows it, in batch-azure as Azure does.
func (c *call) openaiBatch(b *batch) object {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	now := time.Now()
	status, azure := b.status(now), b.p.Batch == "azure"
	when := func(t time.Time) any {
		if azure {
			return t.UTC().Format(time.RFC3339)
		}
		return t.Unix()
	}
	o := object{"id": b.id, "object": "batch", "endpoint": b.endpoint, "input_file_id": b.fileID, "completion_window": "24h",
		"status": status, "errors": nil, "output_file_id": nil, "error_file_id": nil, "metadata": b.metadata, "model": nil,
		"created_at": when(b.created), "expires_at": when(b.created.Add(24 * time.Hour))}
	bad, n := 0, b.done(now)
	for i := range n {
		if status != validating && c.outcome(b, i).status != 200 {
			bad++
		}
	}
	o["request_counts"] = object{"total": len(b.items), "completed": n - bad, "failed": bad}
	if ended(status) {
		o[status+"_at"] = when(now)
		if n > bad {
			o["output_file_id"] = b.id + "_output"
		}
		if bad > 0 || n < len(b.items) && status != failed || azure {
			o["error_file_id"] = b.id + "_error"
		}
	}
	if status == failed {
		o["errors"] = object{"object": "list", "data": []object{b.invalid}}
		o["error_file_id"] = nil
	}
	if azure {
		o["status"], o["metadata"] = strings.ToUpper(status[:1])+status[1:], nil
		if o["request_counts"] = nil; !ended(status) {
			o["output_file_id"], o["error_file_id"] = "", ""
		}
	}
	return o
}

// content answers the download of a batch's results, or of its errors.
func (c *call) content(id string) {
	id, errs := strings.CutSuffix(id, "_error")
	b := c.find(strings.TrimSuffix(id, "_output"))
	if b == nil || !c.ready(b) || c.p.Batch == "404" && c.hidden(&b.fetches, 2) {
		c.fail(noSuch("file", id))
		return
	}
	n, now := 0, time.Now()
	c.server.mu.Lock()
	n = b.done(now)
	state := b.status(now)
	c.server.mu.Unlock()
	c.download(b, "application/octet-stream", func(i int, id string, o outcome) []byte {
		l := outputLine{ID: fmt.Sprintf("batch_req_%d", i), CustomID: id}
		switch {
		case i >= n && !errs, i < n && (o.status != 200) != errs:
			return nil
		case i >= n:
			l.Error = object{"code": "batch_" + state, "message": "This request could not be executed before the batch was " + state + "."}
		default:
			l.Response = object{"status_code": o.status, "request_id": "req_mock", "body": json.RawMessage(o.body)}
		}
		var text []byte
		if b.p.Batch == "shuffled" {
			text, _ = json.Marshal(object{"id": l.ID, "custom_id": l.CustomID, "response": l.Response, "error": l.Error})
		} else {
			text, _ = json.Marshal(l)
		}
		return text
	})
}

// outputLine is a line of a batch's results.
type outputLine struct {
	ID       string `json:"id"`
	CustomID string `json:"custom_id"`
	Response object `json:"response"`
	Error    object `json:"error"`
}

// ready reports whether a batch has ended.
func (c *call) ready(b *batch) bool {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	return ended(b.status(time.Now()))
}
