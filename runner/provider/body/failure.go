package body

import (
	"cmp"
	"encoding/json"
	"net/http"

	"llmbatch/runner/provider"
)

// Failure says that an answer has an error in one of the places where providers and
// gateways put one: error, an array's first element, an envelope of the vendor's own.
// What Classify makes of it decides.
func Failure(answer []byte) bool {
	if len(answer) > 0 && answer[0] == '[' {
		w := Elements(answer)
		return w.Next() && says(Member(w.Value, "error"))
	}
	for w := Members(answer); w.Next(); {
		failed := false
		switch string(w.Name) {
		case "error", "errors":
			failed = says(w.Value)
		case "object", "type":
			failed = string(w.Value) == `"error"`
		case "error_code", "errorCode", "errcode", "err_code", "errno":
			failed = says(w.Value)
		case "base_resp":
			failed = says(Member(w.Value, "status_code"))
		case "success":
			failed = string(w.Value) == "false" || string(w.Value) == `"false"`
		}
		if failed {
			return true
		}
	}
	return false
}

// says: neither absent, null, false nor empty, and no code for "all is well".
func says(v []byte) bool {
	switch string(v) {
	case "", "null", "false", `""`, `"null"`, "{}", "[]", "0", `"0"`, "200", `"200"`:
		return false
	}
	return true
}

// Failed is what a whole 2xx answer means that says it has failed, its headers
// included. reason is what it means where no error object says more, such as a status;
// "" where the answer has no such member.
func Failed(a provider.Answer, c *provider.Call, reason string, u provider.Usage) *provider.Error {
	e := provider.Classify(a, c.Body)
	if reason != "" && (e.Class == provider.InvalidResponse || e.Class == provider.Truncated) {
		e = provider.ClassifyObject(Broken(reason), http.StatusInternalServerError, c.Body)
		e.RequestID = cmp.Or(e.RequestID, provider.RequestID(a.Header))
	}
	e.Usage = u
	return e
}

// NoAnswer is a 2xx answer that lacks what makes it one: an error of the vendor's own
// kind, or else an invalid response for the reason given.
func NoAnswer(a provider.Answer, c *provider.Call, msg string, u provider.Usage) *provider.Error {
	e := provider.Classify(a, c.Body)
	if e.Class == provider.InvalidResponse && e.Scope == provider.Passing && e.Status == a.Status {
		e = Invalid(a, msg+": "+excerpt(a.Body))
	}
	e.Usage = u
	return e
}

// Broken is an error object for an answer that only says that it has failed.
func Broken(reason string) json.RawMessage {
	return Build(nil,
		Field{Name: "type", Value: []byte(`"server_error"`)},
		Field{Name: "message", Value: Quote("the answer ended with " + reason)})
}
