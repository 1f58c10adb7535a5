// Package page writes what labs measured: sections of Markdown, numbers, charts, and
// where and of what all of it was made. It does not know what was measured.
package page

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drawbridge-mcp/drawbridge/internal/lab/must"
)

// Write writes a whole page to a path, or to out where that is "".
func Write(out io.Writer, path, text string) error {
	if path == "" {
		_, err := io.WriteString(out, text)
		return err
	}
	return os.WriteFile(path, []byte(text), 0o644) //nolint:gosec // G306: a page for everybody to read
}

// WriteSection puts a text between the marks of its section in the page at path, in place
// of what stood there, or writes it to out where path is "". What stands around the marks
// stays. A page without them, or one that does not exist, gets the section at its end.
// One that does not have both marks once is not touched. The section "" is the whole
// page.
func WriteSection(out io.Writer, path, name, text string) error {
	text = strings.TrimSpace(text)
	if path == "" || name == "" {
		return Write(out, path, text+"\n")
	}
	opening, closing := "<!-- "+name+": written by the command of that name -->", "<!-- "+name+": end -->"
	old, err := os.ReadFile(path) //nolint:gosec // G304: whoever runs the lab names it
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if !strings.Contains(string(old), opening) && !strings.Contains(string(old), closing) {
		old = append(old, opening+"\n"+closing+"\n"...)
	}
	before, rest, opened := strings.Cut(string(old), opening)
	between, after, closed := strings.Cut(rest, closing)
	if !opened || !closed || strings.Contains(before+after, closing) ||
		strings.Contains(between+after, opening) || strings.Contains(between, ": written by the") {
		return fmt.Errorf("%s: the section %s does not begin and end once, with %s and %s", path, name,
			opening, closing)
	}
	return Write(out, path, before+opening+"\n\n"+text+"\n\n"+closing+after)
}

// Origin says when, where, of what and with which command a section is made. Args are
// those of the command, with its name before them.
func Origin(ctx context.Context, begun time.Time, args ...string) string {
	return fmt.Sprintf("Made %s with `%s` of drawbridge %s, %s, on %s. Load average at the start: %s.",
		begun.UTC().Format("2006-01-02 15:04 UTC"), Command(args...), Commit(ctx), runtime.Version(),
		Machine(), Load())
}

// Command is how to run a lab again.
func Command(args ...string) string {
	return strings.TrimSpace("go run -C internal/lab ./" + strings.Join(args, " "))
}

// Commit names the commit that is measured, and says when anything but pages differs from
// it: labs write these themselves.
func Commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--tags", "--always").Output()
	if err != nil {
		return "of an unknown version" // outside a clone
	}
	version := strings.TrimSpace(string(out))
	changes, err := exec.CommandContext(ctx, "git", "status", "--porcelain", "--", ":/", ":(top,exclude)*.md",
		":(top,exclude)docs/evidence").Output()
	if err != nil || len(changes) > 0 {
		version += " with changes"
	}
	return version
}

// Machine says what is under it all, as far as Linux tells.
func Machine() string {
	parts := []string{Plural(runtime.NumCPU(), "processor")}
	if model := fieldOf("/proc/cpuinfo", `(?m)^model name\s*: (.*)$`); model != "" {
		parts = append(parts, model)
	}
	if kib, err := strconv.Atoi(fieldOf("/proc/meminfo", `(?m)^MemTotal:\s*(\d+) kB$`)); err == nil {
		parts = append(parts, fmt.Sprintf("%.0f GiB of memory", float64(kib)/(1<<20)))
	}
	return strings.Join(append(parts, runtime.GOOS+"/"+runtime.GOARCH+" "+
		fieldOf("/proc/sys/kernel/osrelease", `(\S+)`)), ", ")
}

// Load returns the load of the last minute as the system says it.
func Load() string { return cmp.Or(fieldOf("/proc/loadavg", `^(\S+)`), "unknown") }

// fieldOf returns what a pattern finds in a file, or "".
func fieldOf(path, pattern string) string {
	text, err := os.ReadFile(path) //nolint:gosec // files of the system, named above
	if match := regexp.MustCompile(pattern).FindSubmatch(text); err == nil && match != nil {
		return string(match[1])
	}
	return ""
}

// Chart draws a chart into the folder charts beside the page, and returns the Markdown
// that shows it there: "" where there is no page.
func (r Report) Chart(name string, chart *Bars, says string) string {
	if r.Path == "" {
		return ""
	}
	folder := filepath.Join(filepath.Dir(r.Path), "charts")
	must.OK(os.MkdirAll(folder, 0o755)) //nolint:gosec // pictures for everybody to see
	must.OK(Write(nil, filepath.Join(folder, name+".svg"), must.Have(chart.svg())))
	return fmt.Sprintf("![%s](charts/%s.svg)", says, name)
}

// Rows writes what stands in a row for each of some things.
func Rows[T any](all []T, row func(T) string) string {
	return Times(len(all), func(i int) string { return row(all[i]) })
}

// Times is Rows for numbers from 0 on.
func Times(n int, row func(i int) string) string {
	var rows strings.Builder
	for i := range n {
		rows.WriteString(row(i))
	}
	return rows.String()
}

// Either returns the first of two if something is so, and else the other. Both are made
// in any case.
func Either[T any](so bool, first, other T) T {
	if so {
		return first
	}
	return other
}

// Number writes a value with three digits that count, and with commas from a thousand on.
func Number(v float64) string {
	switch {
	case v == float64(int(v)) && v < 1000:
		return strconv.Itoa(int(v))
	case v < 9.995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	case v < 99.95:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return grouped(strconv.FormatFloat(v, 'f', 0, 64))
}

// Grouped writes a number with commas between thousands.
func Grouped[N int | int64](n N) string { return grouped(strconv.FormatInt(int64(n), 10)) }

func grouped(digits string) string {
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return digits
}

// MiB writes bytes in MiB.
func MiB(n int64) string {
	return strings.TrimSuffix(fmt.Sprintf("%.1f", float64(n)/(1<<20)), ".0") + " MiB"
}

// Plural writes a number of things.
func Plural(n int, what string) string {
	return Either(n == 1, "1 "+what, fmt.Sprintf("%d %ss", n, what))
}

// Frequent returns what was counted, the most frequent first.
func Frequent[N int | int64](counts map[string]N) []string {
	return slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		return cmp.Or(cmp.Compare(counts[b], counts[a]), strings.Compare(a, b))
	})
}

// Counted lists what came how often, the most frequent first, or what to say of nothing.
func Counted[N int | int64](counts map[string]N, nothing string) string {
	items := Frequent(counts)
	for i, what := range items {
		items[i] = fmt.Sprintf("%s × %s", Grouped(counts[what]), what)
	}
	return cmp.Or(strings.Join(items, ", "), nothing)
}
