package openai

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	"llmbatch/runner/provider"
)

// dialect is what differs in the Batch APIs of vendors that follow OpenAI's.
type dialect struct {
	jobs, upload, purpose string
	inline                bool // the input is part of the create call
	unnamed               bool // a batch doesn't tell what it was made of
	uncancelled           bool
	bareEndpoint          bool // the create call's endpoint is without /v1
	lasting               bool // files can't be made to expire
	count                 int
	bytes                 int64
	floor                 time.Duration
	only                  []string // paths; nil: those of OpenAI
}

var dialects = map[string]dialect{
	"":           {},
	"azure":      {bareEndpoint: true, count: 100_000, floor: time.Minute},
	"together":   {upload: "/files/upload", purpose: "batch-api", lasting: true, bytes: 100e6, only: []string{chatPath}},
	"groq":       {lasting: true},
	"openrouter": {inline: true, unnamed: true, uncancelled: true, only: []string{chatPath, responsesPath, "/embeddings"}},
	"mistral":    {jobs: "/batch/jobs", inline: true, count: 100_000, bytes: 512e6, lasting: true},
}

// batchable are the paths that OpenAI's Batch API takes.
var batchable = []string{chatPath, responsesPath, completionsPath, "/embeddings", "/moderations", "/images/generations", "/images/edits", "/videos"}

// keptFor is how long input and output files stay at the provider.
const keptFor = 14 * 24 * time.Hour

// batches is the Batch API in a vendor's dialect.
type batches struct{ dialect }

var _ provider.BatchMaker = Provider{}

// Batches is the Batch API as the named vendor has it; an unknown one is taken to
// have OpenAI's.
func (Provider) Batches(vendor string) provider.Batcher {
	b := batches{dialects[vendor]}
	set := func(s *string, or string) {
		if *s == "" {
			*s = or
		}
	}
	set(&b.jobs, "/batches")
	set(&b.upload, "/files")
	set(&b.purpose, "batch")
	if b.count == 0 {
		b.count = 50_000
	}
	if b.bytes == 0 {
		b.bytes = 200e6
	}
	if b.only == nil {
		b.only = batchable
	}
	return b
}

func (b batches) Caps() provider.BatchCaps {
	return provider.BatchCaps{
		Count: b.count, Bytes: b.bytes, OneModel: true, Named: !b.unnamed, Queue: !b.inline, Floor: b.floor,
	}
}

func (b batches) Refuse(c *provider.Call) error {
	switch path := endpoint(c.Path); {
	case c.Stream:
		return errors.New(`the Batch API takes no "stream": true`)
	case !slices.Contains(b.only, path):
		return fmt.Errorf("the Batch API takes no requests for %s", path)
	}
	return nil
}

// boundary of the multipart body. A line of JSON holds no bare newline, so it
// can't hold one followed by this.
const boundary = "llmbatch-7d3f0a41c2b85e96"

func (b batches) Frame(m provider.BatchMeta) (head, between, tail []byte, contentType string) {
	if b.inline { // the order of the members matters to OpenRouter: requests come last
		head = fmt.Appendf(nil, `{"endpoint":%s,"model":%s,`, quote("/v1"+m.Endpoint), quote(m.Model))
		if b.unnamed {
			head = append(head, `"completion_window":"24h",`...)
		} else {
			head = fmt.Appendf(head, `"metadata":{"llmbatch":%s},`, quote(m.Tag))
		}
		return append(head, `"requests":[`...), []byte(","), []byte("]}"), "application/json"
	}
	field := func(name, value string) {
		head = fmt.Appendf(head, "--%s\r\nContent-Disposition: form-data; name=%q\r\n\r\n%s\r\n", boundary, name, value)
	}
	field("purpose", b.purpose)
	if !b.lasting {
		field("expires_after[anchor]", "created_at")
		field("expires_after[seconds]", fmt.Sprint(int(keptFor.Seconds())))
	}
	head = fmt.Appendf(head, "--%s\r\nContent-Disposition: form-data; name=\"file\"; filename=%q\r\nContent-Type: application/jsonl\r\n\r\n", boundary, m.Name)
	return head, []byte("\n"), []byte("\n\r\n--" + boundary + "--\r\n"), "multipart/form-data; boundary=" + boundary
}

func (b batches) Item(c *provider.Call, id string) []byte {
	if b.inline {
		return fmt.Appendf(nil, `{"custom_id":%s,"body":%s}`, quote(id), oneLine(c.Body))
	}
	return fmt.Appendf(nil, `{"custom_id":%s,"method":"POST","url":%s,"body":%s}`, quote(id), quote("/v1"+c.Path), oneLine(c.Body))
}

// oneLine is a body without line ends, which stand between its tokens only.
func oneLine(body []byte) []byte {
	out := slices.Clone(body)
	for i, c := range out {
		if c == '\n' || c == '\r' {
			out[i] = ' '
		}
	}
	return out
}

func quote(s string) []byte {
	b, _ := json.Marshal(s) // a string can always be written
	return b
}

func (b batches) Upload() *provider.BatchRequest {
	if b.inline {
		return nil
	}
	return &provider.BatchRequest{Method: http.MethodPost, Path: b.upload}
}

func (b batches) Create(m provider.BatchMeta) provider.BatchRequest {
	r := provider.BatchRequest{Method: http.MethodPost, Path: b.jobs}
	if b.inline {
		return r
	}
	at := "/v1" + m.Endpoint
	if b.bareEndpoint {
		at = m.Endpoint
	}
	r.Body = fmt.Appendf(nil, `{"input_file_id":%s,"endpoint":%s,"completion_window":"24h","metadata":{"llmbatch":%s}`, quote(m.File), quote(at), quote(m.Tag))
	if !b.lasting {
		r.Body = fmt.Appendf(r.Body, `,"output_expires_after":{"anchor":"created_at","seconds":%d}`, int(keptFor.Seconds()))
	}
	r.Body = append(r.Body, '}')
	return r
}

func (b batches) List(after string) provider.BatchRequest {
	return get(b.jobs + "?limit=100" + behind(after))
}

func (b batches) Files(after string) provider.BatchRequest {
	return get("/files?purpose=" + b.purpose + "&limit=100&order=desc" + behind(after))
}

func (b batches) Get(id string) provider.BatchRequest { return get(b.jobs + "/" + url.PathEscape(id)) }

func (b batches) Cancel(id string) *provider.BatchRequest {
	if b.uncancelled {
		return nil
	}
	return &provider.BatchRequest{Method: http.MethodPost, Path: b.jobs + "/" + url.PathEscape(id) + "/cancel"}
}

// Results are both files: an expired batch has answers, and one that is complete
// may have nothing but errors.
func (b batches) Results(s provider.BatchState) (out []provider.BatchRequest) {
	for _, id := range []string{s.Output, s.Errors} {
		if id != "" {
			out = append(out, get("/files/"+url.PathEscape(id)+"/content"))
		}
	}
	return out
}

func (b batches) Delete(s provider.BatchState) (out []provider.BatchRequest) {
	for _, id := range []string{s.File, s.Output, s.Errors} {
		if id != "" {
			out = append(out, provider.BatchRequest{Method: http.MethodDelete, Path: "/files/" + url.PathEscape(id)})
		}
	}
	return out
}

func get(path string) provider.BatchRequest {
	return provider.BatchRequest{Method: http.MethodGet, Path: path}
}

func behind(after string) string {
	if after == "" {
		return ""
	}
	return "&after=" + url.QueryEscape(after)
}
