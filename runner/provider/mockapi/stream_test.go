package mockapi

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// TestStreamsGolden holds the bytes of every kind of stream in every API. The time in them is the bubble's.
func TestStreamsGolden(t *testing.T) {
	for _, scenario := range []string{"sse_ok", "sse_error", "sse_cut", "sse_eof"} {
		for api, path := range map[string]string{"messages": "/v1/messages", "chat": "/v1/chat/completions", "responses": "/v1/responses"} {
			t.Run(scenario+"_"+api, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					body := `{"model":"m","stream":true,"stream_options":{"include_usage":true},"messages":[],"input":"x"}`
					a := post(New(Config{}), "/"+scenario+path, body)
					if a.Code != 200 || !strings.HasPrefix(a.Header().Get("Content-Type"), "text/event-stream") || a.aborted != (scenario == "sse_cut") {
						t.Errorf("got %d, %s, aborted %t", a.Code, a.Header().Get("Content-Type"), a.aborted)
					}
					golden(t, filepath.Join("testdata", scenario+"_"+api+".txt"), a.Body.Bytes())
				})
			})
		}
	}
}

// golden compares got with a file, or writes it.
func golden(t *testing.T, file string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s: got\n%s\nwant\n%s", file, got, want)
	}
}

// read joins the text of a stream and reports whether it has its terminal event, and which error it carries.
func read(t *testing.T, stream string) (text string, whole bool, failure string) {
	t.Helper()
	for block := range strings.SplitSeq(stream, "\n\n") {
		if block == "" {
			continue
		}
		name := ""
		data, plain := strings.CutPrefix(block, "data: ")
		if !plain {
			name, data, _ = strings.Cut(strings.TrimPrefix(block, "event: "), "\ndata: ")
		}
		if data == "[DONE]" {
			continue
		}
		var e struct {
			Type    string
			Delta   json.RawMessage
			Choices []struct {
				Delta        struct{ Content string }
				FinishReason *string `json:"finish_reason"`
			}
			Code  string
			Error *struct{ Type string }
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("event %q: %v", block, err)
		}
		if e.Type != name {
			t.Errorf("got event %q with type %q, want them alike", name, e.Type)
		}
		var delta struct{ Text string }
		var plainDelta string
		switch {
		case e.Error != nil:
			failure = e.Error.Type
		case e.Type == "error":
			failure = e.Code
		case e.Type == "content_block_delta" && json.Unmarshal(e.Delta, &delta) == nil:
			text += delta.Text
		case e.Type == "response.output_text.delta" && json.Unmarshal(e.Delta, &plainDelta) == nil:
			text += plainDelta
		case len(e.Choices) == 1:
			text += e.Choices[0].Delta.Content
			whole = whole || e.Choices[0].FinishReason != nil
		}
		whole = whole || e.Type == "message_stop" || e.Type == "response.completed" || e.Type == "response.incomplete"
	}
	return text, whole, failure
}

func TestStreams(t *testing.T) {
	cases := []struct {
		query string
		text  string
		whole bool
		fails map[string]string
		took  time.Duration
	}{
		{"/ok?", "OK", true, nil, 50 * time.Millisecond},
		{"/sse_ok?", "OK", true, nil, 0},
		{"/drip?", "OK", true, nil, 2400 * time.Millisecond},
		{"/ok?latency=0&parts=20&gap=100ms&size=300", "OK All is well", true, nil, 1900 * time.Millisecond},
		{"/ok?latency=0&echo=yes&parts=3", "zwölf Bücher", true, nil, 0},
		{"/sse_error?", "OK", false, map[string]string{"messages": "overloaded_error", "completions": "overloaded_error", "responses": "server_is_overloaded"}, 0},
		{"/sse_error?parts=20&size=100", "OK All i", false, map[string]string{"messages": "overloaded_error", "completions": "overloaded_error", "responses": "server_is_overloaded"}, 0},
		{"/sse_cut?", "OK", false, nil, 0},
		{"/sse_cut?parts=1&gap=1s", "OK", false, nil, time.Second},
		{"/sse_eof?", "OK", false, nil, 0},
		{"/ok?cut=100&latency=0", "OK", false, nil, 0},
	}
	for _, c := range cases {
		for _, path := range []string{"/v1/messages", "/v1/chat/completions", "/v1/responses"} {
			t.Run(c.query+path, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					scenario, query, _ := strings.Cut(c.query, "?")
					body := `{"model":"m","stream":true,"messages":[{"role":"user","content":"zwölf Bücher"}],"input":"zwölf Bücher"}`
					a := post(New(Config{}), scenario+path+"?"+query, body)
					text, whole, failure := read(t, a.Body.String())
					api := path[strings.LastIndex(path, "/")+1:]
					if !strings.HasPrefix(text, c.text) || whole != c.whole || failure != c.fails[api] || a.took != c.took {
						t.Errorf("got %q, whole %t, error %q after %v, want %q…, %t, %q after %v", text, whole, failure, a.took, c.text, c.whole, c.fails[api], c.took)
					}
				})
			})
		}
	}
}

// TestRefusalIsNoStream: an error before the first event is a plain body.
func TestRefusalIsNoStream(t *testing.T) {
	a := post(New(Config{}), "/over529/v1/messages", `{"model":"m","messages":[],"stream":true}`)
	if got := a.Header().Get("Content-Type"); a.Code != 529 || got != "application/json" {
		t.Errorf("got %d %s, want 529 application/json", a.Code, got)
	}
}

// TestNoStream: an API without streams gets what comes closest.
func TestNoStream(t *testing.T) {
	for scenario, want := range map[string]string{"sse_ok": "200", "sse_error": "529", "sse_cut": "cut", "sse_eof": "cut"} {
		a := post(New(Config{}), "/"+scenario+"/v1/embeddings", responsesBody)
		if got := fate(a); got != want || a.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: got %s, %s, want %s", scenario, got, a.Header().Get("Content-Type"), want)
		}
	}
}

func TestSplit(t *testing.T) {
	for _, s := range []string{"", "O", "OK", "zwölf Bücher", "日本語", strings.Repeat("x", 100)} {
		for n := 1; n < 10; n++ {
			parts := split(s, n)
			if len(parts) != n || strings.Join(parts, "") != s {
				t.Errorf("split(%q, %d): got %q", s, n, parts)
			}
			for _, p := range parts {
				if strings.ToValidUTF8(p, "") != p {
					t.Errorf("split(%q, %d): got a broken rune in %q", s, n, p)
				}
			}
		}
	}
}
