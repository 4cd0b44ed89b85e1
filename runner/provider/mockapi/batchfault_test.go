package mockapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// batchClient asks a scenario's Batch APIs in process.
type batchClient struct {
	*testing.T
	s *Server
	// base is http://mock/SCENARIO/v1.
	base string
}

// each runs a test in virtual time.
func each(t *testing.T, scenario string, test func(c batchClient)) {
	t.Run(scenario, func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { test(batchClient{t, New(Config{}), "http://mock/" + scenario + "/v1"}) })
	})
}

// do sends a request; the answer's JSON members, as far as it is JSON, are in the object.
func (c batchClient) do(method, path, contentType string, body []byte) (*http.Response, string, object) {
	c.Helper()
	base, query, _ := strings.Cut(c.base, "?")
	if query != "" {
		path += "?" + query
	}
	r, err := http.NewRequest(method, base+path, bytes.NewReader(body))
	if err != nil {
		c.Fatal(err)
	}
	r.Header.Set("Content-Type", contentType)
	res, err := c.s.RoundTrip(r)
	if err != nil {
		return nil, err.Error(), nil
	}
	text, err := io.ReadAll(res.Body)
	if err != nil {
		text = append(text, " and then "+err.Error()...)
	}
	var o object
	_ = json.Unmarshal(text, &o) // what is no object has no members
	return res, string(text), o
}

func (c batchClient) get(path string) (int, object) {
	c.Helper()
	res, text, o := c.do("GET", path, "", nil)
	if res == nil {
		c.Fatalf("%s: %s", path, text)
	}
	return res.StatusCode, o
}

// upload sends n lines and returns the status and the file's id.
func (c batchClient) upload(n int) (int, string) {
	c.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	_ = form.WriteField("purpose", "batch")
	w, _ := form.CreateFormFile("file", "in.jsonl")
	for i := range n {
		fmt.Fprintf(w, `{"custom_id":"c%d","method":"POST","url":"/v1/responses","body":{"model":"m","input":"q%d"}}`+"\n", i, i)
	}
	_ = form.Close()
	res, text, o := c.do("POST", "/files", form.FormDataContentType(), b.Bytes())
	if res == nil {
		c.Fatal(text)
	}
	id, _ := o["id"].(string)
	return res.StatusCode, id
}

// create creates a batch of a file and returns the answer, nil where it gets lost.
func (c batchClient) create(file string) (*http.Response, object) {
	c.Helper()
	res, _, o := c.do("POST", "/batches", "application/json", []byte(`{"input_file_id":"`+file+`","endpoint":"/v1/responses","completion_window":"24h"}`))
	return res, o
}

// open uploads n lines and creates a batch of them, without trouble, and returns its id.
func (c batchClient) open(n int) string {
	c.Helper()
	_, file := c.upload(n)
	_, o := c.create(file)
	id, _ := o["id"].(string)
	if id == "" {
		c.Fatalf("create: %v", o)
	}
	return id
}

// messages creates a batch of n Messages and returns its id.
func (c batchClient) messages(n int) (*http.Response, object) {
	c.Helper()
	items := make([]string, n)
	for i := range items {
		items[i] = fmt.Sprintf(`{"custom_id":"c%d","params":%s}`, i, numbered(i))
	}
	res, _, o := c.do("POST", "/messages/batches", "application/json", []byte(`{"requests":[`+strings.Join(items, ",")+`]}`))
	return res, o
}

// TestBatchCreateLost: the batch is there whatever became of the answer, once, and the second create is answered.
func TestBatchCreateLost(t *testing.T) {
	for query, want := range map[string]int{"": 0, "?lost=cut": 0, "?lost=500": 500, "?lost=delay": 200} {
		each(t, "batch-create-lost", func(c batchClient) {
			c.base += query
			_, file := c.upload(3)
			start := time.Now()
			res, _ := c.create(file)
			switch {
			case want == 0 && res != nil, want != 0 && (res == nil || res.StatusCode != want):
				c.Errorf("%q: got %v, want status %d", query, res, want)
			case want == 200 && time.Since(start) != time.Minute:
				c.Errorf("%q: got an answer after %v, want a minute", query, time.Since(start))
			}
			_, o := c.get("/batches")
			if data, _ := o["data"].([]any); len(data) != 1 {
				c.Errorf("%q: got %v, want one batch", query, o)
			}
			if res, _ := c.create(file); res == nil || res.StatusCode != 200 {
				c.Errorf("%q: the second create got %v", query, res)
			}
			if res, _ := c.messages(2); res == nil || res.StatusCode != 200 {
				c.Errorf("%q: the third create got %v", query, res)
			}
			if got := c.s.Stats(); got.Batches != 3 || got.Items != 8 {
				c.Errorf("%q: got %+v, want 3 batches with 8 items", query, got.Counts)
			}
		})
	}
}

// TestBatchTimes: what ended says when, not when it was looked at.
func TestBatchTimes(t *testing.T) {
	each(t, "batch-ok", func(c batchClient) {
		start := time.Now()
		id := c.open(4)
		_, m := c.messages(4)
		time.Sleep(time.Hour) // virtual time
		_, o := c.get("/batches/" + id)
		for member, after := range map[string]time.Duration{"created_at": 0, "in_progress_at": 500 * time.Millisecond,
			"finalizing_at": 1500 * time.Millisecond, "completed_at": 2 * time.Second} {
			if got := o[member]; got != float64(start.Add(after).Unix()) {
				c.Errorf("%s: got %v, want %v", member, got, start.Add(after).Unix())
			}
		}
		for _, member := range []string{"failed_at", "expired_at", "cancelling_at", "cancelled_at"} {
			if v, ok := o[member]; v != nil || !ok {
				c.Errorf("%s: got %v, %t, want null", member, v, ok)
			}
		}
		_, o = c.get("/messages/batches/" + m["id"].(string))
		if want := start.Add(2 * time.Second).UTC().Format(time.RFC3339Nano); o["ended_at"] != want {
			c.Errorf("ended_at: got %v, want %s", o["ended_at"], want)
		}
	})
}

// TestBatchTorn: the first download ends in a line, with a length that it does not reach at OpenAI and cleanly at Anthropic;
// the second is whole.
func TestBatchTorn(t *testing.T) {
	each(t, "batch-torn", func(c batchClient) {
		id := c.open(10)
		_, m := c.messages(10)
		time.Sleep(3 * time.Second) // virtual time
		for path, length := range map[string]bool{"/files/" + id + "_output/content": true, "/messages/batches/" + m["id"].(string) + "/results": false} {
			torn, first, _ := c.do("GET", path, "", nil)
			res, whole, _ := c.do("GET", path, "", nil)
			first, cut := strings.CutSuffix(first, " and then unexpected EOF")
			if torn.StatusCode != 200 || cut != length || strings.HasSuffix(first, "\n") || !strings.HasPrefix(whole, first) || len(first) == 0 {
				c.Errorf("%s: got %d %q, cut: %t", path, torn.StatusCode, first, cut)
			}
			if strings.Count(whole, "\n") != 10 || !strings.HasSuffix(whole, "\n") {
				c.Errorf("%s: the second time got %q", path, whole)
			}
			if want := int64(len(whole)); length && (torn.ContentLength != want || res.ContentLength != want) || !length && res.ContentLength != -1 {
				c.Errorf("%s: got lengths %d and %d of %d", path, torn.ContentLength, res.ContentLength, want)
			}
		}
	})
}
