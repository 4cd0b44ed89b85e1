package runner

import (
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"llmbatch/runner/provider"
	"llmbatch/runner/provider/sse"
)

// stream reads an answer that comes as events, and reports whether it was read
// to its end. What arrived of a cut stream that may be continued is left in
// x.partial.
func (x *exchange) stream(ctx context.Context, r *Runner, t *task, s provider.Streamer, body io.Reader) bool {
	ctx, cut := context.WithCancelCause(ctx)
	defer cut(nil)
	alive := func() {}
	if idle := r.c.IdleTimeout; idle > 0 {
		// The transport knows only the attempt's context, so an idle stream is cut by
		// closing what is read from.
		closeNow := x.closeNow
		quiet := time.AfterFunc(idle, func() { cut(provider.ErrIdleTimeout); closeNow() })
		defer quiet.Stop()
		alive = func() { quiet.Reset(idle) }
	}
	a := s.Assemble(t.call)
	in := sse.NewReader(&bounded{r: body, left: mostStream}, alive)
	broken, e := x.events(ctx, r, a, in)
	if broken == notEvents {
		return x.plain(ctx, r, t, in.Rest())
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
		if ok && text != "" && r.c.OnCut == "continue" && e.Scope == provider.Passing && e.Class != provider.Canceled {
			x.partial = text
		}
		if e.Status == 0 {
			e.Status = x.status
		}
		x.err = e
		return false
	}
	x.reply, x.err = t.lane.target.Provider.Decode(t.call, provider.Answer{Status: x.status, Header: x.header, Body: whole, At: time.Now()})
	return true
}

// events feeds the assembler until the stream ends. broken is what ended it
// other than its own end; e is what an error event means.
func (x *exchange) events(ctx context.Context, r *Runner, a provider.Assembler, in *sse.Reader) (broken, e *provider.Error) {
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
			return r.transportError(ctx, err), nil
		}
	}
}

// notEvents stands for a body that is no stream, whatever its type says.
var notEvents = &provider.Error{Class: provider.InvalidResponse, Message: sse.ErrNotEvents.Error()}

// plain reads the rest of a body that was taken for a stream as a whole answer.
func (x *exchange) plain(ctx context.Context, r *Runner, t *task, body io.Reader) bool {
	data, err := readAll(nil, body, -1, mostAnswer)
	if err != nil {
		x.err = r.transportError(ctx, err)
		return false
	}
	x.reply, x.err = t.lane.target.Provider.Decode(t.call, provider.Answer{Status: x.status, Header: x.header, Body: data, At: time.Now()})
	return true
}

// bounded ends a stream that is larger than left with ErrBodyTooLarge.
type bounded struct {
	r    io.Reader
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, provider.ErrBodyTooLarge
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

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
func (l *life) keepPartial(text string) {
	s, ok := l.lane.target.Provider.(provider.Streamer)
	if !ok || l.unpieced || l.r.recall(l.task) != nil {
		return
	}
	whole := joined(l.text, text)
	if next, ok := s.Continue(l.call, whole, l.r.c.ContinueStyle); ok {
		l.text, l.next = whole, next
		l.part++
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
