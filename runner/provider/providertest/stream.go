package providertest

import (
	"bytes"
	"encoding/json"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"llmbatch/runner/provider"
	"llmbatch/runner/provider/sse"
)

// Stream is a streamed answer.
type Stream struct {
	Name string
	Call provider.Call
	// Events is the text up to the evidence that the answer is whole; After is what
	// may follow it, and may be lost.
	Events, After string
	// Whole is the body that the non-streaming API would have sent, "" where the
	// stream is a failure.
	Whole string
	// Class and Scope are the failure's, and so is Usage, where it is known.
	Class provider.Class
	Scope provider.Scope
	Usage provider.Usage
	// Text is what arrived by the end of Events, Rest whether the call may be
	// continued from there. They are checked where Check is set.
	Text  string
	Rest  bool
	Check bool
}

// Rest is a call of which some text arrived.
type Rest struct {
	Name        string
	Call        provider.Call
	Text, Style string
	// Body is what asks for the rest, "" if the call can't be continued.
	Body string
}

// assemble reads a stream to its end, as a run does.
func assemble(p provider.Provider, c *provider.Call, src io.Reader, clean bool) (json.RawMessage, provider.Assembler, *provider.Error) {
	a := p.(provider.Streamer).Assemble(c)
	r := sse.NewReader(src, nil)
	for {
		e, err := r.Next()
		if err != nil {
			break
		}
		if err := a.Event(e.Name, e.Data); err != nil {
			return nil, a, err
		}
	}
	body, err := a.Finish(clean)
	return body, a, err
}

func stream(t *testing.T, p provider.Provider, s Stream) {
	all := s.Events + s.After
	body, a, err := assemble(p, &s.Call, strings.NewReader(all), true)
	if s.Check {
		text, _, rest := a.Partial()
		if text != s.Text || rest != s.Rest {
			t.Errorf("got partial text %q, may be continued: %v, want %q, %v", text, rest, s.Text, s.Rest)
		}
	}
	if s.Whole == "" {
		if err == nil || err.Class != s.Class || err.Scope != s.Scope || err.Usage != s.Usage {
			t.Fatalf("got %s, %+v, want %s, scope %d, usage %+v", body, err, s.Class, s.Scope, s.Usage)
		}
		return
	}
	if err != nil {
		t.Fatalf("got %+v, want %s", err, s.Whole)
	}
	checkCompact(t, body)
	if !sameJSON(t, body, []byte(s.Whole)) {
		t.Errorf("got %s\nwant %s", body, s.Whole)
	}
	got, err := p.Decode(&s.Call, provider.Answer{Status: 200, Body: body})
	want, wantErr := p.Decode(&s.Call, provider.Answer{Status: 200, Body: []byte(s.Whole)})
	got.Response, want.Response = nil, nil
	if err != nil || wantErr != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, %+v of the stream, want %+v, %+v as of the whole", got, err, want, wantErr)
	}
	splits(t, p, s, body)
	cuts(t, p, s)
}

// splits reads the stream in two pieces, at every byte, and byte by byte. What is
// assembled depends on nothing but the events.
func splits(t *testing.T, p provider.Provider, s Stream, want json.RawMessage) {
	all := s.Events + s.After
	events := read(strings.NewReader(all))
	for i := range all {
		got := read(io.MultiReader(strings.NewReader(all[:i]), strings.NewReader(all[i:])))
		if !slices.Equal(got, events) {
			t.Fatalf("split at %d: got events %q, want %q", i, got, events)
		}
	}
	for name, src := range map[string]io.Reader{
		"byte by byte": iotest.OneByteReader(strings.NewReader(all)),
		"with CRLF":    iotest.HalfReader(strings.NewReader(strings.ReplaceAll(all, "\n", "\r\n"))),
		"with CR":      strings.NewReader(strings.ReplaceAll(all, "\n", "\r")),
		"with BOM":     strings.NewReader("\xef\xbb\xbf" + all),
		"unended":      strings.NewReader(strings.TrimRight(all, "\n")),
	} {
		got, _, err := assemble(p, &s.Call, src, true)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: got %s, %+v, want %s", name, got, err, want)
		}
	}
}

// read lists the events of a stream.
func read(src io.Reader) (events []string) {
	r := sse.NewReader(src, nil)
	for {
		e, err := r.Next()
		if err != nil {
			return append(events, err.Error())
		}
		events = append(events, e.Name+": "+string(e.Data))
	}
}

// cuts ends the stream at every byte, with an error and without.
func cuts(t *testing.T, p provider.Provider, s Stream) {
	all := s.Events + s.After
	// The blank line after the last event, and its line's end, carry nothing.
	evidence := len(strings.TrimRight(s.Events, "\n"))
	for i := range all {
		for _, clean := range []bool{true, false} {
			src := strings.NewReader(all[:i])
			got, _, err := assemble(p, &s.Call, src, clean)
			whole := i >= evidence
			switch {
			case whole && err != nil:
				t.Fatalf("cut at %d (clean %v): got %+v, want an answer", i, clean, err)
			case !whole && err == nil:
				t.Fatalf("cut at %d (clean %v): got %s, want an error", i, clean, got)
			case err != nil && (err.Class != provider.Truncated || err.Scope != provider.Passing):
				t.Fatalf("cut at %d (clean %v): got %+v, want a passing truncated", i, clean, err)
			}
		}
	}
}

func rest(t *testing.T, p provider.Provider, r Rest) {
	before := string(r.Call.Body)
	got, ok := p.(provider.Streamer).Continue(&r.Call, r.Text, r.Style)
	if ok != (r.Body != "") || string(got) != r.Body {
		t.Errorf("got %s, %v, want %s", got, ok, r.Body)
	}
	if string(r.Call.Body) != before {
		t.Errorf("the call was changed: got %s, want %s", r.Call.Body, before)
	}
}

func sameJSON(t *testing.T, a, b []byte) bool {
	t.Helper()
	var x, y any
	if err := json.Unmarshal(a, &x); err != nil {
		t.Fatalf("%v: %s", err, a)
	}
	if err := json.Unmarshal(b, &y); err != nil {
		t.Fatalf("%v: %s", err, b)
	}
	return reflect.DeepEqual(x, y)
}

// CheckStream holds what is true of any stream: an answer that is assembled from
// it is valid, compact JSON that reads as an answer or as an error; a failure has
// a class, and is told again at the end. For fuzzing.
func CheckStream(t *testing.T, p provider.Provider, c provider.Call, data []byte) {
	t.Helper()
	body, a, err := assemble(p, &c, bytes.NewReader(data), true)
	if text, _, rest := a.Partial(); rest && text == "" {
		t.Fatalf("got that nothing may be continued, want no")
	}
	if err != nil {
		if err.Class == "" || err.Class == provider.ClassOK {
			t.Fatalf("got an error without a class: %+v", err)
		}
		return
	}
	checkCompact(t, body)
	CheckAnswer(t, p, c, body)
}
