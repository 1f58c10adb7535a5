package world

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/strictjson"
)

// Lab is a temporary folder with the gateway and with processes, which all end with it.
type Lab struct {
	*Keeper

	Dir     string
	Program string // the gateway, once Build has built it
	Self    string // this program
}

// NewLab returns a lab in which nothing runs yet.
func NewLab(name string) *Lab {
	self, dir := must.Have(os.Executable()), must.Have(os.MkdirTemp("", "drawbridge-"+name+"-"))
	return &Lab{Keeper: &Keeper{}, Dir: dir, Self: self, Program: filepath.Join(dir, "drawbridge")}
}

// Build builds the gateway.
func (l *Lab) Build(ctx context.Context) { Build(ctx, l.Program) }

// Write writes files of the lab, by their names.
func (l *Lab) Write(files map[string]string) { WriteFiles(l.Dir, files) }

// Close ends all processes and removes the folder.
func (l *Lab) Close() {
	l.Keeper.Close()
	_ = os.RemoveAll(l.Dir) // temporary anyway
}

// WriteFiles writes files of a folder, by their names. Nobody else may read them.
func WriteFiles(dir string, files map[string]string) {
	for name, text := range files {
		must.OK(os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
}

// Edit is a change of a source file of the gateway or of Go itself.
type Edit struct {
	File   string // its whole path; one that is not there is new
	Change func(text string) (string, error)
}

// BuildWith builds a gateway whose sources differ by some edits, the files of which it
// leaves in a folder.
func BuildWith(ctx context.Context, program, dir string, edits ...Edit) {
	replaced, files := map[string]string{}, map[string]string{}
	for _, e := range edits {
		from := cmp.Or(replaced[e.File], e.File)
		old, err := os.ReadFile(from) //nolint:gosec // sources
		if !errors.Is(err, os.ErrNotExist) {
			must.OK(err)
		}
		text, err := e.Change(string(old))
		must.Be(err == nil, "%s: %w", e.File, err)
		name := fmt.Sprintf("%d-%s", len(files), filepath.Base(e.File))
		replaced[e.File], files[name] = filepath.Join(dir, name), text
		WriteFiles(dir, files)
	}
	WriteFiles(dir, map[string]string{
		"overlay.json": string(must.Have(strictjson.Marshal(map[string]any{"Replace": replaced}))),
	})
	Build(ctx, program, "-overlay", filepath.Join(dir, "overlay.json"))
}
