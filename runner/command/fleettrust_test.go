package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// faults-12: whoever starts a run can't have a worker's key or variables sent to a
// host of their own.
func TestAWorkerKeepsItsKey(t *testing.T) {
	t.Parallel()
	key := map[string]string{"OPENAI_API_KEY": "sk-of-the-worker"}
	for _, c := range []struct {
		name    string
		set     map[string][]string
		bases   map[string]string
		env     map[string]string
		trust   trust
		refused string
	}{
		{name: "the provider's own host", env: key},
		{name: "a stranger's host", set: map[string][]string{"base-url": {"http://thief/v1"}}, env: key, refused: "its key stays here"},
		{name: "a stranger's host, with a path of the provider", set: map[string][]string{"base-url": {"https://thief/api.openai.com/v1"}}, env: key, refused: "its key stays here"},
		{name: "the provider's host in the clear", set: map[string][]string{"base-url": {"http://api.openai.com/v1"}}, env: key, refused: "its key stays here"},
		{name: "another port", set: map[string][]string{"base-url": {"https://gw:8443/v1"}}, env: key, trust: trust{bases: []string{"https://gw/v1"}}, refused: "its key stays here"},
		{name: "a host it was told", set: map[string][]string{"base-url": {"https://GW/v2"}}, env: key, trust: trust{bases: []string{"https://gw/v1"}}},
		{name: "its own variable", set: map[string][]string{"base-url": {"https://gw/v1"}}, env: map[string]string{"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "https://gw/v1"}},
		{name: "the coordinator's variable", bases: map[string]string{"OPENAI_BASE_URL": "http://thief/v1"}, env: key, refused: "its key stays here"},
		{name: "the coordinator's variable, with one of its own", bases: map[string]string{"OPENAI_BASE_URL": "http://thief/v1"}, env: map[string]string{"OPENAI_API_KEY": "k", "OPENAI_BASE_URL": "https://gw/v1"}},
		{name: "no key here", set: map[string][]string{"base-url": {"http://local/v1"}}},
		{name: "a variable", set: map[string][]string{"header": {"X-Leak: env:DATABASE_URL"}}, refused: "--allow-env DATABASE_URL"},
		{name: "a variable that it may have", set: map[string][]string{"header": {"X-Org: env:ORG"}}, trust: trust{variables: []string{"ORG"}}},
		{name: "a variable to a stranger", set: map[string][]string{"header": {"X-Org: env:ORG"}, "base-url": {"http://thief/v1"}}, trust: trust{variables: []string{"ORG"}}, refused: "does not know that host"},
	} {
		o, err := optionsOf(c.set)
		if err != nil {
			t.Fatal(err)
		}
		e := &env{getenv: func(name string) string { return c.env[name] }}
		err = c.trust.allows(o, c.bases, e)
		said := ""
		if err != nil {
			said = err.Error() + strings.Join(err.(*failure).hints, " ")
		}
		if c.refused == "" && err != nil || !strings.Contains(said, c.refused) {
			t.Errorf("%s: got %v, want %q", c.name, said, c.refused)
		}
	}
}

// Flags that name files and commands of one machine never reach another.
func TestLocalFlagsStay(t *testing.T) {
	t.Parallel()
	fs := fleetSettings{Set: map[string][]string{"model": {"m"}, "api-key-file": {"/etc/shadow"}, "only-ids": {"x"}, "nats": {"y"}, "api-key-command": {"rm -rf /"}}}
	fs.leaveLocal()
	if len(fs.Set) != 1 || fs.Set["model"] == nil {
		t.Errorf("got %v, want the model alone", fs.Set)
	}
}

// fleet serve makes a token where none is named, and keeps it.
func TestServerToken(t *testing.T) {
	t.Parallel()
	f := &fleetOptions{store: filepath.Join(t.TempDir(), "store")}
	token, file, err := serverToken(f)
	if err != nil || len(token) < 16 {
		t.Fatalf("got %q, %v", token, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v, want a file that only its owner reads", info, err)
	}
	if again, _, err := serverToken(f); err != nil || again != token {
		t.Errorf("got %q, %v, want the same token", again, err)
	}
}
