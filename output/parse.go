package output

import (
	"bytes"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// errNotObject is the cause of a line that is not one whole JSON object.
var errNotObject = errors.New("not one whole JSON object")

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
	if !walkElements(array, func([]byte) {}) {
		return nil, errors.New("attempts are not a list of JSON values")
	}
	return parseList(array), nil
}

// parseRow reads all but the attempts, which it returns as they stand in line.
func parseRow(line []byte) (r *Result, attempts []byte, err error) {
	r = &Result{}
	whole := walkObject(line, func(key, value []byte) {
		switch name := memberName(key); string(name) {
		case "attempts":
			attempts = value
		case "usage":
			r.Usage = parseUsage(value)
		case "error":
			r.Error = parseError(value)
		default:
			r.set(name, value)
		}
	})
	if !whole {
		return nil, nil, errNotObject
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
		r.Status = Status(text(value))
	case "request_hash":
		r.RequestHash = text(value)
	case "index":
		r.Index = int(number(value))
	case "provider":
		r.Provider = text(value)
	case "model":
		r.Model = text(value)
	case "text":
		r.Text = text(value)
	case "partial_text":
		r.PartialText = text(value)
	case "stop_reason":
		r.StopReason = text(value)
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
		r.ReusedFrom = text(value)
	case "copied_from":
		r.CopiedFrom = text(value)
	case "response":
		r.Response = bytes.Clone(value)
	case "give_up_reason":
		r.GiveUpReason = text(value)
	case "next_attempt_at":
		r.NextAttemptAt = moment(value)
	case "idempotency_key":
		r.IdempotencyKey = text(value)
	case "first_attempt_at":
		r.FirstAttemptAt = moment(value)
	case "finished_at":
		r.FinishedAt = moment(value)
	}
}

func parseUsage(value []byte) Usage {
	var u Usage
	walkObject(value, func(key, value []byte) {
		switch string(memberName(key)) {
		case "input_tokens":
			u.InputTokens = number(value)
		case "output_tokens":
			u.OutputTokens = number(value)
		case "cache_read_tokens":
			u.CacheReadTokens = number(value)
		case "cache_write_tokens":
			u.CacheWriteTokens = number(value)
		case "reasoning_tokens":
			u.ReasoningTokens = number(value)
		}
	})
	return u
}

func parseError(value []byte) *Error {
	if value[0] != '{' {
		return nil
	}
	e := &Error{}
	walkObject(value, func(key, value []byte) {
		switch string(memberName(key)) {
		case "class":
			e.Class = text(value)
		case "status":
			e.Status = int(number(value))
		case "type":
			e.Type = text(value)
		case "code":
			e.Code = text(value)
		case "message":
			e.Message = text(value)
		}
	})
	return e
}

func parseList(array []byte) []Attempt {
	var list []Attempt
	walkElements(array, func(value []byte) {
		if value[0] == '{' {
			list = append(list, parseAttempt(value))
		}
	})
	return list
}

func parseAttempt(object []byte) Attempt {
	var a Attempt
	walkObject(object, func(key, value []byte) {
		switch string(memberName(key)) {
		case "attempt":
			a.Attempt = int(number(value))
		case "started_at":
			a.StartedAt = moment(value)
		case "duration_ms":
			a.Duration = millis(value)
		case "status":
			a.Status = int(number(value))
		case "outcome":
			a.Outcome = text(value)
		case "error":
			a.Error = text(value)
		case "request_id":
			a.RequestID = text(value)
		case "retry_after":
			a.RetryAfter = text(value)
		case "wait_ms":
			a.Wait = millis(value)
		case "wait_reason":
			a.WaitReason = text(value)
		case "concurrency":
			a.Concurrency = int(number(value))
		case "usage":
			a.Usage = parseUsage(value)
		case "sent":
			a.Unsent = string(value) == "false"
		case "worker":
			a.Worker = text(value)
		case "batch_id":
			a.BatchID = text(value)
		}
	})
	return a
}

// isID reports whether a valid value is a string or a number.
func isID(value []byte) bool {
	return value[0] == '"' || value[0] == '-' || '0' <= value[0] && value[0] <= '9'
}

// keyOf is what ids are compared by: a string's text, a number's digits.
func keyOf(id []byte) string {
	if id[0] == '"' {
		return text(id)
	}
	return string(id)
}

// memberName undoes the escapes of a key, which ours never have.
func memberName(key []byte) []byte {
	if bytes.IndexByte(key, '\\') < 0 {
		return key
	}
	return []byte(unescape(key))
}

// text is the value of a JSON string, "" for anything else.
func text(value []byte) string {
	if value[0] != '"' {
		return ""
	}
	inner := value[1 : len(value)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return strings.ToValidUTF8(string(inner), "\uFFFD")
	}
	return unescape(inner)
}

// unescape reads what stands between a string's quotes. Half a surrogate pair
// becomes U+FFFD.
func unescape(inner []byte) string {
	quoted := append(append(append(make([]byte, 0, len(inner)+2), '"'), inner...), '"')
	out, _ := jsontext.AppendUnquote(make([]byte, 0, len(inner)), quoted)
	return string(out)
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
	t, err := time.Parse(time.RFC3339, text(value))
	if err != nil {
		return time.Time{}
	}
	return t.UTC()
}
