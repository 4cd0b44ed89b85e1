package runner

import (
	"testing"

	"llmbatch/pacing"
	"llmbatch/runner/provider"
)

// What each class teaches the lane and costs the item, whatever its scope.
var taught = []struct {
	class             provider.Class
	signal            pacing.Signal
	counts, throttled bool
}{
	{provider.RateLimited, pacing.Throttled, false, true},
	{provider.Overloaded, pacing.Overloaded, false, true},
	{provider.ServerError, pacing.Failed, true, false},
	{provider.Timeout, pacing.Failed, true, false},
	{provider.ConnectionError, pacing.Failed, true, false},
	{provider.Truncated, pacing.Failed, true, false},
	{provider.InvalidResponse, pacing.Answered, true, false},
	{provider.Rejected, pacing.Answered, true, false},
	{provider.SpendCap, pacing.Answered, true, false},
	{provider.AuthError, pacing.Answered, true, false},
	{provider.Canceled, pacing.Nothing, false, false},
}

func TestJudge(t *testing.T) {
	if got, want := judge(nil), (verdict{act: keep, signal: pacing.Good}); got != want {
		t.Errorf("an answer: got %+v, want %+v", got, want)
	}
	acts := map[provider.Scope]action{
		provider.Passing: again, provider.ItemOnly: fail, provider.WholeLane: shutLane, provider.WholeRun: abortRun,
	}
	for _, c := range taught {
		for scope, act := range acts {
			want := verdict{act: act, signal: c.signal, counts: c.counts, throttled: c.throttled}
			if c.class == provider.Canceled {
				want.act = cancel
			}
			if got := judge(&provider.Error{Class: c.class, Scope: scope}); got != want {
				t.Errorf("%s, scope %d: got %+v, want %+v", c.class, scope, got, want)
			}
		}
	}
}

// What a flag or a status changes.
func TestJudgeFlags(t *testing.T) {
	for _, c := range []struct {
		name string
		e    provider.Error
		want verdict
	}{
		{"a failure of the item's content", provider.Error{Class: provider.ServerError, Status: 500, Content: true},
			verdict{act: again, signal: pacing.Answered, counts: true}},
		{"no retry on a 429", provider.Error{Class: provider.RateLimited, NoRetry: true},
			verdict{act: giveUp, signal: pacing.Throttled, throttled: true}},
		{"no retry on a 529", provider.Error{Class: provider.Overloaded, NoRetry: true},
			verdict{act: giveUp, signal: pacing.Overloaded, throttled: true}},
		{"no retry on a 500", provider.Error{Class: provider.ServerError, Status: 500, NoRetry: true},
			verdict{act: giveUp, signal: pacing.Failed, counts: true}},
		{"no retry on a 409", provider.Error{Class: provider.ServerError, Status: 409, NoRetry: true},
			verdict{act: fail, signal: pacing.Failed, counts: true}},
		{"no retry on a 401", provider.Error{Class: provider.AuthError, Scope: provider.WholeRun, NoRetry: true},
			verdict{act: abortRun, signal: pacing.Answered, counts: true}},
		{"no retry on a closed lane", provider.Error{Class: provider.Rejected, Scope: provider.WholeLane, NoRetry: true},
			verdict{act: shutLane, signal: pacing.Answered, counts: true}},
		{"a daily quota", provider.Error{Class: provider.RateLimited, Scope: provider.WholeLane},
			verdict{act: shutLane, signal: pacing.Throttled, throttled: true}},
		{"retry a 400", provider.Error{Class: provider.Rejected, Status: 400},
			verdict{act: again, signal: pacing.Answered, counts: true}},
		{"a model still loading", provider.Error{Class: provider.Overloaded, NoShrink: true},
			verdict{act: again, signal: pacing.Failed}},
		{"a conflict", provider.Error{Class: provider.ServerError, NoShrink: true},
			verdict{act: again, signal: pacing.Answered, counts: true}},
		{"a patient one", provider.Error{Class: provider.RateLimited, Patient: true},
			verdict{act: again, signal: pacing.Throttled, throttled: true}},
		{"a dead endpoint", provider.Error{Class: provider.ConnectionError, DeadEndpoint: true},
			verdict{act: again, signal: pacing.Failed, counts: true}},
		// The machine's own limit lowers the lane's, and no item is to blame.
		{"too many open files", provider.Error{Class: provider.ConnectionError, Local: true, NoShrink: true},
			verdict{act: again, signal: pacing.Overloaded, throttled: true}},
		{"cancelled, whatever else", provider.Error{Class: provider.Canceled, Scope: provider.WholeRun, NoRetry: true},
			verdict{act: cancel}},
	} {
		if got := judge(&c.e); got != c.want {
			t.Errorf("%s: got %+v, want %+v", c.name, got, c.want)
		}
	}
}
