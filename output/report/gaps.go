package report

import (
	"fmt"
	"strings"
	"time"

	"llmbatch/output"
	"llmbatch/output/plain"
)

// gap is a stretch of time in which nothing was on the wire. In a pause items
// waited because a server had refused them; else the program did not run.
type gap struct {
	from, to time.Time
	pause    bool
}

// minGap is the share of all time from which on a gap is worth a mark.
const minGap = 0.01

// gaps are the stretches without a request between the first and the last event.
func (s *series) gaps(first, last time.Time) []gap {
	if s.width == 0 || first.IsZero() {
		return nil
	}
	least := max(time.Duration(minGap*float64(last.Sub(first))), time.Second, 2*s.width)
	wire, waiting := s.wire.totals(s.width), s.waiting.totals(s.width)
	var list []gap
	from, to := s.at(first), s.at(last)
	for i := from; i <= to; {
		j := i
		waited := 0
		for ; j <= to && wire[j] == 0; j++ {
			if waiting[j] > 0 {
				waited++
			}
		}
		if d := time.Duration(j-i) * s.width; j > i && d >= least {
			list = append(list, gap{s.edge(i), s.edge(j), 2*waited >= j-i})
		}
		i = max(j, i+1)
	}
	return list
}

// Night says in a few sentences what happened and why it ended.
func (p *page) Night() string {
	sum := &p.Sum
	if sum.Rows == 0 {
		return "There are no results yet."
	}
	said := []string{p.became(), p.when()}
	if sum.Cost != nil {
		said = append(said, "It cost about "+plain.Money(*sum.Cost)+".")
	}
	return strings.Join(append(said, p.ended()), " ")
}

func (p *page) became() string {
	sum := &p.Sum
	if sum.OK == sum.Rows {
		return fmt.Sprintf("All %s got an answer.", plain.Plural(sum.Rows, "item"))
	}
	s := fmt.Sprintf("%s of %s got an answer (%s)", plain.Count(sum.OK), plain.Plural(sum.Rows, "item"), plain.Percent(sum.OK, sum.Rows))
	for _, k := range []struct {
		n         int
		one, many string
	}{
		{sum.Failed, "failed", "failed"}, {sum.GaveUp, "gave up", "gave up"},
		{sum.Aborted, "was open when the run stopped", "were open when the run stopped"}, {sum.Waiting, "waits", "wait"},
	} {
		switch {
		case k.n == 1:
			s += ", 1 " + k.one
		case k.n > 1:
			s += fmt.Sprintf(", %s %s", plain.Count(k.n), k.many)
		}
	}
	return s + "."
}

// when says how long it took, with the pauses and the times between two runs.
func (p *page) when() string {
	sum := &p.Sum
	if sum.FirstAttempt == nil {
		return "Nothing was sent."
	}
	s := fmt.Sprintf("From %s to %s (%s)", p.clock(*sum.FirstAttempt), p.clock(*sum.LastEvent), plain.Span(sum.LastEvent.Sub(*sum.FirstAttempt)))
	var pauses, rests int
	var paused, rested time.Duration
	for _, g := range p.gaps {
		if g.pause {
			pauses, paused = pauses+1, paused+g.to.Sub(g.from)
		} else {
			rests, rested = rests+1, rested+g.to.Sub(g.from)
		}
	}
	if pauses > 0 {
		s += fmt.Sprintf(", paused %s for %s because the server refused requests", plain.Times(pauses), plain.Span(paused))
	}
	if rests > 0 {
		s += fmt.Sprintf(", stopped and started again %s after %s", plain.Times(rests), plain.Span(rested))
	}
	return s + "."
}

// ended says why it ended, as far as the rows or the run tell.
func (p *page) ended() string {
	if p.Run != nil && p.Run.Reason != "" {
		return "It ended because " + strings.TrimSuffix(plain.Line(p.Run.Reason), ".") + "."
	}
	sum := &p.Sum
	for _, c := range sum.Causes {
		if c.Status != string(output.Aborted) {
			continue
		}
		why := word(c.Class)
		switch c.Class {
		case "spend_cap":
			why = "a spending limit was reached"
		case "auth":
			why = "the API refused the key"
		}
		if c.Message != "" {
			why += ": " + plain.Clip(plain.Line(c.Message), 200)
		}
		return "It stopped before all was done, " + strings.TrimSuffix(why, ".") + "."
	}
	for _, g := range sum.GiveUps {
		switch g.Name {
		case "run_budget":
			return "The run's time ended first."
		case "lane_closed":
			return "A model could not be used any more before all was done."
		}
	}
	if sum.Waiting > 0 {
		return "It goes on, or was ended while items waited."
	}
	return "It ended because every item was done with."
}

// Marks explains the shaded stretches of the plots; "" if there are none.
func (p *page) Marks() string {
	var said []string
	for _, g := range p.gaps {
		what := "nothing ran"
		if g.pause {
			what = "paused"
		}
		said = append(said, fmt.Sprintf("%s %s to %s", what, p.clock(g.from), p.clock(g.to)))
	}
	if len(said) == 0 {
		return ""
	}
	if more := len(said) - 6; more > 0 {
		said = append(said[:6], fmt.Sprintf("and %d more", more))
	}
	return "Shaded: " + strings.Join(said, "; ") + "."
}
