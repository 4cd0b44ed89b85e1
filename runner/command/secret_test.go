package command_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"llmbatch/runner/command"
)

// secrets are all that a user may have entrusted to a run.
var secrets = map[string]string{
	"key": "sk-secret-key/01+2", "query": "query-secret/03", "password": "password-secret-04", "header": "header-secret-05", "flag": "flag-secret-06",
}

// shown finds the secrets that a text shows, in any form.
func shown(text string) (found []string) {
	for name, v := range secrets {
		quoted, _ := json.Marshal(v)
		for _, form := range []string{v, url.QueryEscape(v), strings.Trim(string(quoted), `"`), strings.ReplaceAll(v, "/", `\/`)} {
			if strings.Contains(text, form) {
				found = append(found, name+" as "+form)
			}
		}
	}
	return found
}

// echo tells in each answer all that the request had.
func echo(status int) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, password, _ := r.BasicAuth()
		all := fmt.Sprint(r.Header.Get("X-Api-Key"), " ", r.URL, " ", r.Header, " ", password)
		text, _ := json.Marshal(all)
		w.Header().Set("Request-Id", r.Header.Get("X-Api-Key"))
		w.Header().Set("Retry-After", r.Header.Get("X-Api-Key"))
		w.WriteHeader(status)
		if status == 200 {
			fmt.Fprintf(w, `{"type":"message","model":%s,"content":[{"type":"text","text":%s}],"stop_reason":%[1]s,"usage":{"input_tokens":1,"output_tokens":1}}`, text, text)
			return
		}
		fmt.Fprintf(w, `{"type":"error","error":{"type":%s,"message":%s}}`, text, text)
	}
}

// C51: whatever the server echoes and however the run ends, no secret of the key,
// the headers or the base URL is in rows, logs, summary, page or exports.
func TestSecretsAreNeverShown(t *testing.T) {
	t.Setenv("ANTHROPIC_API_KEY", secrets["key"])
	t.Setenv("TEAM_SECRET", secrets["header"])
	gone := httptest.NewServer(nil)
	gone.Close()
	for status, code := range map[int]int{200: 0, 400: 1, 401: 3, 404: 1, 429: 1, 500: 1, 0: 1} {
		for _, format := range []string{"text", "json"} {
			base := gone.URL
			if status > 0 {
				srv := httptest.NewServer(echo(status))
				defer srv.Close()
				base = srv.URL
			}
			dir := t.TempDir()
			in, out, summary := filepath.Join(dir, "p.jsonl"), filepath.Join(dir, "out.jsonl"), filepath.Join(dir, "summary.json")
			write(t, in, `{"id":"a","prompt":"hi"}`+"\n")
			base = strings.Replace(base, "//", "//user:"+secrets["password"]+"@", 1) + "?api_key=" + url.QueryEscape(secrets["query"])
			flags := []string{"--provider", "anthropic", "--base-url", base, "--model", "m", "--max-tokens", "5",
				"--header", "X-Team: env:TEAM_SECRET", "--header", "X-Other-Token: " + secrets["flag"]}
			said := do(t, code, append([]string{"run", in, "-o", out, "--summary", summary, "-v", "--log-format", format, "--max-attempts", "1"}, flags...)...)
			said += do(t, 0, append([]string{"plan", in, "-o", filepath.Join(dir, "new.jsonl")}, flags...)...)
			said += do(t, 0, append([]string{"run", in, "-o", out, "--print-config"}, flags...)...)
			said += do(t, 0, "report", out, "--html", filepath.Join(dir, "page.html"))
			for _, f := range []string{"csv", "text"} {
				said += do(t, 0, "export", out, "--format", f)
			}
			for _, name := range []string{out, summary, filepath.Join(dir, "page.html")} {
				data, err := os.ReadFile(name)
				if err != nil {
					t.Error(err)
				}
				said += string(data)
			}
			if found := shown(said); found != nil {
				t.Errorf("%d, %s: %q are shown:\n%s", status, format, found, said)
			}
			if strings.ContainsAny(said, "\x1b\x07") {
				t.Errorf("%d, %s: control characters in:\n%q", status, format, said)
			}
		}
	}
}

// do runs the command and returns all that it says.
func do(t *testing.T, want int, args ...string) string {
	t.Helper()
	var said bytes.Buffer
	if code := command.Main(append([]string{"llmbatch"}, args...), strings.NewReader(""), &said, io.MultiWriter(&said)); code != want {
		t.Errorf("%s: exit %d, want %d:\n%s", args[0], code, want, said.String())
	}
	return said.String()
}

func write(t *testing.T, name, text string) {
	t.Helper()
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
