package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"

	"llmbatch/runner"
	"llmbatch/runner/provider"
)

// fromFile sets what neither the command line nor the environment set, from
// the YAML file that --config names: a mapping of flag names to values, and
// "prices", a mapping of models to prices per million tokens.
func fromFile(c *cli.Context, o *options) error {
	root, err := readYAML(o.config)
	if err != nil || root == nil {
		return err
	}
	file := o.config
	known := slices.DeleteFunc(settingNames(c.Command.Flags), func(n string) bool { return n == "config" || n == "json" })
	seen := map[string]int{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if err := knownKey(file, key, known, seen); err != nil {
			return err
		}
		if key.Value == "prices" && resolve(value).Kind != yaml.ScalarNode { // else the name of a file, as with --prices
			if o.prices, err = readPrices(file, value); err != nil {
				return err
			}
			continue
		}
		if o.from[key.Value] != fromDefault {
			continue
		}
		if err := setFromNode(c, file, key.Value, value); err != nil {
			return err
		}
		o.from[key.Value] = fmt.Sprintf("%s:%d", file, key.Line)
	}
	return nil
}

// readYAML returns the mapping of a file, nil if the file is empty.
func readYAML(file string) (*yaml.Node, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, usagef("settings: %w", err)
	}
	var doc yaml.Node
	d := yaml.NewDecoder(strings.NewReader(string(data)))
	if err := d.Decode(&doc); err != nil {
		if errors.Is(err, io.EOF) {
			return nil, nil
		}
		return nil, usagef("%s: %s", file, strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := d.Decode(new(yaml.Node)); !errors.Is(err, io.EOF) {
		return nil, usagef("%s holds more than one document", file)
	}
	root := doc.Content[0]
	if root.Kind == yaml.ScalarNode && root.Tag == "!!null" {
		return nil, nil
	}
	if root.Kind != yaml.MappingNode {
		return nil, usagef("%s:%d: want a mapping of flag names to values", file, root.Line).hint("such as max-errors: 3")
	}
	return root, nil
}

// knownKey refuses keys that are not in known and keys that come twice.
func knownKey(file string, key *yaml.Node, known []string, seen map[string]int) error {
	if !slices.Contains(known, key.Value) {
		f := usagef("%s:%d: unknown key %q", file, key.Line, key.Value)
		if near := nearest(key.Value, known); near != "" {
			f.hint("did you mean %s?", near)
		}
		return f
	}
	if line := seen[key.Value]; line != 0 {
		return usagef("%s:%d: %s is already set in line %d", file, key.Line, key.Value, line)
	}
	seen[key.Value] = key.Line
	return nil
}

// setFromNode hands a scalar, or each of a list for a repeatable flag, to the
// flag's parser.
func setFromNode(c *cli.Context, file, name string, value *yaml.Node) error {
	value = resolve(value)
	if name == "params" && value.Kind == yaml.MappingNode { // written as YAML, sent as JSON
		var params map[string]any
		if err := value.Decode(&params); err != nil {
			return usagef("%s:%d: params: %w", file, value.Line, err)
		}
		text, err := json.Marshal(params)
		if err != nil {
			return usagef("%s:%d: params: %w", file, value.Line, err)
		}
		return setFlag(c, file, name, string(text))
	}
	values := []*yaml.Node{value}
	if value.Kind == yaml.SequenceNode && repeatable(lookup(c.Command, name)) {
		values = value.Content
	}
	for _, v := range values {
		v = resolve(v)
		where := fmt.Sprintf("%s:%d: %s", file, v.Line, name)
		if v.Kind != yaml.ScalarNode {
			return usagef("%s: want a single value", where)
		}
		if v.Tag == "!!null" {
			return usagef("%s: no value", where)
		}
		if err := setFlag(c, where, name, v.Value); err != nil {
			return err
		}
	}
	return nil
}

func resolve(n *yaml.Node) *yaml.Node {
	if n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// pricesFrom reads a file of --prices: a mapping like the prices section, or the JSON
// that LiteLLM publishes, whose prices are for one token.
func pricesFrom(file string) (map[string]runner.Price, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, usagef("--prices: %w", err)
	}
	prices := map[string]runner.Price{}
	var models map[string]json.RawMessage
	if json.Unmarshal(data, &models) == nil {
		for name, raw := range models {
			if p, ok := liteLLMPrice(raw); ok {
				prices[name] = p
			}
		}
	}
	if len(prices) > 0 {
		return prices, nil
	}
	root, err := readYAML(file)
	if err != nil {
		return nil, err
	}
	if root != nil && len(root.Content) == 2 && root.Content[0].Value == "prices" { // the section with its name
		root = resolve(root.Content[1])
	}
	if root == nil {
		return nil, usagef("--prices: %s holds no prices", file)
	}
	return readPrices(file, root)
}

// liteLLMPrice reads a model of LiteLLM's list; ok is false where it has no price.
func liteLLMPrice(raw json.RawMessage) (p runner.Price, ok bool) {
	var m struct {
		Input      *float64 `json:"input_cost_per_token"`
		Output     *float64 `json:"output_cost_per_token"`
		CacheRead  *float64 `json:"cache_read_input_token_cost"`
		CacheWrite *float64 `json:"cache_creation_input_token_cost"`
	}
	if json.Unmarshal(raw, &m) != nil || m.Input == nil && m.Output == nil {
		return p, false
	}
	million := func(p *float64, other float64) float64 {
		if p == nil {
			return other
		}
		return *p * 1e6
	}
	p = runner.Price{Input: million(m.Input, 0), Output: million(m.Output, 0)}
	p.CacheRead, p.CacheWrite = million(m.CacheRead, p.Input), million(m.CacheWrite, p.Input)
	return p, true
}

// readPrices reads the prices section: models to mappings of input, output,
// cache-read and cache-write, money per million tokens.
func readPrices(file string, n *yaml.Node) (map[string]runner.Price, error) {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		return nil, usagef("%s:%d: prices: want a mapping of models to prices", file, n.Line).
			hint("such as prices: {my-model: {input: 3, output: 15}}")
	}
	prices := map[string]runner.Price{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		model, value := n.Content[i], resolve(n.Content[i+1])
		if _, twice := prices[model.Value]; twice {
			return nil, usagef("%s:%d: prices: model %s comes twice", file, model.Line, model.Value)
		}
		p, err := readPrice(file, value)
		if err != nil {
			return nil, err
		}
		prices[model.Value] = p
	}
	return prices, nil
}

func readPrice(file string, n *yaml.Node) (p runner.Price, err error) {
	if n.Kind != yaml.MappingNode {
		return p, usagef("%s:%d: prices: want input and output, money per million tokens", file, n.Line)
	}
	p.CacheRead, p.CacheWrite = -1, -1
	fields := map[string]*float64{"input": &p.Input, "output": &p.Output, "cache-read": &p.CacheRead, "cache-write": &p.CacheWrite}
	seen := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], resolve(n.Content[i+1])
		if err := knownKey(file, key, []string{"input", "output", "cache-read", "cache-write"}, seen); err != nil {
			return p, err
		}
		v, err := strconv.ParseFloat(value.Value, 64)
		if err != nil || !(v >= 0) || v > 1e12 {
			return p, usagef("%s:%d: prices: %s: %q is not a price", file, value.Line, key.Value, value.Value)
		}
		*fields[key.Value] = v
	}
	return withCachePrices(p), nil
}

// withCachePrices prices cached input like other input where nothing was said (-1).
func withCachePrices(p runner.Price) runner.Price {
	if p.CacheRead < 0 {
		p.CacheRead = p.Input
	}
	if p.CacheWrite < 0 {
		p.CacheWrite = p.Input
	}
	return p
}

// price is what a model's tokens cost; false if that is not known. The price
// flags hold for all models. Those of the command line and the environment come
// before the prices section of the settings file, those of the file itself after.
func (o *options) price(model string) (runner.Price, bool) {
	general, typed := o.generalPrice()
	if typed {
		return general, true
	}
	for _, name := range []string{model, dated.ReplaceAllString(model, "")} {
		if p, ok := o.prices[name]; ok {
			return p, true
		}
	}
	return general, general != runner.Price{}
}

// dated is the date at the end of a model's full name.
var dated = regexp.MustCompile(`-(20\d{6}|20\d\d-\d\d-\d\d)$`)

// generalPrice is that of the flags; typed means not from the settings file.
func (o *options) generalPrice() (p runner.Price, typed bool) {
	p = runner.Price{Input: o.priceInput, Output: o.priceOutput, CacheRead: o.priceCacheRead, CacheWrite: o.priceCacheWrite}
	for flag, cached := range map[string]*float64{"price-cache-read": &p.CacheRead, "price-cache-write": &p.CacheWrite} {
		if o.from[flag] == fromDefault {
			*cached = -1
		}
	}
	return withCachePrices(p), o.typed("price-input") || o.typed("price-output")
}

// printConfig writes the effective settings, each with where it came from, as a
// file that --config would take. What may be a key is hidden.
func printConfig(w io.Writer, c *cli.Context, o *options) error {
	for _, f := range inGroups(c.Command.Flags) {
		name := f.Names()[0]
		from, ok := o.from[name]
		if !ok || name == "config" || name == "prices" && len(o.prices) > 0 {
			continue
		}
		comment := ""
		if value := strings.Join(valuesOf(c, name), ""); from == fromDefault && (value == "" || value == "0" || value == "0s") {
			comment = "# " // it means "none"
		}
		fmt.Fprintf(w, "%s%s: %s  # %s\n", comment, name, shownValue(c, name), from)
	}
	if len(o.prices) > 0 {
		fmt.Fprintln(w, "prices:")
	}
	for _, model := range slices.Sorted(maps.Keys(o.prices)) {
		p := o.prices[model]
		fmt.Fprintf(w, "  %s: {input: %g, output: %g, cache-read: %g, cache-write: %g}  # %s\n",
			quoteYAML(model), p.Input, p.Output, p.CacheRead, p.CacheWrite, orElse(o.pricesFile, o.config))
	}
	return nil
}

// shownValue is a flag's value in YAML, without what may be a key.
func shownValue(c *cli.Context, name string) string {
	if repeatable(lookup(c.Command, name)) {
		var shown []string
		for _, v := range valuesOf(c, name) {
			shown = append(shown, doubleQuoted(provider.HideHeader(v)))
		}
		return "[" + strings.Join(shown, ", ") + "]"
	}
	switch v := c.Value(name).(type) {
	case time.Duration:
		return shortDuration(v)
	case string:
		if name == "base-url" {
			v = provider.HideURL(v)
		}
		return quoteYAML(v)
	default:
		return fmt.Sprint(v)
	}
}

// quoteYAML writes s as one YAML scalar on one line.
func quoteYAML(s string) string {
	if s == "" || strings.ContainsAny(s, "\n,[]{}#") {
		return doubleQuoted(s)
	}
	return marshalled(s)
}

func doubleQuoted(s string) string {
	return marshalled(&yaml.Node{Kind: yaml.ScalarNode, Value: s, Style: yaml.DoubleQuotedStyle})
}

func marshalled(v any) string {
	out, err := yaml.Marshal(v)
	if err != nil {
		return "?"
	}
	return strings.TrimRight(string(out), "\n")
}
