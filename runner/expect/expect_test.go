package expect

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func parse(t *testing.T, setting string) Check {
	t.Helper()
	check, err := Parse(setting)
	if err != nil {
		t.Fatal(err)
	}
	return check
}

func schemaFile(t *testing.T, schema string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "schema.json")
	if err := os.WriteFile(path, []byte(schema), 0o600); err != nil {
		t.Fatal(err)
	}
	return "@" + path
}

func TestJSON(t *testing.T) {
	t.Parallel()
	check := parse(t, "json")
	for text, want := range map[string]string{
		`{"a":1}`: "", " [1, 2]\n": "", `"x"`: "", "12": "", "null": "",
		"":                        "the answer is empty, not JSON",
		"Sure! {\"a\":1}":         "the answer is not JSON: invalid character 'S'",
		`{"a":1} done`:            "the answer is not JSON: something follows",
		"```json\n{\"a\":1}\n```": "the answer is not JSON",
		`{"a":`:                   "the answer is not JSON: unexpected EOF",
	} {
		err := check(text)
		if got := ""; err != nil {
			got = err.Error()
			if want == "" || !strings.HasPrefix(got, want) {
				t.Errorf("%q: got %q, want %q", text, got, want)
			}
		} else if want != "" {
			t.Errorf("%q: got no error, want %q", text, want)
		}
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	check := parse(t, schemaFile(t, `{"type":"object","required":["label"],"properties":{"label":{"enum":["positive","negative"]},"n":{"$ref":"#/$defs/n"}},"$defs":{"n":{"type":"integer","maximum":9007199254740993}}}`))
	for text, want := range map[string]string{
		`{"label":"positive"}`:                      "",
		`{"label":"negative","n":9007199254740993}`: "",
		`{"label":"negative","n":9007199254740994}`: "/n:",
		`{"label":"neutral"}`:                       "/label: value must be one of 'positive', 'negative'",
		`{}`:                                        "the answer: missing property 'label'",
		`[]`:                                        "the answer: got array, want object",
		`positive`:                                  "the answer is not JSON",
	} {
		err := check(text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.HasPrefix(err.Error(), want)) {
			t.Errorf("%q: got %v, want %q", text, err, want)
		}
	}
}

// A setting that can't hold is refused before anything is sent, and a schema
// reaches nothing but itself.
func TestBadSettings(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{
		"yaml": "neither json nor @SCHEMA", "@": "neither json nor @SCHEMA", "@/no/such/file": "no such file",
		schemaFile(t, `{"type":`):                              "EOF",
		schemaFile(t, `{"type":"obj"}`):                        "schema.json",
		schemaFile(t, `{"$ref":"https://example.com/s.json"}`): "only to its own parts",
		schemaFile(t, `{"$ref":"file:///etc/passwd"}`):         "only to its own parts",
		schemaFile(t, `{"$ref":"other.json"}`):                 "only to its own parts",
	} {
		if _, err := Parse(setting); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want %q", setting, err, want)
		}
	}
}
