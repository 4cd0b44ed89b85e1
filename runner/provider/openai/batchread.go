package openai

import (
	"encoding/json"
	"errors"
	"regexp"
	"strconv"
	"strings"
	"time"

	"llmbatch/runner/provider"
)

// stamp is a time as vendors write it: Unix seconds, RFC 3339, or null.
type stamp struct{ time.Time }

func (s *stamp) UnmarshalJSON(b []byte) error {
	if n, err := strconv.ParseFloat(string(b), 64); err == nil && n > 0 {
		s.Time = time.Unix(int64(n), 0).UTC()
		return nil
	}
	text := strings.Trim(string(b), `"`)
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		s.Time = t
	}
	return nil
}

// object is a batch as vendors write it.
type object struct {
	ID         string                                 `json:"id"`
	Status     string                                 `json:"status"`
	InputFile  string                                 `json:"input_file_id"`
	Metadata   map[string]any                         `json:"metadata"`
	OutputFile string                                 `json:"output_file_id"`
	ErrorFile  string                                 `json:"error_file_id"`
	Output     string                                 `json:"output_file"`
	Error      string                                 `json:"error_file"`
	Outputs    json.RawMessage                        `json:"outputs"`
	Results    json.RawMessage                        `json:"results"`
	Counts     struct{ Total, Completed, Failed int } `json:"request_counts"`
	TotalJobs  int                                    `json:"total_requests"`
	Succeeded  int                                    `json:"succeeded_requests"`
	Created    stamp                                  `json:"created_at"`
	Expires    stamp                                  `json:"expires_at"`
	Completed  stamp                                  `json:"completed_at"`
	Failed     stamp                                  `json:"failed_at"`
	Expired    stamp                                  `json:"expired_at"`
	Cancelled  stamp                                  `json:"cancelled_at"`
	Errors     json.RawMessage                        `json:"errors"`
}

func (b batches) Batch(raw []byte) (provider.BatchState, error) {
	var o object
	if err := json.Unmarshal(raw, &o); err != nil {
		return provider.BatchState{}, err
	}
	if o.ID == "" || o.Status == "" {
		return provider.BatchState{}, errors.New("the answer is no batch: it has no id or no status")
	}
	return o.state(), nil
}

func (o *object) state() provider.BatchState {
	s := provider.BatchState{
		ID: o.ID, Status: strings.ToLower(o.Status), File: o.InputFile,
		Output: first(o.OutputFile, o.Output), Errors: first(o.ErrorFile, o.Error),
		Created: o.Created.Time, Expires: o.Expires.Time,
		Total: max(o.Counts.Total, o.TotalJobs), Completed: max(o.Counts.Completed, o.Succeeded), Failed: o.Counts.Failed,
	}
	for _, prefix := range []string{"batch_state_", "job_state_"} {
		s.Status = strings.TrimPrefix(s.Status, prefix)
	}
	s.Tag, _ = o.Metadata["llmbatch"].(string)
	for _, t := range []stamp{o.Completed, o.Failed, o.Expired, o.Cancelled} {
		if !t.IsZero() {
			s.Ended = t.Time
		}
	}
	_ = json.Unmarshal(o.Outputs, &s.Results)
	if len(s.Results) == 0 {
		_ = json.Unmarshal(o.Results, &s.Results)
	}
	switch s.Status {
	case "completed", "expired", "cancelled", "success", "timeout_exceeded":
		s.Phase = provider.BatchEnded
	case "failed":
		s.Phase = provider.BatchEnded
		if s.Output == "" && s.Errors == "" && s.Results == nil {
			s.Phase = provider.BatchRefused
			o.refusal(&s)
		}
	}
	return s
}

// refusal reads why a batch failed: errors is a list, bare or under data.
func (o *object) refusal(s *provider.BatchState) {
	var list []json.RawMessage
	var under struct{ Data []json.RawMessage }
	if json.Unmarshal(o.Errors, &list) != nil && json.Unmarshal(o.Errors, &under) == nil {
		list = under.Data
	}
	raw := json.RawMessage(`{"message":"the batch failed, and the API does not say why"}`)
	if len(list) > 0 {
		raw = list[0]
	}
	var e struct {
		Code, Message string
		Line          *int
	}
	_ = json.Unmarshal(raw, &e)
	s.Err = provider.ClassifyObject(raw, 400, nil)
	if e.Line != nil {
		s.Line = *e.Line
	}
	if e.Code == "token_limit_exceeded" || strings.Contains(strings.ToLower(e.Message), "enqueued token limit") {
		s.TokenLimit, s.Queue = true, queueOf(e.Message)
	}
}

var queueLimit = regexp.MustCompile(`(?i)limit(?: of|:)\s*([\d,.]+)\s*([km]?)`)

// queueOf reads the limit in "Limit: 2,000,000 enqueued tokens" or "configured limit of 30K".
func queueOf(message string) int64 {
	m := queueLimit.FindStringSubmatch(message)
	if m == nil {
		return 0
	}
	n, err := strconv.ParseFloat(strings.TrimRight(strings.ReplaceAll(m[1], ",", ""), "."), 64)
	if err != nil {
		return 0
	}
	switch strings.ToLower(m[2]) {
	case "k":
		n *= 1e3
	case "m":
		n *= 1e6
	}
	return int64(n)
}

func first(values ...string) string {
	for _, v := range values {
		if v != "" {
			return v
		}
	}
	return ""
}

// page is a list of objects.
type page struct {
	Data    []json.RawMessage `json:"data"`
	HasMore bool              `json:"has_more"`
	LastID  string            `json:"last_id"`
}

func (b batches) Page(raw []byte) (list []provider.BatchState, after string, err error) {
	var p page
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, "", err
	}
	for _, d := range p.Data {
		var o object
		if json.Unmarshal(d, &o) == nil && o.ID != "" {
			list = append(list, o.state())
		}
	}
	if p.HasMore && len(list) > 0 {
		after = first(p.LastID, list[len(list)-1].ID)
	}
	return list, after, nil
}

func (b batches) File(raw []byte) (string, error) {
	var f struct{ ID string }
	if err := json.Unmarshal(raw, &f); err != nil {
		return "", err
	}
	if f.ID == "" {
		return "", errors.New("the answer to the upload has no id")
	}
	return f.ID, nil
}

func (b batches) FilePage(raw []byte) (ids map[string]string, after string, err error) {
	var p page
	if err := json.Unmarshal(raw, &p); err != nil {
		return nil, "", err
	}
	ids = map[string]string{}
	last := ""
	for _, d := range p.Data {
		var f struct{ ID, Filename string }
		if json.Unmarshal(d, &f) == nil && f.ID != "" {
			ids[f.Filename], last = f.ID, f.ID
		}
	}
	if p.HasMore && last != "" {
		after = first(p.LastID, last)
	}
	return ids, after, nil
}

func (b batches) Line(raw []byte) (provider.BatchLine, error) {
	var l struct {
		ID       string `json:"custom_id"`
		Response *struct {
			Status    int             `json:"status_code"`
			RequestID string          `json:"request_id"`
			Body      json.RawMessage `json:"body"`
		} `json:"response"`
		Error json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(raw, &l); err != nil {
		return provider.BatchLine{}, err
	}
	if l.ID == "" {
		return provider.BatchLine{}, errors.New("the line has no custom_id")
	}
	out := provider.BatchLine{ID: l.ID}
	if r := l.Response; r != nil {
		status := r.Status
		if status == 0 {
			status = 200
		}
		out.Answer = provider.BatchAnswer(status, r.RequestID, r.Body)
		return out, nil
	}
	var e struct{ Code string }
	_ = json.Unmarshal(l.Error, &e)
	switch e.Code {
	case "batch_expired":
		out.Err = provider.BatchExpired()
	case "batch_cancelled", "batch_canceled":
		out.Err = provider.BatchCanceled()
	default:
		out.Err = provider.ClassifyObject(l.Error, 500, nil)
	}
	return out, nil
}
