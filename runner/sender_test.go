package runner

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"

	"llmbatch/input"
	"llmbatch/output"
)

// Requests that are made of one another each carry their own key and body, also
// where the server answers before it has read all of a body.
func TestRequestsOfOneGoroutine(t *testing.T) {
	const n, long = 12, 1 << 20
	var mu sync.Mutex
	bodies := map[string]string{} // by idempotency key
	base := rawServer(t, func(_ int, c net.Conn, in *bufio.Reader) {
		for i := 0; ; i++ {
			req, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			// What tells one from another stands at the beginning: of a body that was
			// answered early, the client may not send the rest.
			early, head := req.ContentLength > long, make([]byte, min(req.ContentLength, 4096))
			if _, err := io.ReadFull(req.Body, head); err != nil {
				return
			}
			mu.Lock()
			bodies[req.Header.Get("Idempotency-Key")] = string(head)
			mu.Unlock()
			if early {
				writeOK(c)
			}
			if _, err := io.Copy(io.Discard, req.Body); err != nil {
				return
			}
			if !early {
				writeOK(c)
			}
		}
	})
	l := newLive(t, n, base)
	whole := l.c.Items
	l.c.Items = func(yield func(*input.Item, error) bool) {
		for it, err := range whole {
			if it.Index%3 == 1 {
				it.Prompt += strings.Repeat("x", long)
			}
			if !yield(it, err) {
				return
			}
		}
	}
	rows := l.run()
	mu.Lock()
	defer mu.Unlock()
	if len(bodies) != n {
		t.Errorf("got %d keys, want %d", len(bodies), n)
	}
	for id, r := range rows {
		is(t, r, output.OK, "ok")
		if want := "item " + id + "."; !strings.Contains(bodies[r.IdempotencyKey], want) {
			t.Errorf("%s: its key came with another body, want %q in it", id, want)
		}
	}
}
