package interop_test

import (
	"encoding/json"
	"os"
	"path/filepath"
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

// readLock returns the packages of the lock file in a folder, by their place.
func readLock(t testing.TB, folder string) map[string]locked {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, "package-lock.json"))
	if err != nil {
		t.Fatal(err)
	}
	var lock struct{ Packages map[string]locked }
	if err := json.Unmarshal(data, &lock); err != nil {
		t.Fatal(err)
	}
	return lock.Packages
}

// TestNpmLockSuitsEveryPlatform shows that nothing in a lock file belongs to the machine
// that made it: what suits some platforms only is optional and there for all of them, and
// no package has an address to fetch it from, so that npm takes its registry.
func TestNpmLockSuitsEveryPlatform(t *testing.T) {
	t.Parallel()
	for _, folder := range []string{".", "agents"} {
		packages := readLock(t, folder)
		have := make(map[string]bool)
		for place := range packages {
			parts := strings.Split(place, "node_modules/") // a package may lie in another's folder
			have[parts[len(parts)-1]] = true
		}
		for place, p := range packages {
			if p.Resolved != "" || p.Integrity == "" && place != "" {
				t.Errorf("%s: %s: resolved %q, integrity %q; want a digest and no address", folder, place,
					p.Resolved, p.Integrity)
			}
			if len(p.OS)+len(p.CPU) > 0 && !p.Optional {
				t.Errorf("%s: %s is for %v %v only and not optional", folder, place, p.OS, p.CPU)
			}
			for name := range p.OptionalDependencies {
				if !have[name] {
					t.Errorf("%s: %s: the lock file lacks %s", folder, place, name)
				}
			}
		}
	}
}

// TestNpmLockHasOneNodeForEachPlatform looks at the package of Node.js itself, of which
// each platform has its own.
func TestNpmLockHasOneNodeForEachPlatform(t *testing.T) {
	t.Parallel()
	packages := readLock(t, ".")
	for _, system := range []string{"linux", "darwin", "win32"} {
		for _, processor := range []string{"x64", "arm64"} {
			nodes := 0
			for name := range packages[""].OptionalDependencies {
				if p := packages["node_modules/"+name]; p.OS.allow(system) && p.CPU.allow(processor) {
					nodes++
				}
			}
			if nodes != 1 {
				t.Errorf("%s %s: got %d packages of Node.js, want 1", system, processor, nodes)
			}
		}
	}
}
