package world

import (
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
	return &Lab{Keeper: NewKeeper(), Dir: dir, Self: self, Program: filepath.Join(dir, "drawbridge")}
}

// Build builds the gateway.
func (l *Lab) Build(ctx context.Context) { must.OK(Build(ctx, l.Program)) }

// Write writes files of the lab, by their names.
func (l *Lab) Write(files map[string]string) { must.OK(WriteFiles(l.Dir, files)) }

// Close ends all processes and removes the folder.
func (l *Lab) Close() {
	l.Keeper.Close()
	_ = os.RemoveAll(l.Dir) // temporary anyway
}

// WriteFiles writes files of a folder, by their names. Nobody else may read them.
func WriteFiles(dir string, files map[string]string) error {
	var wrong []error
	for name, text := range files {
		wrong = append(wrong, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	return errors.Join(wrong...)
}

// Edit is a change of a source file of the gateway or of Go itself.
type Edit struct {
	File   string // its whole path; one that is not there is new
	Change func(text string) (string, error)
}

// BuildWith builds a gateway whose sources differ by some edits, the files of which it
// leaves in a folder.
func BuildWith(ctx context.Context, program, dir string, edits ...Edit) error {
	replaced := map[string]string{}
	for _, e := range edits {
		from := e.File
		if replaced[e.File] != "" {
			from = replaced[e.File]
		}
		old, err := os.ReadFile(from) //nolint:gosec // sources
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		text, err := e.Change(string(old))
		if err != nil {
			return fmt.Errorf("%s: %w", e.File, err)
		}
		replaced[e.File] = filepath.Join(dir, fmt.Sprintf("%d-%s", len(replaced), filepath.Base(e.File)))
		if err := os.WriteFile(replaced[e.File], []byte(text), 0o600); err != nil {
			return err
		}
	}
	overlay, err := strictjson.Marshal(map[string]any{"Replace": replaced})
	if err != nil {
		return err
	}
	file := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(file, overlay, 0o600); err != nil {
		return err
	}
	return Build(ctx, program, "-overlay", file)
}
