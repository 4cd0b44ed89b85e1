// Package mockapi is an LLM API that misbehaves on request: one http.Handler that speaks Anthropic Messages (and its
// count_tokens), Gemini's generateContent and OpenAI Chat Completions, Responses and Embeddings, and plays a scenario that the caller names.
//
// Policy: it answers as the real APIs do on the wire (status, headers, error bodies, events), and it is strict where
// they are strict (method, JSON, required members, size), so that a client which passes here is not passing by luck. It
// shares no type with any client: a wrong member name in a client's structs must not find the same mistake here. What it
// does is a function of the scenario, the parameters, the seed, the request's body and how often that body came, never of
// a global clock or random source, so a run can be repeated.
//
// A scenario is named by the first element of the path (/rate2/v1/messages), else by the X-Scenario header, else by
// [Config].Scenario. It is a set of parameters under a name; more stand in the query (/ok/v1/messages?latency=20ms&rpm=600),
// and the scenario's own last one may follow its name (/batch-token-limit=500/v1/batches). State (the nth request, token
// buckets, counters) belongs to the scenario's name and lives until [Server.Reset]. GET /_stats, /_log and /_reset look at
// it and clear it.
//
// Limits: bodies of 64 MiB, the last 100,000 requests in the log. A dropped or cut answer ends in
// panic(http.ErrAbortHandler), which is how net/http lets a handler close a connection; who calls ServeHTTP without a
// net/http server must recover that value.
package mockapi

import (
	"cmp"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"
)

// Config says how a Server behaves where a request does not say it. The zero value is a server that answers 200.
type Config struct {
	// Scenario is played when neither path nor header names one. Empty: "ok".
	Scenario string
	// Seed is the seed of latencies and faults.
	Seed uint64
	// Params are defaults for every scenario; a scenario's own parameters give way to them, those of a query come first.
	Params Params
	// Log, when not nil, is given a JSON line for each finished request. It is called without a lock held, from many
	// goroutines at once.
	Log func(line string)
}

// Server is the mock API. It is safe for concurrent use.
type Server struct {
	config Config
	// params are those of each scenario under the configuration's.
	params  map[string]Params
	walkers sync.Pool
	// maxBody bounds a request's body in bytes.
	maxBody int64

	mu     sync.Mutex
	totals *Counts
	states map[string]*state
	log    *ring
	conns  int
}

// New returns a server without history.
func New(c Config) *Server {
	c.Scenario = cmp.Or(c.Scenario, "ok")
	s := &Server{config: c, maxBody: 64 << 20, params: make(map[string]Params, len(scripts))}
	for _, sc := range scripts {
		p, _ := ParseScenario(sc.name) // the table is good
		s.params[sc.name] = p.under(c.Params)
	}
	s.Reset()
	return s
}

// Reset forgets all requests, so that the next one of each scenario is its first. Requests in progress end as they began
// and are counted nowhere.
func (s *Server) Reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.totals = &Counts{}
	s.states = make(map[string]*state)
	s.log = &ring{}
	s.conns = 0
}

// ConnState counts new connections for [Stats]; it has the signature of http.Server.ConnState.
func (s *Server) ConnState(_ net.Conn, to http.ConnState) {
	if to == http.StateNew {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.conns++
	}
}

// call is one request on its way through the server.
type call struct {
	server *Server
	w      http.ResponseWriter
	r      *http.Request
	api    api
	p      Params
	// unknown is what is wrong with the scenario's name; nil: nothing.
	unknown error
	req     request
	entry   Request
	slot    int
	nth     int
	// hold says that the call counts against the concurrency cap, spend that it is one of the answers paid for.
	hold, spend bool
	finished    bool
	// batched says that the call is an item of a batch.
	batched bool
	totals  *Counts
	state   *state
	log     *ring
}

// ServeHTTP plays the scenario that the request names. It reads the body whole before it answers, and it stops waiting
// when the request's context ends.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if strings.HasPrefix(r.URL.Path, "/_") {
		s.admin(w, r)
		return
	}
	name, path := s.route(r)
	c := &call{server: s, w: w, r: r, api: apiOf(path, r.Header)}
	var ok bool
	if c.p, ok = s.params[name]; !ok {
		if c.p, c.unknown = ParseScenario(name); c.unknown == nil {
			c.p = c.p.under(s.config.Params)
		}
	}
	s.begin(c, name)
	defer s.finish(c, "error")
	if isBatch(path) {
		c.serveBatch(path)
		return
	}
	if f, ok := s.check(c); !ok {
		c.fail(f)
		return
	}
	st := s.admit(c)
	if st.act != refuse && st.act != drop && !c.wait(c.p.latency(s.config.Seed, c)) {
		return
	}
	s.settle(c)
	c.play(st)
}

// route takes the scenario from the path's first element, the header or the configuration, and returns it with the path
// that is left.
func (s *Server) route(r *http.Request) (name, path string) {
	path = r.URL.Path
	first, rest, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "v1", "v1beta", "messages", "chat", "responses", "embeddings", "completions", "moderations", "files", "batches", "":
		return cmp.Or(r.Header.Get("X-Scenario"), s.config.Scenario), path
	}
	return first, "/" + rest
}

// wait sleeps for d and reports whether the client is still there.
func (c *call) wait(d time.Duration) bool {
	ctx := c.r.Context()
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
		}
	}
	return ctx.Err() == nil
}
