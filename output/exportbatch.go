package output

import (
	"cmp"
	"net/http"
	"strconv"
	"strings"
)

// answered reports whether a row without an answer ends in what the API said, and
// not in what this program decided: a rejection, or a word not to try again.
func answered(r *Result) bool {
	return r.Error != nil && r.Error.Status >= http.StatusBadRequest &&
		(r.Status == Failed || r.GiveUpReason == "server_said_no")
}

// expired reports whether time ran out for a row's item.
func expired(r *Result) bool {
	switch r.GiveUpReason {
	case "item_budget", "run_budget", "max_wait":
		return r.Status == GaveUp
	}
	return false
}

// lastAttempt returns the zero Attempt if there was none.
func lastAttempt(r *Result) Attempt {
	if len(r.Attempts) == 0 {
		return Attempt{}
	}
	return r.Attempts[len(r.Attempts)-1]
}

// appendOpenAILine writes a line of an output file of OpenAI's Batch API. What
// the API refused is in response, with its status; what was never answered for
// good is in error, with response null, as there.
func appendOpenAILine(dst []byte, r *Result) []byte {
	dst = append(dst, `{"id":`...)
	dst = appendString(dst, batchID(r))
	dst = append(dst, `,"custom_id":`...)
	dst = appendString(dst, r.Key)
	last := lastAttempt(r)
	switch {
	case r.Status == OK:
		status := last.Status
		if status < 200 || status > 299 {
			status = http.StatusOK
		}
		dst = appendOpenAIResponse(dst, status, last.RequestID)
		dst = appendRaw(dst, orNull(r.Response))
		dst = append(dst, `},"error":null`...)
	case answered(r):
		dst = appendOpenAIResponse(dst, r.Error.Status, last.RequestID)
		if len(r.Response) > 0 {
			dst = appendRaw(dst, r.Response)
		} else {
			dst = appendOpenAIError(dst, r.Error)
		}
		dst = append(dst, `},"error":null`...)
	default:
		code, message := clientError(r)
		dst = append(dst, `,"response":null,"error":{"code":`...)
		dst = appendString(dst, code)
		dst = append(dst, `,"message":`...)
		dst = appendString(dst, message)
		dst = append(dst, '}')
	}
	return append(dst, "}\n"...)
}

func appendOpenAIResponse(dst []byte, status int, requestID string) []byte {
	dst = append(dst, `,"response":{"status_code":`...)
	dst = strconv.AppendInt(dst, int64(status), 10)
	dst = append(dst, `,"request_id":`...)
	dst = appendString(dst, requestID)
	return append(dst, `,"body":`...)
}

func appendOpenAIError(dst []byte, e *Error) []byte {
	dst = append(dst, `{"error":{"message":`...)
	dst = appendString(dst, e.Message)
	dst = append(dst, `,"type":`...)
	dst = appendString(dst, cmp.Or(e.Type, e.Class))
	dst = append(dst, `,"param":null,"code":`...)
	if e.Code == "" {
		return append(dst, `null}}`...)
	}
	return append(appendString(dst, e.Code), `}}`...)
}

// clientError names why an item has no answer. Time that ran out has the code
// that OpenAI's batches use for it.
func clientError(r *Result) (code, message string) {
	e := cmp.Or(r.Error, &Error{})
	code = cmp.Or(r.GiveUpReason, e.Class, string(r.Status))
	if r.Status == Aborted || r.Status == Waiting {
		code = string(r.Status)
	}
	message = cmp.Or(e.Message, "no answer: "+code)
	if expired(r) {
		return "batch_expired", strings.TrimSuffix("gave up ("+r.GiveUpReason+"): "+e.Message, ": ")
	}
	return code, message
}

// appendAnthropicLine writes a line of the results of Anthropic's Message Batches.
func appendAnthropicLine(dst []byte, r *Result) []byte {
	dst = append(dst, `{"custom_id":`...)
	dst = appendString(dst, r.Key)
	dst = append(dst, `,"result":{"type":`...)
	switch {
	case r.Status == OK:
		dst = append(dst, `"succeeded","message":`...)
		dst = appendRaw(dst, orNull(r.Response))
	case r.Status == Aborted || r.Status == Waiting:
		dst = append(dst, `"canceled"`...)
	case expired(r):
		dst = append(dst, `"expired"`...)
	default:
		dst = append(dst, `"errored","error":`...)
		dst = appendAnthropicError(dst, r)
	}
	return append(dst, "}}\n"...)
}

func appendAnthropicError(dst []byte, r *Result) []byte {
	e := cmp.Or(r.Error, &Error{})
	_, message := clientError(r)
	dst = append(dst, `{"type":"error","error":{"type":`...)
	dst = appendString(dst, anthropicType(e))
	dst = append(dst, `,"message":`...)
	dst = appendString(dst, message)
	dst = append(dst, `},"request_id":`...)
	if id := lastAttempt(r).RequestID; id != "" {
		return append(appendString(dst, id), '}')
	}
	return append(dst, "null}"...)
}

// anthropicType is the API's own word where it is one of its kind, else the one
// for the status.
func anthropicType(e *Error) string {
	if strings.HasSuffix(e.Type, "_error") || e.Type == "request_too_large" {
		return e.Type
	}
	switch e.Status {
	case 400, 422:
		return "invalid_request_error"
	case 401:
		return "authentication_error"
	case 402:
		return "billing_error"
	case 403:
		return "permission_error"
	case 404:
		return "not_found_error"
	case 413:
		return "request_too_large"
	case 429:
		return "rate_limit_error"
	case 504:
		return "timeout_error"
	case 529:
		return "overloaded_error"
	}
	return "api_error"
}

func orNull(raw []byte) []byte {
	if len(raw) == 0 {
		return []byte("null")
	}
	return raw
}
