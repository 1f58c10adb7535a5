package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// TestTheMostTellingFaults makes a few faults of the catalogue once, all in one world
// behind nginx. `make chaos` makes all of them, behind both load balancers.
func TestTheMostTellingFaults(t *testing.T) {
	needs(t, "nginx", "redis-server")
	dir := t.TempDir()
	program := filepath.Join(dir, "drawbridge")
	world.Build(t.Context(), program)
	var jobs []job
	telling := []string{
		"a replica is killed", "a replica is stopped", "Redis is killed and begins empty",
		"Redis freezes", "replica to server: resets",
	}
	for seed, name := range telling {
		f := named(t, name)
		f.ground = direct // it has the proxies that these need
		jobs = append(jobs, job{fault: f, balancer: "nginx", seed: uint64(seed)})
	}
	r := &runner{dir: filepath.Join(dir, "nginx"), program: program, log: t.Output()}
	r.run(t.Context(), jobs)
	for _, o := range r.outcomes {
		if o.bad() {
			t.Errorf("%s\n%q", o, o.verdict.Samples)
		}
	}
}

// needs passes a test over where a program is missing, but not in CI.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, program := range programs {
		if _, err := exec.LookPath(program); err != nil && !exists("/usr/sbin/"+program) {
			if slices.Contains(os.Environ(), "CI=true") {
				t.Fatal(err)
			}
			t.Skip(program, "is not installed; .ci/setup installs it")
		}
	}
}

func exists(path string) bool {
	_, err := os.Stat(filepath.Clean(path))
	return err == nil
}

// named returns a fault of the catalogue.
func named(t *testing.T, name string) *fault {
	t.Helper()
	all := catalogue()
	at := slices.IndexFunc(all, func(f *fault) bool { return f.name == name })
	if at < 0 {
		t.Fatalf("there is no fault %q", name)
	}
	return all[at]
}
