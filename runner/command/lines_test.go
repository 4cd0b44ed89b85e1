package command

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// asked is a server that answers each Chat Completions request, and each of the other
// APIs, with OK, and keeps what it was sent.
type asked struct {
	*httptest.Server
	mu     sync.Mutex
	paths  []string
	bodies []string
}

func newAsked(t *testing.T) *asked {
	a := &asked{}
	a.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		a.mu.Lock()
		a.paths, a.bodies = append(a.paths, r.URL.Path), append(a.bodies, string(b))
		a.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		switch {
		case strings.HasSuffix(r.URL.Path, "/messages"):
			io.WriteString(w, `{"type":"message","role":"assistant","content":[{"type":"text","text":"OK"}],"stop_reason":"end_turn","usage":{"input_tokens":5,"output_tokens":1}}`)
		case strings.HasSuffix(r.URL.Path, "/responses"):
			io.WriteString(w, `{"object":"response","status":"completed","output":[{"type":"message","role":"assistant","content":[{"type":"output_text","text":"OK"}]}]}`)
		default:
			io.WriteString(w, `{"object":"chat.completion","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"OK"}}]}`)
		}
	}))
	t.Cleanup(a.Close)
	return a
}

// A line's files reach each API as its own parts, a second run buys nothing, and another
// content is another request.
func TestFilesOfLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name string
		args []string
		want []string
	}{
		{"chat", []string{"--provider", "openai"}, []string{
			`{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgowMDAw"}}`,
			`{"type":"file","file":{"filename":"b.pdf","file_data":"data:application/pdf;base64,JVBERi0xLjc="}}`,
			`{"type":"text","text":"say \"hi\"\n"}`, `{"type":"text","text":"look"}`}},
		{"responses", []string{"--provider", "openai", "--endpoint", "responses"}, []string{
			`"input":[{"role":"user","content":[`, `{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgowMDAw"}`,
			`{"type":"input_file","filename":"b.pdf","file_data":"data:application/pdf;base64,JVBERi0xLjc="}`,
			`{"type":"input_text","text":"say \"hi\"\n"}`, `{"type":"input_text","text":"look"}`}},
		{"anthropic", []string{"--provider", "anthropic", "--max-tokens", "5"}, []string{
			`{"type":"image","source":{"type":"base64","media_type":"image/png","data":"iVBORw0KGgowMDAw"}}`,
			`{"type":"document","source":{"type":"base64","media_type":"application/pdf","data":"JVBERi0xLjc="}}`,
			`{"type":"document","source":{"type":"text","media_type":"text/plain","data":"say \"hi\"\n"}}`, `{"type":"text","text":"look"}`}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, in := newAsked(t), file(t, "p.jsonl", `{"id":1,"prompt":"look","files":["a.png","b.pdf","c.txt"]}`+"\n")
			write := func(name, content string) {
				if err := os.WriteFile(filepath.Join(filepath.Dir(in), name), []byte(content), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			write("a.png", "\x89PNG\r\n\x1a\n0000")
			write("b.pdf", "%PDF-1.7")
			write("c.txt", "say \"hi\"\n")
			args := append([]string{"run", in, "--base-url", a.URL, "--model", "m"}, c.args...)
			for range 2 {
				code, _, errs := world{}.call(args...)
				want(t, code, errs, 0)
			}
			if len(a.bodies) != 1 || !json.Valid([]byte(a.bodies[0])) {
				t.Fatalf("got requests %q, want one", a.bodies)
			}
			for _, w := range c.want {
				if !strings.Contains(a.bodies[0], w) {
					t.Errorf("got %s\nwant something with %s", a.bodies[0], w)
				}
			}
			write("c.txt", "another")
			code, _, errs := world{}.call(args...)
			want(t, code, errs, 2, "--on-changed rerun")
			write("c.txt", "\x00\xff")
			code, _, errs = world{}.call(args...)
			want(t, code, errs, 2, `p.jsonl:1:`, `file "c.txt" is no PNG`)
			if len(a.bodies) != 1 {
				t.Errorf("got %d requests, want one", len(a.bodies))
			}
		})
	}
}

// csv-from-excel, batch-dialects, dataset-as-request: as users meet them.
func TestInputOfOthers(t *testing.T) {
	t.Parallel()
	const batch = `"body":{"model":"m","messages":[{"role":"user","content":"hi"}]}}` + "\n"
	for _, c := range []struct {
		name, text string
		args       []string
		code       int
		paths      []string
		says       string
	}{
		{"p.csv", "text,label\nfoo,x\n,\n,\n", []string{"-t", "Classify: {{.text}}"}, 0, []string{"/v1/chat/completions"}, ""},
		{"p.csv", "text;label\nfoo;x\n", []string{"-t", "Classify: {{.text}}"}, 0, []string{"/v1/chat/completions"}, ""},
		{"p.csv", "\xff\xfei\x00d\x00", []string{"-t", "{{.text}}"}, 2, nil, "iconv -f UTF-16 -t UTF-8"},
		{"p.csv", "text\nfoo\n", []string{"-t", "Read {text}"}, 2, nil, "did you mean {{.text}}"},
		{"p.jsonl", `{"custom_id":"a","method":"post","url":"/chat/completions",` + batch + `{"custom_id":"b","url":"v4/chat/completions",` + batch + `{"custom_id":"c",` + batch,
			nil, 0, []string{"/v1/chat/completions", "/v1/chat/completions", "/v1/chat/completions"}, ""},
		{"p.jsonl", `{"custom_id":"a","url":"//evil.example/v1/chat/completions",` + batch, nil, 2, nil, `has a "//" in it`},
		{"p.jsonl", `{"instruction":"Add up","input":"1+1","output":"2"}` + "\n", nil, 2, nil, "-t '{{.instruction}} {{.input}}'"},
		{"p.txt", "What is 1+1?\n", nil, 2, nil, "jq -Rc '{prompt: .}'"},
		{"p.json", "[\n  {\"prompt\": \"x\"}\n]\n", nil, 2, nil, "jq -c '.[]'"},
		{"p.jsonl", `{"id":1,"prompt":"x","options":{"max_errors":1}}` + "\n", nil, 0, []string{"/v1/chat/completions"}, ""},
		{"p.jsonl", `{"id":1,"prompt":"x","options":{"max_erors":1}}` + "\n", nil, 2, nil, `did you mean "max_errors"?`},
	} {
		a := newAsked(t)
		args := append([]string{"run", file(t, c.name, c.text), "--provider", "openai", "--base-url", a.URL + "/v1", "--model", "m"}, c.args...)
		code, _, errs := world{}.call(args...)
		want(t, code, errs, c.code, c.says)
		if !slices.Equal(a.paths, c.paths) {
			t.Errorf("%q: got requests %v, want %v", c.text, a.paths, c.paths)
		}
		if slices.ContainsFunc(a.bodies, func(b string) bool { return strings.Contains(b, "options") }) {
			t.Errorf("%q: options were sent: %s", c.text, a.bodies)
		}
	}
}
