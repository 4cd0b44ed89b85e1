package batch

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"llmbatch/input"
	"llmbatch/output"
	"llmbatch/runner"
	"llmbatch/runner/provider"
)

// InBatch is the class of the error in the row that one item of each open batch has
// until its results come. It says that there is a journal, if that should be lost.
const InBatch = "in_batch"

// outcome is what a batch brought for an item; err is nil for an answer.
type outcome struct {
	reply  provider.Reply
	err    *provider.Error
	status int
}

// tally counts a part's rows.
type tally struct{ Ended }

// fate is what becomes of an item.
type fate uint8

const (
	answered fate = iota
	failed
	gaveUp
	again   // to be tried again
	stopped // it ends the run
)

// judge says what an outcome means for its item, as for a live answer.
func judge(e *provider.Error) fate {
	switch {
	case e == nil:
		return answered
	case e.Class == provider.Canceled:
		return again
	case e.Scope == provider.WholeRun, e.Scope == provider.WholeLane:
		return stopped
	case e.Scope == provider.ItemOnly:
		return failed
	case !e.NoRetry:
		return again
	case e.Status == 429 || e.Status >= 500:
		return gaveUp
	}
	return failed
}

// finish writes an item's row. It reports false where rows can't be written. t is
// nil for an item of a batch that was never begun.
func (e *Engine) finish(p *part, m *member, it *input.Item, call *provider.Call, o outcome, t *tally) bool {
	h := e.hash(m.key())
	if e.marks[h] != inBatch {
		return true // its row is written already
	}
	old, err := e.old(m.key())
	if err != nil {
		e.haltErr(runner.WriteFailed, err)
		return false
	}
	if t != nil && old != nil && p.id != "" && bytes.Contains(old.History, fmt.Appendf(nil, `"batch_id":%q`, p.id)) {
		e.settled(h, old, t) // a run that was killed wrote it
		return true
	}
	res := e.row(p, m, it, call, old, t != nil, &o)
	if o.err == nil && e.c.Expect != nil {
		if err := e.c.Expect(res.Text); err != nil {
			o.err = &provider.Error{Class: "unexpected", Message: err.Error()}
			res.Attempts[len(res.Attempts)-1].Outcome, res.Attempts[len(res.Attempts)-1].Error = "unexpected", err.Error()
		}
	}
	e.decide(p, h, res, o.err, t)
	if t != nil {
		t.Cost += res.Cost
		if old != nil {
			t.Cost -= old.Cost
		}
	}
	for _, r := range e.guard.watch(res) {
		if !e.write(r) {
			return false
		}
	}
	if e.guard.trip != "" {
		e.halt(Report{Reason: runner.Aborted, Message: e.guard.trip,
			Hint: "mend what the message says and run the same command again, or go on all the same with --no-fail-fast"})
	}
	return true
}

// decide sets the row's status and where the item goes.
func (e *Engine) decide(p *part, h uint64, res *output.Result, err *provider.Error, t *tally) {
	count := &Tally{}
	if t != nil {
		count = &t.Tally
	}
	if err != nil {
		res.Error = &output.Error{Class: string(err.Class), Status: err.Status, Type: err.Type, Code: err.Code, Message: e.c.Scrub.String(err.Message)}
	}
	f := judge(err)
	if f == again && err.Class != provider.Canceled && err.Message != provider.BatchExpired().Message {
		e.errs[h]++
	}
	e.marks[h] = isDone
	switch {
	case f == answered:
		res.Status, res.Error = output.OK, nil
		count.OK++
		delete(e.carry, h)
		return
	case f == failed:
		res.Status = output.Failed
		count.Failed++
		return
	case f == gaveUp:
		res.Status, res.GiveUpReason = output.GaveUp, "server_said_no"
		count.Failed++
	case f == stopped:
		res.Status = output.Aborted
		count.Again++
		e.haltFor("the provider refused an item of batch "+p.id, err)
	case err.Class == provider.Canceled && p.byUser:
		res.Status = output.Aborted
		count.Again++
	case e.c.Then == "stop":
		res.Status, res.GiveUpReason = output.GaveUp, "batch"
		count.Again++
	case e.c.Then == "batch" && e.c.MaxErrors > 0 && e.errs[h] >= e.c.MaxErrors:
		res.Status, res.GiveUpReason = output.GaveUp, "max_errors"
		count.Failed++
	default:
		res.Status = output.Waiting
		count.Again++
		e.carry[h] = withHistory(res)
		if e.c.Then == "live" {
			e.marks[h] = isLive
			return
		}
		delete(e.marks, h)
		e.fresh = true
		return
	}
	e.carry[h] = withHistory(res)
}

// settled takes in a row that a run which was killed had written.
func (e *Engine) settled(h uint64, old *output.Result, t *tally) {
	e.marks[h] = isDone
	switch old.Status {
	case output.OK:
		t.OK++
	case output.Failed:
		t.Failed++
	default:
		t.Again++
		if e.c.Then == "live" {
			e.marks[h] = isLive
			return
		}
		delete(e.marks, h)
		e.fresh = true
	}
}

// old is an item's row as it stands.
func (e *Engine) old(key string) (*output.Result, error) {
	if r := e.carry[e.hash(key)]; r != nil {
		return r, nil
	}
	if e.c.Old == nil {
		return nil, nil
	}
	return e.c.Old(key)
}

func (e *Engine) row(p *part, m *member, it *input.Item, call *provider.Call, old *output.Result, bought bool, o *outcome) *output.Result {
	res := &output.Result{
		ID: m.id, Key: m.key(), RequestHash: m.hash, Index: m.index, Provider: e.c.Target.Defaults.Name, Model: p.model,
		FinishedAt: time.Now(), FirstAttemptAt: p.created(),
	}
	if call != nil {
		res.Model = call.Model
	}
	if it != nil {
		res.Index, res.Metadata, res.Input = it.Index, it.Metadata, it.Input
	}
	a := output.Attempt{
		Attempt: 1, StartedAt: p.created(), Duration: p.ended().Sub(p.created()), Status: o.status,
		Outcome: string(provider.ClassOK), BatchID: p.id,
	}
	usage := o.reply.Usage
	a.RequestID = o.reply.RequestID
	if o.err != nil {
		usage, a.RequestID = o.err.Usage, o.err.RequestID
		a.Outcome, a.Error = string(o.err.Class), e.c.Scrub.String(o.err.Message)
		a.Status = cmp.Or(a.Status, o.err.Status)
	}
	a.RequestID = provider.Clean(e.c.Scrub.String(a.RequestID), 200)
	a.Usage = output.Usage{
		InputTokens: usage.InputTokens, OutputTokens: usage.OutputTokens, CacheReadTokens: usage.CacheReadTokens,
		CacheWriteTokens: usage.CacheWriteTokens, ReasoningTokens: usage.ReasoningTokens,
	}
	res.Usage = a.Usage
	if e.c.Price != nil && usage.Known {
		if price, ok := e.c.Price(res.Model); ok {
			res.Cost, res.HasCost = price.Of(usage), true
		}
	}
	if o.err == nil {
		res.Text, res.StopReason = e.c.Scrub.String(o.reply.Text), provider.Clean(e.c.Scrub.String(o.reply.StopReason), 200)
		res.Model = cmp.Or(provider.Clean(o.reply.Model, 200), res.Model)
		res.Response = e.c.Scrub.Bytes(o.reply.Response)
	}
	e.continued(res, old, &a)
	if bought {
		res.Attempts = []output.Attempt{a}
	}
	return res
}

// continued adds what earlier runs knew of the item.
func (e *Engine) continued(res, old *output.Result, a *output.Attempt) {
	if old == nil {
		return
	}
	var attempts []json.RawMessage
	_ = json.Unmarshal(append(append([]byte("["), old.History...), ']'), &attempts)
	a.Attempt = len(attempts) + 1
	res.History, res.IdempotencyKey = old.History, old.IdempotencyKey
	res.Usage = res.Usage.Add(old.Usage)
	if old.HasCost {
		res.Cost, res.HasCost = res.Cost+old.Cost, true
	}
	if !old.FirstAttemptAt.IsZero() {
		res.FirstAttemptAt = old.FirstAttemptAt
	}
}

// withHistory is a row as a later run would read it: its attempts are history.
func withHistory(r *output.Result) *output.Result {
	var v struct{ Attempts json.RawMessage }
	_ = json.Unmarshal(output.AppendRow(nil, r), &v) // a row is valid JSON
	c := *r
	c.History, c.Attempts = json.RawMessage(strings.Trim(string(v.Attempts), "[]")), nil
	c.Response, c.Text = nil, ""
	return &c
}

func (e *Engine) write(r *output.Result) bool {
	if err := e.c.Write(r); err != nil {
		e.haltErr(runner.WriteFailed, err)
		return false
	}
	delete(e.anchors, r.Key)
	if r.Status == output.Waiting {
		return true
	}
	e.rows[r.Status]++
	if e.c.OnRow != nil {
		e.c.OnRow(r)
	}
	return true
}

// anchor writes a row for one item of a part: a results file can then tell that its
// journal is gone.
func (e *Engine) anchor(m *member, model string) bool {
	old, err := e.old(m.key())
	if err != nil {
		e.haltErr(runner.WriteFailed, err)
		return false
	}
	r := &output.Result{ID: m.id, Key: m.key(), Status: output.Waiting, RequestHash: m.hash, Index: m.index,
		Provider: e.c.Target.Defaults.Name, Model: model}
	e.continued(r, old, &output.Attempt{})
	r.Error = &output.Error{Class: InBatch, Message: "in a batch: its journal is the file .batches.jsonl beside the results"}
	if !e.write(r) {
		return false
	}
	e.anchors[r.Key] = r
	return true
}

// unanchor replaces the rows of items that are in no batch any more.
func (e *Engine) unanchor() {
	for key, r := range e.anchors {
		if e.marks[e.hash(key)] != inBatch {
			r.Status, r.Error = output.Aborted, nil
			_ = e.c.Write(r) // an error stands in the results' own state
		}
	}
}

// guard watches the first items that come back: if they all failed with one cause,
// all would.
type guard struct {
	off, decided bool
	cause, trip  string
	held         []*output.Result
}

// uniform is how many have to fail alike.
const uniform = 10

// watch returns the rows that may be written now.
func (g *guard) watch(r *output.Result) []*output.Result {
	cause := ""
	if r.Error != nil {
		cause = fmt.Sprint(r.Error.Class, r.Error.Status, r.Error.Type, r.Error.Code)
	}
	switch {
	case g.trip != "" && r.Status == output.Failed && cause == g.cause:
		r.Status = output.Aborted
		fallthrough
	case g.off || g.decided:
		return []*output.Result{r}
	}
	rows := append(g.held, r)
	g.held = nil
	if r.Status != output.Failed || g.cause != "" && g.cause != cause {
		g.decided = true
		return rows
	}
	if g.cause = cause; len(rows) < uniform {
		g.held = rows
		return nil
	}
	g.decided = true
	g.trip = fmt.Sprintf("the first %d items all failed alike: %s: %s", uniform, r.Error.Class, r.Error.Message)
	for _, r := range rows {
		r.Status = output.Aborted
	}
	return rows
}

// end returns the rows that are held back at the end of the run.
func (g *guard) end() []*output.Result {
	rows := g.held
	g.held, g.decided = nil, true
	return rows
}
