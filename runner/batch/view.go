package batch

import (
	"context"
	"time"

	"llmbatch/output"
)

// View is a batch as the progress line shows it.
type View struct {
	Part    int       `json:"part"`
	ID      string    `json:"batch_id,omitempty"`
	Model   string    `json:"model,omitempty"`
	State   string    `json:"state"`
	N       int       `json:"n"`
	Since   time.Time `json:"since,omitzero"`
	Expires time.Time `json:"expires,omitzero"`
	Stuck   string    `json:"stuck,omitempty"`
}

// Views are the batches that are open. It may be called from anywhere.
func (e *Engine) Views() []View {
	if v := e.views.Load(); v != nil {
		return *v
	}
	return nil
}

func (e *Engine) show() {
	views := viewsOf(e.parts, time.Now())
	e.views.Store(&views)
}

func viewsOf(parts []*part, now time.Time) []View {
	views := make([]View, 0, len(parts))
	for _, p := range parts {
		v := View{Part: p.number, ID: p.id, Model: p.model, State: p.status, N: p.n, Since: p.at, Expires: p.expires, Stuck: p.stuck(now)}
		switch {
		case p.phase <= uploaded:
			v.State = "uploading"
		case p.phase == creating:
			v.State = "looked for at the provider"
		case v.State == "":
			v.State = "sent"
		}
		if p.unproven {
			v.State += " (not yet known to be ours)"
		}
		views = append(views, v)
	}
	return views
}

// Cancel asks for the cancelling of each open batch. What they bring until then is
// collected by the next run.
func (e *Engine) Cancel(ctx context.Context) Report {
	for _, p := range e.parts {
		if p.phase == open && e.record(record{Type: "cancel", Part: p.number, State: "user"}) {
			p.cancel, p.byUser, p.due = true, true, time.Time{}
		}
	}
	e.drive(ctx)
	return e.Look(ctx)
}

// Look asks how each open batch stands, and fetches nothing.
func (e *Engine) Look(ctx context.Context) Report {
	for _, p := range e.parts {
		if p.phase == open && e.halted == nil {
			e.look(ctx, p)
		}
	}
	e.show()
	return e.report()
}

// Note takes in the row of an item that was run live. It stands in the place of one
// that said that the item is in a batch.
func (e *Engine) Note(r *output.Result) {
	h := e.hash(r.Key)
	delete(e.anchors, r.Key)
	delete(e.carry, h)
	if r.Status == output.OK || r.Status == output.Failed {
		e.marks[h] = isDone
	} else {
		e.marks[h] = isLive
		e.carry[h] = withHistory(r)
	}
}

// wants says that an item is to go into a batch.
func (e *Engine) wants(key string) bool { return e.marks[e.hash(key)] == 0 && !e.c.Done(key) }

// Report is what was done so far.
func (e *Engine) Report() Report { return e.report() }
