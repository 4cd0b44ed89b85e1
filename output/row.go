package output

import (
	"bytes"
	"math"
	"strconv"
	"time"

	"llmbatch/input/jsonl"
)

// timeLayout is RFC 3339 in UTC with milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z"

// AppendRow appends r to dst as one line with its newline. The members id,
// status and request_hash stand first, so that a scan finds them at once, then
// index, then the rest; empty members are left out.
//
// The line is always JSON that common readers take and holds no other newline:
// strings are escaped (but not for HTML), invalid UTF-8 and halves of surrogate pairs
// become U+FFFD, and a raw member that is not compact is made so, or written as a string
// if it is no JSON or nests deeper than 250 levels.
// next_attempt_at is rounded up to the millisecond, other times down.
func AppendRow(dst []byte, r *Result) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendID(dst, r)
	dst = append(dst, `,"status":`...)
	dst = appendString(dst, string(r.Status))
	dst = append(dst, `,"request_hash":`...)
	dst = appendString(dst, r.RequestHash)
	dst = append(dst, `,"index":`...)
	dst = strconv.AppendInt(dst, int64(r.Index), 10)
	dst = appendText(dst, `,"provider":`, r.Provider)
	dst = appendText(dst, `,"model":`, r.Model)
	dst = appendText(dst, `,"text":`, r.Text)
	dst = appendText(dst, `,"partial_text":`, r.PartialText)
	dst = appendText(dst, `,"stop_reason":`, r.StopReason)
	dst = appendUsage(dst, r.Usage)
	if r.HasCost && !math.IsNaN(r.Cost) && !math.IsInf(r.Cost, 0) {
		dst = append(dst, `,"cost":`...)
		dst = appendCost(dst, r.Cost)
	}
	dst = appendMember(dst, `,"metadata":`, r.Metadata)
	dst = appendMember(dst, `,"input":`, r.Input)
	dst = appendText(dst, `,"reused_from":`, r.ReusedFrom)
	dst = appendText(dst, `,"copied_from":`, r.CopiedFrom)
	dst = appendMember(dst, `,"response":`, r.Response)
	dst = appendError(dst, r.Error)
	dst = appendText(dst, `,"give_up_reason":`, r.GiveUpReason)
	dst = appendTime(dst, `,"next_attempt_at":`, ceilMilli(r.NextAttemptAt))
	dst = appendText(dst, `,"idempotency_key":`, r.IdempotencyKey)
	dst = appendTime(dst, `,"first_attempt_at":`, r.FirstAttemptAt)
	dst = appendTime(dst, `,"finished_at":`, r.FinishedAt)
	dst = appendAttempts(dst, r.History, r.Attempts)
	return append(dst, "}\n"...)
}

// appendID writes the id as it was; one that is neither string nor number, which
// no input yields, becomes the string of the key.
func appendID(dst []byte, r *Result) []byte {
	if len(r.ID) > 0 && isID(r.ID) {
		if id := jsonl.Clean(r.ID); id != nil {
			return append(dst, id...)
		}
	}
	return appendString(dst, r.Key)
}

// appendCost keeps small sums readable: no exponent, at most 12 digits behind the point.
func appendCost(dst []byte, cost float64) []byte {
	if math.Abs(cost) >= 1e15 {
		return strconv.AppendFloat(dst, cost, 'g', -1, 64)
	}
	from := len(dst)
	dst = strconv.AppendFloat(dst, cost, 'f', 12, 64)
	kept := bytes.TrimRight(dst[from:], "0")
	return dst[:from+len(bytes.TrimSuffix(kept, []byte(".")))]
}

func appendText(dst []byte, name, s string) []byte {
	if s == "" {
		return dst
	}
	return appendString(append(dst, name...), s)
}

func appendMember(dst []byte, name string, raw []byte) []byte {
	if len(raw) == 0 {
		return dst
	}
	return appendRaw(append(dst, name...), raw)
}

func appendTime(dst []byte, name string, t time.Time) []byte {
	if t.IsZero() {
		return dst
	}
	dst = append(append(dst, name...), '"')
	t = t.UTC()
	year, month, day := t.Date()
	if year < 0 || year > 9999 {
		return append(t.AppendFormat(dst, timeLayout), '"')
	}
	// AppendFormat reads the layout anew each time: a third of a row's making.
	hour, minute, second := t.Clock()
	ms := t.Nanosecond() / 1e6
	dst = appendTwo(appendTwo(dst, year/100), year%100)
	dst = appendTwo(append(dst, '-'), int(month))
	dst = appendTwo(append(dst, '-'), day)
	dst = appendTwo(append(dst, 'T'), hour)
	dst = appendTwo(append(dst, ':'), minute)
	dst = appendTwo(append(dst, ':'), second)
	return append(appendTwo(append(dst, '.', '0'+byte(ms/100)), ms%100), 'Z', '"')
}

// appendTwo appends n, below 100, as two digits.
func appendTwo(dst []byte, n int) []byte { return append(dst, '0'+byte(n/10), '0'+byte(n%10)) }

func ceilMilli(t time.Time) time.Time {
	if down := t.Truncate(time.Millisecond); down.Before(t) {
		return down.Add(time.Millisecond)
	}
	return t
}

func appendCount(dst []byte, name string, n int64) []byte {
	if n == 0 {
		return dst
	}
	return strconv.AppendInt(append(dst, name...), n, 10)
}

func appendUsage(dst []byte, u Usage) []byte {
	if u == (Usage{}) {
		return dst
	}
	dst = append(dst, `,"usage":`...)
	from := len(dst)
	dst = appendCount(dst, `,"input_tokens":`, u.InputTokens)
	dst = appendCount(dst, `,"output_tokens":`, u.OutputTokens)
	dst = appendCount(dst, `,"cache_read_tokens":`, u.CacheReadTokens)
	dst = appendCount(dst, `,"cache_write_tokens":`, u.CacheWriteTokens)
	dst = appendCount(dst, `,"reasoning_tokens":`, u.ReasoningTokens)
	dst[from] = '{'
	return append(dst, '}')
}

func appendError(dst []byte, e *Error) []byte {
	if e == nil {
		return dst
	}
	dst = append(dst, `,"error":{"class":`...)
	dst = appendString(dst, e.Class)
	dst = appendCount(dst, `,"status":`, int64(e.Status))
	dst = appendText(dst, `,"type":`, e.Type)
	dst = appendText(dst, `,"code":`, e.Code)
	dst = appendText(dst, `,"message":`, e.Message)
	return append(dst, '}')
}

// appendAttempts writes those of earlier runs as they were, then this run's.
func appendAttempts(dst []byte, history []byte, attempts []Attempt) []byte {
	history = compactList(history)
	if len(history) == 0 && len(attempts) == 0 {
		return dst
	}
	dst = append(dst, `,"attempts":[`...)
	dst = append(dst, history...)
	for i := range attempts {
		if i > 0 || len(history) > 0 {
			dst = append(dst, ',')
		}
		dst = appendAttempt(dst, &attempts[i])
	}
	return append(dst, ']')
}

func appendAttempt(dst []byte, a *Attempt) []byte {
	dst = append(dst, `{"attempt":`...)
	dst = strconv.AppendInt(dst, int64(a.Attempt), 10)
	dst = appendTime(dst, `,"started_at":`, a.StartedAt)
	dst = append(dst, `,"duration_ms":`...)
	dst = strconv.AppendInt(dst, a.Duration.Milliseconds(), 10)
	dst = appendCount(dst, `,"status":`, int64(a.Status))
	dst = append(dst, `,"outcome":`...)
	dst = appendString(dst, a.Outcome)
	dst = appendText(dst, `,"error":`, a.Error)
	if a.Unsent {
		dst = append(dst, `,"sent":false`...)
	}
	dst = appendText(dst, `,"request_id":`, a.RequestID)
	dst = appendText(dst, `,"retry_after":`, a.RetryAfter)
	dst = appendCount(dst, `,"wait_ms":`, a.Wait.Milliseconds())
	dst = appendText(dst, `,"wait_reason":`, a.WaitReason)
	dst = appendCount(dst, `,"concurrency":`, int64(a.Concurrency))
	dst = appendUsage(dst, a.Usage)
	dst = appendText(dst, `,"worker":`, a.Worker)
	dst = appendText(dst, `,"batch_id":`, a.BatchID)
	return append(dst, '}')
}

// maxNesting is how deep a member of a row may nest so that common readers of JSON
// take the row, whose own levels come on top: jq 1.6 takes 256.
const maxNesting = 250

// appendRaw appends a JSON value as any reader takes it, on one line; what is no
// JSON, or nests too deep, as a string of its text.
func appendRaw(dst, raw []byte) []byte {
	if v := jsonl.Clean(raw); v != nil && nesting(v) <= maxNesting {
		return append(dst, v...)
	}
	return appendString(dst, string(raw))
}

// nesting is how deep arrays and objects nest in a valid value.
func nesting(v []byte) int {
	most := bytes.Count(v, []byte("[")) + bytes.Count(v, []byte("{"))
	if most <= maxNesting { // also where most of them stand in strings
		return most
	}
	deepest, depth, inString := 0, 0, false
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"':
			inString = !inString
		case inString && c == '\\':
			i++
		case inString:
		case c == '[' || c == '{':
			depth++
			deepest = max(deepest, depth)
		case c == ']' || c == '}':
			depth--
		}
	}
	return deepest
}

// compactList returns comma-separated values in compact form, nil if they are
// not JSON. The values come from a row that was read, so they are.
func compactList(list []byte) []byte {
	if len(list) == 0 {
		return nil
	}
	array := jsonl.Clean(append(append([]byte{'['}, list...), ']'))
	if array == nil {
		return nil
	}
	return array[1 : len(array)-1]
}

// appendString appends s as a JSON string on one line for any reader: what ends a
// line for some is escaped too.
func appendString[T ~string | ~[]byte](dst []byte, s T) []byte {
	from := len(dst)
	dst = jsonl.AppendQuote(dst, s)
	if bytes.Contains(dst[from:], []byte("\xe2\x80")) || bytes.Contains(dst[from:], []byte("\u0085")) {
		return append(dst[:from], bytes.Clone(jsonl.Clean(dst[from:]))...)
	}
	return dst
}
