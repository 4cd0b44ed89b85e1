package command

import (
	"io"
	"log"
	"net"
	"net/http"
	"net/url"

	"llmbatch/runner/provider/mockapi"
)

// mockServer is the mock API on a port of its own. A nil one is none.
type mockServer struct {
	server *http.Server
	base   *url.URL
}

// startMock serves the mock API for --provider mock on a free loopback port; for a
// dry run there is an address and no server.
func startMock(o *options, dry bool) (*mockServer, error) {
	if err := knownScenario(o.mockScenario); err != nil {
		return nil, err
	}
	if dry {
		return &mockServer{base: &url.URL{Scheme: "http", Host: "127.0.0.1"}}, nil
	}
	return serveMock("127.0.0.1:0", mockapi.Config{Scenario: o.mockScenario, Seed: o.seed})
}

func knownScenario(name string) error {
	var names []string
	for _, s := range mockapi.Scenarios() {
		if s.Name == name {
			return nil
		}
		names = append(names, s.Name)
	}
	f := usagef("the mock has no scenario %q", name)
	if near := nearest(name, names); near != "" {
		f.hint("did you mean %s?", near)
	}
	return f.hint("llmbatch mock --help lists them")
}

func serveMock(addr string, c mockapi.Config) (*mockServer, error) {
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return nil, usagef("mock: %w", err).hint("choose another address with --addr, such as 127.0.0.1:0 for a free port")
	}
	api := mockapi.New(c)
	m := &mockServer{
		server: &http.Server{Handler: api, ConnState: api.ConnState, ErrorLog: log.New(io.Discard, "", 0)},
		base:   &url.URL{Scheme: "http", Host: l.Addr().String()},
	}
	go m.server.Serve(l) // returns when closed
	return m, nil
}

func (m *mockServer) url() *url.URL {
	if m == nil {
		return nil
	}
	return m.base
}

func (m *mockServer) close() {
	if m != nil && m.server != nil {
		m.server.Close()
	}
}
