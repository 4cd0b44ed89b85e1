package live

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/schollz/progressbar/v3"
)

// Status is the state of a run at one moment. Counts are of items unless they
// say otherwise.
type Status struct {
	Total    int // items of the run; -1: unknown, the input is a pipe
	Done     int // items with a final row, those of earlier runs included if Total counts them
	OK       int
	Failed   int
	GaveUp   int
	Waiting  int // between two attempts, or for a gate
	InFlight int // requests on the wire
	Limit    int // requests that may be on the wire now, over all lanes
	// Throttled counts answers that said "too many requests" (429).
	Throttled    int64
	Requests     int64 // requests sent
	OutputTokens int64
	InputTokens  int64
	Cost         float64 // in the unit of the prices
	HasCost      bool    // false: no prices are known
	// Gate is until when nothing is launched, GateReason why; a time in the past: open.
	Gate       time.Time
	GateReason string
	Lanes      int           // lanes in use; more than 1 is shown
	Elapsed    time.Duration // since the run began
	Note       string        // a word on what the run is doing now: "stopping", …
}

// gated tells whether the gate is shut now.
func (s Status) gated(now time.Time) bool { return s.Gate.After(now) }

// segment is one figure of the line.
type segment struct {
	long, short string
	rank        int // what is left out first has the highest
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
	return segment{long + " " + number(int64(n)), short + " " + number(int64(n)), rank}
}

// segments are the figures of the bar mode's line, in the order of their places.
func segments(s Status, r *rates, now time.Time) []segment {
	done := number(int64(s.Done))
	if s.Total >= 0 {
		done += "/" + number(int64(s.Total))
	}
	segs := []segment{{done, done, rankCount}}
	if s.Note != "" {
		note := Sanitize(s.Note)
		segs = append(segs, segment{note, note, rankGate})
	}
	if s.gated(now) {
		// The date as soon as the hour alone could be taken for another day's.
		layout := "15:04:05"
		if s.Gate.Sub(now) > 12*time.Hour {
			layout = "Jan 2 15:04"
		}
		until := "paused until " + s.Gate.In(now.Location()).Format(layout)
		short := "until " + s.Gate.In(now.Location()).Format(strings.TrimSuffix(layout, ":05"))
		if why := Sanitize(s.GateReason); why != "" {
			until, short = until+" ("+clip(why, 40)+")", short+" "+clip(why, 12)
		}
		segs = append(segs, segment{until, short, rankGate})
	}
	fly := fmt.Sprintf("%s/%s", number(int64(s.InFlight)), number(int64(s.Limit)))
	segs = append(segs,
		count("ok", "ok", s.OK, rankOK),
		count("failed", "fail", s.Failed+s.GaveUp, rankFailed),
		count("waiting", "wait", s.Waiting, rankWaiting),
		segment{"in flight " + fly, "fly " + fly, rankFlight},
		count("429s", "429s", s.Throttled, rankThrottled))
	if t := r.tokens(); t >= 0.5 {
		segs = append(segs, segment{number(int64(t+0.5)) + " tokens/s", number(int64(t+0.5)) + "/s", rankTokens})
	} else {
		segs = append(segs, segment{"0 tokens/s", "0/s", rankTokens + rankZero})
	}
	if s.HasCost {
		segs = append(segs, segment{"cost " + money(s.Cost), money(s.Cost), rankCost})
	}
	if s.Lanes > 1 {
		segs = append(segs, segment{number(int64(s.Lanes)) + " lanes", number(int64(s.Lanes)) + " lanes", rankLanes})
	}
	if eta, ok := r.eta(s, now); ok {
		segs = append(segs, segment{"ETA " + duration(eta), "ETA " + coarse(eta), rankETA})
	}
	return segs
}

// The bar's width in columns: below the least it says nothing, above the most it
// takes room from nothing but looks.
const (
	minBar = 3
	maxBar = 24
)

// barLine is the line of the bar mode, at most width-1 columns long: a full last
// column makes some terminals wrap.
func barLine(s Status, r *rates, width int) string {
	room := max(width-1, 1)
	frame := len("100% ") + len("  ")
	if s.Total <= 0 {
		frame = len("⠋") // a spinner of one column and a space
	}
	segs := segments(s, r, time.Now())
	text := fit(segs, room-frame-minBar)
	if s.Total <= 0 {
		return clip(spinner(s, text), room)
	}
	bar := min(maxBar, room-frame-utf8.RuneCountInString(text))
	if bar < minBar { // too narrow for any bar
		return clip(text, room)
	}
	return clip(drawBar(s, bar)+"  "+text, room)
}

// fit joins segments to at most room columns: the long forms if they fit, else
// the short ones, without the least needed as long as there are too many.
func fit(segs []segment, room int) string {
	long := join(segs, func(s segment) string { return s.long })
	if utf8.RuneCountInString(long) <= room {
		return long
	}
	segs = append([]segment(nil), segs...)
	for {
		text := join(segs, func(s segment) string { return s.short })
		if utf8.RuneCountInString(text) <= room || len(segs) == 1 {
			return text
		}
		last := 0
		for i, s := range segs {
			if s.rank >= segs[last].rank {
				last = i
			}
		}
		segs = append(segs[:last], segs[last+1:]...)
	}
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
func plainLine(s Status, r *rates) string {
	now := time.Now()
	var b strings.Builder
	fmt.Fprintf(&b, "%s progress: %d", now.Format(time.DateTime), s.Done)
	if s.Total >= 0 {
		fmt.Fprintf(&b, "/%d", s.Total)
	}
	fmt.Fprintf(&b, " done, %d ok, %d failed, %d gave up, %d waiting, %d/%d in flight, 429s %d, %s tokens/s",
		s.OK, s.Failed, s.GaveUp, s.Waiting, s.InFlight, s.Limit, s.Throttled, number(int64(r.tokens()+0.5)))
	if s.HasCost {
		b.WriteString(", cost " + money(s.Cost))
	}
	if s.Lanes > 1 {
		fmt.Fprintf(&b, ", %d lanes", s.Lanes)
	}
	if eta, ok := r.eta(s, now); ok {
		b.WriteString(", ETA " + duration(eta))
	}
	if s.gated(now) {
		b.WriteString(", paused until " + s.Gate.In(now.Location()).Format(time.DateTime))
		if s.GateReason != "" {
			b.WriteString(" (" + s.GateReason + ")")
		}
	}
	if s.Note != "" {
		b.WriteString(", " + s.Note)
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

// scaled cuts, never rounds up: 999,999 of a million is not "1.0M" of them.
func scaled(f float64) string {
	if f >= 100 {
		return strconv.Itoa(int(f))
	}
	tenths := int(f * 10)
	return strconv.Itoa(tenths/10) + "." + strconv.Itoa(tenths%10)
}

// money shows four decimals while it is small, two later.
func money(c float64) string {
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
