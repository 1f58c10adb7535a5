package interop_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// locked is what the lock file says of a package.
type locked struct {
	Resolved, Integrity  string
	Optional             bool
	OS, CPU              names
	OptionalDependencies map[string]string
}

// names is a list of names, or one that stands alone.
type names []string

func (n *names) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '"' {
		*n = names{""}
		return json.Unmarshal(data, &(*n)[0])
	}
	return json.Unmarshal(data, (*[]string)(n))
}

// allow tells whether a name is among those that a package is for; none means all.
func (n names) allow(name string) bool { return len(n) == 0 || slices.Contains(n, name) }

// TestNpmLockSuitsEveryPlatform shows that nothing in the lock file belongs to the machine that made it: what suits some
// platforms only is optional and there for all of them, and no package has an address to fetch it from, so that npm takes
// its registry.
func TestNpmLockSuitsEveryPlatform(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile("package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	var lock struct{ Packages map[string]locked }
	if err := json.Unmarshal(data, &lock); err != nil {
		t.Fatal(err)
	}
	have := make(map[string]bool)
	for place := range lock.Packages {
		parts := strings.Split(place, "node_modules/") // a package may lie in another's folder
		have[parts[len(parts)-1]] = true
	}
	for place, p := range lock.Packages {
		if p.Resolved != "" || p.Integrity == "" && place != "" {
			t.Errorf("%s: resolved %q, integrity %q; want a digest and no address", place, p.Resolved, p.Integrity)
		}
		if len(p.OS)+len(p.CPU) > 0 && !p.Optional {
			t.Errorf("%s is for %v %v only and not optional", place, p.OS, p.CPU)
		}
		for name := range p.OptionalDependencies {
			if !have[name] {
				t.Errorf("%s: the lock file lacks %s", place, name)
			}
		}
	}
	for _, system := range []string{"linux", "darwin", "win32"} {
		for _, processor := range []string{"x64", "arm64"} {
			nodes := 0
			for name := range lock.Packages[""].OptionalDependencies {
				if p := lock.Packages["node_modules/"+name]; p.OS.allow(system) && p.CPU.allow(processor) {
					nodes++
				}
			}
			if nodes != 1 {
				t.Errorf("%s %s: got %d packages of Node.js, want 1", system, processor, nodes)
			}
		}
	}
}
