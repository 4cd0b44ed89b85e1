// Package expect checks the text of an answer: that it is JSON, or that it is
// valid by a JSON Schema (draft 2020-12 unless the schema names another).
//
// A schema is read from one file. It may refer to its own parts, and to nothing
// else: no other file and no address is loaded.
package expect

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// Check says what is wrong with an answer's text, in words that a model can act
// on; nil if the text is as expected. It may be called by many goroutines.
type Check func(text string) error

// Parse reads the setting: "json", "@FILE" with a schema, or a schema itself.
func Parse(setting string) (Check, error) {
	if setting == "json" {
		return func(text string) error {
			_, err := value(text)
			return err
		}, nil
	}
	if strings.HasPrefix(setting, "{") {
		return schema("the schema", []byte(setting))
	}
	path, ok := strings.CutPrefix(setting, "@")
	if !ok || path == "" {
		return nil, fmt.Errorf("%q is neither json nor @SCHEMA", setting)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	return schema(path, data)
}

func schema(name string, data []byte) (Check, error) {
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	c := jsonschema.NewCompiler()
	c.UseLoader(noLoader{})
	const address = "schema.json"
	if err := c.AddResource(address, doc); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s, err := c.Compile(address)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return func(text string) error {
		v, err := value(text)
		if err != nil {
			return err
		}
		err = s.Validate(v)
		if invalid, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
			return errors.New(complaint(invalid))
		}
		return err
	}, nil
}

// noLoader keeps a schema from reading files or addresses.
type noLoader struct{}

// Load refuses every address.
func (noLoader) Load(url string) (any, error) {
	return nil, fmt.Errorf("%s: a schema may refer only to its own parts", url)
}

// value is the JSON that a text is: one value and nothing else.
func value(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		if err == io.EOF {
			return nil, errors.New("the answer is empty, not JSON")
		}
		return nil, fmt.Errorf("the answer is not JSON: %w", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("the answer is not JSON: something follows the first value")
	}
	return v, nil
}

// mostComplaints of a schema are told at once.
const mostComplaints = 5

// complaint names the places that a schema refuses, and why.
func complaint(err *jsonschema.ValidationError) string {
	p := message.NewPrinter(language.English)
	var said []string
	var walk func(*jsonschema.ValidationError)
	walk = func(e *jsonschema.ValidationError) {
		if len(e.Causes) == 0 && len(said) < mostComplaints {
			at := "/" + strings.Join(e.InstanceLocation, "/")
			said = append(said, cmp.Or(strings.TrimSuffix(at, "/"), "the answer")+": "+e.ErrorKind.LocalizedString(p))
		}
		for _, c := range e.Causes {
			walk(c)
		}
	}
	walk(err)
	return strings.Join(said, "; ")
}
