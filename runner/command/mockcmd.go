package command

import (
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/urfave/cli/v2"

	"llmbatch/runner/provider/mockapi"
)

const mockDescription = `Serves Anthropic's Messages, OpenAI's Chat Completions, Responses and
embeddings, both Batch APIs and Gemini's generateContent.
A scenario is named by the first element of the path
(http://127.0.0.1:10320/rate2/v1/messages), else by the X-Scenario header, else
by --scenario. NAME=VALUE changes its number, as in batch-token-limit=500.
Parameters are flags here, or stand in the query of the path.
GET /_stats counts requests, /_log lists them, /_reset forgets them.`

func mockCommand(e *env) *cli.Command {
	return &cli.Command{
		Name: "mock", Usage: "serve the built-in mock API",
		Description: mockDescription + "\n\nScenarios:\n" + scenarioList(),
		Flags:       mockFlags(),
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			if err := knownScenario(c.String("scenario")); err != nil {
				return err
			}
			p, err := mockParams(c)
			if err != nil {
				return err
			}
			config := mockapi.Config{Scenario: c.String("scenario"), Params: p, Seed: p.Seed}
			if c.Bool("verbose") {
				config.Log = func(line string) { fmt.Fprintln(e.stderr, line) }
			}
			return serveUntilSignal(e, c.String("addr"), config)
		},
	}
}

// mockFlags are the server's own flags and one for each parameter.
func mockFlags() []cli.Flag {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "addr", Value: "127.0.0.1:10320", Usage: "`ADDR`: listen there; port 0 takes a free one"},
		&cli.StringFlag{Name: "scenario", Value: "ok", Usage: "`NAME`: for requests that name none"},
		&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "log each request as a line of JSON"},
	}
	for _, key := range mockapi.Keys() {
		if text, ok := strings.CutPrefix(key.Text, "yes: "); ok {
			flags = append(flags, &cli.BoolFlag{Name: key.Name, Category: "Parameters", Usage: text})
			continue
		}
		flags = append(flags, &cli.StringFlag{Name: key.Name, Category: "Parameters", Usage: "`VALUE`: " + key.Text})
	}
	return flags
}

// mockParams hands the flags to the parser of the query's parameters.
func mockParams(c *cli.Context) (mockapi.Params, error) {
	values := url.Values{}
	for _, key := range mockapi.Keys() {
		if c.IsSet(key.Name) {
			values.Set(key.Name, fmt.Sprint(c.Value(key.Name)))
		}
	}
	p, err := mockapi.ParseParams(values)
	if err != nil {
		return p, usagef("mock: %w", err)
	}
	return p, nil
}

func scenarioList() string {
	var b strings.Builder
	for _, s := range mockapi.Scenarios() {
		writeEntry(&b, s.Name, s.Text)
	}
	return b.String()
}

// serveUntilSignal serves until INT, TERM or HUP, which is a success.
func serveUntilSignal(e *env, addr string, config mockapi.Config) error {
	sig := e.signals()
	defer sig.release()
	m, err := serveMock(addr, config)
	if err != nil {
		return err
	}
	defer m.close()
	fmt.Fprintf(e.stderr, "llmbatch mock on %s: --base-url %s for anthropic, %s/v1 for openai; ctrl-C ends it\n", m.base, m.base, m.base)
	for {
		select {
		case <-sig.stop:
			return nil
		case <-sig.status:
		}
	}
}

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
	base, _, _ := strings.Cut(name, "=")
	for _, s := range mockapi.Scenarios() {
		if s.Name == base {
			if _, err := mockapi.ParseScenario(name); err != nil {
				return usagef("mock: %w", err)
			}
			return nil
		}
		names = append(names, s.Name)
	}
	f := usagef("the mock has no scenario %q", name)
	if near := nearest(base, names); near != "" {
		f.hint("did you mean %s?", near)
	}
	return f.hint("llmbatch mock --help lists them")
}

func serveMock(addr string, c mockapi.Config) (*mockServer, error) {
	l, err := net.Listen("tcp", onLoopback(addr))
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

// onLoopback is addr, on the loopback interface where it names only a port: to be
// open to the network has to be asked for (0.0.0.0:PORT).
func onLoopback(addr string) string {
	if host, port, err := net.SplitHostPort(addr); err == nil && host == "" {
		return net.JoinHostPort("127.0.0.1", port)
	}
	return addr
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
