package pacing

import (
	"fmt"
	"slices"
	"testing"
)

// TestTableOfTwoClients plays two clients that know nothing of each other against one
// server and prints what the one that came a minute later gets of it. Limits on
// rate are shared evenly. A ceiling without a queue belongs to whoever takes a
// slot first: there the share depends on chance, and where all answers take the
// same short time the later one gets next to nothing.
func TestTableOfTwoClients(t *testing.T) {
	if !*wholeTable {
		t.Skip("use -table or LLMBATCH_TABLE=1")
	}
	fmt.Printf("| two clients | model | of the later one %% (least, most) | in all, of what one gets | refused %% (worst) |\n|---|---|---|---|---|\n")
	for _, tt := range []struct {
		id             string
		share, refused float64 // medians: at least, and at most
	}{{"1c", 25, 3}, {"1f", 25, 3}, {"1d", 25, 3}, {"2b", 40, 4}, {"2d", 40, 4}, {"3a", 40, 4}, {"3c", 40, 7}, {"4a", 40, 4}, {"4b", 40, 4}, {"4d", 40, 4}} {
		m := byID(t, tt.id)
		m.work.n = 40000
		var share, sum, refused []float64
		for seed := *firstSeed; seed < *firstSeed+uint64(*seeds); seed++ {
			alone := newClient(t, &world{}, m.work, seed, m.server(seed))
			alone.w.at(0, alone.turn)
			alone.w.run(900, alone.finished)
			w, srv := &world{}, m.server(seed)
			early, late := newClient(t, w, m.work, seed, srv), newClient(t, w, m.work, seed+100, srv)
			w.at(0, early.turn)
			w.at(seconds(60), late.turn)
			w.run(900, func() bool { return false })
			a, b := float64(count(early.taken, 300, 900)), float64(count(late.taken, 300, 900))
			r := float64(count(early.turned, 300, 900) + count(late.turned, 300, 900))
			share, refused = append(share, 100*b/(a+b)), append(refused, 100*r/(r+a+b))
			sum = append(sum, (a+b)/float64(count(alone.taken, 300, 900)))
		}
		fmt.Printf("| %s | %s | %.0f (%.0f, %.0f) | %.2f | %.1f (%.1f) |\n", m.id, m.what, quantile(share, 0.5), slices.Min(share), slices.Max(share), mean(sum), mean(refused), slices.Max(refused))
		if got, r, all := quantile(share, 0.5), quantile(refused, 0.5), mean(sum); got < tt.share || r > tt.refused || all < 0.93 {
			t.Errorf("model %s with two clients: got %.0f %% for the later one, %.1f %% refused, %.2f of one client's rate; want ≥ %.0f, ≤ %.0f and ≥ 0.93", m.id, got, r, all, tt.share, tt.refused)
		}
	}
}
