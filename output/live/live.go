// Package live shows a run while it goes: one line on a terminal, a plain line
// now and then in a log, and log messages that do not break either.
//
// One Display owns the stream it writes to (standard error): everything else
// that wants to be seen there goes through its Writer. Text from elsewhere, a
// server's error message above all, never reaches a terminal raw: control
// characters, escape sequences and bidirectional overrides are shown as visible
// escapes. Nothing is ever written to standard output.
//
// Off a terminal no control character but the line's own end is written. The
// line in the bar mode is drawn in one write and never reaches the last column,
// so it does not wrap; what does not fit is left out, the least needed first.
package live

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"sync"
	"time"

	"llmbatch/output/plain"

	"golang.org/x/term"
)

// Mode says how a run is shown.
type Mode uint8

const (
	// Auto is Bar on a terminal that can move its cursor, Log otherwise.
	Auto Mode = iota
	// Bar is one line that is drawn over and over.
	Bar
	// Log is a plain line every Interval.
	Log
	// None shows nothing but what is written to Writer.
	None
)

// Options are the settings of a Display. The zero value shows, on standard
// error, what Auto decides, with nothing known about the run.
type Options struct {
	Mode Mode
	Out  io.Writer // nil: os.Stderr
	// Interval is the time between two lines of the Log mode; 0: 30 s.
	Interval time.Duration
	// Snapshot returns the state to show. It is called from the display's own
	// goroutine and from Print, with no lock held; nil: no state is shown.
	Snapshot func() Status
	// Width is the terminal's width in columns, asked before each drawing;
	// nil: Out's own width, 80 if it has none.
	Width func() int
	// JSON makes each line of the Log mode, and of Print, one JSON object.
	JSON bool
}

// frameInterval is the time between two drawings of the bar: often enough to
// look alive, seldom enough for a slow link.
const frameInterval = 200 * time.Millisecond

// Display shows a run. All methods may be called by many goroutines at once.
type Display struct {
	mode     Mode
	out      io.Writer
	snapshot func() Status
	width    func() int
	json     bool
	quit     chan struct{}
	done     chan struct{}
	stop     sync.Once

	mu      sync.Mutex
	line    string // what stands on the terminal's last line; "": nothing
	partial []byte // a message whose end has not come yet
	lastLog Status
	logged  bool
	rates   rates
}

// Start begins to show a run. Stop must be called in the end.
func Start(o Options) *Display {
	d := &Display{
		mode: o.Mode, out: o.Out, snapshot: o.Snapshot, width: o.Width, json: o.JSON,
		quit: make(chan struct{}), done: make(chan struct{}),
	}
	if d.out == nil {
		d.out = os.Stderr
	}
	if d.mode == Auto {
		d.mode = Log
		if IsTerminal(d.out) && canMove(os.Getenv("TERM")) {
			d.mode = Bar
		}
	}
	if d.width == nil {
		d.width = func() int { return columns(d.out) }
	}
	interval := o.Interval
	if interval <= 0 {
		interval = 30 * time.Second
	}
	if d.mode == Bar {
		interval = frameInterval
	}
	if d.mode == None || d.snapshot == nil {
		close(d.done)
		return d
	}
	go d.run(interval)
	return d
}

// canMove tells whether a terminal of this kind understands "erase to the end of the line".
func canMove(kind string) bool { return kind != "" && kind != "dumb" }

// run draws until Stop. It is the only caller of the ticking drawings.
func (d *Display) run(interval time.Duration) {
	defer close(d.done)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	if d.mode == Log { // rates need a first sample
		s := d.snapshot()
		d.mu.Lock()
		d.rates.add(s, time.Now())
		d.mu.Unlock()
	}
	for {
		if d.mode == Bar {
			d.draw()
		}
		select {
		case <-d.quit:
			return
		case <-tick.C:
		}
		if d.mode == Log {
			d.log(false)
		}
	}
}

// Stop ends the display. The bar is wiped from the terminal, so that a summary
// can take its place; the log mode writes the last state if it has changed since
// its last line. Writer may still be used. A second call does nothing.
func (d *Display) Stop() {
	d.stop.Do(func() {
		close(d.quit)
		<-d.done
		if d.mode == Log && d.snapshot != nil {
			d.log(true)
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.flushPartial()
		if d.line != "" {
			d.line = ""
			io.WriteString(d.out, "\r\x1b[K")
		}
	})
}

// Print writes one full line with the present state, whatever the mode, for
// someone who asks with a signal.
func (d *Display) Print() {
	if d.snapshot == nil {
		return
	}
	s := d.snapshot()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.above(d.logLine(s))
}

// log writes a line of the Log mode; changed: only if the state is another.
func (d *Display) log(changed bool) {
	s := d.snapshot()
	d.mu.Lock()
	defer d.mu.Unlock()
	if changed && d.logged && sameWork(s, d.lastLog) {
		return
	}
	d.lastLog, d.logged = s, true
	d.above(d.logLine(s))
}

// sameWork tells whether nothing was sent or finished between two states.
func sameWork(a, b Status) bool {
	return a.Done == b.Done && a.Requests == b.Requests && a.Waiting == b.Waiting && a.InFlight == b.InFlight
}

// logLine is the line of the Log mode with its end. d.mu is held.
func (d *Display) logLine(s Status) []byte {
	d.rates.add(s, time.Now())
	line := plainLine
	if d.json {
		line = jsonLine
	}
	return []byte(plain.Clean(line(s, &d.rates, time.Now())) + "\n")
}

// draw draws the bar over the one that stands there.
func (d *Display) draw() {
	s := d.snapshot()
	width := d.width()
	d.mu.Lock()
	defer d.mu.Unlock()
	d.rates.add(s, time.Now())
	line := barLine(s, &d.rates, width, time.Now())
	if line == d.line {
		return
	}
	d.line = line
	io.WriteString(d.out, "\r"+line+"\x1b[K")
}

// above writes whole lines where the bar stands and the bar below them, in one
// write: a terminal that is read in between never shows half of it. d.mu is held.
func (d *Display) above(lines []byte) error {
	if d.line == "" {
		_, err := d.out.Write(lines)
		return err
	}
	var b bytes.Buffer
	b.WriteString("\r\x1b[K")
	b.Write(lines)
	b.WriteString(d.line)
	b.WriteString("\x1b[K")
	_, err := d.out.Write(b.Bytes())
	return err
}

// Writer is for log handlers and messages. Whole lines are written above the
// bar, the rest is kept until its end comes or Stop; each is sanitised. Its
// Write never keeps p. It may be used before Start's first drawing and after Stop.
func (d *Display) Writer() io.Writer { return lineWriter{d} }

type lineWriter struct{ d *Display }

// Write takes any part of a line or lines.
func (w lineWriter) Write(p []byte) (int, error) {
	d := w.d
	d.mu.Lock()
	defer d.mu.Unlock()
	end := bytes.LastIndexByte(p, '\n')
	if end < 0 {
		d.partial = append(d.partial, p...)
		return len(p), nil
	}
	var out []byte
	for line := range bytes.Lines(append(d.partial, p[:end+1]...)) {
		out = append(out, plain.Clean(string(bytes.TrimRight(line, "\r\n")))...)
		out = append(out, '\n')
	}
	d.partial = append(d.partial[:0:0], p[end+1:]...)
	if err := d.above(out); err != nil {
		return 0, err
	}
	return len(p), nil
}

// flushPartial writes a message whose end never came. d.mu is held.
func (d *Display) flushPartial() {
	if len(d.partial) == 0 {
		return
	}
	d.above([]byte(plain.Clean(string(d.partial)) + "\n"))
	d.partial = nil
}

// IsTerminal tells whether w is a terminal: an *os.File, or anything with its Fd.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// columns is the width of the terminal w, 80 if it is none or does not say.
func columns(w io.Writer) int {
	f, ok := w.(interface{ Fd() uintptr })
	if !ok {
		return 80
	}
	width, _, err := term.GetSize(int(f.Fd()))
	if err != nil || width <= 0 {
		return 80
	}
	return width
}

// jsonLine is the state as one object, with the names of the summary.
func jsonLine(s Status, r *rates, now time.Time) string {
	v := map[string]any{
		"time": now.UTC().Format(time.RFC3339), "level": "INFO", "msg": "progress",
		"done": s.Done, "ok": s.OK, "failed": s.Failed, "gave_up": s.GaveUp, "waiting": s.Waiting,
		"in_flight": s.InFlight, "limit": s.Limit, "throttled": s.Throttled, "requests": s.Requests,
		"input_tokens": s.InputTokens, "output_tokens": s.OutputTokens,
		"tokens_per_second": r.tokens(), "elapsed_ms": s.Elapsed.Milliseconds(),
	}
	if s.Total >= 0 {
		v["total"] = s.Total
	}
	if s.HasCost {
		v["cost"] = s.Cost
	}
	if eta, ok := r.eta(s, now); ok {
		v["eta_ms"] = eta.Milliseconds()
	}
	if s.gated(now) {
		v["gate_until"], v["gate_reason"] = s.Gate.UTC().Format(time.RFC3339), s.GateReason
	}
	if s.Note != "" {
		v["note"] = s.Note
	}
	line, err := json.Marshal(v)
	if err != nil { // a cost that is no number
		delete(v, "cost")
		line, _ = json.Marshal(v)
	}
	return string(line)
}
