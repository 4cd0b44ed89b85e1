package command

import "strings"

// checkTogether refuses settings that contradict each other.
func checkTogether(o *options) error {
	switch {
	case o.template != "" && o.templateFile != "":
		return usagef("%s and %s exclude each other", label(o, "template"), label(o, "template-file"))
	case o.dedupe && o.rerun:
		return usagef("%s and %s exclude each other", label(o, "dedupe"), label(o, "rerun"))
	case o.idField != "" && o.template == "" && o.templateFile == "":
		return usagef("%s is for lines rendered by a template", label(o, "id-field")).hint("add --template TEXT or --template-file FILE")
	case o.quiet && (o.verbose || o.debug):
		return usagef("%s and %s exclude each other", label(o, "quiet"), label(o, "verbose"))
	case o.onLongWait == "cap" && o.maxWait == 0:
		return usagef("%s needs --max-wait: the longest wait before it tries anyway", label(o, "on-long-wait"))
	case o.typed("mock-scenario") && o.provider != "mock":
		return usagef("%s is for --provider mock", label(o, "mock-scenario"))
	case o.verbose && o.debug:
		return usagef("%s and %s exclude each other", label(o, "verbose"), label(o, "very-verbose"))
	case o.system != "" && o.systemFile != "":
		return usagef("%s and %s exclude each other", label(o, "system"), label(o, "system-file"))
	case o.apiKeyCommand != "" && o.apiKeyFile != "":
		return usagef("%s and %s exclude each other", label(o, "api-key-command"), label(o, "api-key-file"))
	case o.expect != "" && o.expect != "json" && !strings.HasPrefix(o.expect, "@") && !strings.HasPrefix(o.expect, "{"):
		return usagef("%s: %q is neither json nor @SCHEMA", label(o, "expect"), o.expect)
	case o.reask != 0 && o.expect == "":
		return usagef("%s needs --expect: what an answer must be", label(o, "reask"))
	case o.reask < 0 || o.burst < 0:
		return usagef("--reask and --burst can't be negative")
	case o.burst > 0 && o.rpm == 0:
		return usagef("%s needs --rpm: how many requests a minute are allowed", label(o, "burst"))
	case o.rerun && o.onlyIDs == "":
		return usagef("%s needs --only-ids FILE: the ids to ask again for", label(o, "rerun")).hint("to ask for everything again: --fresh")
	case o.onlyIDs != "" && o.fresh:
		return usagef("%s with --fresh would drop the answers of all other items", label(o, "only-ids")).hint("to ask for these ids again and keep the others: --rerun instead of --fresh")
	case o.out == "-" && o.summary == "-":
		return usagef("the rows and the summary would both go to standard output").hint("name a file: --summary FILE, or -o FILE")
	case o.out == "-" && o.ordered:
		return usagef("%s needs a file: rows on standard output come as items finish", label(o, "ordered"))
	case o.out == "-" && o.fresh:
		return usagef("%s needs a results file", label(o, "fresh"))
	case o.typed("start-concurrency") && o.startConcurrency > o.concurrency:
		return usagef("%s: %d is above --concurrency %d", label(o, "start-concurrency"), o.startConcurrency, o.concurrency)
	}
	if err := checkBatch(o); err != nil {
		return err
	}
	if o.pricesFile != "" {
		return nil // read later
	}
	return checkMoney(o)
}

// checkMoney refuses a cap on money without prices.
func checkMoney(o *options) error {
	if o.maxCost == 0 || o.hasPrices() {
		return nil
	}
	return usagef("%s needs prices", label(o, "max-cost")).
		hint("add --price-input and --price-output, per million tokens, or --prices FILE, or a prices section in the file of --config")
}

func (o *options) hasPrices() bool {
	return o.priceInput > 0 || o.priceOutput > 0 || len(o.prices) > 0
}
