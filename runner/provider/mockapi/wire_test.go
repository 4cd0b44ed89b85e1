package mockapi

import (
	"context"
	"errors"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// serve starts a real server; h2 with TLS.
func serve(t *testing.T, s *Server, h2 bool) *httptest.Server {
	t.Helper()
	srv := httptest.NewUnstartedServer(s)
	srv.Config.ConnState = s.ConnState
	srv.Config.ErrorLog = log.New(testWriter{t}, "", 0)
	if srv.EnableHTTP2 = h2; h2 {
		srv.StartTLS()
	} else {
		srv.Start()
	}
	t.Cleanup(srv.Close)
	return srv
}

// testWriter fails the test for whatever the server has to complain about.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(b []byte) (int, error) {
	w.t.Errorf("the server logs: %s", b)
	return len(b), nil
}

// TestBrokenAnswers is how a drop and cuts look from outside, over HTTP/1.1 and HTTP/2.
func TestBrokenAnswers(t *testing.T) {
	for _, h2 := range []bool{false, true} {
		s := New(Config{Params: Params{Latency: None}})
		srv := serve(t, s, h2)
		for _, c := range []struct {
			path  string
			begun bool
		}{
			{"/drop/v1/messages", false},
			{"/ok/v1/messages?drop=100", false},
			{"/ok/v1/messages?cut=100&size=100000", true},
			{"/ok/v1/messages?cut=100", true},
			{"/sse_cut/v1/messages", true},
			{"/sse_cut/v1/chat/completions", true},
		} {
			res, err := srv.Client().Post(srv.URL+c.path, "application/json", strings.NewReader(messagesBody))
			if (err == nil) != c.begun {
				t.Errorf("h2 %t, %s: got error %v, want an answer begun: %t", h2, c.path, err, c.begun)
			}
			if err != nil {
				continue
			}
			body, err := io.ReadAll(res.Body)
			_ = res.Body.Close()
			if err == nil || len(body) == 0 {
				t.Errorf("h2 %t, %s: got %d bytes and error %v, want some and an error", h2, c.path, len(body), err)
			}
		}
		if got := s.Stats(); got.Count != 6 || got.Other != 6 || got.InFlight != 0 {
			t.Errorf("h2 %t: got %+v, want 6 others, none in flight: nothing was sent twice", h2, got.Counts)
		}
	}
}

// TestCleanEnd: sse_eof ends without an error on the wire.
func TestCleanEnd(t *testing.T) {
	srv := serve(t, New(Config{}), false)
	res, err := srv.Client().Post(srv.URL+"/sse_eof/v1/messages", "application/json", strings.NewReader(messagesBody))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if body, err := io.ReadAll(res.Body); err != nil || !strings.Contains(string(body), "text_delta") {
		t.Errorf("got %q, %v, want deltas and a clean end", body, err)
	}
}

// TestEventsAreFlushed: the first part is there while the server waits with the second.
func TestEventsAreFlushed(t *testing.T) {
	s := New(Config{})
	srv := serve(t, s, false)
	for _, path := range []string{"/sse_ok/v1/messages?gap=1h", "/ok/v1/messages?latency=0&gap=1h"} {
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "POST", srv.URL+path, strings.NewReader(messagesBody))
		if err != nil {
			t.Fatal(err)
		}
		res, err := srv.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := res.Body.Read(make([]byte, 4096)); n == 0 || err != nil {
			t.Errorf("%s: got %d bytes, %v, want the first part", path, n, err)
		}
		cancel()
		if _, err := io.ReadAll(res.Body); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: got %v, want canceled", path, err)
		}
		_ = res.Body.Close()
	}
	srv.Close() // waits for the handlers, which must have noticed
	if got := s.Stats(); got.Canceled != 2 || got.InFlight != 0 {
		t.Errorf("got %+v, want both canceled", got.Counts)
	}
}

// TestPlaceIsFreeWithTheAnswer: four clients against a cap of four are never refused, since an answer is counted before it
// is sent, and the peak that the server saw is never more than they are.
func TestPlaceIsFreeWithTheAnswer(t *testing.T) {
	s := New(Config{Params: Params{Latency: None, Cap: 4}})
	srv := serve(t, s, false)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 100 {
				res, err := srv.Client().Post(srv.URL+"/ok/v1/messages?size=20000", "application/json", strings.NewReader(messagesBody))
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, res.Body)
				_ = res.Body.Close()
			}
		})
	}
	wg.Wait()
	if got := s.Stats(); got.OK != 400 || got.RateLimited != 0 || got.Peak > 4 || got.Connections < 1 {
		t.Errorf("got %+v over %d connections, want 400 ok, none refused, a peak of 4 at most", got.Counts, got.Connections)
	}
}
