package report

import (
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"time"

	"llmbatch/output"
)

// night yields the rows of a simulated run of n items: a slow start, a burst of
// refusals with a cooldown, a few failures of every kind. The same n gives the
// same rows.
func night(n int, length time.Duration) iter.Seq2[*output.Result, error] {
	return func(yield func(*output.Result, error) bool) {
		rnd := rand.New(rand.NewPCG(1, uint64(n)))
		start := time.Date(2026, 11, 30, 22, 0, 0, 0, time.UTC)
		shut, open := length*2/5, length/2
		for i := range n {
			share := float64(i) / float64(n)
			at := time.Duration(share * float64(length-length/10))
			limit := min(4+int(share*200), 48)
			if at > shut {
				at += open - shut
				limit = 24
			}
			r := &output.Result{
				ID: json.RawMessage(fmt.Sprintf(`"item-%05d"`, i)), Status: output.OK, RequestHash: "sha256:00", Index: i,
				Provider: "anthropic", Model: "claude-sonnet-4-5", StopReason: "end_turn", HasCost: true,
				Text:           fmt.Sprintf("answer %d\nof the night", i),
				FirstAttemptAt: start.Add(at),
			}
			if i%40 == 7 {
				r.StopReason = "max_tokens"
			}
			// Twenty in flight on average.
			took := time.Duration((0.3 + rnd.ExpFloat64()*0.7) * 20 * float64(length) / float64(n))
			refused := at < shut && shut-at < length/20
			if refused {
				r.Attempts = append(r.Attempts, output.Attempt{
					Attempt: 1, StartedAt: start.Add(at), Duration: took / 8, Status: 429, Outcome: "rate_limited",
					Error: "rate limited", Wait: open - at, WaitReason: "retry_after", Concurrency: limit,
				})
				at = open + time.Duration(rnd.Float64()*float64(length/20))
			}
			last := output.Attempt{
				Attempt: len(r.Attempts) + 1, StartedAt: start.Add(at), Duration: took, Status: 200, Outcome: "ok", Concurrency: limit,
			}
			spoil(r, &last, i)
			r.Attempts = append(r.Attempts, last)
			r.FinishedAt = start.Add(at + took)
			if r.Status == output.OK {
				r.Usage = output.Usage{InputTokens: 300 + int64(rnd.IntN(400)), OutputTokens: 50 + int64(rnd.IntN(300))}
				r.Cost = float64(r.Usage.InputTokens)*3e-6 + float64(r.Usage.OutputTokens)*15e-6
			}
			if !yield(r, nil) {
				return
			}
		}
	}
}

// spoil makes some items fail, each kind with a message of its own shape.
func spoil(r *output.Result, a *output.Attempt, i int) {
	fail := func(status output.Status, class string, http int, message string) {
		r.Status, r.StopReason, r.Text = status, "", ""
		r.Error = &output.Error{Class: class, Status: http, Message: message}
		a.Outcome, a.Status, a.Error = class, http, class
	}
	switch {
	case i%53 == 11:
		fail(output.Failed, "rejected", 400, fmt.Sprintf("prompt is too long: %d tokens > 200000 maximum", 200_000+i*7))
	case i%97 == 13:
		fail(output.GaveUp, "server_error", 502, fmt.Sprintf("<html><head><title>502 Bad Gateway</title></head> ray %08x", i*7919))
		r.GiveUpReason = "max_errors"
	case i%131 == 17:
		fail(output.GaveUp, "timeout", 0, "no answer within 10m0s")
		r.GiveUpReason = "item_budget"
	case i%211 == 19:
		fail(output.Failed, "rejected", 403, "model 'claude-\u202eexp' said \x1b[31mno\x1b[0m")
	}
}
