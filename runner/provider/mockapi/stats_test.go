package mockapi

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

func TestStats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(Config{})
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() { post(s, "/ok/v1/messages", numbered(i)) })
		}
		wg.Go(func() { post(s, "/drop/v1/messages", messagesBody) })
		wg.Go(func() { post(s, "/rate429/v1/responses", responsesBody) })
		synctest.Wait()
		if got := s.Stats(); got.InFlight != 4 || got.Scenarios["ok"].InFlight != 4 || got.OK != 0 {
			t.Errorf("meanwhile: got %+v, want 4 in flight", got)
		}
		wg.Wait()
		post(s, "/ok/v1/messages", numbered(0))
		post(s, "/nosuch/v1/messages", messagesBody)

		var got Stats
		body := send(s, httptest.NewRequest("GET", "/_stats", nil)).Body.Bytes()
		if err := json.Unmarshal(body, &got); err != nil {
			t.Fatal(err)
		}
		if got.Count != 8 || got.OK != 5 || got.RateLimited != 1 || got.Other != 2 || got.Canceled != 0 || got.InFlight != 0 || got.Again != 1 {
			t.Errorf("got %+v, want 8 requests: 5 ok, 1 rate limited, 2 others, one answered again", got.Counts)
		}
		if got.Peak < 4 || got.Peak > 6 || got.Scenarios["ok"].Peak != 4 {
			t.Errorf("got peaks %d and %d, want 4 to 6 and 4", got.Peak, got.Scenarios["ok"].Peak)
		}
		if fmt.Sprint(got.Statuses) != "map[200:5 404:1 429:1]" || got.Scenarios["drop"].Other != 1 || got.Scenarios["unknown"].Count != 1 {
			t.Errorf("got %v, %+v", got.Statuses, got.Scenarios)
		}
		var log struct{ Log []Request }
		if err := json.Unmarshal(body, &log); err != nil || len(log.Log) != 8 {
			t.Errorf("got %d entries of the log, %v, want 8", len(log.Log), err)
		}
	})
}

func TestReset(t *testing.T) {
	for _, method := range []string{"GET", "POST"} {
		synctest.Test(t, func(t *testing.T) {
			s := New(Config{})
			codes := []int{post(s, "/over2/v1/messages", messagesBody).Code, post(s, "/over2/v1/messages", messagesBody).Code}
			done := make(chan reply)
			go func() { done <- post(s, "/slow/v1/messages", messagesBody) }()
			synctest.Wait()
			if got := send(s, httptest.NewRequest(method, "/_reset", nil)).Code; got != 200 {
				t.Errorf("%s /_reset: got %d, want 200", method, got)
			}
			codes = append(codes, post(s, "/over2/v1/messages", messagesBody).Code)
			if !slices.Equal(codes, []int{529, 529, 529}) {
				t.Errorf("got %v, want the first request's answer after the reset", codes)
			}
			if a := <-done; a.Code != 200 {
				t.Errorf("the request in progress got %d, want 200", a.Code)
			}
			if got := s.Stats(); got.Count != 1 || got.InFlight != 0 || got.OK != 0 {
				t.Errorf("got %+v, want only the request after the reset", got.Counts)
			}
		})
	}
}

func TestLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var lines []string
		s := New(Config{Log: func(line string) { lines = append(lines, line) }})
		start := time.Now().UTC()
		r := httptest.NewRequest("POST", "/rate2/v1/messages", strings.NewReader(messagesBody))
		r.Header.Set("Idempotency-Key", "key-1")
		send(s, r)
		time.Sleep(2 * time.Second) // virtual time
		post(s, "/ok/v1/responses", `{"model":"m","input":"`+strings.Repeat("ö", 100)+`"}`)

		dec := json.NewDecoder(send(s, httptest.NewRequest("GET", "/_log", nil)).Body)
		var got [2]Request
		for i := range got {
			if err := dec.Decode(&got[i]); err != nil {
				t.Fatal(err)
			}
		}
		sum := got[0].Body
		want := Request{Time: start, Scenario: "rate2", Nth: 1, Method: "POST", Path: "/rate2/v1/messages", Status: 429, Outcome: "error",
			Body: sum, Bytes: len(messagesBody), Model: "m", Prompt: "hello", Key: "key-1"}
		if got[0] != want || len(sum) != 16 {
			t.Errorf("got %+v, want %+v", got[0], want)
		}
		if e := got[1]; !e.Time.Equal(start.Add(2*time.Second)) || e.MS != 50 || e.Outcome != "ok" || e.Prompt != strings.Repeat("ö", 40) {
			t.Errorf("got %+v, want ok after 50 ms and 80 bytes of the prompt", e)
		}
		if len(lines) != 2 || !strings.Contains(lines[0], `"status":429`) || !json.Valid([]byte(lines[1])) {
			t.Errorf("got lines %q, want one for each request", lines)
		}
	})
}

// TestLogIsBounded: the last 100,000 stay, oldest first, and an answer to one that has gone does no harm.
func TestLogIsBounded(t *testing.T) {
	var r ring
	for i := range keep + 1500 {
		if got := r.add(Request{Nth: i}); got != i {
			t.Fatalf("got number %d, want %d", got, i)
		}
	}
	r.set(1499, Request{Nth: -1})
	r.set(1500, Request{Nth: -2})
	all := r.last(keep + 5)
	if len(all) != keep || all[0].Nth != -2 || all[1].Nth != 1501 || all[keep-1].Nth != keep+1499 {
		t.Errorf("got %d entries from %d, %d to %d", len(all), all[0].Nth, all[1].Nth, all[len(all)-1].Nth)
	}
	if got := r.last(2); len(got) != 2 || got[1].Nth != keep+1499 {
		t.Errorf("got %v, want the last two", got)
	}
	if got := (&ring{}).last(5); len(got) != 0 {
		t.Errorf("got %v of an empty log", got)
	}
}

func TestAdminPaths(t *testing.T) {
	for _, c := range []struct {
		method, path string
		want         int
	}{
		{"GET", "/_stats", 200}, {"POST", "/_stats", 405}, {"GET", "/_log", 200}, {"DELETE", "/_reset", 405}, {"GET", "/_nosuch", 404}, {"GET", "/_", 404},
	} {
		s := New(Config{})
		if got := send(s, httptest.NewRequest(c.method, c.path, nil)).Code; got != c.want {
			t.Errorf("%s %s: got %d, want %d", c.method, c.path, got, c.want)
		}
		if got := s.Stats().Count; got != 0 {
			t.Errorf("%s %s: got %d requests counted, want none", c.method, c.path, got)
		}
	}
}

func TestConnState(t *testing.T) {
	s := New(Config{})
	for _, to := range []http.ConnState{http.StateNew, http.StateActive, http.StateIdle, http.StateNew, http.StateClosed} {
		s.ConnState(nil, to)
	}
	if got := s.Stats().Connections; got != 2 {
		t.Errorf("got %d connections, want 2", got)
	}
}
