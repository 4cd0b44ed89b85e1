package sse

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// read returns the stream's events as name|data strings.
func read(src io.Reader) (got []string, err error) {
	r := NewReader(src, nil)
	for {
		e, err := r.Next()
		if err == io.EOF {
			return got, nil
		}
		if err != nil {
			return got, err
		}
		got = append(got, e.Name+"|"+string(e.Data))
	}
}

var streams = []struct {
	name, in string
	want     []string
}{
	{"empty", "", nil},
	{"one", "data: a\n\n", []string{"|a"}},
	{"named", "event: ping\ndata: {}\n\n", []string{"ping|{}"}},
	{"no space", "event:x\ndata:a\n\n", []string{"x|a"}},
	{"one space only", "data:  a \n\n", []string{"| a "}},
	{"crlf", "event: x\r\ndata: a\r\n\r\ndata: b\r\n\r\n", []string{"x|a", "|b"}},
	{"cr", "event: x\rdata: a\r\rdata: b\r\r", []string{"x|a", "|b"}},
	{"mixed ends", "data: a\r\ndata: b\rdata: c\n\r\n", []string{"|a\nb\nc"}},
	{"lines", "data: a\ndata\ndata:\ndata: b\n\n", []string{"|a\n\n\nb"}},
	{"comments", ": OPENROUTER PROCESSING\n\n:\ndata: a\n: x\ndata: b\n\n", []string{"|a\nb"}},
	{"blank lines", "\n\n\r\n\ndata: a\n\n\n\n", []string{"|a"}},
	{"bom", "\xef\xbb\xbfdata: a\n\n\xef\xbb\xbfdata: b\n\n", []string{"|a"}},
	{"bom alone", "\xef\xbb\xbf\ndata: a\n\n", []string{"|a"}},
	{"other fields", "id: 1\nretry: 5\nfoo: x\ndatax: y\na line of text without a colon\ndata: a\n\n", []string{"|a"}},
	{"id alone", "id: 1\n\n", nil},
	{"no data", "event: error\n\n", []string{"error|"}},
	{"last name counts", "event: a\nevent: b\ndata: x\n\n", []string{"b|x"}},
	{"name is the event's own", "event: a\ndata: x\n\ndata: y\n\n", []string{"a|x", "|y"}},
	{"no blank line", "data: a\n\ndata: b\n", []string{"|a", "|b"}},
	{"no line end", "data: a\n\ndata: b", []string{"|a", "|b"}},
	{"colons in the value", "data: a:b: c\n\n", []string{"|a:b: c"}},
	{"long name", "event: " + strings.Repeat("n", 300) + "\ndata: a\n\n", []string{strings.Repeat("n", maxName) + "|a"}},
}

func TestNext(t *testing.T) {
	for _, s := range streams {
		t.Run(s.name, func(t *testing.T) {
			readers := map[string]io.Reader{
				"whole":       strings.NewReader(s.in),
				"bytes":       iotest.OneByteReader(strings.NewReader(s.in)),
				"eof at once": iotest.DataErrReader(strings.NewReader(s.in)),
			}
			for i := range s.in {
				readers[fmt.Sprint("cut at ", i)] = io.MultiReader(strings.NewReader(s.in[:i]), strings.NewReader(s.in[i:]))
			}
			for how, src := range readers {
				got, err := read(src)
				if err != nil || !slices.Equal(got, s.want) {
					t.Errorf("%s: got %q, %v, want %q", how, got, err, s.want)
				}
			}
		})
	}
}

// C23: a line of 70 KiB, 2 MiB, 20 MiB is an event like any other.
func TestLargeEvents(t *testing.T) {
	for _, n := range []int{70 << 10, 2 << 20, 20 << 20} {
		data := strings.Repeat("x", n)
		got, err := read(strings.NewReader("data: " + data + "\n\ndata: y\n\n"))
		if err != nil || len(got) != 2 || got[0] != "|"+data || got[1] != "|y" {
			t.Errorf("%d bytes: got %d events, %v, want 2", n, len(got), err)
		}
	}
}

func TestTooLarge(t *testing.T) {
	for _, in := range []string{
		"data: " + strings.Repeat("x", 1<<20+1) + "\n\n",
		strings.Repeat("data: "+strings.Repeat("x", 1<<10-1)+"\n", 1025) + "\n",
	} {
		r := NewReader(strings.NewReader(in), nil)
		if r.max != MaxEvent {
			t.Errorf("got max %d, want %d", r.max, MaxEvent)
		}
		r.max = 1 << 20
		for range 2 {
			_, err := r.Next()
			if !errors.Is(err, ErrTooLarge) {
				t.Fatalf("got %v, want %v", err, ErrTooLarge)
			}
		}
	}
}

// json-as-event-stream: the body is what it is, whatever its type says.
func TestNotEvents(t *testing.T) {
	for _, in := range []string{`{"a":"data: 1"}` + "\n\ndata: [DONE]\n\n", "\n\r\n  [{}]", "<html>\n", "\xef\xbb\xbf{}"} {
		for _, src := range []io.Reader{strings.NewReader(in), io.MultiReader(strings.NewReader(in[:1]), strings.NewReader(in[1:]))} {
			calls := 0
			r := NewReader(src, func() { calls++ })
			for range 2 {
				if _, err := r.Next(); err != ErrNotEvents {
					if strings.HasPrefix(in, "\xef") { // a mark that came in two pieces is no sign
						return
					}
					t.Fatalf("%q: got %v, want %v", in, err, ErrNotEvents)
				}
			}
			got, err := io.ReadAll(r.Rest())
			if want := strings.TrimLeft(in, "\r\n"); err != nil || strings.TrimLeft(string(got), "\r\n") != want {
				t.Errorf("got the rest %q, %v, want %q", got, err, want)
			}
		}
	}
	if got, err := read(strings.NewReader("data: {}\n\n{\n\ndata: a\n\n")); err != nil || len(got) != 2 {
		t.Errorf("got %q, %v, want a stream that has begun as one to stay one", got, err)
	}
}

func TestErrorsOfTheSource(t *testing.T) {
	cut := errors.New("cut")
	src := io.MultiReader(strings.NewReader("data: a\n\ndata: b"), iotest.ErrReader(cut))
	got, err := read(src)
	if err != cut || !slices.Equal(got, []string{"|a"}) {
		t.Errorf("got %q, %v, want only the whole event and %v", got, err, cut)
	}
	if _, err := read(idle{}); err != io.ErrNoProgress {
		t.Errorf("got %v of a source that gives nothing, want %v", err, io.ErrNoProgress)
	}
}

type idle struct{}

func (idle) Read([]byte) (int, error) { return 0, nil }

// pieces gives one piece a Read and records how often the reader had called
// alive by then.
type pieces struct {
	list  []string
	count *int
	seen  []int
}

func (p *pieces) Read(b []byte) (int, error) {
	p.seen = append(p.seen, *p.count)
	if len(p.list) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.list[0])
	p.list = p.list[1:]
	return n, nil
}

func TestAlive(t *testing.T) {
	tests := []struct {
		name   string
		pieces []string
		want   []int // calls of alive before each Read
	}{
		{"events", []string{"data: {}\n\n", "data: [{}]\n\n"}, []int{0, 1, 2}},
		{"data-keepalive", []string{"data: : keepalive\n\n", "data: null\n\n", "data: [do", "ne]\n\n", "data: words\n\n"}, []int{0, 0, 0, 0, 0, 0}},
		{"comments", []string{": keep-alive\n\n", "\n\n", ":\n"}, []int{0, 0, 0, 0}},
		{"named pings", []string{"event: ping\n", "data: {\"ty", "pe\":\"ping\"}\n\n", "event: ping\ndata: {}\n\n"}, []int{0, 0, 0, 0, 0}},
		{"nameless pings", []string{"data: {\"type\":\"ping\"}\n\n", "data: {\"type\": \"pi", "ng\" , \"n\":1}\n\n"}, []int{0, 0, 0, 0}},
		{"responses keepalive", []string{"event: keepalive\ndata: {\"type\":\"keepalive\",\"sequence_number\":3}\n\n"}, []int{0, 0}},
		{"like a ping", []string{"data: {\"type\":\"pi", "ngpong\"", "}\n\n"}, []int{0, 0, 1, 2}},
		{"an event that trickles", []string{"data: {\"type\":\"x", "y", "z", "\"}\n", "\n"}, []int{0, 1, 2, 3, 4, 5}},
		{"other fields", []string{"id: 1\n", "event: message_start\n", "retry: 1\n"}, []int{0, 0, 0, 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			n := 0
			src := &pieces{list: tt.pieces, count: &n}
			r := NewReader(src, func() { n++ })
			for {
				if _, err := r.Next(); err != nil {
					break
				}
			}
			if !slices.Equal(src.seen[:len(tt.want)], tt.want) {
				t.Errorf("got %d calls before the reads, want %d", src.seen, tt.want)
			}
		})
	}
}

// plain is a second reading of the format, over the whole text at once.
func plain(in string) (got []string) {
	in = strings.TrimPrefix(in, "\xef\xbb\xbf")
	in = strings.ReplaceAll(strings.ReplaceAll(in, "\r\n", "\n"), "\r", "\n")
	var name string
	var data []string
	seen := false
	flush := func() {
		if seen {
			got = append(got, name+"|"+strings.Join(data, "\n"))
		}
		name, data, seen = "", nil, false
	}
	for line := range strings.SplitSeq(in, "\n") {
		field, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch {
		case line == "":
			flush()
		case field == "data":
			data, seen = append(data, value), true
		case field == "event":
			name, seen = value[:min(len(value), maxName)], true
		}
	}
	flush()
	return got
}

func FuzzNext(f *testing.F) {
	for _, s := range streams {
		f.Add(s.in, 3)
	}
	f.Fuzz(func(t *testing.T, in string, at int) {
		if strings.ContainsAny(strings.TrimLeft(strings.TrimPrefix(in, "\xef\xbb\xbf"), " \t\r\n")+" ", "{[<") {
			return // may be no stream at all
		}
		want := plain(in)
		at = min(max(at, 0), len(in))
		for _, src := range []io.Reader{
			strings.NewReader(in),
			iotest.OneByteReader(strings.NewReader(in)),
			io.MultiReader(strings.NewReader(in[:at]), strings.NewReader(in[at:])),
		} {
			got, err := read(src)
			if err != nil || !slices.Equal(got, want) {
				t.Fatalf("got %q, %v, want %q", got, err, want)
			}
		}
	})
}

func BenchmarkNext(b *testing.B) {
	small := strings.Repeat("event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"word \"}}\n\n", 1000)
	large := "data: " + strings.Repeat("x", 4<<20) + "\n\n"
	for name, in := range map[string]string{"small": small, "4MB": large} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			src := bytes.NewReader(nil)
			for b.Loop() {
				src.Reset([]byte(in))
				r := NewReader(src, nil)
				for {
					if _, err := r.Next(); err != nil {
						break
					}
				}
			}
		})
	}
}
