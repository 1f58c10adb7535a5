package main

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io/fs"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/archtest"
)

// kind is what a file is part of.
type kind string

const (
	product kind = "product"
	labs    kind = "labs"
	tests   kind = "tests"
)

// part is the files of one kind in one directory.
type part struct {
	kind      kind
	directory string
}

// tree is what was counted.
type tree map[part]figures

// lab matches the directories of the labs: in the module of their own, and where they
// stood before they had one, for comparisons with revisions of then.
var lab = regexp.MustCompile(`^internal/(lab|bench|chaos|fair|raid|scoreboard|siege|survey)(/|$)`)

// add counts a file, whose name begins at the root of the module.
func (t tree) add(name string, source []byte) error {
	counted, err := measure(name, source)
	if err != nil {
		return err
	}
	p := part{kind: product, directory: path.Dir(name)}
	switch {
	case strings.HasSuffix(name, "_test.go"):
		p.kind = tests
	case slices.Contains(archtest.Support(), p.directory), lab.MatchString(p.directory):
		p.kind = labs
	}
	t[p] = t[p].plus(counted)
	return nil
}

// skipped tells whether a directory of that name is passed over, with what is in it.
func skipped(base string) bool {
	return base == "testdata" || base == "node_modules" || len(base) > 1 && (base[0] == '.' || base[0] == '_')
}

// count counts the Go code of ours that a module has. The build tags of a file do not
// matter.
func count(module fs.FS) (tree, error) {
	t := tree{}
	err := fs.WalkDir(module, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && skipped(entry.Name()):
			return fs.SkipDir
		case !entry.Type().IsRegular() || !strings.HasSuffix(name, ".go"):
			return nil
		}
		source, err := fs.ReadFile(module, name)
		if err != nil {
			return err
		}
		return t.add(name, source)
	})
	return t, err
}

// revision returns what git knows of a revision.
func revision(ctx context.Context, directory, name string) (fs.FS, error) {
	if strings.HasPrefix(name, "-") {
		return nil, fmt.Errorf("%s is no revision", name)
	}
	//nolint:gosec // G204: a revision, and no flag
	command := exec.CommandContext(ctx, "git", "archive", "--format=zip", name)
	var problem bytes.Buffer
	command.Dir, command.Stderr = directory, &problem
	archive, err := command.Output()
	if err != nil {
		return nil, fmt.Errorf("git archive %s: %w: %s", name, err, bytes.TrimSpace(problem.Bytes()))
	}
	return zip.NewReader(bytes.NewReader(archive), int64(len(archive)))
}
