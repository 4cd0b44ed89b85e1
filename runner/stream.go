package runner

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"time"

	"llmbatch/runner/provider"
	"llmbatch/runner/provider/sse"
)

// stream reads an answer that comes as events, and reports whether it was read
// to its end. What arrived of a cut stream that may be continued is left in
// x.partial. A stream is cut if its first token, or another after it, takes too long.
func (w *wire) stream(ctx context.Context, cut context.CancelCauseFunc, x *exchange, i *item, s provider.Streamer, body io.Reader) bool {
	alive := func() {
		switch {
		case w.idle == 0 && x.quiet != nil:
			x.quiet.stop()
		case w.idle > 0 && x.quiet == nil:
			x.quiet = newAlarm(w.idle, cut, provider.ErrIdleTimeout)
		case w.idle > 0:
			x.quiet.move(w.idle, provider.ErrIdleTimeout)
		}
	}
	defer func() {
		if x.quiet != nil {
			x.quiet.stop()
		}
	}()
	a := s.Assemble(i.call)
	in := sse.NewReader(body, alive)
	broken, e := x.events(ctx, a, in)
	if broken == notEvents {
		return w.plain(ctx, x, i, in.Rest())
	}
	var whole []byte
	if e == nil {
		whole, e = a.Finish(broken == nil)
		if e != nil && broken != nil {
			e = blame(e, broken)
		}
	}
	if e != nil {
		text, u, ok := a.Partial()
		if u.Known {
			e.Usage = u
		}
		if ok && text != "" && w.keepCut && e.Scope == provider.Passing && e.Class != provider.Canceled {
			x.partial = text
		}
		if e.Status == 0 {
			e.Status = x.status
		}
		x.err = e
		return false
	}
	x.decode(i, whole, time.Now())
	return true
}

// events feeds the assembler until the stream ends. broken is what ended it
// other than its own end; e is what an error event means.
func (x *exchange) events(ctx context.Context, a provider.Assembler, in *sse.Reader) (broken, e *provider.Error) {
	for {
		ev, err := in.Next()
		switch {
		case err == nil:
			if e := a.Event(ev.Name, ev.Data); e != nil {
				return nil, e
			}
		case err == io.EOF:
			return nil, nil
		case err == sse.ErrNotEvents:
			return notEvents, nil
		case errors.Is(err, sse.ErrTooLarge):
			return nil, &provider.Error{Class: provider.InvalidResponse, Message: err.Error()}
		case errors.Is(err, provider.ErrBodyTooLarge):
			return nil, provider.FromTransport(err)
		default:
			return transportError(ctx, err), nil
		}
	}
}

var errFirstToken = fmt.Errorf("no first token within its time: %w", provider.ErrIdleTimeout)

// notEvents stands for a body that is no stream, whatever its type says.
var notEvents = &provider.Error{Class: provider.InvalidResponse, Message: sse.ErrNotEvents.Error()}

// plain reads the rest of a body that was taken for a stream as a whole answer.
func (w *wire) plain(ctx context.Context, x *exchange, i *item, body io.Reader) bool {
	data, err := readAll(body, -1, w.maxAnswer)
	if err != nil {
		x.err = transportError(ctx, err)
		return false
	}
	x.decode(i, data, time.Now())
	return true
}

// smallAnswer is how much of any answer is read whatever else is being read.
const smallAnswer = 8 << 20

// bounded ends an answer with ErrBodyTooLarge when, beyond a small one's size, it
// wants more than what all answers being read have left together.
type bounded struct {
	r     io.Reader
	left  *atomic.Int64 // of all
	read  int64
	taken int64 // of left
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	b.read += int64(n)
	if more := b.read - smallAnswer - b.taken; more > 0 {
		b.taken += more
		if b.left.Add(-more) < 0 {
			return 0, provider.ErrBodyTooLarge
		}
	}
	return n, err
}

// release gives back what the answer has taken.
func (b *bounded) release() { b.left.Add(b.taken) }

// blame names the better reason of a stream that ended too soon: what cut it, if
// it was more than the connection's end.
func blame(e, broken *provider.Error) *provider.Error {
	if broken.Class == provider.Timeout || broken.Class == provider.Canceled {
		broken.Usage = e.Usage
		return broken
	}
	return e
}

// keepPartial takes what a cut stream brought, and asks for the rest next time.
func (i *item) keepPartial(text string) {
	s, ok := i.lane.target.Provider.(provider.Streamer)
	if !ok || i.unpieced || i.r.recall(i) != nil {
		return
	}
	whole := joined(i.text, text)
	if next, ok := s.Continue(i.call, whole, i.r.c.ContinueStyle); ok {
		i.text, i.next = whole, next
		i.part = max(1, i.earlier+len(i.attempts)) // another body, so another request for each
	}
}

const blanks = " \t\r\n"

// joined is the whole of an answer that arrived in two parts: white space between
// them is that of the rest, which was asked for without it, or else what arrived.
func joined(arrived, rest string) string {
	if strings.TrimLeft(rest, blanks) != rest {
		arrived = strings.TrimRight(arrived, blanks)
	}
	return arrived + rest
}
