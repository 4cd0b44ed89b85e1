// Package batch runs items through a provider's asynchronous Batch API, at half
// the price, and never buys one twice.
//
// What is about to be bought is written to a journal, and that to the disk, before
// the call that buys and again after it. A run that finds a creation without its
// outcome looks for the batch at the provider before it sends anything again. Where
// the API can't say for certain which batch is ours, the batch's own results prove
// it, and until then its items are neither sent again nor run live.
//
// Items in an open batch have no row. Results become rows through the provider's
// Decode, as live answers do.
package batch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Head is a journal's first line: whose batches these are. It holds no secret.
type Head struct {
	Type     string    `json:"t"`
	Version  int       `json:"v"`
	Salt     string    `json:"salt"`
	Results  string    `json:"results,omitempty"` // the salt of the results file's rows
	Provider string    `json:"provider"`
	Vendor   string    `json:"vendor,omitempty"`
	Base     string    `json:"base"`
	Key      string    `json:"key"` // fingerprint of base URL and key
	Created  time.Time `json:"created"`
	// Last is the highest number that a part has had: none is used again.
	Last int `json:"last,omitempty"`
}

// record is any later line.
type record struct {
	Type string `json:"t"`
	Part int    `json:"p"`

	Model    string   `json:"model,omitempty"`
	Endpoint string   `json:"endpoint,omitempty"`
	N        int      `json:"n,omitempty"`
	Bytes    int64    `json:"bytes,omitempty"`
	Tokens   int64    `json:"tokens,omitempty"`
	Reserve  float64  `json:"reserve,omitempty"`
	Items    []member `json:"items,omitempty"`

	Name    string     `json:"name,omitempty"`
	ID      string     `json:"id,omitempty"`
	At      *time.Time `json:"at,omitempty"`
	Expires *time.Time `json:"expires,omitempty"`
	State   string     `json:"s,omitempty"`
	// Unproven: the batch was found by its size and time alone.
	Unproven bool `json:"unproven,omitempty"`
	Tally
}

// Tally counts what became of a part's items.
type Tally struct {
	OK      int `json:"ok,omitempty"`
	Failed  int `json:"failed,omitempty"`
	Again   int `json:"again,omitempty"`
	Missing int `json:"missing,omitempty"`
	// Unknown counts lines of no item of the part.
	Unknown int `json:"unknown,omitempty"`
}

// member is an item in a part: ["custom id", id, index, "request hash"].
type member struct {
	custom string
	id     json.RawMessage
	index  int
	hash   string
}

func (m member) MarshalJSON() ([]byte, error) {
	return json.Marshal([]any{m.custom, m.id, m.index, m.hash})
}

func (m *member) UnmarshalJSON(b []byte) error {
	to := []any{&m.custom, &m.id, &m.index, &m.hash}
	return json.Unmarshal(b, &to)
}

// key is what ids are compared by: the string's text, or the number's digits.
func (m *member) key() string { return keyOf(m.id) }

func keyOf(id json.RawMessage) string {
	var s string
	if json.Unmarshal(id, &s) == nil {
		return s
	}
	return string(id)
}

// JournalError is a journal that can't be used as it is.
type JournalError struct{ Path, Msg, Hint string }

func (e *JournalError) Error() string { return e.Path + ": " + e.Msg }

// JournalName is the journal of a results file.
func JournalName(results string) string {
	return strings.TrimSuffix(results, ".jsonl") + ".batches.jsonl"
}

// journal is an open journal. Not for concurrent use.
type journal struct {
	path string
	file *os.File // nil until there is something to write
	size int64
	head Head
	// readOnly: another run may be writing.
	readOnly bool
}

// openJournal reads a journal and returns the parts that are open. One that does
// not exist is made with the first line written.
func openJournal(path string) (*journal, []*part, error) {
	j := &journal{path: path}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return j, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	j.file = f
	parts, err := j.load()
	if err != nil {
		f.Close()
		return nil, nil, err
	}
	return j, parts, nil
}

// Read returns what a journal says of the batches that are open; a nil Head where
// there is none. It changes nothing.
func Read(path string) (*Head, []View, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil, nil
	}
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	j := &journal{path: path, file: f, readOnly: true}
	parts, err := j.load()
	if err != nil {
		return nil, nil, err
	}
	return &j.head, viewsOf(parts, time.Now()), nil
}

// load reads all lines. A last line without its end was being written when the
// process ended: nothing has happened after it, and it is cut off.
func (j *journal) load() ([]*part, error) {
	byNumber := map[int]*part{}
	var order []*part
	r := bufio.NewReaderSize(j.file, 1<<16)
	for n := 1; ; n++ {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return nil, err
		}
		at := j.size
		j.size += int64(len(line))
		if n == 1 {
			if err := json.Unmarshal(line, &j.head); err != nil || j.head.Type != "head" || j.head.Version != 1 {
				return nil, j.broken(n, "it does not begin with a head of version 1")
			}
			continue
		}
		var rec record
		if err := json.Unmarshal(line, &rec); err != nil {
			return nil, j.broken(n, err.Error())
		}
		p := byNumber[rec.Part]
		switch {
		case rec.Type == "head":
			return nil, j.broken(n, "a second head: these are the journals of two runs in one file")
		case rec.Type == "part" && p != nil:
			return nil, j.broken(n, fmt.Sprintf("part %d stands twice: these are the journals of two runs in one file", rec.Part))
		case rec.Type == "part":
			p = &part{number: rec.Part, line: at}
			j.head.Last = max(j.head.Last, rec.Part)
			byNumber[rec.Part] = p
			order = append(order, p)
		case p == nil:
			return nil, j.broken(n, fmt.Sprintf("part %d does not begin", rec.Part))
		}
		p.replay(&rec)
	}
	if !j.readOnly {
		if err := j.file.Truncate(j.size); err != nil {
			return nil, err
		}
	}
	var open []*part
	for _, p := range order {
		if p.phase != over {
			open = append(open, p)
		}
	}
	return open, nil
}

func (j *journal) broken(line int, msg string) error {
	return &JournalError{Path: j.path, Msg: fmt.Sprintf("line %d: %s", line, msg),
		Hint: "it says which batches are open at the provider: put back the right one, or look there and remove it"}
}

// begin writes the head, unless it stands there.
func (j *journal) begin(h Head) error {
	if j.file != nil {
		return nil
	}
	f, err := os.OpenFile(j.path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	j.file, j.head = f, h
	if err := j.put(h); err != nil {
		return err
	}
	return syncFolder(j.path)
}

// put appends a line and waits until the disk has it.
func (j *journal) put(v any) error {
	data, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if _, err = j.file.WriteAt(append(data, '\n'), j.size); err != nil {
		return errors.Join(err, j.file.Truncate(j.size))
	}
	j.size += int64(len(data)) + 1
	return j.file.Sync()
}

// members reads a part's items again.
func (j *journal) members(p *part) ([]member, error) {
	r := bufio.NewReaderSize(io.NewSectionReader(j.file, p.line, j.size-p.line), 1<<16)
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	var rec record
	if err := json.Unmarshal(line, &rec); err != nil {
		return nil, err
	}
	return rec.Items, nil
}

// close keeps the lines of the open parts, and removes the journal if there are none.
func (j *journal) close(open []*part) error {
	if j.file == nil {
		return nil
	}
	defer j.file.Close()
	if len(open) == 0 {
		return os.Remove(j.path)
	}
	keep := map[int]bool{}
	for _, p := range open {
		keep[p.number] = true
	}
	f, err := os.CreateTemp(filepath.Dir(j.path), ".batches.*")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := j.copyLines(f, keep); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	if err := os.Rename(f.Name(), j.path); err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return syncFolder(j.path)
}

func (j *journal) copyLines(to *os.File, keep map[int]bool) error {
	w := bufio.NewWriter(to)
	r := bufio.NewReaderSize(io.NewSectionReader(j.file, 0, j.size), 1<<16)
	for {
		line, err := r.ReadBytes('\n')
		if err == io.EOF {
			break
		}
		if err != nil {
			return err
		}
		var rec struct {
			Type string `json:"t"`
			Part int    `json:"p"`
		}
		if err := json.Unmarshal(bytes.TrimSpace(line), &rec); err != nil {
			return err
		}
		if rec.Type == "head" {
			if line, err = json.Marshal(j.head); err != nil {
				return err
			}
			line = append(line, '\n')
		}
		if rec.Type == "head" || keep[rec.Part] {
			_, _ = w.Write(line) // Flush tells
		}
	}
	return errors.Join(w.Flush(), to.Sync())
}

func syncFolder(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
