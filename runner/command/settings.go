package command

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// fromDefault is the source of a setting that nobody set.
const fromDefault = "default"

// settle completes the flags that the command line did not set, from the
// environment, then from the settings file, and checks the whole. Each value
// goes through the flag's own parser. o must be what the flags write to.
func settle(c *cli.Context, e *env, o *options) error {
	o.from = map[string]string{}
	names := settingNames(c.Command.Flags)
	typed := c.LocalFlagNames()
	for _, name := range names {
		o.from[name] = fromDefault
		if slices.Contains(typed, name) {
			o.from[name] = "flag"
			continue
		}
		if err := fromEnvironment(c, e, o, name); err != nil {
			return err
		}
	}
	if o.config != "" {
		if err := fromFile(c, o, names); err != nil {
			return err
		}
	}
	return check(o)
}

// settingNames are the flags that can be set elsewhere than on the command line.
func settingNames(flags []cli.Flag) []string {
	var names []string
	for _, name := range flagNames(flags) {
		switch name {
		case "help", "help-all", "print-config", "json":
		default:
			names = append(names, name)
		}
	}
	return names
}

// envName is the variable of a flag: LLMBATCH_MAX_ERRORS for max-errors.
func envName(flag string) string {
	return "LLMBATCH_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment sets a flag from its variable.
func fromEnvironment(c *cli.Context, e *env, o *options, name string) error {
	variable := envName(name)
	set, err := setFrom(e, c, variable, name)
	if set {
		o.from[name] = variable
	}
	return err
}

func repeatable(f cli.Flag) bool {
	d, ok := f.(cli.DocGenerationSliceFlag)
	return ok && d.IsSliceFlag()
}

// badValue says what a flag wants instead of value; where names the place.
func badValue(where, value string, f cli.Flag) *failure {
	want := ""
	switch f.(type) {
	case *cli.BoolFlag:
		want = "true or false"
	case *cli.IntFlag, *cli.Uint64Flag:
		want = "a whole number"
	case *cli.Float64Flag:
		want = "a number"
	case *cli.DurationFlag:
		return usagef("%s: %q is not a duration", where, value).hint("a duration has a unit, such as 90s, 30m or 6h")
	default:
		return usagef("%s: invalid value %q", where, value)
	}
	return usagef("%s: want %s, not %q", where, want, value)
}

// check looks at the settings as a whole.
func check(o *options) error {
	for _, c := range choices(o) {
		if !c.has() {
			f := usagef("%s: %q is not one of %s", c.label(o), c.value, strings.Join(c.of, ", "))
			if near := nearest(c.value, c.of); near != "" {
				f.hint("did you mean %s?", near)
			}
			return f
		}
	}
	for _, n := range ranges(o) {
		if !(n.value >= n.least) || n.most > 0 && n.value > n.most || math.IsInf(n.value, 0) {
			return usagef("%s: %v is out of range: %s", label(o, n.flag), trimFloat(n.value), n.says)
		}
	}
	return checkTogether(o)
}

// label names a setting by where it came from.
func label(o *options, flag string) string {
	if from := o.from[flag]; from != "" && from != "flag" && from != fromDefault {
		return fmt.Sprintf("%s (--%s)", from, flag)
	}
	return "--" + flag
}

type choice struct {
	flag, value string
	of          []string
}

func (c choice) label(o *options) string { return label(o, c.flag) }

func (c choice) has() bool {
	for _, v := range c.of {
		if v == c.value {
			return true
		}
	}
	return false
}

func choices(o *options) []choice {
	return []choice{
		{"provider", o.provider, []string{"auto", "anthropic", "openai", "mock"}},
		{"endpoint", o.endpoint, []string{"chat", "responses"}},
		{"progress", o.progress, []string{"auto", "bar", "log", "none"}},
		{"on-long-wait", o.onLongWait, []string{"give-up", "cap"}},
		{"on-cut", o.onCut, []string{"restart", "continue"}},
		{"continue-style", o.continueStyle, []string{"user", "prefill"}},
		{"on-changed", o.onChanged, []string{"error", "rerun"}},
		{"log-format", o.logFormat, []string{"text", "json"}},
	}
}

type bound struct {
	flag               string
	value, least, most float64 // most 0: none
	says               string
}

func ranges(o *options) []bound {
	const notNegative = "it can't be negative"
	return []bound{
		{"concurrency", float64(o.concurrency), 1, 100_000, "1 to 100000"},
		{"start-concurrency", float64(o.startConcurrency), 1, 0, "at least 1"},
		{"max-tokens", float64(o.maxTokens), 0, 0, notNegative},
		{"rpm", o.rpm, 0, 0, notNegative},
		{"tpm", o.tpm, 0, 0, notNegative},
		{"budget", o.budget.Seconds(), 0, 0, notNegative},
		{"item-budget", o.itemBudget.Seconds(), 0, 0, notNegative},
		{"attempt-timeout", o.attemptTimeout.Seconds(), 0, 0, notNegative},
		{"idle-timeout", o.idleTimeout.Seconds(), 0, 0, notNegative},
		{"drain", o.drain.Seconds(), 0, 0, notNegative},
		{"max-wait", o.maxWait.Seconds(), 0, 0, notNegative},
		{"max-attempts", float64(o.maxAttempts), 0, 0, notNegative},
		{"max-errors", float64(o.maxErrors), 0, 0, notNegative},
		{"limit", float64(o.limit), 0, 0, notNegative},
		{"max-cost", o.maxCost, 0, 0, notNegative},
		{"price-input", o.priceInput, 0, 0, notNegative},
		{"price-output", o.priceOutput, 0, 0, notNegative},
		{"price-cache-read", o.priceCacheRead, 0, 0, notNegative},
		{"price-cache-write", o.priceCacheWrite, 0, 0, notNegative},
		{"aimd-increase", o.aimdIncrease, 0.001, 10, "0.001 to 10"},
		{"aimd-decrease", o.aimdDecrease, 0.1, 0.99, "0.1 to 0.99"},
	}
}

func trimFloat(f float64) string { return fmt.Sprintf("%g", f) }

// checkTogether refuses settings that contradict each other.
func checkTogether(o *options) error {
	// What a settings file says for other runs is no contradiction.
	set := func(flag string) bool { return o.from[flag] == "flag" || o.from[flag] == envName(flag) }
	switch {
	case o.template != "" && o.templateFile != "":
		return usagef("%s and %s exclude each other", label(o, "template"), label(o, "template-file"))
	case o.idField != "" && o.template == "" && o.templateFile == "":
		return usagef("%s is for lines rendered by a template", label(o, "id-field")).hint("add --template TEXT or --template-file FILE")
	case o.quiet && o.verbose:
		return usagef("%s and %s exclude each other", label(o, "quiet"), label(o, "verbose"))
	case o.onLongWait == "cap" && o.maxWait == 0:
		return usagef("%s needs --max-wait: the longest wait before it tries anyway", label(o, "on-long-wait"))
	case set("mock-scenario") && o.provider != "mock":
		return usagef("%s is for --provider mock", label(o, "mock-scenario"))
	case o.maxCost > 0 && !o.hasPrices():
		return usagef("%s needs prices", label(o, "max-cost")).
			hint("add --price-input and --price-output, per million tokens, or a prices section in the file of --config")
	case o.out == "-" && o.ordered:
		return usagef("%s needs a file: rows on standard output come as items finish", label(o, "ordered"))
	case o.out == "-" && o.fresh:
		return usagef("%s needs a results file", label(o, "fresh"))
	case set("start-concurrency") && o.startConcurrency > o.concurrency:
		return usagef("%s: %d is above --concurrency %d", label(o, "start-concurrency"), o.startConcurrency, o.concurrency)
	}
	return nil
}

func (o *options) hasPrices() bool {
	return o.priceInput > 0 || o.priceOutput > 0 || len(o.prices) > 0
}
