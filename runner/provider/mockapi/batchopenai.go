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
		c.fail(c.notFound())
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
	it := batchItem{id: l.CustomID, api: apiOf("/v1"+strings.TrimPrefix(l.URL, "/v1"), nil)}
	var err error
	if it.req, err = c.server.parse(l.Body, it.api, c.p.Echo); err != nil {
		return "invalid_request", "The body is no object."
	}
	it.require()
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
		if _, ended := b.ended(); ended {
			c.fail(invalid(409, "Cannot cancel a batch that has ended."))
			return
		}
		c.send(c.openaiBatch(c.cancel(b.batch)))
	default:
		c.fail(c.notFound())
	}
}

// cancel begins to cancel a batch unless it has ended or is being canceled.
func (c *call) cancel(b *batch) *view {
	c.server.mu.Lock()
	defer c.server.mu.Unlock()
	now := time.Now()
	if _, ended := b.view(now).ended(); !ended && b.canceled.IsZero() {
		b.canceled = now
	}
	return b.view(now)
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
	case api == unknownOpenAI || api.anthropic() || strings.HasPrefix(q.Endpoint, "/v1/") == azure:
		c.fail(invalid(400, "Invalid endpoint "+prefix(q.Endpoint, 80)))
	default:
		b := &batch{fileID: f.id, endpoint: q.Endpoint, metadata: q.Metadata, items: f.items, tokens: f.bytes / 4, invalid: f.invalid}
		if b.invalid == nil && strings.TrimPrefix(f.url, "/v1") != strings.TrimPrefix(q.Endpoint, "/v1") {
			b.invalid = object{"code": "url_mismatch", "message": "The url differs from the batch's endpoint.", "line": 1, "param": "url"}
		}
		if c.p.Batch == "validating-fails" {
			b.invalid = object{"code": "invalid_json_line", "message": "This line is not parseable as valid JSON.", "line": 17, "param": nil}
		}
		b.items = slices.Clone(b.items)
		if v := c.create(b); v != nil {
			c.send(c.openaiBatch(v))
		}
	}
}

// openaiBatch returns the batch as the API shows it, in batch-azure as Azure does.
func (c *call) openaiBatch(v *view) object {
	azure := v.p.Batch == "azure"
	when := func(t time.Time) any {
		switch {
		case t.IsZero():
			return nil
		case azure:
			return t.UTC().Format(time.RFC3339)
		}
		return t.Unix()
	}
	o := object{"id": v.id, "object": "batch", "endpoint": v.endpoint, "input_file_id": v.fileID, "completion_window": "24h",
		"status": v.status, "errors": nil, "output_file_id": nil, "error_file_id": nil, "metadata": v.metadata, "model": nil,
		"created_at": when(v.created), "expires_at": when(v.created.Add(24 * time.Hour)),
		"request_counts": object{"total": len(v.items), "completed": v.done - v.errors, "failed": v.errors}}
	for _, status := range []string{inProgress, finalizing, completed, failed, expired, cancelling, cancelled} {
		o[status+"_at"] = when(v.at(status))
	}
	_, ended := v.ended()
	switch {
	case v.status == failed:
		o["errors"] = object{"object": "list", "data": []object{v.invalid}}
	case ended:
		if v.done > v.errors {
			o["output_file_id"] = v.id + "_output"
		}
		if v.errors > 0 || v.done < len(v.items) || azure {
			o["error_file_id"] = v.id + "_error"
		}
	case azure:
		o["output_file_id"], o["error_file_id"] = "", ""
	}
	if azure {
		o["status"], o["metadata"], o["request_counts"] = strings.ToUpper(v.status[:1])+v.status[1:], nil, nil
	}
	return o
}

// content answers the download of a batch's results, or of its errors.
func (c *call) content(file string) {
	id, errs := strings.CutSuffix(file, "_error")
	v := c.find(strings.TrimSuffix(id, "_output"))
	var ended bool
	if v != nil {
		_, ended = v.ended()
	}
	if !ended || c.p.Batch == "404" && c.hidden(&v.fetches, 2) {
		c.fail(noSuch("file", file))
		return
	}
	c.w.Header().Set("Content-Disposition", `attachment; filename="`+file+`.jsonl"`)
	c.download(v.batch, "application/octet-stream", true, func(i int, id string) []byte {
		l := outputLine{ID: fmt.Sprintf("batch_req_%d", i), CustomID: id}
		if bad := i >= v.done || v.items[i].fault != nil; bad != errs {
			return nil
		}
		if i >= v.done {
			l.Error = object{"code": "batch_" + v.status, "message": "This request could not be executed before the batch was " + v.status + "."}
		} else {
			status, body := c.answer(v.batch, i)
			l.Response = object{"status_code": status, "request_id": "req_mock", "body": body}
		}
		var text []byte
		if v.p.Batch == "shuffled" {
			text, _ = json.Marshal(object{"id": l.ID, "custom_id": l.CustomID, "response": l.Response, "error": l.Error})
		} else {
			text, _ = json.Marshal(l)
		}
		return text
	})
}

// require makes an item whose body lacks a member an error.
func (it *batchItem) require() {
	if it.req.missingMember != "" {
		f := invalid(400, it.req.missingMember+": Field required")
		it.fault = &f
	}
}

// outputLine is a line of a batch's results.
type outputLine struct {
	ID       string `json:"id"`
	CustomID string `json:"custom_id"`
	Response object `json:"response"`
	Error    object `json:"error"`
}
