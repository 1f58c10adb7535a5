package main

import (
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
	name     string   // of the npm package, the Go module or the Debian package
	version  string   // "" from Debian and from here
	program  string   // the command of an npm package, the Go package, or the program of a Debian package
	needs    []string // other Debian packages that have its libraries
}

// installed is a program that is there.
type installed struct {
	binary  string
	version string
	env     []string // what it needs in its environment
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
func (s *shelf) get(ctx context.Context, o parcel) (installed, error) {
	ctx, cancel := context.WithTimeout(ctx, installTime)
	defer cancel()
	switch o.registry {
	case fromNPM:
		return s.fromNPM(ctx, o)
	case fromGo:
		return s.fromGo(ctx, o)
	case fromDebian:
		return s.fromDebian(ctx, o)
	case fromHere:
		return s.fromHere(ctx, o)
	}
	return installed{}, fmt.Errorf("unknown registry %q", o.registry)
}

// fromNPM installs a package without running its scripts.
func (s *shelf) fromNPM(ctx context.Context, o parcel) (installed, error) {
	dir, err := s.folder("npm", o.name+"@"+o.version)
	if err != nil {
		return installed{}, err
	}
	binary := filepath.Join(dir, "node_modules", ".bin", o.program)
	if _, err := os.Stat(binary); err != nil {
		err := s.run(ctx, dir, nil, "npm", "install", "--prefix", dir, "--ignore-scripts", "--no-audit",
			"--no-fund", "--no-update-notifier", o.name+"@"+o.version)
		if err != nil {
			return installed{}, err
		}
	}
	return installed{binary: binary, version: o.version}, nil
}

// fromGo builds a package of a module that a module made for the purpose requires, so
// that replacements in its own go.mod do not hinder.
func (s *shelf) fromGo(ctx context.Context, o parcel) (installed, error) {
	dir, err := s.folder("go", o.name+"@"+o.version)
	if err != nil {
		return installed{}, err
	}
	binary := filepath.Join(dir, "program")
	if _, err := os.Stat(binary); err != nil {
		module := fmt.Sprintf("module peer\n\ngo 1.26\n\nrequire %s %s\n", o.name, o.version)
		if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(module), 0o600); err != nil {
			return installed{}, err
		}
		if err := s.run(ctx, dir, []string{"GOFLAGS=-mod=mod", "GOWORK=off"}, "go", "build", "-o", binary,
			o.program); err != nil {
			return installed{}, err
		}
	}
	return installed{binary: binary, version: o.version}, nil
}

// fromDebian takes the program that the system has. Where there is none it unpacks
// Debian's packages into the shelf, which leaves the system as it is.
func (s *shelf) fromDebian(ctx context.Context, o parcel) (installed, error) {
	for _, binary := range []string{o.program, "/usr/sbin/" + o.program} {
		if path, err := exec.LookPath(binary); err == nil {
			return s.withVersion(ctx, installed{binary: path})
		}
	}
	dir, err := s.folder("debian", o.name)
	if err != nil {
		return installed{}, err
	}
	i := installed{binary: filepath.Join(dir, "usr", "sbin", o.program)}
	if _, err := os.Stat(i.binary); err != nil {
		if err := s.unpack(ctx, dir, o); err != nil {
			return installed{}, fmt.Errorf("it is not installed (apt-get install %s): %w", o.name, err)
		}
	}
	libraries, err := filepath.Glob(filepath.Join(dir, "usr", "lib", "*-linux-gnu*"))
	if err != nil {
		return installed{}, err
	}
	i.env = []string{"LD_LIBRARY_PATH=" + strings.Join(libraries, ":")}
	return s.withVersion(ctx, i)
}

// unpack downloads packages and lays out what is in them.
func (s *shelf) unpack(ctx context.Context, dir string, o parcel) error {
	if err := s.run(ctx, dir, nil, "apt-get", slices.Concat([]string{"download", o.name},
		o.needs)...); err != nil {
		return err
	}
	packages, err := filepath.Glob(filepath.Join(dir, "*.deb"))
	if err != nil {
		return err
	}
	for _, file := range packages {
		if err := s.run(ctx, dir, nil, "dpkg", "-x", file, dir); err != nil {
			return err
		}
	}
	return nil
}

var versionNumber = regexp.MustCompile(`\d+\.\d+\.\d+\S*`)

// withVersion asks a program for its version.
func (s *shelf) withVersion(ctx context.Context, i installed) (installed, error) {
	cmd := exec.CommandContext(ctx, i.binary, "-v") //nolint:gosec // a program of the table of peers
	cmd.Env = append(os.Environ(), i.env...)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return installed{}, fmt.Errorf("%s -v: %w: %s", i.binary, err, short(string(out)))
	}
	i.version = string(versionNumber.Find(out))
	return i, nil
}

// fromHere builds drawbridge, or names this program itself.
func (s *shelf) fromHere(ctx context.Context, o parcel) (installed, error) {
	if o.program == "" {
		self, err := os.Executable()
		return installed{binary: self}, err
	}
	dir, err := s.folder("here", o.name)
	if err != nil {
		return installed{}, err
	}
	binary := filepath.Join(dir, o.name)
	return installed{binary: binary, version: page.Commit(ctx)}, world.Build(ctx, binary)
}

// folder makes a folder on the shelf. A name may have slashes.
func (s *shelf) folder(kind, name string) (string, error) {
	dir := filepath.Join(s.dir, kind, strings.ReplaceAll(name, "/", "-"))
	return dir, os.MkdirAll(dir, 0o750)
}

// run runs a tool in a folder of the shelf. An error says why it failed in the tool's own
// words.
func (s *shelf) run(ctx context.Context, dir string, env []string, program string, args ...string) error {
	_, _ = fmt.Fprintf(s.progress, "  %s %s\n", program, strings.Join(args, " "))
	cmd := exec.CommandContext(ctx, program, args...) //nolint:gosec // what the table of peers asks for
	cmd.Dir, cmd.Env, cmd.WaitDelay = dir, append(os.Environ(), env...), 5*time.Second
	out, err := cmd.CombinedOutput()
	switch {
	case err == nil:
		return nil
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("%s %s took more than %v", program, args[0], installTime)
	}
	return fmt.Errorf("%s %s: %s", program, args[0], reason(string(out), err))
}

// telling finds the line that says why a tool failed.
var telling = regexp.MustCompile(`(?i)\b40[0-9]\b|requires go|not found|unable to|no such`)

// reason returns the line of an output that says most about an error, or the error.
func reason(output string, err error) string {
	for line := range strings.Lines(output) {
		if telling.MatchString(line) {
			return short(line)
		}
	}
	if text := strings.TrimSpace(output); text != "" {
		lines := strings.Split(text, "\n")
		return short(lines[len(lines)-1])
	}
	return short(err.Error())
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
