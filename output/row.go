package output

import (
	"bytes"
	"encoding/json"
	"math"
	"math/bits"
	"strconv"
	"time"
	"unicode/utf8"
)

// timeLayout is RFC 3339 in UTC with milliseconds.
const timeLayout = "2006-01-02T15:04:05.000Z"

// AppendRow appends r to dst as one line with its newline. The members id,
// status and request_hash stand first, so that a scan finds them at once, then
// index, then the rest; empty members are left out.
//
// The line is always valid JSON and holds no other newline: strings are escaped
// (but not for HTML), invalid UTF-8 becomes U+FFFD, and a raw member that is not
// compact is made so, or written as a string if it is not JSON at all.
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
	switch {
	case r.Quoted == nil:
		dst = appendText(dst, `,"text":`, r.Text)
	case len(r.Quoted) > len(`""`):
		dst = append(append(dst, `,"text":`...), r.Quoted...)
	}
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
	if r.Checked && len(r.Response) > 0 {
		dst = append(append(dst, `,"response":`...), r.Response...)
	} else {
		dst = appendMember(dst, `,"response":`, r.Response)
	}
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
	if len(r.ID) > 0 && (r.ID[0] == '"' || r.ID[0] == '-' || '0' <= r.ID[0] && r.ID[0] <= '9') &&
		isCompact(r.ID) && utf8.Valid(r.ID) {
		return append(dst, r.ID...)
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

// appendRaw appends a JSON value as it is if it is compact and UTF-8, made so
// if it can be, and as a string of its text otherwise.
func appendRaw(dst, raw []byte) []byte {
	if isCompact(raw) && utf8.Valid(raw) {
		return append(dst, raw...)
	}
	if v := compacted(raw); v != nil {
		return append(dst, v...)
	}
	return appendString(dst, string(raw))
}

// compacted returns a compact copy of raw in valid UTF-8, nil if raw is not JSON.
func compacted(raw []byte) []byte {
	var buf bytes.Buffer
	if json.Compact(&buf, bytes.ToValidUTF8(raw, []byte("\uFFFD"))) != nil || !isCompact(buf.Bytes()) {
		return nil
	}
	return buf.Bytes()
}

// compactList returns comma-separated values in compact form, nil if they are
// not JSON. The values come from a row that was read, so they are.
func compactList(list []byte) []byte {
	if len(list) == 0 {
		return nil
	}
	array := make([]byte, 0, len(list)+2)
	array = append(append(append(array, '['), list...), ']')
	if !isCompact(array) || !utf8.Valid(array) {
		if array = compacted(array); array == nil {
			return nil
		}
	}
	return array[1 : len(array)-1]
}

// appendString appends s as a JSON string, control characters escaped.
func appendString(dst []byte, s string) []byte {
	const hex = "0123456789abcdef"
	dst = append(dst, '"')
	start := 0
	for i := plainText(s, 0); i < len(s); i = plainText(s, i) {
		c := s[i]
		if c >= utf8.RuneSelf {
			r, size := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && size == 1 {
				dst = append(append(dst, s[start:i]...), "\uFFFD"...)
				start = i + 1
			}
			i += size
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, `\n`...)
		case '\r':
			dst = append(dst, `\r`...)
		case '\t':
			dst = append(dst, `\t`...)
		default:
			dst = append(dst, '\\', 'u', '0', '0', hex[c>>4], hex[c&15])
		}
		i++
		start = i
	}
	return append(append(dst, s[start:]...), '"')
}

// plainText returns the index of the next byte from i on that a JSON string may
// not hold as it is or that begins a longer rune; len(s) if there is none. It
// looks at eight bytes at a time.
func plainText(s string, i int) int {
	for ; i+8 <= len(s); i += 8 {
		x := uint64(s[i]) | uint64(s[i+1])<<8 | uint64(s[i+2])<<16 | uint64(s[i+3])<<24 |
			uint64(s[i+4])<<32 | uint64(s[i+5])<<40 | uint64(s[i+6])<<48 | uint64(s[i+7])<<56
		q, e := x^quotes, x^slashes
		if hit := ((q-lowBits)&^q | (e-lowBits)&^e | (x-blankBits)&^x | x) & highBits; hit != 0 {
			return i + bits.TrailingZeros64(hit)>>3
		}
	}
	for i < len(s) && ' ' <= s[i] && s[i] < utf8.RuneSelf && s[i] != '"' && s[i] != '\\' {
		i++
	}
	return i
}
