package fleet

import (
	"encoding/json"
	"fmt"
	"time"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/pacing"
	"llmbatch/runner"
)

// record is one item as a message: all that a worker needs but the keys.
type record struct {
	Item wireItem
	Lane string
	// Hash and Key are the item's request_hash and idempotency key.
	Hash, Key string
	Old       *earlier         `json:",omitempty"`
	Progress  *runner.Progress `json:",omitempty"`
	Epoch     string
}

// earlier is what a worker needs of the row of an earlier run. The attempts
// themselves stay with the coordinator.
type earlier struct {
	Attempts int
	Usage    output.Usage
	Cost     float64
	First    time.Time
}

// wireItem is an input.Item whose raw members are strings: as JSON values they
// would be compacted, and a body must keep its bytes.
type wireItem struct {
	Index, Line            int
	Offset                 int64
	Size                   int
	ID, Key                string
	Format                 input.Format  `json:",omitempty"`
	Model, URL             string        `json:",omitempty"`
	Prompt, System         string        `json:",omitempty"`
	MaxTokens, Temperature string        `json:",omitempty"`
	Params, Body           string        `json:",omitempty"`
	BodyOffset             int           `json:",omitempty"`
	Metadata, Input        string        `json:",omitempty"`
	Files                  []wireFile    `json:",omitempty"`
	Bounds                 *input.Bounds `json:",omitempty"`
}

// wireFile is a file of an item with its content: workers have no folder of files.
type wireFile struct {
	Path, MediaType, Sum string
	Content              []byte
}

func toWire(it *input.Item) wireItem {
	var files []wireFile
	for _, r := range it.Files {
		content, _ := r.Read() // what cannot be read, the worker tells from its hash
		files = append(files, wireFile{r.Path, r.MediaType, r.Sum, content})
	}
	return wireItem{
		Index: it.Index, Line: it.Line, Offset: it.Offset, Size: it.Size, ID: string(it.ID), Key: it.Key,
		Format: it.Format, Model: it.Model, URL: it.URL, Prompt: it.Prompt, System: it.System,
		MaxTokens: string(it.MaxTokens), Temperature: string(it.Temperature), Params: string(it.Params),
		Body: string(it.Body), BodyOffset: it.BodyOffset, Metadata: string(it.Metadata),
		Input: string(it.Input), Files: files, Bounds: it.Bounds,
	}
}

func (w *wireItem) item() *input.Item {
	var files []input.FileRef
	for _, f := range w.Files {
		files = append(files, input.HeldFile(f.Path, f.MediaType, f.Sum, f.Content))
	}
	return &input.Item{
		Index: w.Index, Line: w.Line, Offset: w.Offset, Size: w.Size, ID: raw(w.ID), Key: w.Key,
		Format: w.Format, Model: w.Model, URL: w.URL, Prompt: w.Prompt, System: w.System,
		MaxTokens: raw(w.MaxTokens), Temperature: raw(w.Temperature), Params: raw(w.Params),
		Body: raw(w.Body), BodyOffset: w.BodyOffset, Metadata: raw(w.Metadata),
		Input: raw(w.Input), Files: files, Bounds: w.Bounds,
	}
}

func raw(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}

// attempts is how many the item has had in this run.
func (r *record) attempts() int {
	if r.Progress == nil {
		return 0
	}
	return len(r.Progress.Attempts)
}

// old is the earlier row as the runner asks for it, with as many empty attempts
// as it had.
func (r *record) old() *output.Result {
	res := &output.Result{ID: raw(r.Item.ID), Key: r.Item.Key, Status: output.GaveUp, RequestHash: r.Hash, IdempotencyKey: r.Key}
	o := r.Old
	if o == nil {
		return res
	}
	res.Usage, res.Cost, res.FirstAttemptAt = o.Usage, o.Cost, o.First
	for i := range o.Attempts {
		if i > 0 {
			res.History = append(res.History, ',')
		}
		res.History = append(res.History, "{}"...)
	}
	return res
}

// Headers of results, and of items.
const (
	earlierHeader = "Llmb-Earlier" // how many attempts of earlier runs the row has
	epochHeader   = "Llmb-Epoch"
	againHeader   = "Llmb-Again" // the item was fed before: its result may be there
)

// Config is a run as its workers know it.
type Config struct {
	// Epoch tells this run from earlier ones of the same name.
	Epoch string
	// Print identifies input, output and settings: a coordinator that finds its own
	// takes the run over.
	Print   string
	Started time.Time
	// End is the run's end, zero for none.
	End   time.Time
	Lease time.Duration
	// Lanes is how many there are.
	Lanes int
	// Settings are the caller's, without secrets.
	Settings json.RawMessage
}

// newEpoch names a run so that a later one has the greater name.
func newEpoch(now time.Time) string { return fmt.Sprintf("%016x%s", now.UnixNano(), NewToken()[:8]) }

// The keys of one epoch: a worker that is late must not stop the next run.
func abortKey(epoch string) string { return "abort." + epoch }
func doneKey(epoch string) string  { return "done." + epoch }

// faultKey holds why a worker ended alone.
func faultKey(epoch, worker string) string { return "fault." + epoch + "." + worker }

func closedKey(epoch, lane string) string { return "closed." + epoch + "." + lane }

// ending is why a run stopped, in the abort key, or that it is over, in the done key.
type ending struct {
	Reason  runner.Reason
	Message string
	Hint    string `json:",omitempty"`
	By      string `json:",omitempty"` // the worker that saw it first
	At      time.Time
}

// stat is what a worker tells each 100 ms.
type stat struct {
	Worker string
	// Held is how many items it has, InFlight how many requests are on the wire, Most
	// its own ceiling of them, Deferred how many items it has put off so far.
	Held     int
	InFlight int
	Most     int
	Deferred int64
	// Stopped: it has launched its last request and published its last row.
	Stopped bool `json:",omitempty"`
	// Seen holds launches and landings since the last one.
	Seen []seen `json:",omitempty"`
	// Sent is when, by the server's clock.
	Sent time.Time
}

// seen is one runner.Flight: line, lane's place in the config, kind, …
type seen struct {
	Line int    `json:"l"`
	Lane string `json:"n"`
	At   int64  `json:"t"`           // µs of Unix time by the server's clock
	Sig  int    `json:"s,omitempty"` // signal + 1 of a landing, 0 for a launch
	Hint int64  `json:"h,omitempty"` // ms
}

// throttled says that the request was refused with a 429.
func (s seen) throttled() bool { return s.Sig == int(pacing.Throttled)+1 }
