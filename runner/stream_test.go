package runner

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"llmbatch/input"
	"llmbatch/output"
)

// streams serves one script a request: each string is sent as it is and flushed;
// cut at the end resets the connection, hold leaves it open. It keeps the bodies
// that were asked for.
type streams struct {
	*serve
	mu     sync.Mutex
	bodies []string
}

const (
	cut  = "\x00cut"
	hold = "\x00hold"
)

func newStreams(t *testing.T, scripts ...[]string) *streams {
	s := &streams{}
	var nth atomic.Int64
	s.serve = newServe(t, h1, nil)
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.requests.Add(1)
		body, _ := io.ReadAll(r.Body)
		s.mu.Lock()
		s.bodies = append(s.bodies, string(body))
		s.mu.Unlock()
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
		w.Header().Set("Retry-After-Ms", "1") // the next try comes soon
		w.Header().Set("Request-Id", fmt.Sprintf("req_%d", nth.Load()+1))
		for _, part := range scripts[min(int(nth.Add(1)), len(scripts))-1] {
			switch part {
			case cut:
				c, _, err := w.(http.Hijacker).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				_ = c.(*net.TCPConn).SetLinger(0)
				_ = c.Close()
				return
			case hold:
				<-r.Context().Done()
				return
			}
			_, _ = io.WriteString(w, part)
			w.(http.Flusher).Flush()
		}
	})
	return s
}

// body is the nth request's, from 1.
func (s *streams) body(n int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > len(s.bodies) {
		return ""
	}
	return s.bodies[n-1]
}

// stream prepares a run of one streamed item.
func (s *streams) run(t *testing.T, api string) *live {
	l := newLive(t, 1, s.URL)
	l.speak(api)
	l.c.Stream, l.c.IdleTimeout = true, 20*time.Second
	return l
}

func event(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }
func data(v string) string           { return "data: " + v + "\n\n" }

// The pieces of a stream of each API.
var (
	msgStart = event("message_start", `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":5,"output_tokens":1}}}`) +
		event("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
	msgEnd = event("content_block_stop", `{"type":"content_block_stop","index":0}`) +
		event("message_delta", `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":7}}`) +
		event("message_stop", `{"type":"message_stop"}`)
	chatEnd = data(`{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`) +
		data(`{"id":"c","object":"chat.completion.chunk","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7}}`) + data("[DONE]")
	respStart = event("response.created", `{"type":"response.created","response":{"id":"r","status":"in_progress"}}`) +
		event("response.output_item.added", `{"type":"response.output_item.added","output_index":0,"item":{"type":"message"}}`)
)

func msgText(v string) string {
	return event("content_block_delta", fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%q}}`, v))
}

func chatText(v string) string {
	return data(fmt.Sprintf(`{"id":"c","object":"chat.completion.chunk","model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":%q},"finish_reason":null}]}`, v))
}

func respText(v string) string {
	return event("response.output_text.delta", fmt.Sprintf(`{"type":"response.output_text.delta","output_index":0,"delta":%q}`, v))
}

func respWhole(v string) string {
	return fmt.Sprintf(`{"id":"r","object":"response","status":"completed","model":"m","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":%q}]}],"usage":{"input_tokens":5,"output_tokens":7}}`, v)
}

func respEnd(v string) string {
	return event("response.completed", `{"type":"response.completed","response":`+respWhole(v)+`}`)
}

const overloaded = `{"type":"error","error":{"type":"overloaded_error","message":"busy"}}`

func msgWhole(v string) string {
	return fmt.Sprintf(`{"id":"m","type":"message","role":"assistant","model":"m","content":[{"type":"text","text":%q}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":7}}`, v)
}

func chatWhole(v string) string {
	return fmt.Sprintf(`{"id":"c","object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":7}}`, v)
}

type streamCase struct {
	name, api string
	script    []string
	status    output.Status
	outcome   string
	code      int
	text      string
	response  string
	says      string
}

var streamCases = []streamCase{
	{name: "messages", api: messagesAPI, script: []string{msgStart, msgText("Hel"), "event: ping\ndata: {\"type\":\"ping\"}\n\n", msgText("lo"), msgEnd},
		status: output.OK, outcome: "ok", text: "Hello", response: msgWhole("Hello")},
	{name: "messages in one byte each, CRLF and a BOM", api: messagesAPI,
		script: strings.Split("\xef\xbb\xbf"+strings.ReplaceAll(msgStart+": comment\n\n"+msgText("Hello")+msgEnd, "\n", "\r\n"), ""),
		status: output.OK, outcome: "ok", text: "Hello", response: msgWhole("Hello")},
	{name: "chat", api: chatAPI, script: []string{": OPENROUTER PROCESSING\n\n", chatText("Hel"), chatText("lo"), chatEnd},
		status: output.OK, outcome: "ok", text: "Hello", response: chatWhole("Hello")},
	{name: "responses", api: responsesAPI, script: []string{respStart, respText("Hel"), respText("lo"), respEnd("Hello")},
		status: output.OK, outcome: "ok", text: "Hello", response: respWhole("Hello")},

	// C21, C22: an error event after the 200 means what its type says, at first and
	// after some text, whatever follows; the text is dropped.
	{name: "C21 error at first", api: messagesAPI, script: []string{event("error", overloaded)}, status: output.GaveUp, outcome: "overloaded", code: 529, says: "busy"},
	{name: "C21 error after text", api: messagesAPI, script: []string{msgStart, msgText("Hel"), event("error", overloaded)}, status: output.GaveUp, outcome: "overloaded", code: 529, says: "busy"},
	{name: "C21 rate limit", api: messagesAPI, script: []string{msgStart, event("error", `{"type":"error","error":{"type":"rate_limit_error","message":"slow"}}`)}, status: output.GaveUp, outcome: "rate_limited", code: 429},
	{name: "C21 api error", api: messagesAPI, script: []string{msgStart, event("error", `{"type":"error","error":{"type":"api_error","message":"m"}}`)}, status: output.GaveUp, outcome: "server_error", code: 500},
	{name: "C21 credit", api: messagesAPI, script: []string{msgStart, event("error", `{"type":"error","error":{"type":"billing_error","message":"m"}}`)}, status: output.Aborted, outcome: "spend_cap", code: 402},
	{name: "C22 error, then done", api: chatAPI, script: []string{chatText("Hel"), data(`{"error":{"message":"engine died","type":"InternalServerError","code":500}}`), data("[DONE]")}, status: output.GaveUp, outcome: "server_error", code: 500, says: "engine died"},
	{name: "C22 finish reason error", api: chatAPI, script: []string{chatText("Hel"), data(`{"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}`), data("[DONE]")}, status: output.GaveUp, outcome: "server_error", code: 500},
	{name: "failed response", api: responsesAPI, script: []string{respStart, respText("H"), event("response.failed", `{"type":"response.failed","response":{"status":"failed","error":{"code":"rate_limit_exceeded","message":"m"}}}`)}, status: output.GaveUp, outcome: "rate_limited", code: 429},
	{name: "error event of responses", api: responsesAPI, script: []string{respStart, event("error", `{"type":"error","code":"insufficient_quota","message":"m"}`)}, status: output.Aborted, outcome: "spend_cap", code: 429},

	// C20: a clean end is no success.
	{name: "C20 messages", api: messagesAPI, script: []string{msgStart, msgText("Hel")}, status: output.GaveUp, outcome: "truncated", code: 200},
	{name: "C20 chat", api: chatAPI, script: []string{chatText("Hel"), data("[DONE]")}, status: output.GaveUp, outcome: "truncated", code: 200},
	{name: "C20 responses", api: responsesAPI, script: []string{respStart, respText("Hel")}, status: output.GaveUp, outcome: "truncated", code: 200},
	{name: "C20 nothing at all", api: chatAPI, script: nil, status: output.GaveUp, outcome: "truncated", code: 200},
	{name: "cut by a reset", api: messagesAPI, script: []string{msgStart, msgText("Hel"), cut}, status: output.GaveUp, outcome: "truncated", code: 200},
	{name: "cut in an event", api: chatAPI, script: []string{chatText("Hel"), `data: {"choices":[{"del`, cut}, status: output.GaveUp, outcome: "truncated", code: 200},
	{name: "cut before the first event", api: responsesAPI, script: []string{":\n\n", cut}, status: output.GaveUp, outcome: "truncated", code: 200},
	{name: "chat, cut after the finish reason", api: chatAPI, script: []string{chatText("Hello"), chatEnd, cut}, status: output.OK, outcome: "ok", text: "Hello"},
	{name: "broken JSON in an event", api: chatAPI, script: []string{chatText("Hel"), data("{oops")}, status: output.GaveUp, outcome: "invalid_response", code: 200},

	// C23: events that no scanner's buffer holds.
	{name: "C23 70 KiB", api: messagesAPI, script: []string{msgStart, msgText(strings.Repeat("x", 70<<10)), msgEnd}, status: output.OK, outcome: "ok", text: strings.Repeat("x", 70<<10)},
	{name: "C23 2 MiB", api: chatAPI, script: []string{chatText(strings.Repeat("x", 2<<20)), chatEnd}, status: output.OK, outcome: "ok", text: strings.Repeat("x", 2<<20)},
	{name: "C23 4 MiB", api: responsesAPI, script: []string{respStart, respEnd(strings.Repeat("x", 4<<20))}, status: output.OK, outcome: "ok", text: strings.Repeat("x", 4<<20)},
}

func TestStreams(t *testing.T) {
	for _, c := range streamCases {
		t.Run(c.name, func(t *testing.T) {
			s := newStreams(t, c.script)
			l := s.run(t, c.api)
			l.c.Retry.MaxAttempts = 1
			c.check(t, l.one())
			if b := s.body(1); !strings.HasSuffix(b, `"stream":true}`) && !strings.HasSuffix(b, `"stream_options":{"include_usage":true}}`) {
				t.Errorf("asked with %s", b)
			}
		})
	}
}

func (c streamCase) check(t *testing.T, r *output.Result) {
	t.Helper()
	is(t, r, c.status, c.outcome)
	if r.Text != c.text || c.response != "" && string(r.Response) != c.response || c.status != output.OK && r.Response != nil {
		t.Errorf("got text %.80q of %.300s, want %.80q of %.300s", r.Text, r.Response, c.text, c.response)
	}
	if e := r.Error; e != nil && (e.Status != c.code || e.Class != c.outcome || !strings.Contains(e.Message, c.says)) {
		t.Errorf("got %+v, want %s %d %q", e, c.outcome, c.code, c.says)
	}
	if a := r.Attempts[0]; a.RequestID != "req_1" || a.Status != 200 {
		t.Errorf("got attempt %+v, want the request id and 200", a)
	}
	if c.status == output.OK && (r.Usage != output.Usage{InputTokens: 5, OutputTokens: 7} || r.Attempts[0].Usage != r.Usage) {
		t.Errorf("got usage %+v", r.Usage)
	}
}

// C42: only what an answer brings keeps a stream alive: pings, comments and blank
// lines don't. In virtual time, over a pipe.
func TestIdleStream(t *testing.T) {
	for name, keep := range map[string]string{
		"silence": "", "comments": ": keep-alive\n\n", "blank lines": "\n", "pings": event("ping", `{"type":"ping"}`),
	} {
		bubble(t, func(t *testing.T) {
			b := pipeBench(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, msgStart+msgText("Hel"))
				w.(http.Flusher).Flush()
				trickle(w, r, 10*time.Second, keep)
			})
			b.c.Stream, b.c.IdleTimeout, b.c.Retry.MaxErrors = true, 2*time.Minute, 1
			New(b.c).Run(t.Context())
			r := b.sink.last()["q0"]
			is(t, r, output.GaveUp, "timeout")
			if d := r.Attempts[0].Duration; d != 2*time.Minute || !strings.Contains(r.Error.Message, "silent") || r.Usage.InputTokens != 5 {
				t.Errorf("%s: got %+v after %s and usage %+v", name, r.Error, d, r.Usage)
			}
		})
	}
}

// An event that trickles in for longer than the idle timeout is no silence.
func TestTricklingStream(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := pipeBench(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for c := range strings.SplitSeq(msgStart+msgText("Hello, this takes its time")+msgEnd, "") {
				_, _ = io.WriteString(w, c)
				w.(http.Flusher).Flush()
				<-time.After(time.Second)
			}
		})
		b.c.Stream, b.c.IdleTimeout, b.c.AttemptTimeout, b.c.ItemBudget = true, 2*time.Minute, time.Hour, time.Hour
		New(b.c).Run(t.Context())
		r := b.sink.last()["q0"]
		is(t, r, output.OK, "ok")
		if r.Text != "Hello, this takes its time" || r.Attempts[0].Duration < 10*time.Minute {
			t.Errorf("got %q after %s", r.Text, r.Attempts[0].Duration)
		}
	})
}

// A server may answer what was not asked for: JSON to a stream, a stream to JSON. A
// line whose own body asks for a stream gets one without --stream.
func TestOtherThanAsked(t *testing.T) {
	plain := newServe(t, h1, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, chatWhole("Hello"))
	})
	l := newLive(t, 1, plain.URL)
	l.speak(chatAPI)
	l.c.Stream = true
	if r := l.one(); r.Text != "Hello" || string(r.Response) != chatWhole("Hello") {
		t.Errorf("JSON for a stream: got %q of %s", r.Text, r.Response)
	}

	s := newStreams(t, []string{chatText("Hello"), chatEnd})
	l = s.run(t, chatAPI)
	l.c.Stream = false
	if r := l.one(); r.Text != "Hello" || string(r.Response) != chatWhole("Hello") || strings.Contains(s.body(1), "stream") {
		t.Errorf("a stream for JSON: got %q of %s", r.Text, r.Response)
	}

	own := `{"model":"m","max_tokens":5,"stream": true,"messages":[{"role":"user","content":"hi"}]}`
	for _, flag := range []bool{false, true} {
		s = newStreams(t, []string{chatText("Hello"), chatEnd})
		l = s.run(t, chatAPI)
		l.c.Stream, l.c.Items = flag, itemsOf(&input.Item{ID: []byte(`"q0"`), Key: "q0", Format: input.Messages, Body: []byte(own)})
		if r := l.one(); r.Text != "Hello" || s.body(1) != own {
			t.Errorf("the line's own: got %q for %s", r.Text, s.body(1))
		}
	}
}

// A stream may have a path of its own, as Gemini's and Claude's on Vertex have.
func TestStreamPath(t *testing.T) {
	var paths sync.Map
	s := newServe(t, h1, func(w http.ResponseWriter, r *http.Request) {
		paths.Store(r.URL.RequestURI(), true)
		_, _ = io.WriteString(w, okBody)
	})
	for _, stream := range []bool{false, true} {
		l := newLive(t, 1, s.URL)
		l.target.Defaults.Vertex, l.c.Stream = true, stream
		signed := 0
		l.target.Sign = func(r *http.Request, body []byte) error {
			if signed++; len(body) == 0 || r.Header.Get("Content-Type") == "" {
				t.Errorf("got %v to sign, with %d bytes", r.Header, len(body))
			}
			return nil
		}
		if r := l.one(); r.Status != output.OK || signed != 1 {
			t.Errorf("stream %v: got %s, signed %d times", stream, r.Status, signed)
		}
	}
	for _, want := range []string{"/publishers/anthropic/models/m-test:rawPredict", "/publishers/anthropic/models/m-test:streamRawPredict"} {
		if _, ok := paths.Load(want); !ok {
			t.Errorf("nothing was sent to %s", want)
		}
	}
}

// json-as-event-stream: the body is read for what it is, whatever its type says.
func TestJSONAsEventStream(t *testing.T) {
	for _, c := range []struct{ body, text, class string }{
		{body: chatWhole("Hello") + "\n\ndata: [DONE]\n\n", text: "Hello"},
		{body: "\n" + `{"error":{"code":"insufficient_quota","message":"pay"}}`, class: "spend_cap"},
		{body: `[{"error":{"code":401,"message":"key"}}]`, class: "auth"},
		{body: "<html><title>Login</title></html>", class: "invalid_response"},
		{body: "data: " + `{"base_resp":{"status_code":1008,"status_msg":"no"}}` + "\n\n", class: "spend_cap"},
	} {
		for _, stream := range []bool{false, true} {
			s := newServe(t, h1, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.WriteString(w, c.body)
			})
			l := newLive(t, 1, s.URL)
			l.speak(chatAPI)
			l.c.Stream, l.c.Retry.MaxErrors = stream, 1
			r := l.one()
			if class := ""; r.Error != nil {
				class = r.Error.Class
				if class != c.class {
					t.Errorf("%s (stream: %v): got %s, want %s", c.body, stream, class, c.class)
				}
			} else if r.Text != c.text || c.class != "" {
				t.Errorf("%s (stream: %v): got %q, want %q", c.body, stream, r.Text, c.text)
			}
		}
	}
}

// A stream whose type a proxy has lost is read as one, and nothing else is.
func TestStreamOfOtherType(t *testing.T) {
	for _, kind := range []string{"text/plain", "application/json", ""} {
		s := newServe(t, h1, func(w http.ResponseWriter, _ *http.Request) {
			w.Header()["Content-Type"] = []string{kind}
			_, _ = io.WriteString(w, "\n: hello\n\n"+chatText("Hello")+chatEnd)
		})
		l := newLive(t, 1, s.URL)
		l.speak(chatAPI)
		l.c.Stream = true
		if r := l.one(); r.Text != "Hello" || string(r.Response) != chatWhole("Hello") {
			t.Errorf("%q: got %q, %+v", kind, r.Text, r.Error)
		}
	}
	for body, want := range map[string]bool{
		"data: x": true, "event:x": true, "\ufeff\r\n: x": true, "id: 1\ndata: x": true,
		"": false, "\n\n": false, `{"data": 1}`: false, "database: x": false, "data": false, "<html>: x": false,
	} {
		if got := looksLikeEvents([]byte(body)); got != want {
			t.Errorf("%q: got %v, want %v", body, got, want)
		}
	}
}
