package provider

import (
	"encoding/json"
	"net/http"
	"time"
)

// Batcher is a Provider's asynchronous Batch API: what is sent to it and what its
// answers mean. It does no I/O. Its methods may be called by many goroutines.
type Batcher interface {
	// Caps are the API's limits.
	Caps() BatchCaps
	// Refuse says why a call can't be part of a batch; nil if it can.
	Refuse(c *Call) error
	// Frame is what stands before, between and after the items of an input, and the
	// input's content type.
	Frame(b BatchMeta) (head, between, tail []byte, contentType string)
	// Item is one item of an input, under the id that its result will name.
	Item(c *Call, id string) []byte

	// Upload sends the input as a file; nil where Create carries it.
	Upload() *BatchRequest
	// Create makes a batch. Its Body is nil where the input is the body.
	Create(b BatchMeta) BatchRequest
	// List asks for the page of batches after the one with that id, the newest
	// first; Files the same for uploaded inputs.
	List(after string) BatchRequest
	Files(after string) BatchRequest
	Get(id string) BatchRequest
	// Cancel is nil where the API has no such call.
	Cancel(id string) *BatchRequest
	// Results are the requests for what a batch that has ended brought.
	Results(s BatchState) []BatchRequest
	// Delete are the requests that remove its files.
	Delete(s BatchState) []BatchRequest

	// Batch reads a batch object. An error means that it is none.
	Batch(body []byte) (BatchState, error)
	// Page reads a page of batches, and the id to go on after, "" at the end.
	Page(body []byte) (list []BatchState, after string, err error)
	// File reads the id of an uploaded file, and FilePage a page of them by name.
	File(body []byte) (id string, err error)
	FilePage(body []byte) (ids map[string]string, after string, err error)
	// Line reads one line of results: the item's id, and its answer or what befell it.
	Line(line []byte) (BatchLine, error)
}

// BatchMaker is a Provider with a Batch API.
type BatchMaker interface {
	// Batches is the Batch API as the named vendor has it; nil if it has none.
	Batches(vendor string) Batcher
}

// BatchCaps says what a Batch API takes.
type BatchCaps struct {
	Count    int   // most requests a batch
	Bytes    int64 // most bytes of the input
	OneModel bool  // all of a batch are for one model and endpoint
	// Named: a batch tells which input it was made of, so that one whose creation
	// was not answered is found again for certain.
	Named bool
	// Queue: the API bounds the tokens of a model's open batches.
	Queue bool
	Floor time.Duration // least time between two looks at a batch
}

// BatchMeta describes a batch that is to be made.
type BatchMeta struct {
	Tag      string // ours: salt and part
	Name     string // the input file's
	File     string // the uploaded input's id
	Endpoint string // the calls' path, such as /chat/completions
	Model    string
}

// BatchRequest is a call of a Batch API.
type BatchRequest struct {
	Method, Path string // Path is relative to the base URL
	Body         []byte
	Accept       string // "" takes anything
}

// BatchPhase is how far a batch is.
type BatchPhase uint8

const (
	// BatchOpen: work goes on, or may.
	BatchOpen BatchPhase = iota
	// BatchEnded: nothing more will come; there may be results.
	BatchEnded
	// BatchRefused: the input was not taken, and nothing was done.
	BatchRefused
)

// BatchState is a batch as the API describes it.
type BatchState struct {
	ID     string
	Status string // the API's own word, lower case
	Phase  BatchPhase
	File   string // the input's id
	Tag    string // BatchMeta.Tag, where the API keeps it

	Created, Expires, Ended time.Time // zero: unknown

	Total, Completed, Failed int
	// Output and Errors are the files of results, "" if there is none.
	Output, Errors string
	// Results holds the results themselves, where the API sends them with the batch.
	Results []json.RawMessage
	// Err is why the API refused the batch, nil if it did not, and Line the line of
	// the input that it named, from 1; 0 if none.
	Err  *Error
	Line int
	// TokenLimit: it was refused for the tokens of all open batches, of which Queue
	// is the most, 0 if that was not said.
	TokenLimit bool
	Queue      int64
}

// BatchLine is one line of a batch's results.
type BatchLine struct {
	ID string
	// Answer is the item's, as the live API would have sent it.
	Answer Answer
	// Err is set in place of an answer: the item expired or was cancelled.
	Err *Error
}

// BatchExpired is an item that a batch did not get to in its time.
func BatchExpired() *Error {
	return &Error{Class: Timeout, Message: "the batch expired before this item was done"}
}

// BatchCanceled is an item of a batch that was cancelled.
func BatchCanceled() *Error {
	return &Error{Class: Canceled, Message: "the batch was cancelled before this item was done"}
}

// BatchAnswer makes an item's answer of a status and a body.
func BatchAnswer(status int, requestID string, body []byte) Answer {
	h := http.Header{}
	if requestID != "" {
		h.Set("X-Request-Id", requestID)
	}
	return Answer{Status: status, Header: h, Body: body}
}
