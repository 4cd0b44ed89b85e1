package command

import (
	"fmt"
	"io"
	"maps"
	"slices"

	"llmbatch/runner/provider"
)

// planBatches says what --batch would do with the items that need work.
func (s *session) planBatches(w io.Writer, p *plan) error {
	kinds, cant := map[string]int{}, 0
	var bytes int64
	size := s.o.batchSize
	for it, err := range s.items() {
		if err != nil {
			return err
		}
		row, ok := s.old(it.Key)
		if it.Bad != nil || ok && s.isDone(row) {
			continue
		}
		t, err := s.router.route(it)
		if err != nil {
			return err
		}
		call, err := t.Provider.Encode(it, t.Defaults)
		if err != nil {
			return err
		}
		maker, ok := t.Provider.(provider.BatchMaker)
		if !ok {
			return usagef("%s has no Batch API", t.Defaults.Name)
		}
		api := maker.Batches(vendorOf(t))
		caps := api.Caps()
		if err := api.Refuse(call); err != nil {
			if cant++; cant <= mostNamed {
				fmt.Fprintf(w, "%-13s %s\n", "not batchable", printable(fmt.Sprintf("%s:%d: %v", s.in.Name(), it.Line, err)))
			}
			continue
		}
		size = min(size, caps.Count)
		key := ""
		if caps.OneModel {
			key = call.Path + " " + call.Model
		}
		kinds[key]++
		bytes += int64(len(call.Body))
	}
	parts := 0
	for _, key := range slices.Sorted(maps.Keys(kinds)) {
		parts += (kinds[key] + size - 1) / size
	}
	fmt.Fprintf(w, "%-13s at least %s of %d requests at most, %d bytes\n", "batches", plural(parts, "batch", "batches"), size, bytes)
	if cant > 0 {
		fmt.Fprintf(w, "%-13s %s: they go live with --then live, else the run is refused\n", "not batchable", plural(cant, "line", "lines"))
	}
	if p.HasCost {
		fmt.Fprintf(w, "%-13s about %.4g in batches", "cost", p.Cost*s.o.batchPrice)
		if s.o.then == "live" {
			fmt.Fprintf(w, ", at worst %.4g", p.Cost)
		}
		fmt.Fprintln(w)
	}
	return nil
}
