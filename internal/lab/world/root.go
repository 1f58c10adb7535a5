package world

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// module is the gateway's, as its go.mod names it.
const module = "module github.com/drawbridge-mcp/drawbridge"

// Root returns the directory of the gateway's module. The working directory lies in it,
// or in the module of the labs.
func Root() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		text, err := os.ReadFile(filepath.Join(folder, "go.mod")) //nolint:gosec // G304: no secret
		if line, _, _ := strings.Cut(string(text), "\n"); err == nil && line == module {
			return folder, nil
		}
		if folder == filepath.Dir(folder) {
			return "", errors.New("run it within the repository: no go.mod above is the gateway's")
		}
		folder = filepath.Dir(folder)
	}
}

// Build compiles the gateway into a file. Flags are those of go build.
func Build(ctx context.Context, program string, flags ...string) error {
	root, err := Root()
	if err != nil {
		return err
	}
	args := append([]string{"build", "-o", program}, flags...)
	command := exec.CommandContext(ctx, "go", append(args, "./cmd/drawbridge")...) //nolint:gosec // G204: our own
	command.Dir = root
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("build the gateway: %w\n%s", err, output)
	}
	return nil
}
