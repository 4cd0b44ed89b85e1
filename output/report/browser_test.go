package report

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"llmbatch/output"
)

// probe runs in the page, reads it as a person would and leaves what it saw in
// the parent's document, which the browser prints.
const probe = `<script>
"use strict";
const seen = { errors: 0, blocked: 0 };
addEventListener("error", () => seen.errors++);
addEventListener("securitypolicyviolation", () => seen.blocked++);
addEventListener("load", async () => {
  const tick = () => new Promise(done => setTimeout(done, 10)), table = document.getElementById("items");
  while (!table.dataset.ready) await tick();
  const said = () => document.getElementById("shown").textContent, rows = () => table.tBodies[0].rows.length;
  const set = (id, value) => { const e = document.getElementById(id); e.value = value; e.dispatchEvent(new Event("input", { bubbles: true })); };
  seen.form = document.getElementById("filter").hidden ? "hidden" : "shown";
  seen.all = said(); seen.rows = rows();
  document.getElementById("later").click(); seen.page = document.getElementById("where").textContent;
  set("words", "TOO long"); seen.words = said();
  set("words", ""); set("status", "gave up"); seen.status = said();
  set("cause", "timeout"); seen.cause = said();
  set("words", "no such words"); seen.none = said();
  set("words", "item-00007"); set("status", ""); set("cause", ""); seen.one = said();
  const button = table.querySelector(".id button");
  button.click();
  while (!table.querySelector(".open pre")) await tick();
  seen.opened = [...table.querySelectorAll(".open pre")].map(e => e.textContent).join("|");
  seen.attempts = table.querySelectorAll(".open table tbody tr").length;
  button.click(); seen.closed = table.querySelectorAll(".open").length;
  set("words", ""); seen.again = said();
  seen.foreign = document.querySelectorAll("b, img, iframe").length + (globalThis.pwned ? 1 : 0);
  seen.loaded = performance.getEntriesByType("resource").length;
  seen.overflow = document.documentElement.scrollWidth - document.documentElement.clientWidth;
  seen.plots = [...document.querySelectorAll("svg")].filter(s => s.getClientRects().length > 0 && s.getBoundingClientRect().height > 100).length;
  seen.marks = [...document.querySelectorAll(".marks")].filter(s => s.getClientRects().length > 0).length;
  seen.scheme = getComputedStyle(document.body).backgroundColor;
  for (const [name, value] of Object.entries(seen)) parent.document.body.setAttribute("data-" + innerWidth + "-" + name, value);
});
</script>`

// browser is the path of a Chromium or Chrome, or skips the test.
func browser(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a browser: not in -short")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	if os.Getenv("LLMBATCH_BROWSER") != "" {
		t.Fatal("LLMBATCH_BROWSER is set, and there is no chromium or chrome in PATH")
	}
	t.Skip("no chromium or chrome in PATH: the page is not tested in a browser")
	return ""
}

// A real browser shows the page without an error, loads nothing else, and its
// filter works, as wide as a phone and as wide as a desk.
func TestPageInBrowser(t *testing.T) {
	chromium := browser(t)
	evil := `<img src=x onerror=pwned=1><b>bold</b></script><script>pwned=1</script>`
	var html bytes.Buffer
	if err := HTML(&html, night(2000, time.Hour), PageOptions{Asked: func(r *output.Result) string { return "asked " + idText(r.ID) + evil }}); err != nil {
		t.Fatal(err)
	}
	page := bytes.Replace(html.Bytes(), []byte("<body>"), []byte("<body>"+probe), 1)
	var mu sync.Mutex
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.URL.Path)
		mu.Unlock()
		switch r.URL.Path {
		case "/frame": // a headless window can't be as narrow as a phone, a frame can
			fmt.Fprint(w, `<!doctype html><link rel="icon" href="data:,"><body>`+
				`<iframe src="/page?400" style="border:0;width:400px;height:3000px"></iframe>`+
				`<iframe src="/page?1100" style="border:0;width:1100px;height:3000px"></iframe>`)
		case "/page":
			w.Header().Set("Content-Type", "text/html")
			w.Write(page)
		default:
			http.NotFound(w, r)
		}
	}))
	defer server.Close()
	dom, log := dump(t, chromium, server.URL+"/frame")
	for _, m := range regexp.MustCompile(`.*CONSOLE.*`).FindAllString(log, -1) {
		t.Errorf("got in the console: %s", m)
	}
	got := map[string]string{}
	for _, m := range regexp.MustCompile(`(?s)data-(\d+-[a-z]+)="([^"]*)"`).FindAllStringSubmatch(dom, -1) {
		got[m[1]] = m[2]
	}
	want := map[string]string{
		"errors": "0", "blocked": "0", "form": "shown", "all": "2,000 items.", "rows": "50", "page": "page 2 of 40",
		"words": "38 of 2,000 items match.", "status": "35 of 2,000 items match.", "cause": "15 of 2,000 items match.",
		"none": "0 of 2,000 items match.", "one": "1 of 2,000 items match.", "again": "2,000 items.",
		"opened": strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace("asked item-00007" + evil + "|answer 7\nof the night"), "attempts": "1", "closed": "0",
		"foreign": "0", "loaded": "0", "overflow": "0", "plots": "6", "marks": "5",
	}
	for name, w := range want {
		for _, width := range []string{"400", "1100"} {
			if g := got[width+"-"+name]; g != w {
				t.Errorf("%s pixels wide, %s: got %q, want %q", width, name, g, w)
			}
		}
	}
	mu.Lock()
	defer mu.Unlock()
	if strings.Join(asked, " ") != "/frame /page /page" {
		t.Errorf("got requests %q, want the frame and the page twice", asked)
	}
}

// dump is the document after its scripts, and what the browser logged.
func dump(t *testing.T, chromium, url string) (dom, log string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	args := []string{
		"--headless", "--disable-gpu", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync",
		"--disable-dev-shm-usage", "--enable-logging=stderr", "--user-data-dir=" + t.TempDir(), "--window-size=1200,3200",
		"--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1", "--virtual-time-budget=5000", "--dump-dom", url,
	}
	if os.Geteuid() == 0 {
		args = append([]string{"--no-sandbox"}, args...) // it refuses to run as root with one
	}
	cmd := exec.CommandContext(ctx, chromium, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Run(); err != nil {
		t.Fatalf("%s: %v\n%s", strconv.Quote(chromium), err, stderr.String())
	}
	return stdout.String(), stderr.String()
}
