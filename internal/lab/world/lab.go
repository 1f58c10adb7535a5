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

// ReplaceFile puts a text in the place of a file at once. Nobody else may read it.
func ReplaceFile(path, text string) {
	must.OK(os.WriteFile(path+".next", []byte(text), 0o600)) //nolint:gosec // G703: our own file
	must.OK(os.Rename(path+".next", path))
}

// Edit is a change of a source file of the gateway or of Go itself.
type Edit struct {
	File   string                   // its whole path; one that is not there is new
	Change func(text string) string // panics where it cannot be made
}

// BuildWith builds a gateway whose sources differ by some edits, the files of which it
// leaves in a folder.
func BuildWith(ctx context.Context, program, dir string, edits ...Edit) {
	replaced, files := map[string]string{}, map[string]string{}
	for _, e := range edits {
		from := cmp.Or(replaced[e.File], e.File)
		old, err := os.ReadFile(from) //nolint:gosec // sources
		must.Be(err == nil || errors.Is(err, os.ErrNotExist), "%w", err)
		name := fmt.Sprintf("%d-%s", len(files), filepath.Base(e.File))
		replaced[e.File], files[name] = filepath.Join(dir, name), e.Change(string(old))
		WriteFiles(dir, files)
	}
	WriteFiles(dir, map[string]string{
		"overlay.json": string(must.Have(strictjson.Marshal(map[string]any{"Replace": replaced}))),
	})
	Build(ctx, program, "-overlay", filepath.Join(dir, "overlay.json"))
}
