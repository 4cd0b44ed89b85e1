package mockapi

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestRoundTrip is a client in process, in virtual time: answers, streams, drops, cuts and a client that gives up.
func TestRoundTrip(t *testing.T) {
	for _, c := range []struct {
		path     string
		took     time.Duration
		err, cut bool
		in       string
	}{
		{"/ok/v1/messages", 50 * time.Millisecond, false, false, `"text":"OK"`},
		{"/sse_ok/v1/messages?gap=1s", time.Second, false, false, "message_stop"},
		{"/drop/v1/messages", 0, true, false, ""},
		{"/ok/v1/messages?cut=100", 50 * time.Millisecond, false, true, "msg_mock"},
		{"/sse_cut/v1/messages", 0, false, true, "message_start"},
		{"/ok/v1/messages?latency=1h", time.Minute, true, false, ""},
		{"/sse_ok/v1/messages?gap=1h", time.Minute, false, true, "message_start"},
	} {
		t.Run(c.path, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, start := New(Config{}), time.Now()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				r, err := http.NewRequestWithContext(ctx, "POST", "http://mock"+c.path, strings.NewReader(messagesBody))
				if err != nil {
					t.Fatal(err)
				}
				res, err := (&http.Client{Transport: s}).Do(r)
				if (err != nil) != c.err {
					t.Fatalf("got %v, want an error: %t", err, c.err)
				}
				if err == nil {
					body, err := io.ReadAll(res.Body)
					if (err != nil) != c.cut || !strings.Contains(string(body), c.in) {
						t.Errorf("got %q, %v, want %q, cut: %t", body, err, c.in, c.cut)
					}
					if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, context.DeadlineExceeded) {
						t.Errorf("got %v", err)
					}
				}
				if took := time.Since(start); took != c.took {
					t.Errorf("took %v, want %v", took, c.took)
				}
				synctest.Wait()
				if got := s.Stats(); got.Count != 1 || got.InFlight != 0 {
					t.Errorf("got %+v, want one request, none in flight", got.Counts)
				}
			})
		})
	}
}
