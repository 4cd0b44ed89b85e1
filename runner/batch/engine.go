package batch

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/maphash"
	"iter"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/pacing"
	"llmbatch/runner"
	"llmbatch/runner/provider"
)

// Config says what goes into batches, and within which bounds.
type Config struct {
	// Journal is its path, beside the results file, whose lock covers both.
	Journal string
	// Salt is that of the results file's rows; "" if it has none yet.
	Salt   string
	Target *runner.Target
	// Vendor is the dialect of the provider's Batch API, "" for its own.
	Vendor string
	// Items yields all lines in order, Encode makes a line's call. Items is called
	// again for each pass.
	Items  func() iter.Seq2[*input.Item, error]
	Encode func(*input.Item) (*provider.Call, error)
	// Done says that an item needs no work, Old is the row that earlier runs left; nil: none.
	Done func(key string) bool
	Old  func(key string) (*output.Result, error)
	// Write takes each row, Sync waits until the disk has those written.
	Write func(*output.Result) error
	Sync  func() error
	OnRow func(*output.Result) // after a row that is final for this run; nil: none
	// Expect checks an answer's text; nil: no check.
	Expect func(text string) error

	// End is when waiting for batches ends; zero: when they have ended. With NoWait
	// nothing is waited for: what has ended is taken, what is new is sent.
	End    time.Time
	NoWait bool
	// HandOver: what is open at End is cancelled and waited for, so that its items
	// are free for the live run.
	HandOver bool
	// Then is what becomes of an item that came back without an answer although it may
	// have one: "batch", "live" or "stop".
	Then      string
	MaxErrors int // of an item, with Then "batch"; 0: no bound

	Limit int           // most items that are sent; 0: all
	Size  int           // most requests a batch
	Queue int64         // most tokens of a model's open batches; 0: learned
	Open  int           // most open batches
	Poll  time.Duration // the first look, and the least time between two
	// Delete removes a batch's files at the provider once its rows are on disk.
	Delete     bool
	NoFailFast bool

	// Price is money per million tokens in a batch; nil: not known.
	Price func(model string) (runner.Price, bool)
	Spend *pacing.Spend // nil: no cap
	Drain time.Duration // how long a creation on the wire may finish

	Transport http.RoundTripper
	Agent     string
	Scrub     *provider.Scrubber
	Log       *slog.Logger
}

// Report is what the batches of a run did.
type Report struct {
	// Reason is Finished, BudgetEnded (batches are open), Aborted, CostCap, Interrupted,
	// WriteFailed or InputFailed.
	Reason        runner.Reason
	Message, Hint string
	Err           error
	Rows          map[output.Status]int
	// Open and Items count batches at the provider, and what is in them.
	Open, Items int
	Ended       []Ended
}

// Ended is a batch whose results are rows.
type Ended struct {
	ID    string `json:"batch_id"`
	Model string `json:"model,omitempty"`
	N     int    `json:"n"`
	Tally
	Took time.Duration `json:"-"`
	Cost float64       `json:"cost,omitempty"`
}

// mark is what the engine knows of an item's place in this run.
type mark uint8

const (
	inBatch mark = iota + 1
	isDone       // it has its final row
	isLive       // it is left to the live run
)

// Engine runs batches. But for Views and In it is not for concurrent use.
type Engine struct {
	c     Config
	api   provider.Batcher
	caps  provider.BatchCaps
	http  client
	j     *journal
	parts []*part
	last  int // number of a part
	sent  int // items put into parts

	seed    maphash.Seed
	marks   map[uint64]mark
	carry   map[uint64]*output.Result // rows of this run that a later one continues
	errs    map[uint64]int            // failures of items in this run
	fresh   bool                      // items have become free since the pass began
	rows    map[output.Status]int
	anchors map[string]*output.Result // by key: rows of items that only say that they are in a batch
	done    []Ended
	halted  *Report // nothing more is sent, for this reason
	ending  time.Time
	guard   guard

	queue map[string]int64 // learned: most tokens of a model's open batches
	taken map[string]int   // parts of a model that were taken
	pause time.Time        // nothing is cut before
	waits int

	views atomic.Pointer[[]View]
}

// Open reads the journal and checks whose it is. Nothing is sent.
func Open(c Config) (*Engine, error) {
	maker, ok := c.Target.Provider.(provider.BatchMaker)
	if !ok {
		return nil, fmt.Errorf("%s has no Batch API", c.Target.Defaults.Name)
	}
	e := &Engine{
		c: c, api: maker.Batches(c.Vendor), seed: maphash.MakeSeed(), marks: map[uint64]mark{},
		carry: map[uint64]*output.Result{}, errs: map[uint64]int{}, rows: map[output.Status]int{},
		anchors: map[string]*output.Result{},
		queue:   map[string]int64{}, taken: map[string]int{}, fresh: true,
		http: client{target: c.Target, transport: c.Transport, agent: c.Agent, scrub: c.Scrub},
	}
	e.guard.off = c.NoFailFast
	e.caps = e.api.Caps()
	var err error
	if e.j, e.parts, err = openJournal(c.Journal); err != nil {
		return nil, err
	}
	if e.j.file != nil {
		if err := e.checkHead(); err != nil {
			e.j.file.Close()
			return nil, err
		}
	}
	e.last = e.j.head.Last
	for _, p := range e.parts {
		members, err := e.j.members(p)
		if err != nil {
			return nil, err
		}
		for i := range members {
			e.marks[e.hash(members[i].key())] = inBatch
		}
		if e.c.Spend != nil && !e.c.Spend.Reserve(p.reserve) {
			p.reserve = 0 // it is bought already, and is counted when it ends
		}
	}
	e.show()
	return e, nil
}

// Fingerprint tells an address and key from others, and says neither.
func Fingerprint(base, key string) string {
	sum := sha256.Sum256([]byte(base + "\n" + key))
	return "sha256:" + hex.EncodeToString(sum[:8])
}

// address is the base URL without what may be secret in it.
func (e *Engine) address() string {
	if e.c.Target.Defaults.Mock {
		return "mock" // its port is another each time
	}
	u := *e.c.Target.Base
	u.User, u.RawQuery = nil, ""
	return strings.TrimRight(u.String(), "/")
}

func (e *Engine) head() Head {
	h := http.Header{}
	e.c.Target.Provider.Sign(h, e.c.Target.Credentials)
	for k, v := range e.c.Target.Header {
		h[k] = v
	}
	key := h.Get("Authorization") + h.Get("X-Api-Key") + h.Get("Api-Key") + h.Get("Openai-Organization") + h.Get("Openai-Project")
	return Head{
		Type: "head", Version: 1, Results: e.c.Salt, Provider: e.c.Target.Defaults.Name, Vendor: e.c.Vendor,
		Base: e.address(), Key: Fingerprint(e.address(), key), Created: time.Now().UTC(),
	}
}

func (e *Engine) checkHead() error {
	is, was := e.head(), e.j.head
	bad := func(msg, hint string) error { return &JournalError{Path: e.j.path, Msg: msg, Hint: hint} }
	switch {
	case len(e.parts) == 0:
		return nil
	case was.Provider != is.Provider || was.Base != is.Base:
		return bad(fmt.Sprintf("its batches are at %s (%s), and this run is for %s (%s)", was.Base, was.Provider, is.Base, is.Provider),
			"run with the same provider and --base-url to collect them, or cancel them there: llmbatch batch RESULTS --cancel")
	case was.Key != is.Key:
		return bad("its batches were made with another key, which another account may not see",
			"set the key that made them ("+variable(is.Provider)+"); if it was replaced by one of the same account, write "+is.Key+" as key into the first line")
	case was.Results != "" && is.Results != "" && was.Results != is.Results:
		return bad("it belongs to another results file", "put back the right one, or choose another results file with -o FILE")
	}
	return nil
}

func variable(name string) string {
	if name == "anthropic" {
		return "ANTHROPIC_API_KEY"
	}
	return "OPENAI_API_KEY"
}

func (e *Engine) hash(key string) uint64 { return maphash.String(e.seed, key) }

// Carried are the rows of this run that a later attempt of their items goes on from.
func (e *Engine) Carried() (rows []*output.Result) { return slices.Collect(maps.Values(e.carry)) }

// Wants says that an item is neither done nor in a batch, and may be sent.
func (e *Engine) Wants(key string) bool {
	m := e.marks[e.hash(key)]
	return m != inBatch && m != isDone && !e.c.Done(key)
}

// Check says why a call can't be part of a batch; nil if it can.
func (e *Engine) Check(c *provider.Call) error {
	if err := e.api.Refuse(c); err != nil {
		return err
	}
	if n := int64(len(c.Body)) + 400; n > e.caps.Bytes/20*19 {
		return fmt.Errorf("the request has %d bytes, and a batch takes %d", n, e.caps.Bytes)
	}
	return nil
}

// Supported asks whether the server has a Batch API at all.
func (e *Engine) Supported(ctx context.Context) error {
	got := e.http.call(ctx, e.api.List(""), nil)
	switch {
	case got.err == nil:
		return nil
	case got.err.Status == http.StatusNotFound, got.err.Status == http.StatusMethodNotAllowed, got.err.Status == http.StatusNotImplemented:
		return fmt.Errorf("the server at %s has no Batch API: run without --batch", e.address())
	case fatal(got.err):
		return fmt.Errorf("the Batch API refused: %s", describe(got.err))
	}
	return nil // it may pass
}

func (e *Engine) meta(number int, endpoint, model, file string) provider.BatchMeta {
	tag := fmt.Sprintf("%s-%d", e.j.head.Salt, number)
	return provider.BatchMeta{Tag: tag, Name: "llmbatch-" + tag + ".jsonl", File: file, Endpoint: endpoint, Model: model}
}

// start gives the journal its head.
func (e *Engine) start() error {
	h := e.head()
	h.Salt = strings.ToLower(rand.Text()[:8])
	return e.j.begin(h)
}

// Close ends the engine: the journal keeps what is open, and is gone where nothing is.
func (e *Engine) Close() error {
	e.j.head.Last = e.last
	for _, r := range e.guard.end() {
		e.write(r)
	}
	e.unanchor()
	var held []*part
	for _, p := range e.parts {
		if p.phase != over && p.phase != planned {
			held = append(held, p)
		}
		if p.spool != nil {
			p.spool.Close()
		}
	}
	return e.j.close(held)
}

func (e *Engine) report() Report {
	r := Report{Reason: runner.Finished}
	if e.halted != nil {
		r = *e.halted
	}
	r.Rows, r.Ended = maps.Clone(e.rows), e.done
	for _, p := range e.parts {
		if p.holds() {
			r.Open++
			r.Items += p.n
		}
	}
	if r.Open > 0 && r.Reason == runner.Finished {
		r.Reason = runner.BudgetEnded
	}
	return r
}

func (e *Engine) halt(r Report) {
	if e.halted == nil {
		e.halted = &r
	}
}

func (e *Engine) haltFor(what string, err *provider.Error) {
	msg := what + ": " + describe(err)
	if err.Class == provider.SpendCap {
		msg = "spend cap or credit exhausted: " + describe(err)
	}
	hint := err.Advice
	if hint == "" {
		hint = "mend what the message says, then run the same command again to continue"
	}
	e.halt(Report{Reason: runner.Aborted, Message: msg, Hint: hint})
}

func (e *Engine) haltErr(reason runner.Reason, err error) {
	e.halt(Report{Reason: reason, Message: err.Error(), Err: err, Hint: "run the same command again to continue"})
}
