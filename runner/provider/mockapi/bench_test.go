package mockapi

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// benchBody is a prompt of usual length.
var benchBody = []byte(`{"model":"claude-mock","max_tokens":100,"messages":[{"role":"user","content":"` + strings.Repeat("The quick brown fox. ", 20) + `"}]}`)

// discard is a ResponseWriter that keeps nothing.
type discard struct{ h http.Header }

func (d discard) Header() http.Header         { return d.h }
func (d discard) Write(b []byte) (int, error) { return len(b), nil }
func (d discard) WriteHeader(int)             {}

func BenchmarkHandler(b *testing.B) {
	s := New(Config{Params: Params{Latency: None}})
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest("POST", "/ok/v1/messages", bytes.NewReader(benchBody))
		s.ServeHTTP(discard{make(http.Header)}, r)
	}
}

// BenchmarkLoopback includes the client's half, which costs more than the server's.
func BenchmarkLoopback(b *testing.B) {
	srv := httptest.NewServer(New(Config{Params: Params{Latency: None}}))
	defer srv.Close()
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			res, err := srv.Client().Post(srv.URL+"/ok/v1/messages", "application/json", bytes.NewReader(benchBody))
			if err != nil {
				b.Error(err)
				return
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
	})
}
