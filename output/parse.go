package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"llmbatch/input/jsonl"
)

// brokenError is the cause of a line that is not one whole JSON object.
type brokenError string

func (e brokenError) Error() string { return string(e) }

const errNotObject = brokenError("not one whole JSON object")

func isBroken(err error) bool {
	_, broken := errors.AsType[brokenError](err)
	return broken
}

// wholeObject is what a walk over a row ends with: nil or a brokenError.
func wholeObject(w *jsonl.Walk) error {
	switch err := w.Err(); {
	case err == nil:
		return nil
	case strings.Contains(err.Msg, "nest deeper"):
		return brokenError("its " + strings.TrimPrefix(err.Msg, "bad JSON: "))
	}
	return errNotObject
}

// foreignError is the cause of an object that is no row.
type foreignError string

func (e foreignError) Error() string { return string(e) }

// ParseRow reads one row, with or without its newline. The result shares no
// memory with line. Members that are unknown, or known ones of a wrong type, are
// passed over; only a line that is not one JSON object, has no id, or has no
// status that is known is an error. All attempts are in Attempts, History is nil.
func ParseRow(line []byte) (*Result, error) {
	r, attempts, err := parseRow(line)
	if err != nil {
		return nil, err
	}
	r.Attempts = parseList(attempts)
	return r, nil
}

// ParseAttempts reads the attempts of a Result's History.
func ParseAttempts(history json.RawMessage) ([]Attempt, error) {
	if len(history) == 0 {
		return nil, nil
	}
	array := append(append([]byte{'['}, history...), ']')
	if jsonl.Clean(array) == nil {
		return nil, errors.New("attempts are not a list of JSON values")
	}
	return parseList(array), nil
}

// parseRow reads all but the attempts, which it returns as they stand in line.
func parseRow(line []byte) (r *Result, attempts []byte, err error) {
	r = &Result{}
	w := jsonl.Members(line)
	for w.Next() {
		switch string(w.Name) {
		case "attempts":
			attempts = w.Value
		case "usage":
			r.Usage = parseUsage(w.Value)
		case "error":
			r.Error = parseError(w.Value)
		default:
			r.set(w.Name, w.Value)
		}
	}
	if err := wholeObject(&w); err != nil {
		return nil, nil, err
	}
	if r.ID == nil {
		return nil, nil, foreignError("a row has no id")
	}
	if _, known := statusCode(r.Status); !known {
		return nil, nil, foreignError("a row has no status, or an unknown one")
	}
	r.Key = keyOf(r.ID)
	return r, attempts, nil
}

// set takes one member that needs no deeper look.
func (r *Result) set(name, value []byte) {
	switch string(name) {
	case "id":
		r.ID = nil
		if isID(value) {
			r.ID = bytes.Clone(value)
		}
	case "status":
		r.Status = Status(jsonl.Text(value))
	case "request_hash":
		r.RequestHash = jsonl.Text(value)
	case "index":
		r.Index = int(number(value))
	case "provider":
		r.Provider = jsonl.Text(value)
	case "model":
		r.Model = jsonl.Text(value)
	case "text":
		r.Text = jsonl.Text(value)
	case "partial_text":
		r.PartialText = jsonl.Text(value)
	case "stop_reason":
		r.StopReason = jsonl.Text(value)
	case "cost":
		cost, err := strconv.ParseFloat(string(value), 64)
		r.Cost, r.HasCost = cost, err == nil
	case "metadata":
		r.Metadata = bytes.Clone(value)
	case "input":
		if value[0] == '{' {
			r.Input = bytes.Clone(value)
		}
	case "reused_from":
		r.ReusedFrom = jsonl.Text(value)
	case "copied_from":
		r.CopiedFrom = jsonl.Text(value)
	case "response":
		r.Response = bytes.Clone(value)
	case "give_up_reason":
		r.GiveUpReason = jsonl.Text(value)
	case "next_attempt_at":
		r.NextAttemptAt = moment(value)
	case "idempotency_key":
		r.IdempotencyKey = jsonl.Text(value)
	case "first_attempt_at":
		r.FirstAttemptAt = moment(value)
	case "finished_at":
		r.FinishedAt = moment(value)
	}
}

func parseUsage(value []byte) Usage {
	var u Usage
	for w := jsonl.Members(value); w.Next(); {
		switch string(w.Name) {
		case "input_tokens":
			u.InputTokens = number(w.Value)
		case "output_tokens":
			u.OutputTokens = number(w.Value)
		case "cache_read_tokens":
			u.CacheReadTokens = number(w.Value)
		case "cache_write_tokens":
			u.CacheWriteTokens = number(w.Value)
		case "reasoning_tokens":
			u.ReasoningTokens = number(w.Value)
		}
	}
	return u
}

func parseError(value []byte) *Error {
	if value[0] != '{' {
		return nil
	}
	e := &Error{}
	for w := jsonl.Members(value); w.Next(); {
		switch string(w.Name) {
		case "class":
			e.Class = jsonl.Text(w.Value)
		case "status":
			e.Status = int(number(w.Value))
		case "type":
			e.Type = jsonl.Text(w.Value)
		case "code":
			e.Code = jsonl.Text(w.Value)
		case "message":
			e.Message = jsonl.Text(w.Value)
		}
	}
	return e
}

func parseList(array []byte) []Attempt {
	var list []Attempt
	for w := jsonl.Elements(array); w.Next(); {
		if w.Value[0] == '{' {
			list = append(list, parseAttempt(w.Value))
		}
	}
	return list
}

func parseAttempt(object []byte) Attempt {
	var a Attempt
	for w := jsonl.Members(object); w.Next(); {
		switch string(w.Name) {
		case "attempt":
			a.Attempt = int(number(w.Value))
		case "started_at":
			a.StartedAt = moment(w.Value)
		case "duration_ms":
			a.Duration = millis(w.Value)
		case "status":
			a.Status = int(number(w.Value))
		case "outcome":
			a.Outcome = jsonl.Text(w.Value)
		case "error":
			a.Error = jsonl.Text(w.Value)
		case "request_id":
			a.RequestID = jsonl.Text(w.Value)
		case "retry_after":
			a.RetryAfter = jsonl.Text(w.Value)
		case "wait_ms":
			a.Wait = millis(w.Value)
		case "wait_reason":
			a.WaitReason = jsonl.Text(w.Value)
		case "concurrency":
			a.Concurrency = int(number(w.Value))
		case "usage":
			a.Usage = parseUsage(w.Value)
		case "sent":
			a.Unsent = string(w.Value) == "false"
		case "worker":
			a.Worker = jsonl.Text(w.Value)
		case "batch_id":
			a.BatchID = jsonl.Text(w.Value)
		}
	}
	return a
}

// isID reports whether a valid value is a string or a number.
func isID(value []byte) bool {
	return value[0] == '"' || value[0] == '-' || '0' <= value[0] && value[0] <= '9'
}

// keyOf is what ids are compared by: a string's text, a number's digits.
func keyOf(id []byte) string {
	if id[0] == '"' {
		return jsonl.Text(id)
	}
	return string(id)
}

// number is a JSON number's whole part, 0 for anything else.
func number(value []byte) int64 {
	n, err := strconv.ParseInt(string(value), 10, 64)
	if err == nil {
		return n
	}
	f, err := strconv.ParseFloat(string(value), 64)
	if err != nil || f < -1<<62 || f > 1<<62 {
		return 0
	}
	return int64(f)
}

func millis(value []byte) time.Duration {
	const most = int64(1<<63-1) / int64(time.Millisecond)
	return time.Duration(max(-most, min(number(value), most))) * time.Millisecond
}

// moment is the time that a JSON string holds in RFC 3339, else the zero time.
func moment(value []byte) time.Time {
	t, err := time.Parse(time.RFC3339, jsonl.Text(value))
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}
