package command

import (
	"time"

	"github.com/urfave/cli/v2"
)

const groupBatch = "Batch API, at half price"

// batchOptions are the settings of --batch, each the value of the flag that it is
// named for.
type batchOptions struct {
	batch, batchDelete   bool
	batchWait, batchPoll time.Duration
	batchUntil, then     string
	batchSize            int
	batchQueue           int
	batchProbe           int
	batchOpen            int
	batchPrice           float64
}

func batchFlags(o *options) []cli.Flag {
	return []cli.Flag{
		&cli.BoolFlag{Category: groupBatch, Name: "batch", Destination: &o.batch, Usage: "send through the provider's Batch API; the same command again collects"},
		&cli.DurationFlag{Category: groupBatch, Name: "batch-wait", Destination: &o.batchWait, DefaultText: "until they end, within --budget and --until",
			Usage: "`DURATION`: how long batches are waited for; 0: send what is new, take what has ended, leave with exit 4 while any is open"},
		&cli.StringFlag{Category: groupBatch, Name: "batch-until", Destination: &o.batchUntil, DefaultText: "none", Usage: "`TIME`: the same as a time, such as 05:00"},
		&cli.StringFlag{Category: groupBatch, Name: "then", Value: "batch", Destination: &o.then, Usage: "`WHAT`: batch, live (at full price) or stop, for what came back without an answer"},
		&cli.IntFlag{Category: groupBatch, Name: "batch-size", Value: 10_000, Destination: &o.batchSize, Usage: "`N`: most requests a batch, within the API's own limits"},
		&cli.IntFlag{Category: groupBatch, Name: "batch-queue", Destination: &o.batchQueue, DefaultText: "learned", Usage: "`N`: most tokens that a model's open batches may have"},
		&cli.Float64Flag{Category: groupBatch, Name: "batch-price", Value: 0.5, Destination: &o.batchPrice, Usage: "`FACTOR`: on the prices, for what a batch answers"},
		&cli.IntFlag{Category: groupBatch, Name: "batch-probe", Value: 1, Destination: &o.batchProbe, Usage: "`N`: items of each model that are sent live first, to see that they pass; 0: none"},
		&cli.BoolFlag{Category: groupBatch, Name: "batch-delete", Destination: &o.batchDelete, Usage: "delete a batch's files at the provider once its rows are on disk"},
		&cli.DurationFlag{Category: groupBatch, Hidden: true, Name: "batch-poll", Value: 30 * time.Second, Destination: &o.batchPoll, Usage: "`DURATION`: the first look at a batch, and the least time between two"},
		&cli.IntFlag{Category: groupBatch, Hidden: true, Name: "batch-open", Value: 50, Destination: &o.batchOpen, Usage: "`N`: most batches that are open at a time"},
	}
}

// checkBatch refuses settings that contradict --batch.
func checkBatch(o *options) error {
	if !o.batch {
		for _, flag := range []string{"batch-wait", "batch-until", "then", "batch-size", "batch-queue", "batch-price", "batch-probe", "batch-delete", "batch-poll", "batch-open"} {
			if o.from[flag] == "flag" {
				return usagef("--%s is for --batch", flag)
			}
		}
		return nil
	}
	switch {
	case o.out == "-":
		return usagef("--batch needs a results file: batches outlast the run").hint("name one with -o FILE")
	case o.batchPoll <= 0:
		return usagef("%s: it must be more than 0", label(o, "batch-poll"))
	case o.batchSize < 1 || o.batchOpen < 1:
		return usagef("%s and %s must be at least 1", label(o, "batch-size"), label(o, "batch-open"))
	case o.batchUntil != "" && o.waitGiven():
		return usagef("%s and %s exclude each other", label(o, "batch-until"), label(o, "batch-wait"))
	}
	return nil
}

// waitGiven says that --batch-wait was set; 0 is a value of its own.
func (o *options) waitGiven() bool { return o.from["batch-wait"] != fromDefault }
