package runner

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/runner/provider"
	"llmbatch/runner/provider/anthropic"
)

// echoKey holds what escapes differ over: a slash, a plus and an ampersand.
const echoKey = "sk-echo/01+23&456789"

// escapedKey is the key as encoders write it that escape slashes and ampersands.
const escapedKey = `sk-echo\/01+23\u0026456789`

type echoCase struct {
	name, api string
	status    int
	header    string // Request-Id and Retry-After
	body      string
	want      output.Status
	shows     string // is still there
}

// said is v as JSON.
func said(v string) string { q, _ := json.Marshal(v); return string(q) }

var echoCases = []echoCase{
	{name: "401", status: 401, body: `{"type":"error","error":{"type":"authentication_error","message":` + said("invalid x-api-key: "+echoKey) + `}}`, want: output.Aborted, shows: "invalid x-api-key: ***"},
	{name: "401, escaped", status: 401, body: `{"error":{"message":"Incorrect API key provided: ` + escapedKey + `"}}`, want: output.Aborted, shows: "provided: ***"},
	{name: "401, JSON in JSON", status: 401, body: `{"error":{"message":` + said(`{"key":`+said(echoKey)+`}`) + `}}`, want: output.Aborted},
	{name: "401, type and code", status: 401, body: `{"error":{"type":` + said("bad "+echoKey) + `,"code":` + said(echoKey) + `,"message":"m"}}`, want: output.Aborted},
	{name: "page", status: 403, body: "<html><title>" + echoKey + " is not welcome</title></html>", want: output.Aborted, shows: "*** is not welcome"},
	{name: "headers", status: 400, header: echoKey, body: `{"error":{"message":"m"}}`, want: output.Failed},
	{name: "a URL with it", status: 404, body: `{"error":{"message":` + said("no route for /v1?key=sk-echo%2F01%2B23%26456789") + `}}`, want: output.Aborted, shows: "key=***"},
	{name: "spend cap", status: 429, body: `{"error":{"code":"insufficient_quota","message":` + said("no credit for "+echoKey) + `}}`, want: output.Aborted, shows: "no credit for ***"},
	{name: "no JSON in a 200", status: 200, body: "hello " + echoKey, want: output.GaveUp},
	{name: "answer", status: 200, header: echoKey, body: strings.Replace(strings.Replace(okBody, `"OK"`, said("your key is "+echoKey), 1), `"model":"m"`, `"model":`+said(echoKey), 1), want: output.OK, shows: "your key is ***"},
	{name: "answer, escaped", status: 200, body: strings.Replace(okBody, `"OK"`, `"your key is `+escapedKey+`"`, 1), want: output.OK, shows: "your key is ***"},
	{name: "tool call", api: chatAPI, status: 200, body: `{"choices":[{"message":{"content":null,"tool_calls":[{"function":{"arguments":` + said(`{"k":`+said(echoKey)+`}`) + `}}]},"finish_reason":` + said(echoKey) + `}]}`, want: output.OK},
	{name: "stream", status: 200, body: msgStart + msgText("your key is sk-echo/01") + msgText("+23&456789") + msgEnd, want: output.OK, shows: "your key is ***"},
	{name: "error in a stream", status: 200, body: msgStart + event("error", `{"type":"error","error":{"type":"api_error","message":`+said(echoKey)+`}}`), want: output.GaveUp},
	{name: "cut stream", status: 200, body: msgStart + msgText("your key is "+echoKey), want: output.GaveUp},
}

// C51: a server echoes the key wherever it can. Neither rows nor logs nor the
// report show it.
func TestKeyIsNeverShown(t *testing.T) {
	for _, c := range echoCases {
		t.Run(c.name, func(t *testing.T) {
			s := newServe(t, h1, func(w http.ResponseWriter, r *http.Request) {
				if c.header != "" {
					w.Header().Set("Request-Id", c.header)
					w.Header().Set("Retry-After", c.header)
					w.Header().Set("X-Ratelimit-Limit-Requests", c.header)
				}
				if strings.HasPrefix(c.body, "event:") {
					w.Header().Set("Content-Type", "text/event-stream")
				}
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			})
			l := newLive(t, 1, s.URL)
			if c.api != "" {
				l.speak(c.api)
			}
			l.target.Credentials.Key, l.c.Scrub = echoKey, provider.NewScrubber(echoKey)
			l.c.OnCut, l.c.ContinueStyle = "continue", "user"
			r := l.one()
			if r.Status != c.want {
				t.Errorf("got %s (%+v), want %s", r.Status, r.Error, c.want)
			}
			all := l.logged.String()
			for _, form := range []string{echoKey, "sk-echo", "456789"} {
				if strings.Contains(all, form) {
					t.Fatalf("%q is shown:\n%s", form, all)
				}
			}
			if !strings.Contains(all, c.shows) {
				t.Errorf("%q is missing:\n%s", c.shows, all)
			}
			if r.Response != nil && !json.Valid(r.Response) {
				t.Errorf("the response is no JSON any more: %s", r.Response)
			}
		})
	}
}

// keyForms are ways to write the key that a reader of a row or a log could undo.
func keyForms() []string {
	each := func(format string) string {
		var b strings.Builder
		for _, c := range []byte(echoKey) {
			fmt.Fprintf(&b, format, c)
		}
		return b.String()
	}
	return []string{
		echoKey, escapedKey, strings.ToUpper(echoKey), each(`\u%04x`), each(`\u%04X`), each("%%%02x"), each("&#%d;"), each("&#x%x;"),
		url.QueryEscape(echoKey), strings.ToLower(url.QueryEscape(echoKey)), html.EscapeString(echoKey), url.QueryEscape(url.QueryEscape(echoKey)),
		echoKey[:6] + "\u200b" + echoKey[6:], echoKey[:6] + `\u200b` + echoKey[6:], echoKey[:6] + `\u0000` + echoKey[6:], echoKey[:9] + `\u00ad` + echoKey[9:],
		base64.StdEncoding.EncodeToString([]byte(echoKey)), base64.RawURLEncoding.EncodeToString([]byte(echoKey)),
		strings.ReplaceAll(escapedKey, `\`, `\\`), "x" + strings.Repeat("y ", 495) + echoKey,
	}
}

// undone is text with its escapes resolved, in lower case, with what is base64 beside it.
func undone(v string) string {
	for range 2 {
		v = regexp.MustCompile(`\\+u([0-9a-fA-F]{4})`).ReplaceAllStringFunc(v, func(m string) string {
			n, _ := strconv.ParseUint(m[len(m)-4:], 16, 32)
			return string(rune(n))
		})
		if u, err := url.PathUnescape(v); err == nil {
			v = u
		}
		v = html.UnescapeString(strings.ReplaceAll(v, `\/`, "/"))
	}
	for _, b := range regexp.MustCompile(`[A-Za-z0-9+/_-]{16,}`).FindAllString(v, -1) {
		d, _ := base64.RawStdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/").Replace(b))
		v += " " + string(d)
	}
	return strings.ToLower(strings.Map(func(r rune) rune {
		if r < ' ' || unicode.Is(unicode.Cf, r) {
			return -1
		}
		return r
	}, v))
}

// faults 10: in whatever form and place the key comes back, it is in no row and no log.
func TestKeyInAllFormsAndPlaces(t *testing.T) {
	ok := `{"type":"message","model":"K","content":[{"type":"text","text":"a K"},{"type":"tool_use","input":{"k":"K"}}],"stop_reason":"K","K":1,"usage":{"input_tokens":1}}`
	bad := `{"type":"error","error":{"type":"K","code":"K","message":"m K","details":{"error_code":"K","resets_at":"K"}},"request_id":"K"}`
	stream := msgStart + event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"a K"}}`)
	for i, form := range keyForms() {
		for status, template := range map[int]string{200: ok, 400: bad, 429: bad, 307: bad, 206: stream} {
			s := newServe(t, h1, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Request-Id", strings.ReplaceAll(form, "\u200b", ""))
				w.Header().Set("Retry-After", strings.ReplaceAll(form, "\u200b", ""))
				w.Header().Set("Location", "https://h/"+url.PathEscape(form))
				if status == 206 {
					w.Header().Set("Content-Type", "text/event-stream")
				}
				w.WriteHeader(status)
				_, _ = io.WriteString(w, strings.ReplaceAll(template, "K", form))
			})
			l := newLive(t, 1, s.URL)
			l.target.Credentials.Key, l.c.Scrub = echoKey, provider.NewScrubber(echoKey)
			l.c.OnCut, l.c.ContinueStyle, l.c.Retry.MaxAttempts = "continue", "user", 1
			l.run()
			if all := undone(l.logged.String()); strings.Contains(all, echoKey) || strings.Contains(all, echoKey[:12]) {
				t.Fatalf("form %d, status %d: the key is shown:\n%s", i, status, l.logged.String())
			}
		}
	}
}

// A model's lane that is closed says why, without the key.
func TestClosedLaneHidesKey(t *testing.T) {
	s := newServe(t, h1, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(404)
		_, _ = io.WriteString(w, `{"type":"error","error":{"type":"not_found_error","message":"model: m-test with `+wireKey+`"}}`)
	})
	l := newLive(t, 1, s.URL)
	l.c.Lanes = 2
	l.one() // asserts it
	if l.rep.Reason != LaneClosed || !strings.Contains(l.logged.String(), "model: m-test with ***") {
		t.Errorf("got %+v", l.rep)
	}
}

// oops is a provider with a bug that shows what it should not.
type oops struct{ anthropic.Provider }

func (oops) Decode(*provider.Call, provider.Answer) (provider.Reply, *provider.Error) {
	panic("can't happen with key " + wireKey)
}

// A panic is told without the key, and so is an error that a line brings.
func TestPanicHidesKey(t *testing.T) {
	s := newServe(t, h1, func(w http.ResponseWriter, _ *http.Request) { answerOK(w) })
	l := newLive(t, 1, s.URL)
	l.target.Provider = oops{}
	l.run()
	if l.rep.Reason != Internal || !strings.Contains(l.logged.String(), "can't happen with key ***") {
		t.Errorf("got %+v, want an internal error", l.rep)
	}

	l = newLive(t, 1, s.URL)
	l.c.Route = func(*input.Item) (*Target, error) { return nil, errors.New("no route with " + wireKey) }
	if r := l.one(); r.Status != output.Failed || r.Error.Message != "no route with ***" {
		t.Errorf("got %+v", r.Error)
	}
}

// What a server says can't play with a terminal: no control character of it is in
// a message, a log or a member that is shown.
func TestControlCharacters(t *testing.T) {
	const evil = "a\\u001b[2Jb\\u0007c\\u009b31md\\u202ee\\u0000f\\r\\ng"
	s := newServe(t, h1, func(w http.ResponseWriter, r *http.Request) {
		w.Header()["Request-Id"] = []string{"req\u009b31m\x9b1"}
		w.Header()["Retry-After"] = []string{"1\u009b31m\x9b"}
		if r.Header.Get("X-Fail") != "" {
			w.WriteHeader(400)
			fmt.Fprintf(w, `{"error":{"type":"%[1]s","code":"%[1]s","message":"%[1]s"}}`, evil)
			return
		}
		fmt.Fprintf(w, `{"type":"message","model":"%[1]s","content":[{"type":"text","text":"OK"}],"stop_reason":"%[1]s","usage":{"input_tokens":1}}`, evil)
	})
	for _, fail := range []string{"", "1"} {
		l := newLive(t, 1, s.URL)
		l.target.Header = http.Header{"X-Fail": {fail}}
		r := l.one()
		a := r.Attempts[0]
		shown := []string{r.Model, r.StopReason, a.Error, a.RequestID, a.RetryAfter, l.rep.Message, l.rep.Hint, l.logged.String()}
		if e := r.Error; e != nil {
			shown = append(shown, e.Message, e.Type, e.Code)
		}
		for i, v := range shown {
			if at := strings.IndexFunc(v, func(r rune) bool {
				return r < ' ' && r != '\n' || r == 0x7f || r >= 0x80 && r < 0xa0 || r == '\u202e'
			}); at >= 0 {
				t.Errorf("fail %q, %d: a control character in %.200q", fail, i, v[max(0, at-20):])
			}
		}
		if a.RequestID == "" || !strings.HasPrefix(a.RetryAfter, "1") {
			t.Errorf("got request id %q and retry-after %q", a.RequestID, a.RetryAfter)
		}
	}
}
