package mockapi

import (
	"bytes"
	"encoding/json"
	"fmt"
	"mime/multipart"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// get asks and decodes the answer.
func get(t *testing.T, s *Server, path string) (o map[string]any) {
	t.Helper()
	r := send(s, httptest.NewRequest("GET", path, nil))
	if err := json.Unmarshal(r.Body.Bytes(), &o); err != nil {
		t.Fatalf("%s: %s: %v", path, r.Body, err)
	}
	return o
}

// openaiRun uploads n lines, creates a batch and returns its id.
func openaiRun(t *testing.T, s *Server, scenario, endpoint string, n int) string {
	t.Helper()
	var b bytes.Buffer
	form := multipart.NewWriter(&b)
	form.WriteField("purpose", "batch")
	w, _ := form.CreateFormFile("file", "in.jsonl")
	for i := range n {
		fmt.Fprintf(w, `{"custom_id":"c%d","method":"POST","url":"/v1/responses","body":{"model":"m","input":"q%d"}}`+"\n", i, i)
	}
	form.Close()
	r := httptest.NewRequest("POST", "/"+scenario+"/v1/files", &b)
	r.Header.Set("Content-Type", form.FormDataContentType())
	var f struct{ ID string }
	if a := send(s, r); json.Unmarshal(a.Body.Bytes(), &f) != nil || f.ID == "" {
		t.Fatalf("upload: %d %s", a.Code, a.Body)
	}
	a := post(s, "/"+scenario+"/v1/batches", `{"input_file_id":"`+f.ID+`","endpoint":"`+endpoint+`","completion_window":"24h"}`)
	if json.Unmarshal(a.Body.Bytes(), &f) != nil || !strings.HasPrefix(f.ID, "batch_") {
		t.Fatalf("create: %d %s", a.Code, a.Body)
	}
	return f.ID
}

func TestOpenAIBatches(t *testing.T) {
	for _, tt := range []struct {
		scenario, status string
		ok, bad          int
	}{
		{"batch-ok", completed, 40, 0}, {"batch-shuffled", completed, 40, 0}, {"batch-mixed", completed, 32, 8}, {"batch-all-failed", completed, 0, 40},
		{"batch-expired-half", expired, 20, 20}, {"batch-missing", completed, 39, 0}, {"batch-doubled", completed, 41, 0},
		{"batch-foreign", completed, 41, 0}, {"batch-validating-fails", failed, 0, 0}, {"batch-azure", "Completed", 40, 0},
		{"batch-stuck-pending", inProgress, 0, 0},
	} {
		t.Run(tt.scenario, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, endpoint := New(Config{}), "/v1/responses"
				if tt.scenario == "batch-azure" {
					endpoint = "/responses"
				}
				base := "/" + tt.scenario + "/v1"
				id := openaiRun(t, s, tt.scenario, endpoint, 40)
				time.Sleep(3 * time.Second)
				o := get(t, s, base+"/batches/"+id)
				if o["status"] != tt.status {
					t.Errorf("status %v, want %s", o["status"], tt.status)
				}
				for member, want := range map[string]int{"output_file_id": tt.ok, "error_file_id": tt.bad} {
					file, _ := o[member].(string)
					if file == "" {
						if want > 0 {
							t.Errorf("no %s", member)
						}
						continue
					}
					a := send(s, httptest.NewRequest("GET", base+"/files/"+file+"/content", nil))
					if n := strings.Count(a.Body.String(), "\n"); n != want {
						t.Errorf("%s has %d lines, want %d", member, n, want)
					}
				}
			})
		})
	}
}

func TestMessageBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{})
		const base = "/batch-ok/v1/messages/batches"
		a := post(s, base, `{"requests":[{"custom_id":"a","params":`+messagesBody+`},{"custom_id":"b","params":`+messagesBody+`}]}`)
		var b struct{ ID string }
		if json.Unmarshal(a.Body.Bytes(), &b) != nil || b.ID == "" {
			t.Fatalf("create: %d %s", a.Code, a.Body)
		}
		if o := get(t, s, base+"/"+b.ID); o["processing_status"] != "in_progress" {
			t.Errorf("at first %v", o)
		}
		time.Sleep(3 * time.Second)
		if o := get(t, s, base+"/"+b.ID); o["processing_status"] != "ended" {
			t.Errorf("at last %v", o)
		}
		a = send(s, httptest.NewRequest("GET", base+"/"+b.ID+"/results", nil))
		if n := strings.Count(a.Body.String(), `"service_tier":"batch"`); n != 2 {
			t.Errorf("%d answers in %s", n, a.Body)
		}
		if st := s.Stats(); st.Batches != 1 || st.Items != 2 || st.Polls != 2 {
			t.Errorf("counts %+v", st.Counts)
		}
		if a := post(s, base, `{"requests":[{"custom_id":"a/b","params":{}}]}`); a.Code != 400 {
			t.Errorf("a bad custom_id gets %d", a.Code)
		}
	})
}
