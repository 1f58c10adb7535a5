package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Sections of the page, one for each command, in the order in which they stand there.
const (
	sectionCalls    = "bench"
	sectionPeers    = "bench-peers"
	sectionScale    = "bench-scale"
	sectionReplicas = "bench-replicas"
)

var sections = []string{sectionCalls, sectionPeers, sectionScale, sectionReplicas}

// head stands above all sections, whichever of them are there.
const head = `# What the gateway costs

Programs of this repository measured everything here. Each section says when it was made, on what machine,
of which commit and with which command. So you can make it again. A command writes its own section and charts,
and leaves the others as they are.

Absolute figures belong to one machine, so compare **ratios**. What a ratio compares ran right after one
another, several times in turn. The figure is the median of these rounds. The brackets behind it show the lowest
and the highest. Where these ranges overlap, there is no difference to speak of.

The load, the gateway and the server behind it share the processors of the machine. So **CPU a call** says most
about what a call costs: it counts the gateway's process alone.
`

// writeSection puts a section's text into the page at path, in place of what it said before. The other sections stay
// as they are. A page that does not exist is made. A page whose sections cannot be told apart is not touched.
func writeSection(path, name, text string) error {
	if !slices.Contains(sections, name) {
		return fmt.Errorf("%q is no section of the page", name)
	}
	old, err := os.ReadFile(path) //nolint:gosec // the operator names the file
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	texts, err := readSections(string(old))
	if err != nil {
		return fmt.Errorf("%s: %w; delete the file to make a new one", path, err)
	}
	texts[name] = strings.TrimSpace(text)
	page := []string{head}
	for _, name := range sections {
		if text, found := texts[name]; found {
			page = append(page, "\n"+opening(name)+"\n\n"+text+"\n\n"+closing(name)+"\n")
		}
	}
	return os.WriteFile(path, []byte(strings.Join(page, "")), 0o644) //nolint:gosec // a report for everybody to read
}

func opening(name string) string { return "<!-- " + name + ": written by the command of that name -->" }

func closing(name string) string { return "<!-- " + name + ": end -->" }

// readSections returns the text of each section that the page has.
func readSections(page string) (map[string]string, error) {
	texts := make(map[string]string)
	for _, name := range sections {
		begins, ends := strings.Count(page, opening(name)), strings.Count(page, closing(name))
		if begins == 0 && ends == 0 {
			continue
		}
		_, rest, _ := strings.Cut(page, opening(name))
		text, _, found := strings.Cut(rest, closing(name))
		if begins != 1 || ends != 1 || !found || strings.Contains(text, "<!-- bench") {
			return nil, fmt.Errorf("the section %s does not begin and end once", name)
		}
		texts[name] = strings.TrimSpace(text)
	}
	return texts, nil
}

// writeChart writes a picture into the folder charts beside the page, and returns the Markdown that shows it there.
func writeChart(page, name, picture, says string) (string, error) {
	folder := filepath.Join(filepath.Dir(page), "charts")
	if err := os.MkdirAll(folder, 0o755); err != nil { //nolint:gosec // pictures for everybody to see
		return "", err
	}
	err := os.WriteFile(filepath.Join(folder, name+".svg"), []byte(picture), 0o644) //nolint:gosec // a picture for everybody to see
	return fmt.Sprintf("![%s](charts/%s.svg)", says, name), err
}

// origin says when, where, of what and with which command a section is made. Each section has it.
func origin(ctx context.Context, begun time.Time, args []string) string {
	return fmt.Sprintf("Made %s with `%s` of drawbridge %s, %s, on %s. Load average at the start: %s.",
		begun.UTC().Format("2006-01-02 15:04 UTC"), strings.Join(append([]string{"go run -C internal/lab ./bench"}, args...), " "), revision(ctx), runtime.Version(), machine(), loadAverage())
}

// revision names the commit that is measured, and says when the code differs from it. What this program wrote itself does
// not count.
func revision(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--tags", "--always").Output()
	if err != nil {
		return "of an unknown version" // outside a clone
	}
	version := strings.TrimSpace(string(out))
	if exec.CommandContext(ctx, "git", "diff", "--quiet", "HEAD", "--", ":/*.go", ":/go.mod").Run() != nil {
		version += " with changes"
	}
	return version
}

// machine says what is under it all, as far as Linux tells.
func machine() string {
	parts := []string{plural(runtime.NumCPU(), "processor")}
	if model := fieldOf("/proc/cpuinfo", `(?m)^model name\s*: (.*)$`); model != "" {
		parts = append(parts, model)
	}
	if kib, err := strconv.Atoi(fieldOf("/proc/meminfo", `(?m)^MemTotal:\s*(\d+) kB$`)); err == nil {
		parts = append(parts, fmt.Sprintf("%.0f GiB of memory", float64(kib)/(1<<20)))
	}
	return strings.Join(append(parts, runtime.GOOS+"/"+runtime.GOARCH+" "+fieldOf("/proc/sys/kernel/osrelease", `(\S+)`)), ", ")
}

// fieldOf returns what a pattern finds in a file, or "".
func fieldOf(path, pattern string) string {
	text, err := os.ReadFile(path) //nolint:gosec // files of the system, named above
	if match := regexp.MustCompile(pattern).FindSubmatch(text); err == nil && match != nil {
		return string(match[1])
	}
	return ""
}

// loadAverage returns the load of the last minute as the system says it.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return "unknown"
	}
	first, _, _ := strings.Cut(string(text), " ")
	return first
}
