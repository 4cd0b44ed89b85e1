package runner

import (
	"fmt"
	"testing"
	"time"

	"llmbatch/output"
)

// A web page with a 200 for each of the first items means that the base URL is wrong,
// although each item only gave up.
func TestWebPagesStopTheRun(t *testing.T) {
	for _, page := range []string{"<!DOCTYPE html><html><body>Welcome</body></html>", ""} {
		bubble(t, func(t *testing.T) {
			b := newBench(t, 40, func(int, string) answer { return answer{status: 200, body: page, after: 5 * time.Millisecond} })
			if rep := b.run(); rep.Reason != Aborted {
				t.Errorf("%q: end %v (%s), want Aborted", page, rep.Reason, rep.Message)
			}
			b.want(output.GaveUp, 0)
		})
	}
}

// From the 61st request on everybody gets a refusal that nobody knows by name.
func TestUnknownRefusalOfAllStopsTheRun(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := 0
		b := newBench(t, 200, func(int, string) answer {
			if n++; n > 60 {
				a := refuse(400, "invalid_request_error")
				a.body = `{"type":"error","error":{"type":"invalid_request_error","message":"Ihr Konto ist nicht mehr freigeschaltet"}}`
				return a
			}
			return ok(time.Duration(20+n%7) * time.Millisecond)
		})
		if rep := b.run(); rep.Reason != Aborted {
			t.Errorf("end %v (%s), want Aborted", rep.Reason, rep.Message)
		}
		b.want(output.OK, 60)
		b.want(output.Failed, 0)
		if len(b.api.calls) > 160 {
			t.Errorf("%d requests, want the run stopped", len(b.api.calls))
		}
	})
}

// Failures of one kind that are scattered among answers stop nothing.
func TestScatteredFailuresStopNothing(t *testing.T) {
	bubble(t, func(t *testing.T) {
		n := 0
		b := newBench(t, 200, func(int, string) answer {
			if n++; n%3 != 0 {
				return refuse(400, "invalid_request_error")
			}
			return ok(10 * time.Millisecond)
		})
		b.c.Pacing = fixed(4)
		if rep := b.run(); rep.Reason != Finished {
			t.Errorf("end %v (%s), want Finished", rep.Reason, rep.Message)
		}
	})
}

var firewall = answer{status: 403, body: "<!DOCTYPE html><h1>Sorry, you have been blocked</h1>", after: 5 * time.Millisecond}

// What an answer says of the run is weighed against what others got.
func TestOneItemStopsNoRun(t *testing.T) {
	for _, status := range []int{403, 404, 405, 415, 501} {
		for _, odd := range []int{0, 20, 39} {
			bubble(t, func(t *testing.T) {
				b := newBench(t, 40, nil)
				b.api.play = func(_ int, body string) answer {
					if between(body, "item ", ".") == fmt.Sprint("q", odd) {
						a := firewall
						a.status = status
						return a
					}
					return ok(20 * time.Millisecond)
				}
				if rep := b.run(); rep.Reason != Finished {
					t.Errorf("%d at %d: end %v (%s), want Finished", status, odd, rep.Reason, rep.Message)
				}
				b.want(output.OK, 39)
				if s := b.sink.last()[fmt.Sprint("q", odd)].Status; status != 501 && s != output.Failed {
					t.Errorf("%d at %d: the odd item is %s, want failed", status, odd, s)
				}
			})
		}
	}
}

// The same for all of them stops the run after a few, and fails nobody.
func TestAllItemsStopTheRun(t *testing.T) {
	for name, from := range map[string]int{"from the first": 0, "later": 30} {
		bubble(t, func(t *testing.T) {
			n := 0
			b := newBench(t, 100, func(int, string) answer {
				if n++; n > from {
					return firewall
				}
				return ok(20 * time.Millisecond)
			})
			if rep := b.run(); rep.Reason != Aborted || len(b.api.calls) > from+convincing+64 {
				t.Errorf("%s: end %v after %d requests (%s), want Aborted soon", name, rep.Reason, len(b.api.calls), rep.Message)
			}
			b.want(output.Failed, 0)
		})
	}
}
