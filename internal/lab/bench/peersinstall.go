package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/page"
	"github.com/drawbridge-mcp/drawbridge/internal/lab/world"
)

// Registries from which peers come.
const (
	fromNPM    = "npm"
	fromGo     = "Go modules"
	fromDebian = "Debian"
	fromHere   = "this repository"
)

// parcel says where a program comes from. Versions are pinned, except that Debian has one
// version at a time.
type parcel struct {
	registry string
	name     string // of the npm package, the Go module or the Debian package
	version  string // "" from Debian and from here
	program  string // the command of an npm package, the Go package, or the program of a Debian package
}

// installed is a program that is there.
type installed struct {
	binary  string
	version string
}

// installTime is how long the installation of one peer may take.
const installTime = 10 * time.Minute

// shelf is the folder in which peers are installed. What is there already is used again.
type shelf struct {
	dir      string
	progress io.Writer
}

// get installs a program. It changes nothing outside of the shelf but the caches of the
// tools that it uses.
func (s *shelf) get(ctx context.Context, o parcel) installed {
	ctx, cancel := context.WithTimeout(ctx, installTime)
	defer cancel()
	return map[string]func(context.Context, parcel) installed{
		fromNPM: s.fromNPM, fromGo: s.fromGo, fromDebian: s.fromDebian, fromHere: s.fromHere,
	}[o.registry](ctx, o)
}

// once returns what a program is called in a folder of the shelf, and makes it there
// unless it is there.
func (s *shelf) once(o parcel, kind, file string, do func(dir, binary string)) installed {
	dir := s.folder(kind, o.name+"@"+o.version)
	binary := filepath.Join(dir, file)
	if _, missing := os.Stat(binary); missing != nil {
		do(dir, binary)
	}
	return installed{binary: binary, version: o.version}
}

// fromNPM installs a package without running its scripts.
func (s *shelf) fromNPM(ctx context.Context, o parcel) installed {
	return s.once(o, "npm", filepath.Join("node_modules", ".bin", o.program), func(dir, _ string) {
		s.run(ctx, dir, nil, "npm", "install", "--prefix", dir, "--ignore-scripts", "--no-audit",
			"--no-fund", "--no-update-notifier", o.name+"@"+o.version)
	})
}

// fromGo builds a package of a module that a module made for the purpose requires, so
// that replacements in its own go.mod do not hinder.
func (s *shelf) fromGo(ctx context.Context, o parcel) installed {
	return s.once(o, "go", "program", func(dir, binary string) {
		world.WriteFiles(dir, map[string]string{
			"go.mod": fmt.Sprintf("module peer\n\ngo 1.26\n\nrequire %s %s\n", o.name, o.version),
		})
		s.run(ctx, dir, []string{"GOFLAGS=-mod=mod", "GOWORK=off"}, "go", "build", "-o", binary, o.program)
	})
}

// fromDebian takes the program that the system has.
func (s *shelf) fromDebian(ctx context.Context, o parcel) installed {
	binary := world.LookUp(o.program)
	return installed{binary, versionNumber.FindString(world.Run(ctx, "", binary, "-v"))}
}

var versionNumber = regexp.MustCompile(`\d+\.\d+\.\d+\S*`)

// fromHere builds drawbridge, or names this program itself.
func (s *shelf) fromHere(ctx context.Context, o parcel) installed {
	if o.program == "" {
		return installed{binary: must.Have(os.Executable())}
	}
	binary := filepath.Join(s.folder("here", o.name), o.name)
	world.Build(ctx, binary)
	return installed{binary: binary, version: page.Commit(ctx)}
}

// folder makes a folder on the shelf. A name may have slashes.
func (s *shelf) folder(kind, name string) string {
	dir := filepath.Join(s.dir, kind, strings.ReplaceAll(name, "/", "-"))
	must.OK(os.MkdirAll(dir, 0o750))
	return dir
}

// run runs a tool in a folder of the shelf. An error says why it failed in the tool's own
// words.
func (s *shelf) run(ctx context.Context, dir string, env []string, program string, args ...string) {
	_, _ = fmt.Fprintf(s.progress, "  %s %s\n", program, strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // what the table of peers asks for
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, append(os.Environ(), env...), 5*time.Second
	out, err := cmd.CombinedOutput()
	late := err != nil && errors.Is(ctx.Err(), context.DeadlineExceeded)
	must.Be(!late, "%s %s took more than %v", program, args[0], installTime)
	must.Be(err == nil, "%s %s: %s", program, args[0], reason(string(out), err))
}

// telling finds the line that says why a tool failed.
var telling = regexp.MustCompile(`(?i)\b40[0-9]\b|requires go|not found|unable to|no such`)

// reason returns the line of an output that says most about an error, or the error.
func reason(output string, err error) string {
	lines := strings.Split(strings.TrimSpace(output), "\n")
	if i := slices.IndexFunc(lines, telling.MatchString); i >= 0 {
		return short(lines[i])
	}
	return short(cmp.Or(lines[len(lines)-1], fmt.Sprint(err)))
}

// short makes one line of a text, not too long for a table and without what would end a
// cell.
func short(text string) string {
	text = strings.Join(strings.Fields(strings.ReplaceAll(text, "|", "/")), " ")
	if letters := []rune(text); len(letters) > 200 {
		return string(letters[:200]) + "…"
	}
	return text
}
