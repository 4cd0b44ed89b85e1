package mockapi

import (
	"encoding/json"
	"maps"
	"net/http"
	"time"
)

// Stats is what a server saw since its last reset. Its JSON form is what GET /_stats answers, with the end of the log.
type Stats struct {
	Counts
	// Connections is how many were opened, where ConnState is plugged in.
	Connections int `json:"connections"`
	// Scenarios has the same counts for each scenario under the name by which it was asked for; requests for unknown
	// ones stand under "unknown".
	Scenarios map[string]Counts `json:"scenarios"`
}

// Counts are requests by how they ended.
type Counts struct {
	// Count is every request that arrived, however it ended.
	Count int `json:"count"`
	// InFlight is how many are being answered, Peak the most there ever were at once, refused ones included.
	InFlight int `json:"in_flight"`
	Peak     int `json:"peak_in_flight"`
	// OK are whole answers; RateLimited are 429s; Other are other errors, dropped, cut and broken answers; Canceled are
	// those that the client did not wait for.
	OK          int `json:"ok"`
	RateLimited int `json:"rate_limited"`
	Other       int `json:"other"`
	Canceled    int `json:"canceled"`
	// Again counts ok answers to a body that had been answered before: what was bought twice.
	Again int `json:"again"`
	// Batches were created, Items bought by them (once, when created); Polls are looks at batches, Uploads files.
	Batches int `json:"batches"`
	Items   int `json:"items"`
	Polls   int `json:"polls"`
	Uploads int `json:"uploads"`
	// Statuses counts answers by status; what ended without one is not in it.
	Statuses map[int]int `json:"statuses"`
}

func (n *Counts) begin() {
	n.Count++
	n.InFlight++
	n.Peak = max(n.Peak, n.InFlight)
}

func (n *Counts) end(e *Request) {
	n.InFlight--
	switch {
	case e.Outcome == "ok":
		n.OK++
	case e.Outcome == "canceled":
		n.Canceled++
	case e.Status == http.StatusTooManyRequests:
		n.RateLimited++
	default:
		n.Other++
	}
	if e.Status != 0 {
		if n.Statuses == nil {
			n.Statuses = make(map[int]int)
		}
		n.Statuses[e.Status]++
	}
}

// Stats returns a copy of the counters.
func (s *Server) Stats() Stats {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := Stats{Counts: s.totals.copy(), Connections: s.conns, Scenarios: make(map[string]Counts, len(s.states))}
	for name, st := range s.states {
		all.Scenarios[name] = st.copy()
	}
	return all
}

func (n *Counts) copy() Counts {
	c := *n
	c.Statuses = maps.Clone(n.Statuses)
	return c
}

// Request is one request in the log.
type Request struct {
	// Time is when it arrived; MS is how many milliseconds later its answer ended.
	Time time.Time `json:"time"`
	MS   float64   `json:"ms"`
	// Scenario is the name that was asked for, Nth the request's number in it.
	Scenario string `json:"scenario"`
	Nth      int    `json:"nth"`
	Method   string `json:"method"`
	Path     string `json:"path"`
	// Status is 0 while there is no answer, and where none was given.
	Status int `json:"status"`
	// Outcome is ok, error, drop, cut, canceled, or what else a scenario did to the answer; empty while in flight.
	Outcome string `json:"outcome"`
	// Body is a hash of the body, Bytes its length; Prompt is the beginning of the last text in it.
	Body   string `json:"body,omitempty"`
	Bytes  int    `json:"bytes"`
	Model  string `json:"model,omitempty"`
	Prompt string `json:"prompt,omitempty"`
	// Key is the Idempotency-Key header.
	Key string `json:"idempotency_key,omitempty"`
}

// appendJSON appends the entry without a newline.
func (e *Request) appendJSON(b []byte) []byte {
	line, err := json.Marshal(e)
	if err != nil {
		return b // a Request has nothing that can't be marshaled
	}
	return append(b, line...)
}

// ring holds the last keep requests in order of arrival, in chunks so that growing copies nothing.
type ring struct {
	chunks []*[chunk]Request
	n      int
}

const (
	keep  = 100_000
	chunk = 1000 // divides keep
)

// at returns the place of an entry by its number.
func (r *ring) at(number int) *Request {
	i := number % keep
	return &r.chunks[i/chunk][i%chunk]
}

// add appends an entry and returns its number.
func (r *ring) add(e Request) int {
	if r.n < keep && r.n%chunk == 0 {
		r.chunks = append(r.chunks, new([chunk]Request))
	}
	*r.at(r.n) = e
	r.n++
	return r.n - 1
}

// set replaces an entry if it is still there.
func (r *ring) set(number int, e Request) {
	if number >= r.n-keep {
		*r.at(number) = e
	}
}

// last returns a copy of the last n entries, oldest first.
func (r *ring) last(n int) []Request {
	n = min(n, r.n, keep)
	all := make([]Request, 0, n)
	for i := r.n - n; i < r.n; i++ {
		all = append(all, *r.at(i))
	}
	return all
}

// Log returns the last n requests, oldest first; those in flight have no outcome.
func (s *Server) Log(n int) []Request {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.last(n)
}

// statsLog is how much of the log stands in /_stats.
const statsLog = 1000

// admin answers the paths that look at the server: /_stats, /_log (a JSON line for each request) and /_reset.
func (s *Server) admin(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && (r.Method != http.MethodPost || r.URL.Path != "/_reset") {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "use GET", http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	var out []byte
	switch r.URL.Path {
	case "/_stats":
		b, err := json.Marshal(struct {
			Stats
			Log []Request `json:"log"`
		}{s.Stats(), s.Log(statsLog)})
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		out = append(b, '\n')
	case "/_reset":
		s.Reset()
		out = []byte("{\"reset\":true}\n")
	case "/_log":
		w.Header().Set("Content-Type", "application/x-ndjson")
		for _, e := range s.Log(keep) {
			out = append(e.appendJSON(out), '\n')
		}
	default:
		http.Error(w, "unknown; there are /_stats, /_log and /_reset", http.StatusNotFound)
		return
	}
	_, _ = w.Write(out) // a client that has gone needs no answer
}
