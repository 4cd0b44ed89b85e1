package command

import (
	"flag"
	"fmt"
	"maps"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"llmbatch/input"
	"llmbatch/runner/expect"
)

// fromDefault is the source of a setting that nobody set.
const fromDefault = "default"

// settle completes the flags that the command line did not set, from the
// environment, then from the settings file, and checks the whole. Each value
// goes through the flag's own parser. o must be what the flags write to.
func settle(c *cli.Context, e *env, o *options) (err error) {
	if o.from, err = fromEnvironment(c, e); err != nil {
		return err
	}
	if o.config != "" {
		if err := fromFile(c, o); err != nil {
			return err
		}
	}
	o.set = map[string][]string{}
	for name, from := range o.from {
		if from != fromDefault {
			o.set[name] = valuesOf(c, name)
		}
	}
	if err := check(c, o); err != nil {
		return err
	}
	if o.maxAnswerBytes, err = sizeOf(o.maxAnswer); err != nil {
		return usagef("%s: %w", label(o, "max-answer"), err)
	}
	return o.readFiles()
}

// readFiles replaces the settings that name a file by what is in it.
func (o *options) readFiles() error {
	read := func(flag, path string, into *string) error {
		data, err := os.ReadFile(path)
		if err != nil {
			return usagef("--%s: %w", flag, err)
		}
		*into = strings.TrimPrefix(string(data), "\ufeff")
		return nil
	}
	if o.systemFile != "" {
		if err := read("system-file", o.systemFile, &o.system); err != nil {
			return err
		}
		o.system = strings.TrimRight(o.system, "\r\n")
		delete(o.set, "system-file")
		o.set["system"] = []string{o.system}
	}
	if path, ok := strings.CutPrefix(o.params, "@"); ok {
		if err := read("params", path, &o.params); err != nil {
			return err
		}
		o.set["params"] = []string{o.params}
	}
	if path, ok := strings.CutPrefix(o.expect, "@"); ok {
		if _, err := expect.Parse(o.expect); err != nil {
			return usagef("%s: %w", label(o, "expect"), err)
		}
		if err := read("expect", path, &o.expect); err != nil {
			return err
		}
		o.expect = strings.TrimSpace(o.expect)
		o.set["expect"] = []string{o.expect}
	}
	if o.pricesFile == "" {
		return nil
	}
	prices, err := pricesFrom(o.pricesFile)
	if err != nil {
		return err
	}
	delete(o.set, "prices")
	maps.Copy(prices, o.prices) // a model in --config is the user's own word
	o.prices = prices
	return checkMoney(o)
}

// settingNames are the flags that can be set elsewhere than on the command line.
func settingNames(flags []cli.Flag) []string {
	return slices.DeleteFunc(flagNames(flags), func(name string) bool {
		return name == "help" || name == "help-all" || name == "print-config"
	})
}

// variableOf is the variable of a command's flag: LLMBATCH_MAX_ERRORS for
// max-errors. LLMBATCH_OUT names a run's results, and no other command may write
// over those: for export -o it is LLMBATCH_EXPORT_OUT.
func variableOf(c *cli.Command, flag string) string {
	if flag == "out" && !takesSettings(c) {
		flag = c.Name + "-" + flag
	}
	return "LLMBATCH_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}

// fromEnvironment sets the flags that the command line did not set from their
// variables, and says where each setting came from. An empty variable counts as
// unset. Repeatable flags take one value a line.
func fromEnvironment(c *cli.Context, e *env) (from map[string]string, err error) {
	if err := misspelt(e); err != nil {
		return nil, err
	}
	from = map[string]string{}
	typed := c.LocalFlagNames()
	for _, name := range settingNames(c.Command.Flags) {
		variable := variableOf(c.Command, name)
		value := e.getenv(variable)
		switch {
		case slices.Contains(typed, name):
			from[name] = "flag"
		case value == "":
			from[name] = fromDefault
		default:
			from[name] = variable
			values := []string{value}
			if repeatable(lookup(c.Command, name)) {
				values = strings.Split(strings.TrimRight(value, "\n"), "\n")
			}
			for _, v := range values {
				if err := setFlag(c, variable, name, v); err != nil {
					return nil, err
				}
			}
		}
	}
	return from, nil
}

// misspelt refuses a variable that is nearly one of ours: LLMBATCH_MAX_ERORS.
func misspelt(e *env) error {
	if e.environ == nil {
		return nil
	}
	var known []string
	for c := range leaves(newApp(e).Commands) {
		for _, name := range settingNames(c.Flags) {
			known = append(known, variableOf(c, name))
		}
	}
	for _, set := range e.environ() {
		name, _, _ := strings.Cut(set, "=")
		if !strings.HasPrefix(name, "LLMBATCH_") || slices.Contains(known, name) {
			continue
		}
		near := slices.MinFunc(known, func(a, b string) int { return input.Distance(name, a) - input.Distance(name, b) })
		if input.Distance(name, near) <= 2 {
			return usagef("%s is the variable of no flag", name).hint("did you mean %s?", near)
		}
	}
	return nil
}

// setFlag hands value to the flag's parser; where names the place it stands at.
func setFlag(c *cli.Context, where, name, value string) error {
	f := lookup(c.Command, name)
	given := value
	if !takesValue(f) {
		value = yesNo(value)
	}
	if err := c.Set(f.Names()[0], value); err != nil {
		return badValue(where, given, f)
	}
	return nil
}

// yesNo reads the words of people and of YAML for true and false.
func yesNo(value string) string {
	switch strings.ToLower(value) {
	case "yes", "on":
		return "true"
	case "no", "off":
		return "false"
	}
	return value
}

// list is the value of a flag that may be given several times. A comma in a value
// does not split it.
type list []string

func (l *list) String() string     { return strings.Join(*l, "\n") }
func (l *list) Set(v string) error { *l = append(*l, v); return nil }
func (l *list) Get() any           { return *l }

func repeatable(f cli.Flag) bool {
	_, ok := f.(*cli.GenericFlag)
	return ok
}

// valuesOf is what a flag was set to, as its parser would read it again.
func valuesOf(c *cli.Context, name string) []string {
	if f, ok := lookup(c.Command, name).(*cli.GenericFlag); ok {
		return *f.Value.(*list)
	}
	return []string{fmt.Sprint(c.Value(name))}
}

// optionsOf is the options that set makes of the flags of run, the others at their
// defaults: how a worker reads the settings of another machine.
func optionsOf(set map[string][]string) (*options, error) {
	o := &options{from: map[string]string{}, set: set}
	flags := flag.NewFlagSet("settings", flag.ContinueOnError)
	for _, f := range runFlags(o) {
		o.from[f.Names()[0]] = fromDefault
		if err := f.Apply(flags); err != nil {
			return nil, err
		}
	}
	for name, values := range set {
		o.from[name] = "flag"
		for _, v := range values {
			if err := flags.Set(name, v); err != nil {
				return nil, fmt.Errorf("--%s of the run: %w", name, err)
			}
		}
	}
	var err error
	o.maxAnswerBytes, err = sizeOf(o.maxAnswer)
	return o, err
}

// sizeOf reads a number of bytes with an optional unit: 1000000, 64MB, 8MiB.
func sizeOf(text string) (int64, error) {
	n, unit := text, strings.TrimLeft(text, "0123456789")
	n = strings.TrimSuffix(text, unit)
	size, err := strconv.ParseInt(n, 10, 64)
	by := map[string]int64{"": 1, "b": 1, "kb": 1e3, "mb": 1e6, "gb": 1e9, "k": 1 << 10, "kib": 1 << 10, "m": 1 << 20, "mib": 1 << 20, "g": 1 << 30, "gib": 1 << 30}[strings.ToLower(strings.TrimSpace(unit))]
	if err != nil || size < 1 || by == 0 || size > math.MaxInt64/by {
		return 0, fmt.Errorf("%q is not a size such as 64MB or 8MiB", text)
	}
	return size * by, nil
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
func check(c *cli.Context, o *options) error {
	for _, choice := range choices(o) {
		if !slices.Contains(choice.of, choice.value) {
			f := usagef("%s: %q is not one of %s", label(o, choice.flag), choice.value, strings.Join(choice.of, ", "))
			if near := nearest(choice.value, choice.of); near != "" {
				f.hint("did you mean %s?", near)
			}
			return f
		}
	}
	for _, name := range settingNames(c.Command.Flags) {
		least, most, says := rangeOf(name)
		n, is := numberOf(c.Value(name))
		if is && (!(n >= least) || n > most || math.IsInf(n, 0)) {
			return usagef("%s: %g is out of range: %s", label(o, name), n, says)
		}
	}
	return checkTogether(o)
}

// numberOf is the value of a flag that takes one, a duration's in seconds.
func numberOf(value any) (n float64, is bool) {
	switch v := value.(type) {
	case int:
		return float64(v), true
	case float64:
		return v, true
	case time.Duration:
		return v.Seconds(), true
	}
	return 0, false
}

// rangeOf is the least and the largest number that a flag takes.
func rangeOf(flag string) (least, most float64, says string) {
	switch flag {
	case "concurrency":
		return 1, 100_000, "1 to 100000"
	case "start-concurrency":
		return 1, math.Inf(1), "at least 1"
	case "aimd-increase":
		return 0.001, 10, "0.001 to 10"
	case "aimd-decrease":
		return 0.1, 0.99, "0.1 to 0.99"
	}
	return 0, math.Inf(1), "it can't be negative"
}

// label names a setting by where it came from.
func label(o *options, flag string) string {
	if from := o.from[flag]; from != "" && from != "flag" && from != fromDefault {
		return fmt.Sprintf("%s (--%s)", from, flag)
	}
	return "--" + flag
}

// typed says that a setting was given for this run: what a settings file says is
// for many.
func (o *options) typed(flag string) bool {
	return o.from[flag] == "flag" || strings.HasPrefix(o.from[flag], "LLMBATCH_")
}

type choice struct {
	flag, value string
	of          []string
}

func choices(o *options) []choice {
	return []choice{
		{"provider", o.provider, providerNames()},
		{"endpoint", o.endpoint, []string{"chat", "responses"}},
		{"progress", o.progress, []string{"auto", "bar", "log", "none"}},
		{"on-long-wait", o.onLongWait, []string{"give-up", "cap"}},
		{"on-cut", o.onCut, []string{"restart", "continue"}},
		{"continue-style", o.continueStyle, []string{"user", "prefill"}},
		{"on-changed", o.onChanged, []string{"error", "rerun"}},
		{"log-format", o.logFormat, []string{"text", "json"}},
		{"then", o.then, []string{"batch", "live", "stop"}},
	}
}
