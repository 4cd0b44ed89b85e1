package pacing

import (
	"math/rand/v2"
	"testing"
	"time"
)

// A rate takes as much in one second as in the next; whims do not care.
func TestMoodIsNoRate(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, tt := range []struct {
		what string
		next func(i int) (accepted int, in time.Duration)
		want bool
	}{
		{"a rate, met at all distances", func(int) (int, time.Duration) {
			in := time.Second + time.Duration(r.IntN(30_000))*time.Millisecond
			return int(100 * in.Seconds()), in
		}, false},
		{"a rate that halves now and then", func(i int) (int, time.Duration) {
			return 1600 >> (i / 25) * 2, 2 * time.Second
		}, false},
		{"a trickle", func(int) (int, time.Duration) { return r.IntN(15), 2 * time.Second }, false},
		{"1 % at random, at full speed", func(int) (int, time.Duration) {
			n := int(100 * r.ExpFloat64())
			return n, 1100*time.Millisecond + time.Duration(n)*time.Millisecond
		}, true},
	} {
		var m mood
		at, on := time.Duration(0), 0
		for i := range 100 {
			n, in := tt.next(i)
			for range n {
				m.accepted(at + 1)
			}
			at += in
			if m.refused(at, false) {
				on++
			}
		}
		if tt.want && on < 70 || !tt.want && on > 0 {
			t.Errorf("%s: got a mood at %d refusals of 100, want one: %t", tt.what, on, tt.want)
		}
	}
}
