package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"
)

// writeSection puts a text between the markers of its section in the page at path, in place of what stood there. What
// stands around them was written by people and stays. A page without both markers, once each, is not touched.
func writeSection(path, name, text string) error {
	old, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil {
		return err
	}
	opening, closing := "<!-- "+name+": written by the command of that name -->", "<!-- "+name+": end -->"
	before, rest, opened := strings.Cut(string(old), opening)
	between, after, closed := strings.Cut(rest, closing)
	if !opened || !closed || strings.Contains(before+after, closing) || strings.Contains(between+after, opening) {
		return fmt.Errorf("%s: the section %s does not begin and end once, with %s and %s", path, name, opening, closing)
	}
	page := before + opening + "\n\n" + strings.TrimSpace(text) + "\n\n" + closing + after
	return os.WriteFile(path, []byte(page), 0o644) //nolint:gosec // a report for everybody to read
}

// origin says when, of what, with which command and on what a section was made.
func origin(ctx context.Context, command string) string {
	return fmt.Sprintf("Made %s with `%s` of commit %s, %s, on %d processors with %s of memory, %s/%s.",
		time.Now().UTC().Format("2006-01-02 15:04 UTC"), strings.TrimSpace(command), commit(ctx), runtime.Version(), runtime.NumCPU(), memory(), runtime.GOOS, runtime.GOARCH)
}

// commit names the commit that is tried, and says when the code differs from it.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--tags", "--always").Output()
	if err != nil {
		return "unknown" // outside a clone
	}
	name := strings.TrimSpace(string(out))
	if exec.CommandContext(ctx, "git", "diff", "--quiet", "HEAD", "--", ":/*.go", ":/go.mod").Run() != nil {
		name += " with changes"
	}
	return name
}

// memory is how much the machine has, as far as Linux tells.
func memory() string {
	text, _ := os.ReadFile("/proc/meminfo") // elsewhere there is none
	for line := range strings.Lines(string(text)) {
		var kibibytes int
		if n, _ := fmt.Sscanf(line, "MemTotal: %d kB", &kibibytes); n == 1 {
			return fmt.Sprintf("%d GiB", (kibibytes+1<<19)>>20)
		}
	}
	return "an unknown amount"
}
