package runner

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"llmbatch/output"
	"llmbatch/runner/provider"
	"llmbatch/runner/provider/anthropic"
	"llmbatch/runner/provider/openai"
)

// The APIs of these tests.
const (
	messagesAPI  = "messages"
	chatAPI      = "chat"
	responsesAPI = "responses"
)

// speak makes a run speak one of the APIs.
func (l *live) speak(api string) {
	l.target.Provider = provider.Provider(openai.New())
	l.target.Defaults.Name, l.target.Defaults.Endpoint = "openai", api
	if api == messagesAPI {
		l.target.Provider, l.target.Defaults.Name = anthropic.New(), "anthropic"
	}
}

// replies serves the same bytes to each connection's first request, and closes.
func replies(t *testing.T, reply string) string {
	return rawServer(t, func(_ int, c net.Conn, in *bufio.Reader) {
		if readRequest(in) {
			_, _ = io.WriteString(c, reply)
		}
	})
}

func zipped(parts ...[]byte) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for _, p := range parts {
		_, _ = z.Write(p)
	}
	_ = z.Close()
	return b.String()
}

// message is an HTTP/1.1 response with a length.
func message(status int, body string, headers ...string) string {
	head := strings.Join(append(headers, fmt.Sprintf("Content-Length: %d", len(body))), "\r\n")
	return fmt.Sprintf("HTTP/1.1 %d %s\r\n%s\r\n\r\n%s", status, http.StatusText(status), head, body)
}

type bodyCase struct {
	name, api, reply string
	status           output.Status
	outcome          string
	code             int // the row's error.status
	text, response   string
	says             string
}

var bodyCases = []bodyCase{
	// Bodies that end too early.
	{name: "length too long", reply: "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + okBody, status: output.GaveUp, outcome: "truncated", code: 200},
	{name: "cut chunks", reply: fmt.Sprintf("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n", len(okBody), okBody), status: output.GaveUp, outcome: "truncated", code: 200},
	{name: "close-delimited and cut", reply: "HTTP/1.0 200 OK\r\n\r\n" + okBody[:len(okBody)-20], status: output.GaveUp, outcome: "truncated", code: 200},
	{name: "close-delimited and whole", reply: "HTTP/1.0 200 OK\r\n\r\n" + okBody, status: output.OK, outcome: "ok", text: "OK", response: okBody},
	{name: "empty", reply: message(200, ""), status: output.GaveUp, outcome: "invalid_response", code: 200},
	{name: "blank lines and no JSON", reply: message(200, "\n\n\n\n"), status: output.GaveUp, outcome: "truncated", code: 200},
	// An error's body that can't be read: some statuses say enough.
	{name: "429, cut", reply: "HTTP/1.1 429 x\r\nContent-Length: 1000\r\n\r\n{\"type\":", status: output.GaveUp, outcome: "rate_limited", code: 429},
	{name: "529, cut", reply: "HTTP/1.1 529 x\r\nContent-Length: 1000\r\n\r\n{\"type\":", status: output.GaveUp, outcome: "overloaded", code: 529},
	{name: "500 in an unknown coding", reply: message(500, "?", "Content-Encoding: br"), status: output.GaveUp, outcome: "server_error", code: 500},
	{name: "404, cut", reply: "HTTP/1.1 404 x\r\nContent-Length: 1000\r\n\r\n", status: output.GaveUp, outcome: "truncated", code: 404},
	{name: "400, larger than is read", reply: message(400, `{"error":{"message":"bad"},"x":"`+strings.Repeat("y", 2<<20)+`"}`), status: output.Failed, outcome: "rejected", code: 400},

	// Compression, which nobody asked for.
	{name: "gzip", reply: message(200, zipped([]byte(okBody)), "Content-Encoding: gzip"), status: output.OK, outcome: "ok", text: "OK", response: okBody},
	{name: "gzip of an error", reply: message(400, zipped([]byte(`{"error":{"message":"odd"}}`)), "Content-Encoding: GZIP"), status: output.Failed, outcome: "rejected", code: 400, says: "odd"},
	{name: "no gzip", reply: message(200, okBody, "Content-Encoding: gzip"), status: output.GaveUp, outcome: "invalid_response", code: 200},
	{name: "gzip, cut", reply: message(200, zipped([]byte(okBody))[:60], "Content-Encoding: gzip"), status: output.GaveUp, outcome: "truncated", code: 200},
	{name: "gzip, broken", reply: message(200, strings.Replace(zipped([]byte(okBody)), "\xff", "\xff\xff\x00\x55", 2)+"xxxxxxxx", "Content-Encoding: gzip"), status: output.GaveUp, outcome: "invalid_response", code: 200},
	{name: "brotli", reply: message(200, okBody, "Content-Encoding: br"), status: output.GaveUp, outcome: "invalid_response", code: 200, says: `"br"`},

	// Whole bodies of other shapes.
	{name: "blank lines before the JSON", reply: message(200, strings.Repeat("\r\n", 500)+okBody), status: output.OK, outcome: "ok", text: "OK", response: okBody},
	{name: "C60 page in a 200", reply: message(200, "<html><title>Sign in</title></html>", "Content-Type: text/html"), status: output.GaveUp, outcome: "invalid_response", code: 200, says: "HTML"},
	{name: "C60 page of a gateway", reply: message(502, "<html>\n<head><title>502 Bad\n gateway</title></head>"+strings.Repeat("<p>x</p>", 1000), "Content-Type: text/html"), status: output.GaveUp, outcome: "server_error", code: 502, says: "502 Bad gateway"},
	{name: "C60 Cloudflare", reply: message(524, `{"cloudflare_error":true,"title":"A timeout occurred","status":524}`), status: output.GaveUp, outcome: "server_error", code: 524, says: "A timeout occurred"},
	{name: "C18 no choices", api: chatAPI, reply: message(200, `{"id":"x","choices":[],"usage":{"prompt_tokens":5}}`), status: output.GaveUp, outcome: "invalid_response", code: 200},
	{name: "C17 an error in a 200", api: chatAPI, reply: message(200, `{"error":{"code":502,"message":"upstream"}}`), status: output.GaveUp, outcome: "server_error", code: 502, says: "upstream"},
	{name: "C17 daily quota in a 200", api: chatAPI, reply: message(200, `{"error":{"code":429,"message":"free-models-per-day"}}`), status: output.Aborted, outcome: "rate_limited", code: 429},
	{name: "C65 tool calls without text", api: chatAPI, status: output.OK, outcome: "ok",
		reply:    message(200, `{"choices":[{"message":{"content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`),
		response: `{"choices":[{"message":{"content":null,"tool_calls":[{"id":"t","type":"function","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}]}`},
	{name: "failed in a 200", api: responsesAPI, reply: message(200, `{"object":"response","status":"failed","error":{"code":"server_error","message":"m"},"output":[]}`), status: output.GaveUp, outcome: "server_error", code: 500},
	{name: "failed for good in a 200", api: responsesAPI, reply: message(200, `{"object":"response","status":"failed","error":{"code":"invalid_prompt","message":"m"}}`), status: output.Failed, outcome: "rejected", code: 400},
	{name: "out of credit in a 200", api: responsesAPI, reply: message(200, `{"object":"response","status":"failed","error":{"code":"insufficient_quota","message":"m"}}`), status: output.Aborted, outcome: "spend_cap", code: 429},
	{name: "pretty", api: chatAPI, reply: message(200, "{\n  \"n\": 9007199254740993,\n  \"choices\": [ {\n\t\"message\": { \"content\": \"a  b\\n\" } } ]\r\n}\n"), status: output.OK, outcome: "ok",
		text: "a  b\n", response: `{"n":9007199254740993,"choices":[{"message":{"content":"a  b\n"}}]}`},
	{name: "invalid UTF-8", api: chatAPI, reply: message(200, "{\"choices\":[{\"message\":{\"content\":\"a\xffb\"}}]}"), status: output.OK, outcome: "ok",
		text: "a\ufffdb", response: "{\"choices\":[{\"message\":{\"content\":\"a\ufffdb\"}}]}"},
}

func TestBodies(t *testing.T) {
	for _, c := range bodyCases {
		t.Run(c.name, func(t *testing.T) {
			l := newLive(t, 1, replies(t, c.reply))
			if c.api != "" {
				l.speak(c.api)
			}
			l.c.Retry.MaxAttempts = 1
			c.check(t, l.one())
		})
	}
}

func (c bodyCase) check(t *testing.T, r *output.Result) {
	t.Helper()
	is(t, r, c.status, c.outcome)
	if r.Text != c.text || string(r.Response) != c.response || !utf8.Valid(r.Response) {
		t.Errorf("got text %q of %s, want %q of %s", r.Text, r.Response, c.text, c.response)
	}
	if e := r.Error; e != nil && (e.Status != c.code || !strings.Contains(e.Message, c.says) || len(e.Message) > 1000 || e.Class != c.outcome) {
		t.Errorf("got %+v, want status %d and %q", e, c.code, c.says)
	}
	if a := r.Attempts[0]; a.Status == 0 {
		t.Error("the attempt has no status")
	}
}

// An answer that says how much too large it is is not even read.
func TestTooLarge(t *testing.T) {
	base := rawServer(t, func(_ int, c net.Conn, in *bufio.Reader) {
		if readRequest(in) {
			_, _ = io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n{")
			_, _ = in.ReadByte() // until the client leaves
		}
	})
	is(t, newLive(t, 1, base).one(), output.GaveUp, "invalid_response")
}

// What is read of a compressed answer is bounded by what becomes of it, in bytes
// and in memory.
func TestBomb(t *testing.T) {
	const most = 2 << 20
	resp := &http.Response{Header: http.Header{"Content-Encoding": {"gzip"}},
		Body: io.NopCloser(strings.NewReader(zipped(make([]byte, 8<<20))))}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r, err := decoded(resp)
	if err != nil {
		t.Fatal(err)
	}
	data, err := readAll(r, -1, most)
	runtime.ReadMemStats(&after)
	if len(data) != most || err != provider.ErrBodyTooLarge {
		t.Errorf("got %d bytes and %v, want %d and too large", len(data), err, most)
	}
	if n := after.TotalAlloc - before.TotalAlloc; n > 3*most {
		t.Errorf("%d bytes were allocated for %d", n, most)
	}
	// Of a refusal only its beginning is read.
	l := newLive(t, 1, replies(t, message(429, zipped(make([]byte, 2*mostError)), "Content-Encoding: gzip")))
	l.c.Retry.MaxAttempts = 1
	is(t, l.one(), output.GaveUp, "rate_limited")
}

// A length that is claimed costs nothing before the body comes.
func TestClaimedLength(t *testing.T) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	data, err := readAll(strings.NewReader("x"), 60<<20, 64<<20)
	runtime.ReadMemStats(&after)
	if string(data) != "x" || err != nil || after.TotalAlloc-before.TotalAlloc > 2<<20 {
		t.Errorf("got %q, %v and %d bytes allocated", data, err, after.TotalAlloc-before.TotalAlloc)
	}
}

// A queueing server that sends blank lines does not keep an attempt alive beyond
// its time. In virtual time, over a pipe.
func TestBlankLinesEndWithTheAttempt(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := pipeBench(t, func(w http.ResponseWriter, r *http.Request) {
			trickle(w, r, time.Minute, "\n")
		})
		b.c.Retry.MaxErrors = 1
		New(b.c).Run(t.Context())
		r := b.sink.last()["q0"]
		is(t, r, output.GaveUp, "timeout")
		if a := r.Attempts[0]; a.Duration != b.c.AttemptTimeout || a.Status != 200 {
			t.Errorf("got %+v, want a 200 that was cut at %s", a, b.c.AttemptTimeout)
		}
	})
}
