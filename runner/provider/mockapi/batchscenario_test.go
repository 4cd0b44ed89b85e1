package mockapi

import (
	"net/http"
	"strings"
	"testing"
	"time"
)

// wantStatuses looks at a batch again and again and compares the statuses of the answers.
func (c batchClient) wantStatuses(path string, want ...int) {
	c.Helper()
	for i, w := range want {
		if got, o := c.get(path); got != w {
			c.Errorf("%s, look %d: got %d %v, want %d", path, i+1, got, o, w)
		}
	}
}

// TestBatchBadLine: three lines are broken, each in its own way, the others whole.
func TestBatchBadLine(t *testing.T) {
	each(t, "batch-bad-line", func(c batchClient) {
		id := c.open(5)
		_, m := c.messages(5)
		time.Sleep(3 * time.Second) // virtual time
		for path, empty := range map[string]string{"/files/" + id + "_output/content": `"body":""`, "/messages/batches/" + m["id"].(string) + "/results": `"message":null`} {
			_, text, _ := c.do("GET", path, "", nil)
			lines := strings.Split(text, "\n")
			if len(lines) != 6 || !strings.Contains(lines[0], empty) || !strings.Contains(lines[0], `"c0"`) || !strings.Contains(lines[1], "\xff") ||
				strings.HasPrefix(lines[2], "{") || !strings.Contains(lines[4], `"c4"`) {
				c.Errorf("%s: got %q", path, text)
			}
		}
	})
}

func TestBatchUpload503(t *testing.T) {
	each(t, "batch-upload-503", func(c batchClient) {
		for i, want := range []int{503, 503, 200} {
			if got, _ := c.upload(2); got != want {
				c.Errorf("upload %d: got %d, want %d", i+1, got, want)
			}
		}
		if got := c.s.Stats().Uploads; got != 1 {
			c.Errorf("got %d uploads counted, want 1", got)
		}
	})
}

// TestBatchCreateRefused: a refused create buys nothing.
func TestBatchCreateRefused(t *testing.T) {
	each(t, "batch-create-429", func(c batchClient) {
		_, file := c.upload(2)
		if res, _ := c.create(file); res.StatusCode != 429 || res.Header.Get("Retry-After") != "1" {
			c.Errorf("got %d, retry-after %q, want 429, 1", res.StatusCode, res.Header.Get("Retry-After"))
		}
		if res, _ := c.create(file); res.StatusCode != 200 || c.s.Stats().Items != 2 {
			c.Errorf("then %d and %d items, want 200 and 2", res.StatusCode, c.s.Stats().Items)
		}
	})
	each(t, "batch-spend-cap", func(c batchClient) {
		_, file := c.upload(2)
		res, o := c.create(file)
		if e, _ := o["error"].(map[string]any); res.StatusCode != 429 || e["code"] != "insufficient_quota" {
			c.Errorf("got %d %v", res.StatusCode, o)
		}
		res, o = c.messages(2)
		e, _ := o["error"].(map[string]any)
		if d, _ := e["details"].(map[string]any); res.StatusCode != 429 || d["error_code"] != "enforced_spend_limit_reached" {
			c.Errorf("got %d %v", res.StatusCode, o)
		}
		if got := c.s.Stats(); got.Batches != 0 || got.Items != 0 {
			c.Errorf("got %+v, want nothing bought", got.Counts)
		}
	})
}

// TestBatchTokenLimit: the second batch fails while the first is open, and passes when it has ended.
func TestBatchTokenLimit(t *testing.T) {
	each(t, "batch-token-limit=40", func(c batchClient) {
		first, second := c.open(1), c.open(1)
		time.Sleep(time.Second) // virtual time
		_, o := c.get("/batches/" + second)
		e, _ := o["errors"].(map[string]any)
		data, _ := e["data"].([]any)
		if len(data) != 1 || o["status"] != failed || o["failed_at"] == nil {
			c.Fatalf("got %v", o)
		}
		if e, _ := data[0].(map[string]any); e["code"] != "token_limit_exceeded" || !strings.Contains(e["message"].(string), "Limit: 40 enqueued tokens") {
			c.Errorf("got %v", data[0])
		}
		time.Sleep(2 * time.Second) // virtual time
		third := c.open(1)
		time.Sleep(3 * time.Second) // virtual time
		for _, id := range []string{first, third} {
			if _, o := c.get("/batches/" + id); o["status"] != completed {
				c.Errorf("got %v, want it completed", o)
			}
		}
		if got := c.s.Stats(); got.Batches != 3 || got.Items != 2 {
			c.Errorf("got %+v, want 3 batches, 2 items", got.Counts)
		}
	})
}

func TestBatch404(t *testing.T) {
	each(t, "batch-404", func(c batchClient) {
		id := c.open(2)
		_, m := c.messages(2)
		time.Sleep(3 * time.Second) // virtual time
		c.wantStatuses("/batches/"+id, 404, 404, 404, 200)
		c.wantStatuses("/files/"+id+"_output/content", 404, 404, 200)
		c.wantStatuses("/messages/batches/"+m["id"].(string), 404, 404, 404, 200)
		c.wantStatuses("/messages/batches/"+m["id"].(string)+"/results", 404, 404, 200)
	})
}

func TestBatchStuck(t *testing.T) {
	for scenario, want := range map[string]string{"batch-stuck-validating": validating, "batch-stuck-pending": inProgress, "batch-stuck-finalizing": finalizing} {
		each(t, scenario, func(c batchClient) {
			id := c.open(4)
			_, m := c.messages(4)
			time.Sleep(48 * time.Hour) // virtual time
			if _, o := c.get("/batches/" + id); o["status"] != want || o["output_file_id"] != nil {
				c.Errorf("got %v, want it %s without results", o, want)
			}
			if _, o := c.get("/messages/batches/" + m["id"].(string)); o["processing_status"] != inProgress || o["ended_at"] != nil {
				c.Errorf("got %v, want it in progress", o)
			}
			c.wantStatuses("/files/"+id+"_output/content", 404)
		})
	}
}

// TestBatchCancel: what was done by then is there, the rest is said to be canceled; times are those of the stages.
func TestBatchCancel(t *testing.T) {
	for scenario, c := range map[string]struct {
		takes    time.Duration
		ok, rest int
	}{"batch-ok": {500 * time.Millisecond, 20, 20}, "batch-cancel-slow": {20 * time.Second, 30, 10}} {
		each(t, scenario, func(b batchClient) {
			id := b.open(40)
			_, m := b.messages(40)
			anthropic := "/messages/batches/" + m["id"].(string)
			time.Sleep(time.Second) // virtual time
			start := time.Now()
			if _, _, o := b.do("POST", "/batches/"+id+"/cancel", "", nil); o["status"] != cancelling || o["cancelled_at"] != nil {
				b.Errorf("got %v, want it cancelling", o)
			}
			if _, _, o := b.do("POST", anthropic+"/cancel", "", nil); o["processing_status"] != "canceling" {
				b.Errorf("got %v, want it canceling", o)
			}
			time.Sleep(c.takes - 1) // virtual time
			if _, o := b.get("/batches/" + id); o["status"] != cancelling {
				b.Errorf("got %v, want it still cancelling", o)
			}
			time.Sleep(time.Hour) // virtual time
			_, o := b.get("/batches/" + id)
			if o["status"] != cancelled || o["cancelled_at"] != float64(start.Add(c.takes).Unix()) || o["cancelling_at"] != float64(start.Unix()) || o["completed_at"] != nil {
				b.Errorf("got %v", o)
			}
			for file, want := range map[string]int{"_output": c.ok, "_error": c.rest} {
				if _, text, _ := b.do("GET", "/files/"+id+file+"/content", "", nil); strings.Count(text, "\n") != want {
					b.Errorf("%s: got %q, want %d lines", file, text, want)
				}
			}
			_, text, _ := b.do("GET", anthropic+"/results", "", nil)
			if strings.Count(text, `"succeeded"`) != c.ok || strings.Count(text, `"canceled"`) != c.rest {
				b.Errorf("got %q, want %d succeeded, %d canceled", text, c.ok, c.rest)
			}
			if res, _, _ := b.do("POST", "/batches/"+id+"/cancel", "", nil); res.StatusCode != 409 {
				b.Errorf("canceling an ended batch got %d, want 409", res.StatusCode)
			}
		})
	}
}

func TestBatchPolls(t *testing.T) {
	for scenario, want := range map[string]int{"batch-poll-429": 429, "batch-poll-5xx": 503} {
		each(t, scenario, func(c batchClient) {
			id := c.open(2)
			c.wantStatuses("/batches/"+id, want, want, want, 200)
			if got := c.s.Stats().Polls; got != 4 {
				c.Errorf("got %d polls counted, want 4", got)
			}
		})
	}
}

func TestBatchSlowList(t *testing.T) {
	each(t, "batch-slow-list", func(c batchClient) {
		id := c.open(2)
		for _, want := range []int{0, 1} {
			_, o := c.get("/batches")
			if data, _ := o["data"].([]any); len(data) != want {
				c.Errorf("got %v, want %d batches", o, want)
			}
			time.Sleep(5 * time.Second) // virtual time
		}
		c.wantStatuses("/batches/"+id, 200)
	})
}

func TestNoBatch(t *testing.T) {
	each(t, "no-batch", func(c batchClient) {
		c.wantStatuses("/batches", 404)
		if got, _ := c.upload(1); got != 404 {
			c.Errorf("an upload got %d, want 404", got)
		}
		if res, _ := c.messages(1); res.StatusCode != http.StatusNotFound {
			c.Errorf("a batch of messages got %d, want 404", res.StatusCode)
		}
		if a := post(c.s, "/no-batch/v1/messages", messagesBody); a.Code != 200 {
			c.Errorf("a live request got %d, want 200", a.Code)
		}
	})
}
