package provider

import "encoding/json"

// Classify says what an answer that is not a usable reply means. Its body may be
// anything: an error object of any known shape, HTML, text or nothing. request is
// the item's own body: a known phrase counts only where an error's message is
// expected, and not if it stands in the request too.
func Classify(a Answer, request []byte) *Error {
	return &Error{Class: ServerError, Status: a.Status}
}

// ClassifyObject says what an error inside a 200 or a stream means: raw is the
// error object (or whatever stands in its place), fallbackStatus the status it
// is taken for if it names none, such as 500.
func ClassifyObject(raw json.RawMessage, fallbackStatus int, request []byte) *Error {
	return Classify(Answer{Status: fallbackStatus, Body: raw}, request)
}
