package live

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"llmbatch/output/plain"

	"github.com/rivo/uniseg"
	"github.com/schollz/progressbar/v3"
)

// Status is the state of a run at one moment. Counts are of items unless they
// say otherwise.
type Status struct {
	Total    int // items of the run; -1: unknown, the input is a pipe
	Done     int // items with a final row, those of earlier runs included if Total counts them
	OK       int // OK, Failed and GaveUp are this run's: the ETA goes by them
	Failed   int
	GaveUp   int
	Waiting  int // between two attempts, or for a gate
	InFlight int // requests on the wire
	Limit    int // requests that may be on the wire now, over all models
	// Throttled counts answers that said "too many requests" (429).
	Throttled    int64
	Requests     int64 // requests sent
	OutputTokens int64
	InputTokens  int64
	Cost         float64 // in the unit of the prices
	HasCost      bool    // false: no prices are known
	// Gate is until when nothing is launched, a time in the past: open. GateReason says
	// why, in a word that may stand alone before a colon: "429: too many requests".
	Gate       time.Time
	GateReason string
	Lanes      int           // models in use; more than 1 is shown
	Elapsed    time.Duration // since the run began
	Note       string        // a word on what the run is doing now: "stopping", …
}

// gated tells whether the gate is shut now.
func (s Status) gated(now time.Time) bool { return s.Gate.After(now) }

// paused tells whether it is for so long that rates stand still.
func (s Status) paused(now time.Time) bool { return s.Gate.Sub(now) > 3*time.Second }

// segment is one figure of the line.
type segment struct {
	long, short string
	rank        int    // what is left out first has the highest
	more        string // a longer form of short, cut to the room that is left; "": none
}

// The ranks, from what is needed most. A figure that is zero loses its place
// before any other.
const (
	rankCount = iota
	rankGate
	rankFailed
	rankFlight
	rankETA
	rankThrottled
	rankWaiting
	rankOK
	rankCost
	rankTokens
	rankLanes
	rankZero
)

// count is a figure with its label.
func count[N int | int64](long, short string, n N, rank int) segment {
	if n == 0 {
		rank += rankZero
	}
	return segment{long: long + " " + number(int64(n)), short: short + " " + number(int64(n)), rank: rank}
}

// segments are the figures of the bar mode's line, in the order of their places.
func segments(s Status, r *rates, now time.Time) []segment {
	done := number(int64(s.Done))
	if s.Total >= 0 {
		done += "/" + number(int64(s.Total))
	}
	segs := []segment{{long: done, short: done, rank: rankCount}}
	if s.Note != "" {
		note := plain.Line(s.Note)
		segs = append(segs, segment{long: note, short: plain.Clip(note, 12), rank: rankGate, more: note})
	}
	if s.gated(now) {
		segs = append(segs, gate(s, now))
	}
	flight, limit := number(int64(s.InFlight)), number(int64(s.Limit))
	segs = append(segs,
		count("ok", "ok", s.OK, rankOK),
		count("failed", "fail", s.Failed+s.GaveUp, rankFailed),
		count("waiting", "wait", s.Waiting, rankWaiting),
		segment{long: "at once " + flight + " (limit " + limit + ")", short: "now " + flight + "/" + limit, rank: rankFlight},
		count("429s", "429s", s.Throttled, rankThrottled))
	tokens := segment{long: number(r.tokens()) + " tokens/s", short: brief(r.tokens()) + " t/s", rank: rankTokens}
	if r.tokens() == 0 {
		tokens.rank += rankZero
	}
	segs = append(segs, tokens)
	if s.HasCost {
		segs = append(segs, segment{long: "cost " + money(s.Cost), short: money(s.Cost), rank: rankCost})
	}
	if s.Lanes > 1 {
		lanes := number(int64(s.Lanes)) + " models"
		segs = append(segs, segment{long: lanes, short: lanes, rank: rankLanes})
	}
	if eta, ok := r.eta(s, now); ok {
		segs = append(segs, segment{long: "ETA " + duration(eta), short: "ETA " + coarse(eta), rank: rankETA})
	}
	return segs
}

// gate says why nothing is sent and when the next request goes: the time that is
// left, the clock's where that is more than half a day.
func gate(s Status, now time.Time) segment {
	next := "next try in " + duration(s.Gate.Sub(now))
	brief := "in " + coarse(s.Gate.Sub(now))
	if far := s.Gate.Sub(now); far > 12*time.Hour {
		layout := "Mon 15:04"
		if far > 6*24*time.Hour {
			layout = "Jan 2 15:04"
		}
		next, brief = "next try "+s.Gate.In(now.Location()).Format(layout), s.Gate.In(now.Location()).Format(layout)
	}
	why := plain.Line(s.GateReason)
	if why == "" {
		return segment{long: "paused, " + next, short: next, rank: rankGate}
	}
	word, _, _ := strings.Cut(why, ":")
	word = plain.Clip(word, 12)
	return segment{long: plain.Clip(why, 44) + ", " + next, short: word + ": " + brief, rank: rankGate}
}

// The bar's width in columns: below the least it says nothing, above the most it
// takes room from nothing but looks. On a narrow terminal figures go first.
const (
	minBar = 3
	maxBar = 24
	narrow = 60
)

// barLine is the line of the bar mode, at most width-1 columns long: a full last
// column makes some terminals wrap. Times of day are in now's zone.
func barLine(s Status, r *rates, width int, now time.Time) string {
	room := max(width-1, 1)
	segs := segments(s, r, now)
	if s.Total <= 0 {
		return plain.Clip(spinner(s, fit(segs, room-len("| "))), room)
	}
	frame, least := len("100%  "), minBar+1
	if width < narrow {
		least = 0
	}
	text := fit(segs, room-frame-least)
	bar := min(maxBar, room-frame-1-uniseg.StringWidth(text))
	if bar < minBar {
		bar = 0
	}
	return plain.Clip(drawBar(s, bar)+"  "+text, room)
}

// fit joins segments to at most room columns: the long forms if they fit, else
// the short ones, without the least needed as long as there are too many; then
// what says why nothing is sent takes the room that is left.
func fit(segs []segment, room int) string {
	long := join(segs, func(s segment) string { return s.long })
	if uniseg.StringWidth(long) <= room {
		return long
	}
	segs = append([]segment(nil), segs...)
	for {
		text := join(segs, func(s segment) string { return s.short })
		left := room - uniseg.StringWidth(text)
		if left >= 0 || len(segs) == 1 {
			return stretch(segs, left)
		}
		last := 0
		for i, s := range segs {
			if s.rank >= segs[last].rank {
				last = i
			}
		}
		if len(segs) == 2 && segs[last].rank == rankGate { // better cut than left out
			keep := uniseg.StringWidth(segs[last].short) + left
			segs[last].short, segs[last].more = plain.Clip(segs[last].short, keep), ""
			if keep > len("until 00:00") {
				continue
			}
		}
		segs = append(segs[:last], segs[last+1:]...)
	}
}

// stretch joins short forms, the first that has more to say by left columns longer.
func stretch(segs []segment, left int) string {
	return join(segs, func(s segment) string {
		if s.more == "" || left <= 0 {
			return s.short
		}
		longer := plain.Clip(s.more, uniseg.StringWidth(s.short)+left)
		left = 0
		return longer
	})
}

func join(segs []segment, form func(segment) string) string {
	words := make([]string, len(segs))
	for i, s := range segs {
		words[i] = form(s)
	}
	return strings.Join(words, " ")
}

// drawBar lets progressbar draw the percentage and a bar of that many columns
// into nothing, and takes what it drew: the terminal has one writer, and a bar
// made anew for each frame follows a terminal that changes its width.
func drawBar(s Status, columns int) string {
	bar := progressbar.NewOptions64(int64(s.Total),
		progressbar.OptionSetWriter(io.Discard), progressbar.OptionSetWidth(columns),
		progressbar.OptionSetPredictTime(false), progressbar.OptionSetElapsedTime(false),
		progressbar.OptionSetTheme(progressbar.Theme{Saucer: "█", SaucerHead: "█", SaucerPadding: "░"}))
	// Set draws only when the percentage moves, RenderBlank always.
	bar.Set64(int64(min(s.Done, s.Total)))
	bar.RenderBlank()
	drawn := strings.TrimRight(strings.TrimPrefix(bar.String(), "\r"), " ")
	return strings.TrimPrefix(drawn, " ") // room for 1000 % is not needed
}

// spinner is the line of a run whose length is not known.
func spinner(s Status, text string) string {
	frames := []string{"|", "/", "-", "\\"}
	return frames[int(s.Elapsed/frameInterval)%len(frames)] + " " + text
}

// plainLine is the line of the log mode, in whole words.
func plainLine(s Status, r *rates, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s progress: %d", now.Format(time.DateTime), s.Done)
	if s.Total >= 0 {
		fmt.Fprintf(&b, "/%d", s.Total)
	}
	fmt.Fprintf(&b, " done, %d ok, %d failed, %d gave up, %d waiting, %d at once (limit %d), 429s %d, %s tokens/s",
		s.OK, s.Failed, s.GaveUp, s.Waiting, s.InFlight, s.Limit, s.Throttled, number(r.tokens()))
	if s.HasCost {
		b.WriteString(", cost " + money(s.Cost))
	}
	if s.Lanes > 1 {
		fmt.Fprintf(&b, ", %d models", s.Lanes)
	}
	if eta, ok := r.eta(s, now); ok {
		b.WriteString(", ETA " + duration(eta))
	}
	if s.gated(now) {
		b.WriteString(", paused until " + s.Gate.In(now.Location()).Format(time.DateTime))
		if s.GateReason != "" {
			b.WriteString(" (" + plain.Line(s.GateReason) + ")")
		}
	}
	if s.Note != "" {
		b.WriteString(", " + plain.Line(s.Note))
	}
	return b.String()
}

// number is a count in at most five characters from 10,000 on.
func number(n int64) string {
	switch {
	case n < 10_000:
		return strconv.FormatInt(n, 10)
	case n < 1_000_000:
		return scaled(float64(n)/1e3) + "k"
	case n < 1_000_000_000:
		return scaled(float64(n)/1e6) + "M"
	}
	return scaled(float64(n)/1e9) + "G"
}

// brief is number with thousands from 1,000 on.
func brief(n int64) string {
	if n < 1000 || n >= 10_000 {
		return number(n)
	}
	return scaled(float64(n)/1e3) + "k"
}

// scaled cuts, never rounds up: 999,999 of a million is not "1.0M" of them.
func scaled(f float64) string {
	if f >= 100 {
		return strconv.Itoa(int(f))
	}
	tenths := int(f * 10)
	return strconv.Itoa(tenths/10) + "." + strconv.Itoa(tenths%10)
}

// money shows four decimals while it is small, then two, then none.
func money(c float64) string {
	if c >= 1000 {
		return strconv.FormatFloat(c, 'f', 0, 64)
	}
	if c < 1 {
		return strconv.FormatFloat(c, 'f', 4, 64)
	}
	return strconv.FormatFloat(c, 'f', 2, 64)
}

// duration is a time to go in two units: 3h12m, 4m05s, 12s.
func duration(d time.Duration) string {
	s := int64((d + time.Second/2) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60)
	case s < 100*3600:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd%02dh", s/86400, s/3600%24)
}

// coarse is a time to go in one unit.
func coarse(d time.Duration) string {
	s := int64((d + time.Second/2) / time.Second)
	switch {
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm", (s+30)/60)
	case s < 100*3600:
		return fmt.Sprintf("%dh%02d", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd", s/86400)
}
