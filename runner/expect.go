package runner

import (
	"time"

	"llmbatch/output"
	"llmbatch/runner/provider"
)

// expected checks an answer's text. One that is not as expected becomes an error of
// the attempt, and the item goes again: with Reask it is told what was wrong, else the
// same is asked. Either is another request, under another idempotency key.
func (i *item) expected(x *exchange) {
	if x.err != nil || i.r.c.Expect == nil {
		return
	}
	text := joined(i.text, x.reply.Text)
	err := i.r.c.Expect(text)
	if err == nil {
		return
	}
	x.err = &provider.Error{Class: provider.Unexpected, Status: x.status, Message: err.Error(), Usage: x.reply.Usage, RequestID: x.reply.RequestID}
	i.wrong = &wrong{text: text, reply: x.reply}
	i.text, i.next = "", nil
	i.part++
	if i.reasked >= i.r.c.Reask {
		return
	}
	if p, ok := i.lane.target.Provider.(provider.Reasker); ok && i.r.recall(i) == nil {
		if next, ok := p.Reask(i.call, text, "That is not the answer that was asked for: "+err.Error()+". Answer again, with the corrected answer alone."); ok {
			i.next = next
			i.reasked++
		}
	}
}

// wrong is an answer that was not as expected.
type wrong struct {
	text  string
	reply provider.Reply
}

// unexpectedRow ends an item whose answers were never as expected: the last is kept.
func (i *item) unexpectedRow() {
	res := i.row(output.Failed, i.last, "", time.Time{})
	res.Text, res.StopReason, res.Response = i.wrong.text, i.wrong.reply.StopReason, i.wrong.reply.Response
	i.r.emit(res)
}
