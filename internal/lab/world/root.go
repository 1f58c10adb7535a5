package world

import (
	"context"
	"os/exec"
	"strings"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
	"github.com/drawbridge-mcp/drawbridge/internal/sources"
)

// Build compiles the gateway into a file. Flags are those of go build.
func Build(ctx context.Context, program string, flags ...string) {
	args := append([]string{"build", "-o", program}, flags...)
	command := exec.CommandContext(ctx, "go", append(args, "./cmd/drawbridge")...) //nolint:gosec // G204: our own
	command.Dir = must.Have(sources.Root())
	output, err := command.CombinedOutput()
	must.Be(err == nil, "build the gateway: %w\n%s", err, output)
}

// Run runs a command that reads a text, and returns what it prints without the space
// around it.
func Run(ctx context.Context, text string, command ...string) string {
	c := exec.CommandContext(ctx, command[0], command[1:]...) //nolint:gosec // our own commands
	c.Stdin = strings.NewReader(text)
	output, err := c.CombinedOutput()
	must.Be(err == nil, "%s: %w: %s", strings.Join(command, " "), err, output)
	return strings.TrimSpace(string(output))
}
