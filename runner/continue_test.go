package runner

import (
	"net/http"
	"strings"
	"testing"

	"llmbatch/output"
)

// --on-cut continue: the rest is asked for, in either style, and the texts joined.
func TestContinue(t *testing.T) {
	for _, c := range []struct {
		name, api, style string
		first            []string
		next             []string
		asks             string // part of the second request
		text             string
		usage            output.Usage
	}{
		{name: "messages, user", api: messagesAPI, style: "user", first: []string{msgStart, msgText("Hello, "), cut}, next: []string{msgStart, msgText("world"), msgEnd},
			asks: `Hello,`, text: "Hello, world", usage: output.Usage{InputTokens: 10, OutputTokens: 8}},
		{name: "messages, prefill", api: messagesAPI, style: "prefill", first: []string{msgStart, msgText("Hello,"), cut}, next: []string{msgStart, msgText(" world"), msgEnd},
			asks: `{"role":"assistant","content":"Hello,"}]`, text: "Hello, world", usage: output.Usage{InputTokens: 10, OutputTokens: 8}},
		{name: "chat, user", api: chatAPI, style: "user", first: []string{chatText("Hello,"), chatText(" "), cut}, next: []string{chatText(" world"), chatEnd},
			asks: `Hello,`, text: "Hello, world", usage: output.Usage{InputTokens: 5, OutputTokens: 7}},
		{name: "responses, after an error event", api: responsesAPI, style: "user", first: []string{respStart, respText("Hello,"), event("error", `{"type":"error","code":"server_error","message":"m"}`)},
			next: []string{respStart, respText(" world"), respEnd(" world")}, asks: `Hello,`, text: "Hello, world", usage: output.Usage{InputTokens: 5, OutputTokens: 7}},
		// In a tool call and in thinking it starts anew.
		{name: "tool call", api: messagesAPI, style: "user",
			first: []string{msgStart, msgText("Hello,"), event("content_block_stop", `{"type":"content_block_stop","index":0}`),
				event("content_block_start", `{"type":"content_block_start","index":1,"content_block":{"type":"tool_use","id":"t","name":"f","input":{}}}`), cut},
			next: []string{msgStart, msgText("All"), msgEnd}, text: "All", usage: output.Usage{InputTokens: 10, OutputTokens: 8}},
		{name: "thinking", api: messagesAPI, style: "prefill",
			first: []string{event("message_start", `{"type":"message_start","message":{"usage":{"input_tokens":5,"output_tokens":1}}}`),
				event("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"thinking","thinking":""}}`),
				event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"thinking_delta","thinking":"Hello,"}}`), cut},
			next: []string{msgStart, msgText("All"), msgEnd}, text: "All", usage: output.Usage{InputTokens: 10, OutputTokens: 8}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStreams(t, c.first, c.next)
			l := s.run(t, c.api)
			l.c.OnCut, l.c.ContinueStyle, l.c.Retry.MaxErrors = "continue", c.style, 2
			r := l.one()
			if len(r.Attempts) != 2 || r.Status != output.OK || r.Text != c.text || r.Usage != c.usage {
				t.Errorf("got %s %q, usage %+v, %+v; want %q, %+v", r.Status, r.Text, r.Usage, r.Attempts, c.text, c.usage)
			}
			second := s.body(2)
			if !strings.Contains(second, c.asks) || c.asks == "" && second != s.body(1) || !strings.Contains(second, "item q0.") {
				t.Errorf("asked for the rest with %s", second)
			}
			if n := s.requests.Load(); n != 2 {
				t.Errorf("%d requests, want 2", n)
			}
		})
	}
}

// Cut twice, the text of both is kept; with restart none is.
func TestContinueTwice(t *testing.T) {
	scripts := [][]string{{msgStart, msgText("a"), cut}, {msgStart, msgText("b"), cut}, {msgStart, msgText("c"), msgEnd}}
	for how, want := range map[string]string{"continue": "abc", "restart": "c"} {
		s := newStreams(t, scripts...)
		l := s.run(t, messagesAPI)
		l.c.OnCut, l.c.ContinueStyle, l.c.Retry.MaxErrors = how, "prefill", 3
		r := l.one()
		is(t, r, output.OK, "truncated", "truncated", "ok")
		if r.Text != want || r.Usage.InputTokens != 15 || r.Usage.OutputTokens != 9 {
			t.Errorf("%s: got %q and %+v, want %q", how, r.Text, r.Usage, want)
		}
		if got, want := strings.Contains(s.body(3), `"content":"ab"`), how == "continue"; got != want {
			t.Errorf("%s: the third request is %s", how, s.body(3))
		}
	}
}

// White space where an answer was cut stands in its whole once.
func TestJoined(t *testing.T) {
	for _, c := range []struct{ arrived, rest, want string }{
		{"", "all", "all"},
		{"Hello ", "there", "Hello there"},
		{"Hello", " there", "Hello there"},
		{"Hello ", " there", "Hello there"},
		{"a\n", "\n\nb", "a\n\nb"},
		{"Hel", "lo", "Hello"},
	} {
		if got := joined(c.arrived, c.rest); got != c.want {
			t.Errorf("%q and %q: got %q, want %q", c.arrived, c.rest, got, c.want)
		}
	}
}

// A refused request for the rest does not fail the item: it is asked whole again.
func TestContinueRefused(t *testing.T) {
	bubble(t, func(t *testing.T) {
		b := newBench(t, 1, func(n int, body string) answer {
			switch n {
			case 1:
				return answer{status: 200, header: http.Header{"Content-Type": {"text/event-stream"}}, body: msgStart + msgText("Hello, ")}
			case 2:
				return refuse(400, "invalid_request_error")
			}
			return ok(0)
		})
		b.c.Stream, b.c.OnCut, b.c.ContinueStyle = true, "continue", "prefill"
		b.run()
		if r := b.sink.last()["q0"]; r.Status != output.OK || r.Text != "OK" || len(r.Attempts) != 3 {
			t.Errorf("got %s %q after %d attempts, want ok OK after 3", r.Status, r.Text, len(r.Attempts))
		}
	})
}
