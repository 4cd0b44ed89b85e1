package command_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"testing"
)

// A run that is killed before its first row asks again under the same key.
func TestKeyOutlivesAKill(t *testing.T) {
	t.Parallel()
	s := newStory(t, 1)
	var mu sync.Mutex
	var keys []string
	asked, release := make(chan struct{}, 8), make(chan struct{})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		keys = append(keys, r.Header.Get("Idempotency-Key"))
		first := len(keys) == 1
		mu.Unlock()
		asked <- struct{}{}
		if first {
			<-release // this answer never comes
		}
		s.mock.ServeHTTP(w, r)
	}))
	defer srv.Close()
	defer close(release)
	s.base = srv.URL
	p := s.launch(launch{}, s.args("ok")...)
	<-asked
	_ = p.Process.Kill()
	p.code()
	if content(s.out) != "" {
		t.Fatalf("got %q, want no row yet", content(s.out))
	}
	code, said := s.run("ok?latency=1ms")
	s.expect(code, said, 0)
	row := lines(t, content(s.out))
	if len(keys) != 2 || keys[0] == "" || keys[0] != keys[1] || !strings.Contains(content(s.out), keys[0]) || len(row) != 1 {
		t.Errorf("got keys %q, want the same twice and in the row", keys)
	}
	if _, err := os.Stat(s.out + ".salt"); err == nil {
		t.Error("got a salt beside the row that has it")
	}
}
