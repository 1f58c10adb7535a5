package deploy_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
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
// would look, and finds something in a package of the second module: first in none of
// the functions that are called, then in one of them.
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
	} {
		if out, code := run(t.Context(), t, dir, command[0], command[1:]...); code != 0 {
			t.Fatalf("%v: exit %d: %s", command, code, out)
		}
	}
	const looks = `echo "looks $*"; case "$*" in *deep*%s) exit 3; esac`
	looked := regexp.MustCompile("looks -C ([^ ]+) -db file://[^ ]+ (.*)")
	for finds, want := range map[string]struct {
		code  int
		where []string
	}{
		"*package*": {0, []string{"deep/er -scan package ./...", "deep/er ./...", ". -scan package ./..."}},
		"":          {3, []string{"deep/er -scan package ./...", "deep/er ./..."}},
	} {
		out, code := run(t.Context(), t, dir, "env", "DRAWBRIDGE_SHARED=shared", "bash", ".ci/vuln",
			"sh", "-c", fmt.Sprintf(looks, finds), "sh")
		var where []string
		for _, line := range looked.FindAllStringSubmatch(out, -1) {
			where = append(where, line[1]+" "+line[2])
		}
		if code != want.code || !slices.Equal(where, want.where) {
			t.Errorf("finds %q: exit %d, looked at %q, want %+v:\n%s", finds, code, where, want, out)
		}
	}
}

// TestARunNeverTestsTheFilesOfAnotherClone kills the shell of a run whose make goes on.
// The path that clones have in turn still leads to this clone, so another run must not
// take it.
func TestARunNeverTestsTheFilesOfAnotherClone(t *testing.T) {
	tool(t, "flock", "util-linux")
	first, second := clone(t), clone(t)
	cache := filepath.Join(t.TempDir(), "a cache")
	held := filepath.Join(first, "held")
	if out, code := run(t.Context(), t, first, tool(t, "mkfifo", "coreutils"), held); code != 0 {
		t.Fatal(out)
	}
	pipe, err := os.OpenFile(held, os.O_RDWR, 0) // both ends, so that opening it does not wait
	if err != nil {
		t.Fatal(err)
	}
	defer pipe.Close()
	ci := ciOf(t, first, cache)
	began, err := ci.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := ci.Start(); err != nil {
		t.Fatal(err)
	}
	for said, piece := "", make([]byte, 512); !strings.Contains(said, "make linter in "); {
		n, err := began.Read(piece)
		if said += string(piece[:n]); err != nil {
			t.Fatalf("the run said %q, then %v", said, err)
		}
	}
	if err := ci.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = ci.Wait() // it was killed
	out, err := ciOf(t, second, cache).CombinedOutput()
	if _, released := pipe.WriteString("on\n"); released != nil {
		t.Fatal(released)
	}
	if err != nil || !strings.Contains(string(out), "make test in "+second+"\n") {
		t.Errorf("got error %v, and a run beside a make that has the path said\n%s", err, out)
	}
}

// TestARunNeedsNoPathThatAllClonesHave has no folder where that path could be.
func TestARunNeedsNoPathThatAllClonesHave(t *testing.T) {
	cache := filepath.Join(t.TempDir(), "file")
	write(t, cache, "")
	dir := clone(t)
	out, err := ciOf(t, dir, cache).CombinedOutput()
	if err != nil || !strings.Contains(string(out), "make test in "+dir+"\n") {
		t.Errorf("got error %v, and the run said\n%s", err, out)
	}
}

// clone returns a folder with what CI runs, whose steps only say where they are. Make
// waits for a line from the pipe held, if there is one.
func clone(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir = filepath.Join(dir, "a clone")
	const script = "#!/bin/sh\n" + `echo "make $1 in $PWD"; [ ! -p held ] || read -r line <held` + "\n"
	for name, text := range map[string]string{
		".ci/run": read(t, "../.ci/run"), ".ci/setup": "#!/bin/sh\n", ".ci/times": "#!/bin/sh\n",
		"bin/make": script, "bin/go": "#!/bin/sh\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// ciOf returns a run of CI in a clone, with a folder for what it keeps.
func ciOf(t *testing.T, clone, cache string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tool(t, "bash", "bash"), ".ci/run")
	cmd.Dir = clone
	cmd.Env = append(os.Environ(), "XDG_CACHE_HOME="+cache,
		"PATH="+filepath.Join(clone, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"))
	return cmd
}
