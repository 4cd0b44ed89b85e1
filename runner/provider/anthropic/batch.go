package anthropic

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"llmbatch/runner/provider"
)

// batches is the Message Batches API.
type batches struct{}

var _ provider.BatchMaker = Provider{}

// Batches is the Message Batches API, which all vendors have alike.
func (Provider) Batches(string) provider.Batcher { return batches{} }

const batchesPath = "/v1/messages/batches"

func (batches) Caps() provider.BatchCaps {
	return provider.BatchCaps{Count: 100_000, Bytes: 256e6, Floor: 0}
}

// refused are the members that a batch refuses in params.
var refused = []string{"speed", "store", "previous_thread_event_id", "cache_hint", "context_hint"}

func (batches) Refuse(c *provider.Call) error {
	if c.Stream {
		return errors.New(`the Batch API takes no "stream": true`)
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(c.Body, &members); err != nil {
		return err
	}
	for _, name := range refused {
		if _, ok := members[name]; ok {
			return fmt.Errorf("the Batch API takes no %q", name)
		}
	}
	if string(members["max_tokens"]) == "0" {
		return errors.New(`the Batch API takes no "max_tokens": 0`)
	}
	return nil
}

func (batches) Frame(provider.BatchMeta) (head, between, tail []byte, contentType string) {
	return []byte(`{"requests":[`), []byte(",\n"), []byte("]}"), "application/json"
}

func (batches) Item(c *provider.Call, id string) []byte {
	return fmt.Appendf(nil, `{"custom_id":%q,"params":%s}`, id, c.Body)
}

func (batches) Upload() *provider.BatchRequest { return nil }

func (batches) Create(provider.BatchMeta) provider.BatchRequest {
	return provider.BatchRequest{Method: http.MethodPost, Path: batchesPath}
}

func (batches) List(after string) provider.BatchRequest {
	path := batchesPath + "?limit=1000"
	if after != "" {
		path += "&after_id=" + url.QueryEscape(after)
	}
	return provider.BatchRequest{Method: http.MethodGet, Path: path}
}

func (b batches) Files(string) provider.BatchRequest { return b.List("") }

func (batches) Get(id string) provider.BatchRequest {
	return provider.BatchRequest{Method: http.MethodGet, Path: batchesPath + "/" + url.PathEscape(id)}
}

func (b batches) Cancel(id string) *provider.BatchRequest {
	return &provider.BatchRequest{Method: http.MethodPost, Path: b.Get(id).Path + "/cancel"}
}

func (b batches) Results(s provider.BatchState) []provider.BatchRequest {
	return []provider.BatchRequest{{Method: http.MethodGet, Path: b.Get(s.ID).Path + "/results", Accept: "application/x-jsonl"}}
}

func (b batches) Delete(s provider.BatchState) []provider.BatchRequest {
	return []provider.BatchRequest{{Method: http.MethodDelete, Path: b.Get(s.ID).Path}}
}

// object is a batch as the API writes it.
type object struct {
	ID     string `json:"id"`
	Status string `json:"processing_status"`
	Counts struct {
		Processing, Succeeded, Errored, Canceled, Expired int
	} `json:"request_counts"`
	Created time.Time  `json:"created_at"`
	Expires time.Time  `json:"expires_at"`
	Ended   *time.Time `json:"ended_at"`
}

func (o *object) state() provider.BatchState {
	c := o.Counts
	s := provider.BatchState{
		ID: o.ID, Status: o.Status, Created: o.Created, Expires: o.Expires,
		Total:     c.Processing + c.Succeeded + c.Errored + c.Canceled + c.Expired,
		Completed: c.Succeeded, Failed: c.Errored,
	}
	if o.Status == "ended" {
		s.Phase = provider.BatchEnded
	}
	if o.Ended != nil {
		s.Ended = *o.Ended
	}
	return s
}

func (batches) Batch(raw []byte) (provider.BatchState, error) {
	var o object
	if err := json.Unmarshal(raw, &o); err != nil {
		return provider.BatchState{}, err
	}
	if o.ID == "" || o.Status == "" {
		return provider.BatchState{}, errors.New("the answer is no batch: it has no id or no processing_status")
	}
	return o.state(), nil
}

func (batches) Page(raw []byte) (list []provider.BatchState, after string, err error) {
	var p struct {
		Data    []object
		HasMore bool   `json:"has_more"`
		LastID  string `json:"last_id"`
	}
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, "", err
	}
	for i := range p.Data {
		list = append(list, p.Data[i].state())
	}
	if p.HasMore && len(list) > 0 {
		after = p.LastID
		if after == "" {
			after = list[len(list)-1].ID
		}
	}
	return list, after, nil
}

func (batches) File([]byte) (string, error) { return "", errors.New("there are no input files") }

func (batches) FilePage([]byte) (map[string]string, string, error) { return nil, "", nil }

func (batches) Line(raw []byte) (provider.BatchLine, error) {
	var l struct {
		ID     string `json:"custom_id"`
		Result struct {
			Type    string
			Message json.RawMessage
			Error   json.RawMessage
		}
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		return provider.BatchLine{}, err
	}
	if l.ID == "" {
		return provider.BatchLine{}, errors.New("the line has no custom_id")
	}
	out := provider.BatchLine{ID: l.ID}
	switch l.Result.Type {
	case "succeeded":
		out.Answer = provider.BatchAnswer(200, "", l.Result.Message)
	case "expired":
		out.Err = provider.BatchExpired()
	case "canceled":
		out.Err = provider.BatchCanceled()
	default:
		out.Err = provider.ClassifyObject(l.Result.Error, 500, nil)
	}
	return out, nil
}
