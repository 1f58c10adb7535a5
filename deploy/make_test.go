package deploy_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestMakeAloneListsEveryTarget compares what make prints without a target with the
// targets that there are.
func TestMakeAloneListsEveryTarget(t *testing.T) {
	makefile := read(t, "../Makefile")
	_, rest, _ := strings.Cut(makefile, "\n.PHONY: ")
	line, _, _ := strings.Cut(rest, "\n")
	out, code := run(t.Context(), t, "..", tool(t, "make", "make"), "--no-print-directory")
	if code != 0 {
		t.Fatalf("make: exit %d: %s", code, out)
	}
	targets := strings.Fields(line)
	for _, target := range targets {
		if !regexp.MustCompile(`(?m)^` + target + ` +[^ ]`).MatchString(out) {
			t.Errorf("make does not say what %s does:\n%s", target, out)
		}
	}
	if defined := regexp.MustCompile(`(?m)^[a-z-]+:`).FindAllString(makefile,
		-1); len(defined) != len(targets) {
		t.Errorf("the targets are %q, and .PHONY names %q", defined, targets)
	}
}

// TestVulnerabilitiesOfEveryModuleAreLookedFor runs the script in a repository of two
// modules, with a database that has nothing in it and a command that only says where it
// would look.
func TestVulnerabilitiesOfEveryModuleAreLookedFor(t *testing.T) {
	git := tool(t, "git", "git")
	dir := t.TempDir()
	for name, text := range map[string]string{
		".ci/vuln": read(t, "../.ci/vuln"), "go.mod": "module one\n", "deep/er/go.mod": "module two\n",
		"shared/vulndb/index/db.json": "{}",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, path, text)
	}
	for _, command := range [][]string{
		{git, "init", "-q"},
		{git, "add", "go.mod", "deep"},
		{"tar", "-czf", "shared/vulndb.tgz", "-C", "shared", "vulndb"},
		{"env", "DRAWBRIDGE_SHARED=shared", "bash", ".ci/vuln", "echo", "looks"},
	} {
		out, code := run(t.Context(), t, dir, command[0], command[1:]...)
		if code != 0 {
			t.Fatalf("%v: exit %d: %s", command, code, out)
		}
		if command[0] != "env" {
			continue
		}
		for _, module := range []string{".", "deep/er"} {
			if !strings.Contains(out, "looks -C "+module+" -db file://") {
				t.Errorf("the module in %s is not looked at:\n%s", module, out)
			}
		}
	}
}
