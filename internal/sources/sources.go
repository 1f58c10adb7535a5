// Package sources tells the go command what a test depends on that its program is not
// compiled from. Go keeps the result of a test and gives it again as long as its code and
// the files that it opened are the same. It does not know what a program reads that the
// test starts, the compiler included. So a test that builds the gateway would pass
// although the gateway has changed.
package sources

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Root returns the folder of the gateway's module, in which the working directory lies,
// maybe in another module there.
func Root() (string, error) {
	folder, err := os.Getwd()
	for err == nil {
		text, _ := os.ReadFile(filepath.Join(folder, "go.mod")) //nolint:gosec // G304: there may be none
		if strings.HasPrefix(string(text), "module github.com/drawbridge-mcp/drawbridge\n") {
			return folder, nil
		}
		if folder == filepath.Dir(folder) {
			err = errors.New("run it within the repository: no go.mod above is the gateway's")
		}
		folder = filepath.Dir(folder)
	}
	return "", err
}

// Open opens the folders of a package and of those of this module that it is compiled
// from, and what says which versions of libraries there are. So Go notices each file that
// is added, removed or changed.
func Open(ctx context.Context, pkg string) error {
	const own = `{{with .Module}}{{if .Main}}{{.GoMod}}{{"\n"}}{{$.Dir}}{{end}}{{end}}`
	out, err := exec.CommandContext(ctx, "go", "list", "-deps", "-f", own, pkg).Output() //nolint:gosec // G204: a package
	if err != nil {
		return fmt.Errorf("go list %s: %w", pkg, err)
	}
	for name := range strings.FieldsSeq(string(out)) {
		if err := open(name); err != nil {
			return err
		}
	}
	return nil
}

// open lists a folder, or looks at go.mod and at go.sum beside it.
func open(name string) error {
	if filepath.Base(name) != "go.mod" {
		_, err := os.ReadDir(name)
		return err
	}
	_, err := os.Stat(name)
	_, _ = os.Stat(filepath.Join(filepath.Dir(name), "go.sum")) // a module without libraries has none
	return err
}

// OpenTree opens a folder and those in it, but for what npm has installed.
func OpenTree(root string) error {
	return filepath.WalkDir(root, func(_ string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() && entry.Name() == "node_modules" {
			return fs.SkipDir
		}
		return err
	})
}
