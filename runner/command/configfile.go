package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
	"go.yaml.in/yaml/v3"
)

// fromFile sets what neither the command line nor the environment set, from
// the YAML file that --config names: a mapping of flag names to values, and
// "prices", a mapping of models to prices per million tokens.
func fromFile(c *cli.Context, o *options, names []string) error {
	root, err := readYAML(o.config)
	if err != nil || root == nil {
		return err
	}
	file := o.config
	names = slices.DeleteFunc(slices.Clone(names), func(n string) bool { return n == "config" })
	known := append(slices.Clone(names), "prices")
	seen := map[string]int{}
	for i := 0; i+1 < len(root.Content); i += 2 {
		key, value := root.Content[i], root.Content[i+1]
		if err := knownKey(file, key, known, seen); err != nil {
			return err
		}
		if key.Value == "prices" {
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
		if err := c.Set(name, v.Value); err != nil {
			return badValue(where, v.Value, lookup(c.Command, name))
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

// readPrices reads the prices section: models to mappings of input, output,
// cache-read and cache-write, money per million tokens.
func readPrices(file string, n *yaml.Node) (map[string]price, error) {
	n = resolve(n)
	if n.Kind != yaml.MappingNode {
		return nil, usagef("%s:%d: prices: want a mapping of models to prices", file, n.Line).
			hint("such as prices: {my-model: {input: 3, output: 15}}")
	}
	prices := map[string]price{}
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

func readPrice(file string, n *yaml.Node) (p price, err error) {
	if n.Kind != yaml.MappingNode {
		return p, usagef("%s:%d: prices: want input and output, money per million tokens", file, n.Line)
	}
	p.cacheRead, p.cacheWrite = -1, -1
	fields := map[string]*float64{"input": &p.input, "output": &p.output, "cache-read": &p.cacheRead, "cache-write": &p.cacheWrite}
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
	return p.complete(), nil
}

// complete prices cached input like other input where nothing was said (-1).
func (p price) complete() price {
	if p.cacheRead < 0 {
		p.cacheRead = p.input
	}
	if p.cacheWrite < 0 {
		p.cacheWrite = p.input
	}
	return p
}
